"""The channel that we ship for tests, and the cutting of long answers that every channel shares."""

import asyncio

import pytest
from claw.channel import Limits
from claw.chunking import split_text
from claw.message import Inbound, Outbound, Sender
from claw.testing import FakeChannel
from hypothesis import given, strategies as st

TEXTS = st.text(st.sampled_from("ab 文🚪\n"), max_size=200)


class Door:
    """Takes what is handed in, once it is told to."""

    def __init__(self, *answers: bool) -> None:
        self.heard: list[Inbound] = []
        self._answers = list(answers)
        self.news = asyncio.Event()

    async def submit(self, inbound: Inbound) -> bool:
        self.heard.append(inbound)
        self.news.set()
        return self._answers.pop(0) if self._answers else True


@pytest.fixture
def channel() -> FakeChannel:
    return FakeChannel(limits=Limits(text_chars=10))


async def soon(condition: object) -> None:
    async with asyncio.timeout(5):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0.005)


async def test_what_people_say_comes_in_order_with_ids_of_its_own(channel: FakeChannel) -> None:
    door = Door()
    running = asyncio.create_task(channel.run(door))
    channel.says("hello", "ann")
    channel.says("hi all", Sender("bo", username="bo99"), chat="group-1", chat_type="group", mentions_us=True)
    await soon(lambda: len(channel.acknowledged) == 2)
    running.cancel()

    first, second = door.heard
    assert (first.text, first.sender.id, first.address) == ("hello", "ann", channel.address())
    assert (second.chat_type, second.mentions_us, second.address.chat) == ("group", True, "group-1")
    assert len({first.event_id, second.event_id, first.message_id, second.message_id}) == 4


async def test_what_the_house_did_not_take_is_delivered_again(channel: FakeChannel) -> None:
    door = Door(False, False, True)
    running = asyncio.create_task(channel.run(door))
    told = channel.says("hello")
    await soon(lambda: channel.acknowledged)
    running.cancel()

    assert door.heard == [told] * 3
    assert channel.acknowledged == [told.event_id]


async def test_after_a_lost_connection_it_connects_again(channel: FakeChannel) -> None:
    door = Door()
    running = asyncio.create_task(channel.run(door))
    channel.says("before")
    await soon(lambda: channel.acknowledged)
    channel.disconnect()
    await soon(lambda: channel.connections == 2)
    channel.says("after")
    channel.again()
    await soon(lambda: len(channel.acknowledged) == 3)
    running.cancel()

    assert [inbound.text for inbound in door.heard] == ["before", "after", "after"]


async def test_a_send_that_fails_shows_nothing_unless_only_its_answer_is_lost(channel: FakeChannel) -> None:
    hello = Outbound("key-1", channel.address(), "hello you there")
    channel.fail_next()
    channel.fail_next(TimeoutError("no answer"), after_showing=True)
    with pytest.raises(ConnectionError):
        await channel.send(hello)
    assert channel.shown == []
    with pytest.raises(TimeoutError):
        await channel.send(hello)
    receipt = await channel.send(hello)

    assert channel.shown == ["hello you", "there"]
    assert len(receipt.message_ids) == 2
    assert channel.sent == [hello]


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
    pieces = split_text(text, Limits(most, utf16))
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
    assert split_text(text, Limits(text_chars=10)) == pieces
