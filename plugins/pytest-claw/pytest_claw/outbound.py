"""Tests of outbound messages, and of the errors of sending."""

import asyncio
from itertools import count

import pytest
from claw import ChannelLimits
from claw_channel_sdk import split_text

from pytest_claw.channel_base import ChannelSuiteBase
from pytest_claw.channel_trial import ChannelTrial, quick

_LONG_KEY = "turn-4f9a_0.b:" + "k" * 34  # with the two characters added later, the maximum length of a key


class OutboundChecks(ChannelSuiteBase):
    """Checks of ``send``: one attempt for one message, and a correct report of its outcome."""

    def test_an_answer_is_cut_into_messages_that_fit(self) -> None:
        self.needs("limits")

        async def trial(on: ChannelTrial) -> None:
            text = long_text(on.channel.limits)
            pieces = pieces_of(on, text)
            assert pieces == pieces_of(on, text), "split answered differently the second time"
            async with on.running():
                receipts = [await on.send(piece, f"key:{at}") for at, piece in enumerate(pieces)]
                shown = await on.shown()
            assert (
                max(length_at_service(message, on.channel.limits) for message in shown)
                <= on.channel.limits.text_chars
            )
            assert words(shown) == words([text]), "words were lost or halved"
            assert len(shown) == len(pieces)
            if "ids" not in self.without:
                assert [len(receipt.message_ids) for receipt in receipts] == [1] * len(pieces)
                assert len(pieces) == len({receipt.message_ids for receipt in receipts})

        self.try_(trial)

    def test_the_same_delivery_key_is_shown_once(self) -> None:
        async def trial(on: ChannelTrial) -> None:
            if "idempotent" not in on.channel.capabilities:
                pytest.skip("it does not say that its service drops repeats")
            async with on.running():
                first = await on.send("hello", f"{_LONG_KEY}:1")
                second = await on.send("hello", f"{_LONG_KEY}:1")
                other = await on.send("hello again", f"{_LONG_KEY}:2")
                assert await on.shown() == ["hello", "hello again"]
            assert first == second, "the receipt of the second time is that of the first"
            assert other != first

        self.try_(trial)

    def test_a_permanent_refusal_is_not_to_be_repeated(self) -> None:
        self.needs("answers")

        async def trial(on: ChannelTrial) -> None:
            async with on.running():
                why = await on.refusal("refused")
                await on.send("next", "key-2")
                assert await on.shown() == ["next"]
            assert why.permanent, "else claw repeats it for minutes"
            assert str(why).strip(), "an error says what is wrong"

        self.try_(trial)

    def test_a_rate_limit_gives_the_pause(self) -> None:
        self.needs("answers")

        async def trial(on: ChannelTrial) -> None:
            async with on.running():
                why = await on.refusal("busy", 60.0)
                assert await on.shown() == []
            assert not why.permanent
            assert why.retry_after_seconds == pytest.approx(60, rel=0.1), "what the service asked for"

        self.try_(trial)

    def test_a_temporary_failure_may_be_repeated(self) -> None:
        self.needs("answers")

        async def trial(on: ChannelTrial) -> None:
            async with on.running():
                why = await on.refusal("down")
                assert await on.shown() == []
                await on.deliver("hello")
                assert await on.shown() == ["hello"]
            assert not why.permanent

        self.try_(trial)

    def test_a_lost_answer_leaves_the_outcome_unknown(self) -> None:
        self.needs("answers")

        async def trial(on: ChannelTrial) -> None:
            async with on.running():
                why = await on.refusal("lost")
                assert await on.shown() == ["hello"], "lost: it is carried out"
                if "idempotent" in on.channel.capabilities:
                    await on.deliver("hello")
                    assert await on.shown() == ["hello"], "the same key once more showed it a second time"
            assert why.outcome_unknown, "the message may have been posted: claw must know"
            assert not why.permanent

        self.try_(trial)

    def test_a_cancelled_send_ends_at_once(self) -> None:
        self.needs("answers")

        async def trial(on: ChannelTrial) -> None:
            async with on.running():
                await on.send("first")
                await on.does("hang_next")
                sending = on.start(on.channel.send(on.outbound("never", "key-2")))
                await asyncio.sleep(0.03)
                assert not sending.done(), "hang_next: the service answered"
                with quick(self.abort_seconds, "send that was cancelled"):
                    sending.cancel()
                    await asyncio.wait({sending}, timeout=self.limit_seconds)
                await on.send("next", "key-3")
                assert await on.shown() == ["first", "next"]

        self.try_(trial)

    def test_a_message_can_be_edited_and_deleted(self) -> None:
        async def trial(on: ChannelTrial) -> None:
            able = [name for name in ("edit", "delete") if hasattr(on.channel, name)]
            if not able:
                pytest.skip("it has neither edit nor delete")
            async with on.running():
                [id] = (await on.send("one")).message_ids
                await on.send("other", "key-2")
                here = on.place.address()
                if "edit" in able:
                    await on.channel.edit(here, id, "two")
                    assert await on.shown() == ["two", "other"]
                if "delete" in able:
                    await on.channel.delete(here, id)
                    assert await on.shown() == ["other"]

        self.try_(trial)

    def test_it_has_the_methods_of_its_capabilities(self) -> None:
        async def trial(on: ChannelTrial) -> None:
            said = {word: word in on.channel.capabilities for word in _CAPABILITY_METHODS}
            has = {
                word: callable(getattr(on.channel, name, None)) for word, name in _CAPABILITY_METHODS.items()
            }
            assert said == has, "a word of `capabilities` on one side, its method on the other"

        self.try_(trial)


_CAPABILITY_METHODS = {
    "delete": "delete",
    "edit": "edit",
    "polls": "poll",
    "reactions": "react",
    "streaming": "stream",
    "typing": "typing",
}


def pieces_of(on: ChannelTrial, text: str) -> tuple[str, ...]:
    """Return the text as claw splits it for this channel."""
    if hasattr(on.channel, "split"):
        return tuple(on.channel.split(text))
    return split_text(text, on.channel.limits)


def long_text(limits: ChannelLimits) -> str:
    """Return words, lines, paragraphs, wide letters and surrogate pairs: two and a half messages of them."""
    made = (
        f"word{number} 文字{number} 🚪{'.' if number % 7 else chr(10) * (1 + number % 2)}"
        for number in count()
    )
    text = ""
    while length_at_service(text, limits) < limits.text_chars * 5 // 2:
        text += " ".join(next(made) for _ in range(16)) + " "
    return text.strip()


def length_at_service(text: str, limits: ChannelLimits) -> int:
    """Return the length of a message, as its service counts."""
    return len(text.encode("utf-16-le")) // 2 if limits.utf16 else len(text)


def words(messages: list[str]) -> str:
    """Return the texts without the blanks at which they may be split."""
    return "".join("".join(messages).split())
