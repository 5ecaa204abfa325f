"""Tests of streaming replies, for channels that have ``stream``."""

import asyncio
from typing import Any

import pytest

from pytest_claw.channel_base import ChannelSuiteBase
from pytest_claw.channel_trial import ChannelTrial, quick
from pytest_claw.outbound import long_text, words

_PRESSED_SECONDS = 0.2
_SHOW_SECONDS = 0.5


class StreamingChecks(ChannelSuiteBase):
    """Checks of the :class:`claw_channel_sdk.StreamingReply` that ``stream`` returns."""

    def test_a_streamed_reply_ends_complete_in_one_message(self) -> None:
        async def trial(on: ChannelTrial) -> None:
            async with on.running():
                writer = await _started_reply(on, "Once")
                ids = writer.shown
                assert len(ids) == 1, "writer.shown is the id of the visible message"
                await on.start(writer.show("Once upon"))
                receipt = await on.finish(writer, "Once upon a time")
                assert await on.shown() == ["Once upon a time"]
            assert receipt.message_ids == tuple(writer.shown) == ids

        self.try_(trial)

    def test_a_streamed_reply_that_is_too_long_continues_in_the_next_message(self) -> None:
        self.needs("limits")

        async def trial(on: ChannelTrial) -> None:
            text = long_text(on.channel.limits)
            async with on.running():
                writer = await _started_reply(on, "word0")
                await on.start(writer.show(text))
                receipt = await on.finish(writer, text)
                shown = await on.shown()
            assert words(shown) == words([text]), "the final text is always written whole"
            assert len(receipt.message_ids) == len(shown) > 1

        self.try_(trial)

    def test_a_rate_limit_neither_blocks_nor_doubles_a_streamed_reply(self) -> None:
        self.needs("answers")

        async def trial(on: ChannelTrial) -> None:
            async with on.running():
                writer = await _started_reply(on, "a")
                await on.does("fail_next", "busy", _PRESSED_SECONDS, edit=True)
                with quick(_SHOW_SECONDS, "show"):
                    await on.start(writer.show("a b"))
                    await on.start(writer.show("a b c"))
                await on.finish(writer, "a b c d")
                assert await on.shown() == ["a b c d"]

        self.try_(trial)

    def test_an_abandoned_reply_does_not_change(self) -> None:
        async def trial(on: ChannelTrial) -> None:
            async with on.running():
                before = on.tasks
                writer = await _started_reply(on, "half")
                if "connection" in self.without:  # the call of the person who waits is one more task
                    before = on.tasks
                await on.start(writer.show("half a"))
                await on.start(writer.abandon())
                left = await on.shown()
                assert await on.left(before) == [], "abandon left tasks behind"
                await asyncio.sleep(0.03)
                assert await on.shown() == left, "after abandon nothing may change"

        self.try_(trial)

    def test_an_answer_replaces_the_messages_of_an_interrupted_stream(self) -> None:
        async def trial(on: ChannelTrial) -> None:
            async with on.running():
                writer = await _started_reply(on, "half an")
                await writer.abandon()
                await on.send("half an answer", "key-2", replaces=tuple(writer.shown))
                assert await on.shown() == ["half an answer"]

        self.try_(trial)


async def _started_reply(on: ChannelTrial, text: str) -> Any:
    """Return the writer of a reply that shows ``text``."""
    if not hasattr(on.channel, "stream"):
        pytest.skip("it has no stream")
    writer = on.channel.stream(on.outbound("", "key-1", **await on.question()))
    with quick(_SHOW_SECONDS, "show"):
        await on.start(writer.show(text))
    await on.until_shown(text)
    # People may see it before the service's answer with its id has come back.
    await on.until(lambda: writer.shown, "writer.shown is no id of a visible message")
    return writer
