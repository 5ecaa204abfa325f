"""A reply that grows in messages that can be edited: whatever the service does, the whole text is visible once."""

import asyncio
import itertools
from collections.abc import Iterator

import pytest
from claw import Address, Button, DeliveryError, Outbound
from claw_channel_sdk import EditStream
from hypothesis import given, settings, strategies as st

PLACE = Outbound("key-1", Address("wire", "42"), "", reply_to="7")


def cut(text: str, size: int = 10) -> tuple[str, ...]:
    return tuple(text[at : at + size] for at in range(0, len(text), size))


class Board:
    """A service that keeps messages; it can be set to fail, and refuses to edit those that are ``too_old``.

    :param faults: what the next calls end in; None is a call that passes.
    """

    def __init__(self, *faults: DeliveryError | None) -> None:
        self.messages: dict[str, str] = {}
        self.posts: list[Outbound] = []
        self.edits: list[tuple[str, str, Outbound | None]] = []
        self.faults: Iterator[DeliveryError | None] = iter(faults)
        self.too_old = set[str]()
        self.hold: asyncio.Event | None = None
        self._ids = itertools.count(1)

    async def post(self, outbound: Outbound) -> str:
        self.posts.append(outbound)
        if self.hold:
            await self.hold.wait()
        id = f"m{next(self._ids)}"
        self._meet()
        self.messages[id] = outbound.text
        return id

    async def edit(self, id: str, text: str, outbound: Outbound | None) -> None:
        self.edits.append((id, text, outbound))
        await asyncio.sleep(0)
        if id not in self.messages or id in self.too_old:
            raise DeliveryError("no such message", permanent=True)
        self._meet()
        self.messages[id] = text

    async def delete(self, id: str) -> None:
        self.messages.pop(id, None)

    def _meet(self) -> None:
        if fault := next(self.faults, None):
            raise fault

    def writer(self, pause: float = 0.0) -> EditStream:
        return EditStream(
            PLACE, pieces=cut, post=self.post, edit=self.edit, delete=self.delete, pause_seconds=pause
        )

    @property
    def text(self) -> str:
        return "".join(self.messages.values())


def final(text: str) -> Outbound:
    return Outbound("key-1", PLACE.address, text, reply_to="7")


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_the_first_text_is_posted_at_once_and_then_edited() -> None:
    board = Board()
    writer = board.writer()
    await writer.show("a")
    await settle()
    assert (board.text, writer.shown) == ("a", ("m1",))
    await writer.show("ab")
    await settle()
    receipt = await writer.finish(final("abc"))

    assert board.messages == {"m1": "abc"}
    assert receipt.message_ids == writer.shown == ("m1",)
    assert [(post.key, post.reply_to) for post in board.posts] == [("key-1", "7")]


async def test_states_that_come_faster_than_the_pause_are_skipped() -> None:
    board = Board()
    writer = board.writer(pause=0.5)
    for end in range(1, 11):
        await writer.show("abcdefghij"[:end])
        await settle()
    assert board.text == "a"
    async with asyncio.timeout(20):
        while board.text == "a":
            await asyncio.sleep(0.01)
    assert board.text == "abcdefghij"
    assert len(board.edits) == 1
    await writer.abandon()


async def test_text_beyond_one_message_goes_on_in_the_next_one() -> None:
    board = Board()
    writer = board.writer()
    await writer.show("0123456789abc")
    await settle()
    assert list(board.messages.values()) == ["0123456789", "abc"]
    receipt = await writer.finish(final("0123456789abcdef"))

    assert list(board.messages.values()) == ["0123456789", "abcdef"]
    assert receipt.message_ids == ("m1", "m2")
    assert [(post.key, post.reply_to) for post in board.posts] == [("key-1", "7"), ("key-1:1", None)]


