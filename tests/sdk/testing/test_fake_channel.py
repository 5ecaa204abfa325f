"""The channel that we ship for tests, and the cutting of long answers that every channel shares."""

import asyncio
from typing import Any

import pytest
from claw.contracts.channel import ChannelLimits
from claw.contracts.errors import ConfigError, DeliveryError
from claw.contracts.messages import Inbound, Outbound, Sender
from claw.testing import FakeChannel, FakeProvider, Harness, says
from claw_channel_sdk.splitting import split_text
from hypothesis import given, strategies as st

TEXTS = st.text(st.sampled_from("ab 文🚪\n"), max_size=200)


class FakeInbox:
    """An inbox that accepts messages once it is released."""

    def __init__(self, *answers: bool) -> None:
        self.received: list[Inbound] = []
        self._answers = list(answers)
        self.news = asyncio.Event()

    async def submit(self, inbound: Inbound) -> bool:
        self.received.append(inbound)
        self.news.set()
        return self._answers.pop(0) if self._answers else True


@pytest.fixture
def channel() -> FakeChannel:
    return FakeChannel(limits=ChannelLimits(text_chars=10))


def say(channel: FakeChannel, text: str, key: str = "key-1", **more: Any) -> Outbound:
    return Outbound(key, channel.address(), text, **more)


async def soon(condition: object) -> None:
    async with asyncio.timeout(5):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0.005)


async def test_what_people_say_comes_in_order_with_ids_of_its_own(channel: FakeChannel) -> None:
    inbox = FakeInbox()
    running = asyncio.create_task(channel.run(inbox))
    channel.says("hello", "ann")
    channel.says("hi all", Sender("bo", username="bo99"), chat="group-1", chat_type="group", mentions_us=True)
    await soon(lambda: len(channel.acknowledged) == 2)
    running.cancel()

    first, second = inbox.received
    assert (first.text, first.sender.id, first.address) == ("hello", "ann", channel.address())
    assert (second.chat_type, second.mentions_us, second.address.chat) == ("group", True, "group-1")
    assert len({first.event_id, second.event_id, first.message_id, second.message_id}) == 4


async def test_what_claw_did_not_take_is_delivered_again(channel: FakeChannel) -> None:
    inbox = FakeInbox(False, False, True)
    running = asyncio.create_task(channel.run(inbox))
    message = channel.says("hello")
    await soon(lambda: channel.acknowledged)
    running.cancel()

    assert inbox.received == [message] * 3
    assert channel.acknowledged == [message.event_id]


async def test_after_a_lost_connection_it_connects_again(channel: FakeChannel) -> None:
    inbox = FakeInbox()
    running = asyncio.create_task(channel.run(inbox))
    channel.says("before")
    await soon(lambda: channel.acknowledged)
    channel.disconnect()
    await soon(lambda: channel.connections == 2)
    channel.says("after")
    channel.again()
    await soon(lambda: len(channel.acknowledged) == 3)
    running.cancel()

    assert [inbound.text for inbound in inbox.received] == ["before", "after", "after"]


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("refused", (True, None, False)),
        ("busy", (False, 7.0, False)),
        ("down", (False, None, False)),
    ],
)
async def test_a_send_fails_as_configured_and_shows_nothing(
    channel: FakeChannel, how: str, error: tuple[bool, float | None, bool]
) -> None:
    channel.fail_next(how, 7.0)
    with pytest.raises(DeliveryError) as why:
        await channel.send(say(channel, "hello"))
    message = why.value
    assert (message.permanent, message.retry_after_seconds, message.outcome_unknown) == error
    assert (channel.shown, channel.sent) == ([], [])


@pytest.mark.parametrize(("drops_repeats", "shown"), [(True, ["hello"]), (False, ["hello", "hello"])])
async def test_what_got_lost_was_shown_and_its_key_is_known_again_where_the_service_can(
    drops_repeats: bool, shown: list[str]
) -> None:
    channel = FakeChannel() if drops_repeats else FakeChannel(capabilities=frozenset({"edit"}))
    channel.fail_next("lost")
    with pytest.raises(DeliveryError) as why:
        await channel.send(say(channel, "hello"))
    assert why.value.outcome_unknown and channel.shown == ["hello"]
    receipt = await channel.send(say(channel, "hello"))

    assert channel.shown == shown
    assert len(receipt.message_ids) == 1


async def test_an_error_of_the_tests_own_is_raised_as_it_is(channel: FakeChannel) -> None:
    channel.fail_next(TimeoutError("no answer"), after_showing=True)
    with pytest.raises(TimeoutError):
        await channel.send(say(channel, "hello"))
    assert channel.shown == ["hello"]


@pytest.mark.parametrize("text", ["hello you there", ""])
async def test_what_is_no_single_message_is_refused_for_good(channel: FakeChannel, text: str) -> None:
    with pytest.raises(DeliveryError) as why:
        await channel.send(say(channel, text))
    assert why.value.permanent and channel.shown == []


async def test_a_reply_grows_in_its_messages_and_every_state_is_kept() -> None:
    channel = FakeChannel(limits=ChannelLimits(text_chars=10), streaming=True)
    writer = channel.stream(say(channel, ""))
    await writer.show("one two")
    assert (channel.shown, writer.shown) == (["one two"], ("shown-1",))
    channel.fail_next("busy")
    await writer.show("one two three")
    assert channel.shown == ["one two"], "a state is skipped under pressure"
    receipt = await writer.finish(say(channel, "one two three"))
    await writer.show("too late")

    assert channel.shown == ["one two", "three"]
    assert receipt.message_ids == writer.shown == ("shown-1", "shown-2")
    assert channel.stream_states == ["one two", "one two three"]
    assert [one.text for one in channel.sent] == ["one two three"]