async def test_a_pressed_service_gets_no_second_message_and_is_left_alone_for_as_long_as_it_asks() -> None:
    board = Board(None, DeliveryError("slow down", retry_after_seconds=0.4))
    writer = board.writer()
    await writer.show("a")
    await settle()
    await writer.show("ab")
    await settle()
    await writer.show("abc")
    await settle()
    assert len(board.edits) == 1
    with pytest.raises(DeliveryError) as why:
        await writer.finish(final("abcd"))
    assert 0 < (why.value.retry_after_seconds or 0) <= 0.4
    assert len(board.edits) == 1, "the last text waits as well"
    await asyncio.sleep(0.41)
    await writer.finish(final("abcd"))

    assert board.messages == {"m1": "abcd"}
    assert len(board.posts) == 1


async def test_finish_without_a_show_is_a_send() -> None:
    board = Board()
    receipt = await board.writer().finish(final("0123456789abc"))
    assert list(board.messages) == list(receipt.message_ids) == ["m1", "m2"]


async def test_finish_waits_for_the_post_under_way_instead_of_doubling_it() -> None:
    board = Board()
    board.hold = asyncio.Event()
    writer = board.writer()
    await writer.show("a")
    await settle()
    ending = asyncio.create_task(writer.finish(final("ab")))
    await settle()
    assert not ending.done()
    board.hold.set()
    await ending
    assert board.messages == {"m1": "ab"}


async def test_messages_that_are_too_many_in_the_end_are_taken_back() -> None:
    board = Board()
    writer = board.writer()
    await writer.show("0123456789abc")
    await settle()
    await writer.finish(final("short"))
    assert board.messages == {"m1": "short"}
    assert writer.shown == ("m1",)


async def test_a_message_that_somebody_deleted_is_posted_again_in_the_end_only() -> None:
    board = Board()
    writer = board.writer()
    await writer.show("a")
    await settle()
    board.messages.clear()
    await writer.show("ab")
    await settle()
    assert board.messages == {}
    receipt = await writer.finish(final("abc"))
    assert list(board.messages.values()) == ["abc"]
    assert receipt.message_ids == tuple(board.messages)


async def test_what_follows_a_message_that_somebody_deleted_is_posted_behind_its_new_place() -> None:
    board = Board()
    writer = board.writer()
    await writer.show("0123456789abcdefghijklmno")
    for _ in range(3):
        await settle()
    first, *_ = board.messages
    del board.messages[first]
    receipt = await writer.finish(final("9123456789abcdefghijklmnop"))
    assert tuple(board.messages.values()) == cut("9123456789abcdefghijklmnop")
    assert receipt.message_ids == tuple(board.messages)


async def test_after_a_post_of_unknown_outcome_nothing_more_is_shown_and_finish_makes_sure() -> None:
    board = Board(DeliveryError("cut off", outcome_unknown=True))
    writer = board.writer()
    for text in ("a", "ab", "abc"):
        await writer.show(text)
        await settle()
    assert len(board.posts) == 1
    await writer.finish(final("abcd"))
    assert [post.key for post in board.posts] == ["key-1", "key-1"], "the same key: the service may know it"
    assert board.edits[-1][:2] == ("m2", "abcd"), "it may have kept the older text of that key"


async def test_buttons_come_with_the_last_message_of_the_final_text() -> None:
    board = Board()
    writer = board.writer()
    await writer.show("0123456789abc")
    await settle()
    asked = Outbound("key-1", PLACE.address, "0123456789abc", buttons=(Button("Yes", "y"),))
    await writer.finish(asked)
    assert board.edits == [("m2", "abc", asked)]


async def test_an_abandoned_reply_stays_as_it_is_and_nothing_goes_on() -> None:
    board = Board()
    writer = board.writer(pause=0.02)
    await writer.show("a")
    await settle()
    await writer.show("ab")
    await writer.abandon()
    await writer.show("abc")
    await asyncio.sleep(0.03)
    assert board.messages == {"m1": "a"}
    assert len(asyncio.all_tasks()) == 1