async def test_in_a_gateway_that_serves_it_a_reply_grows_and_ends() -> None:
    channel = FakeChannel(streaming=True)
    async with Harness(FakeProvider(says("Hello there.")), channels=[channel]) as harness, harness.serving():
        asked = channel.says("hi")
        [said] = await channel.until_sent()
    assert channel.shown == [said.text] == ["Hello there."]
    assert channel.stream_states[-1] == "Hello there."
    assert ("typing", (channel.address(), asked.message_id)) in channel.acts
    assert channel.acknowledged == [asked.event_id]


async def test_a_gateway_lets_in_who_writes_unless_the_test_says_who_may() -> None:
    channel, listed = FakeChannel(), {"channels": {"fake": {"allowFrom": ["ann"], "dmPolicy": "allowlist"}}}
    async with Harness(FakeProvider(says("Hello.")), channels=[channel]) as harness, harness.serving():
        channel.says_in_group("hi", "us")
        assert await channel.until_shown() == ["Hello."]
    other = FakeChannel()
    async with Harness(FakeProvider(), channels=[other], config=listed) as harness, harness.serving():
        message = other.says("hi", "bo")
        await soon(lambda: ("settled", (other.address(), message.message_id)) in other.acts)
    assert other.shown == []


async def test_the_end_of_a_reply_can_fail_and_be_tried_again() -> None:
    channel = FakeChannel(streaming=True)
    writer = channel.stream(say(channel, ""))
    await writer.show("one")
    channel.fail_next("down")
    with pytest.raises(DeliveryError):
        await writer.finish(say(channel, "one two"))
    await writer.finish(say(channel, "one two"))
    assert channel.shown == ["one two"]


async def test_an_answer_takes_the_place_of_what_it_replaces(channel: FakeChannel) -> None:
    ids = [(await channel.send(say(channel, text, text))).message_ids[0] for text in ("a", "b", "c")]
    receipt = await channel.send(say(channel, "a and b", "final", replaces=(ids[0], ids[1])))
    assert channel.shown == ["a and b", "c"]
    assert receipt.message_ids == (ids[0],)


async def test_what_else_claw_does_is_written_down(channel: FakeChannel) -> None:
    here = channel.address()
    [id] = (await channel.send(say(channel, "one"))).message_ids
    await channel.typing(here, "message-1")
    await channel.edit(here, id, "two")
    await channel.react(here, id, "👍")
    await channel.poll(here, "Which?", ("a", "b"))
    assert channel.shown == ["two", "Which?"]
    await channel.delete(here, id)
    assert channel.shown == ["Which?"]
    assert [what for what, _ in channel.acts] == ["typing", "edit", "react", "poll", "delete"]
    assert channel.acts[2] == ("react", (here, id, "👍", False))
    with pytest.raises(DeliveryError, match=id):
        await channel.edit(here, id, "three")


async def test_it_reports_its_state(channel: FakeChannel) -> None:
    assert channel.state.state == "starting"
    running = asyncio.create_task(channel.run(FakeInbox()))
    await soon(lambda: channel.state.state == "up")
    channel.disconnect()
    await soon(lambda: channel.state.reconnects == 1)
    running.cancel()

    impostor = channel.impostor()
    with pytest.raises(ConfigError, match=r"channels\.fake"):
        await impostor.run(FakeInbox())
    assert impostor.state.state == "failed"


async def test_people_in_groups_and_other_bots_write_too(channel: FakeChannel) -> None:
    message = [channel.says_in_group("hi", mention) for mention in ("us", "namesake", "")]
    assert [one.mentions_us for one in message] == [True, False, False]
    assert {(one.chat_type, one.address.chat) for one in message} == {("group", "group-1")}
    assert channel.bot_says("beep").sender.is_bot


async def test_a_test_waits_until_something_is_shown(channel: FakeChannel) -> None:
    waiting = asyncio.create_task(channel.until_shown(2))
    await channel.send(Outbound("key-1", channel.address(), "one"))
    await channel.send(Outbound("key-2", channel.address(), "two"))
    assert await waiting == ["one", "two"]
    with pytest.raises(TimeoutError):
        await channel.until_shown(3, within_seconds=0.01)


@given(TEXTS, st.integers(2, 20), st.booleans())
def test_a_long_text_is_cut_into_pieces_that_fit_and_no_word_is_lost(
    text: str, most: int, utf16: bool
) -> None:
    pieces = split_text(text, ChannelLimits(most, utf16))
    for piece in pieces:
        assert piece.strip()
        assert (len(piece.encode("utf-16-le")) // 2 if utf16 else len(piece)) <= most
    assert "".join("".join(pieces).split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("one two three four", ("one two", "three four")),
        ("one two\n\nthree", ("one two\n", "three")),
        ("onetwothreefour", ("onetwothre", "efour")),
        ("", ()),
    ],
)
def test_it_is_cut_where_a_reader_would(text: str, pieces: tuple[str, ...]) -> None:
    assert split_text(text, ChannelLimits(text_chars=10)) == pieces