async def test_a_channel_that_breaks_while_it_shows_is_asked_again_by_finish() -> None:
    board = Board()
    broken = [RuntimeError("a mistake of the channel")]

    async def edit(id: str, text: str, outbound: Outbound | None) -> None:
        if broken:
            raise broken.pop()
        await board.edit(id, text, outbound)

    writer = EditStream(PLACE, pieces=cut, post=board.post, edit=edit, pause_seconds=0)
    await writer.show("a")
    await settle()
    await writer.show("ab")
    await settle()
    await writer.finish(final("abc"))
    assert board.messages == {"m1": "abc"}


FAULTS = st.sampled_from(
    [
        None, None, None,
        DeliveryError("slow down", retry_after_seconds=0.0),
        DeliveryError("server trouble"),
    ]
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    states=st.lists(st.tuples(st.text("ab", max_size=35), st.integers(0, 4)), max_size=6),
    last=st.text("ab", max_size=35),
    faults=st.lists(FAULTS, max_size=12),
    too_old=st.sets(st.integers(0, 4)),
)
def test_whatever_was_shown_and_failed_the_final_text_appears_once_and_in_order(
    states: list[tuple[str, int]], last: str, faults: list[DeliveryError | None], too_old: set[int]
) -> None:
    board = Board(*faults)

    async def play() -> tuple[str, ...]:
        writer = board.writer()
        for text, turns in states:
            await writer.show(text)
            for _ in range(turns):
                await asyncio.sleep(0)
        board.too_old = {id for at, id in enumerate(board.messages) if at in too_old}
        while True:
            try:
                return (await writer.finish(final(last))).message_ids
            except DeliveryError:
                await asyncio.sleep(0)

    ids = asyncio.run(play())
    assert tuple(board.messages.values()) == cut(last)
    assert tuple(board.messages) == ids


@pytest.mark.parametrize("unknown", [True, False])
async def test_the_receipt_says_whether_a_message_may_appear_twice(unknown: bool) -> None:
    board = Board(DeliveryError("broken", outcome_unknown=unknown))
    writer = board.writer()
    await writer.show("half")
    await settle()
    receipt = await writer.finish(final("whole"))

    assert board.text == "whole"
    assert receipt.repeated is unknown


async def test_an_edit_whose_fate_is_unknown_may_be_made_again() -> None:
    board = Board(None, DeliveryError("cut off", outcome_unknown=True))
    writer = board.writer()
    await writer.show("half")
    await settle()
    with pytest.raises(DeliveryError, match="cut off") as why:
        await writer.finish(final("whole"))
    assert not why.value.outcome_unknown

    receipt = await writer.finish(final("whole"))
    assert board.text == "whole" and len(board.posts) == 1 and not receipt.repeated


async def test_a_state_for_which_there_is_no_room_is_skipped_and_the_final_text_is_not() -> None:
    board, room = Board(), [False, False, True]
    writer = EditStream(
        PLACE,
        pieces=cut,
        post=board.post,
        edit=board.edit,
        pause_seconds=0.01,
        has_room=lambda: room.pop(0) if room else False,
    )
    await writer.show("a")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert board.posts == []
    await writer.show("a b")
    async with asyncio.timeout(5):
        while not board.messages:
            await asyncio.sleep(0.005)
    await writer.show("a b c")
    await asyncio.sleep(0.05)
    assert board.text == "a b" and board.edits == []
    await writer.finish(final("a b c d"))
    assert board.text == "a b c d" and len(board.posts) == 1


async def test_a_surplus_message_that_cannot_be_deleted_now_is_deleted_by_the_next_finish() -> None:
    board = Board()
    failures = [DeliveryError("away", outcome_unknown=True)]

    async def delete(id: str) -> None:
        if failures:
            raise failures.pop()
        await board.delete(id)

    writer = EditStream(PLACE, pieces=cut, post=board.post, edit=board.edit, delete=delete, pause_seconds=0)
    await writer.show("a" * 25)
    await settle()
    assert len(writer.shown) > 1
    with pytest.raises(DeliveryError) as late:
        await writer.finish(final("a"))
    assert not late.value.outcome_unknown and not late.value.permanent
    await writer.finish(final("a"))

    assert list(board.messages.values()) == ["a"] == [board.messages[id] for id in writer.shown]
