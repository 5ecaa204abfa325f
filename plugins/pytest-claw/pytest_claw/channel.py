"""What every channel keeps to, tried against the service behind it: a fake of yours, or ``claw.testing.FakeChannel``."""

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from itertools import count
from typing import Any, Protocol

import pytest
from claw import Address, Channel, Inbound, Limits, Outbound

CHAT_TYPES = ("direct", "group", "channel")


class Place(Protocol):
    """A channel, connected to a service that does as it is told. Each method may be async.

    ``FakeChannel`` is such a place by itself; one whose channel is another object has it as ``channel``.
    """

    shown: list[str]
    """The messages that people see, in order."""

    def address(self) -> Address:
        """A chat that the channel can send to."""
        ...

    def says(self, text: str) -> Any:
        """A person writes ``text`` in that chat."""
        ...

    def again(self) -> Any:
        """The service delivers the last message a second time."""
        ...

    def disconnect(self) -> Any:
        """The connection breaks; the service can be reached again at once."""
        ...

    def hang_next(self) -> Any:
        """The service never answers the next request to send."""
        ...


class ChannelSuite:
    """Seven promises of a channel. ``place`` is yours; the rest has defaults.

    :cvar patience_seconds: within which a message must come through, also after a lost connection.
    :cvar abort_seconds: within which a cancelled ``send`` must end.
    :cvar stop_seconds: within which ``run`` must end when it is cancelled.
    """

    patience_seconds = 10.0
    abort_seconds = 1.0
    stop_seconds = 5.0

    def place(self) -> AbstractAsyncContextManager[Any]:
        """A fresh :class:`Place`: an ``@asynccontextmanager`` that starts the fake service and makes the channel."""
        pytest.fail(
            f"{type(self).__name__}.place is not written: an async context manager that yields a Place"
        )

    def plain(self, shown: str) -> str:
        """The words of a message as people see it; for a service that writes marks of its own."""
        return shown

    def test_a_message_is_put_into_our_words(self) -> None:
        async def trial(place: Any, channel: Channel) -> None:
            async with _running(channel) as door:
                await _done(place.says("你好 👋 hello"))
                [inbound] = await door.until(1, self.patience_seconds)
            assert inbound.text == "你好 👋 hello"
            assert inbound.kind == "message"
            assert inbound.address.channel == channel.name
            assert inbound.chat_type in CHAT_TYPES
            missing = [name for name in ("message_id", "event_id") if not getattr(inbound, name)]
            assert missing == [], "two unique keys keep a message from being heard twice"
            assert inbound.address.chat, "without a chat there is nowhere to answer"
            assert inbound.sender.id, "people are known by a stable id"

        self._try(trial)

    def test_a_message_delivered_twice_is_known_as_one(self) -> None:
        async def trial(place: Any, channel: Channel) -> None:
            async with _running(channel) as door:
                await _done(place.says("first"))
                await door.until(1, self.patience_seconds)
                await _done(place.again())
                await _done(place.says("second"))
                heard = await door.until_text("second", self.patience_seconds)
            ids = {
                text: {one.message_id for one in heard if one.text == text} for text in ("first", "second")
            }
            assert len(ids["first"]) == 1, "the same message came with another message id"
            assert ids["first"].isdisjoint(ids["second"]), "another message came with the same message id"

        self._try(trial)

    def test_a_long_answer_comes_in_pieces_that_fit(self) -> None:
        async def trial(place: Any, channel: Channel) -> None:
            text = _long(channel.limits)
            async with _running(channel):
                receipt = await channel.send(Outbound("key-long", place.address(), text))
            shown = [self.plain(message) for message in place.shown]
            too_long = [_units(message, channel.limits) for message in shown]
            assert max(too_long) <= channel.limits.text_chars, "a message is longer than channel.limits"
            assert "".join("".join(shown).split()) == "".join(text.split()), "words were lost or halved"
            assert len(receipt.message_ids) == len(shown), "the receipt names each message"

        self._try(trial)

    def test_the_same_delivery_key_is_shown_once(self) -> None:
        async def trial(place: Any, channel: Channel) -> None:
            hello = Outbound("key-1", place.address(), "hello")
            async with _running(channel):
                first = await channel.send(hello)
                second = await channel.send(hello)
            assert [self.plain(message) for message in place.shown] == ["hello"]
            assert first == second, "the receipt of the second time is that of the first"

        self._try(trial)

    def test_a_cancelled_send_ends_at_once(self) -> None:
        async def trial(place: Any, channel: Channel) -> None:
            async with _running(channel):
                await channel.send(Outbound("key-1", place.address(), "first"))
                await _done(place.hang_next())
                sending = asyncio.ensure_future(channel.send(Outbound("key-2", place.address(), "never")))
                await asyncio.sleep(0.05)
                assert not sending.done(), "hang_next: the service answered"
                begun = time.monotonic()
                sending.cancel()
                await asyncio.wait({sending}, timeout=self.patience_seconds)
                took = time.monotonic() - begun
                assert took <= self.abort_seconds, f"send went on for {took:.1f} s after it was cancelled"
                await channel.send(Outbound("key-3", place.address(), "next"))
            assert [self.plain(message) for message in place.shown] == ["first", "next"]

        self._try(trial)

    def test_after_a_lost_connection_it_goes_on(self) -> None:
        async def trial(place: Any, channel: Channel) -> None:
            async with _running(channel) as door:
                await _done(place.says("before"))
                await door.until_text("before", self.patience_seconds)
                await _done(place.disconnect())
                await asyncio.sleep(0.05)
                await _done(place.says("after"))
                try:
                    await door.until_text("after", self.patience_seconds)
                except TimeoutError:
                    pytest.fail("nothing is heard any more after the connection was lost")

        self._try(trial)

    def test_it_stops_when_it_is_told_and_leaves_nothing_behind(self) -> None:
        async def trial(place: Any, channel: Channel) -> None:
            before = asyncio.all_tasks()
            door = _Door()
            running = asyncio.ensure_future(channel.run(door))
            await _done(place.says("hello"))
            await door.until(1, self.patience_seconds)
            begun = time.monotonic()
            running.cancel()
            await asyncio.wait({running}, timeout=self.stop_seconds + 1)
            took = time.monotonic() - begun
            assert took <= self.stop_seconds, f"run went on for {took:.1f} s after it was cancelled"
            if close := getattr(channel, "close", None):
                await close()
            left = [str(task.get_coro()) for task in asyncio.all_tasks() - before - {running}]
            assert left == [], "it left tasks behind"

        self._try(trial)

    def _try(self, trial: Any) -> None:
        async def whole() -> None:
            async with self.place() as place:
                await trial(place, getattr(place, "channel", place))

        run(whole())


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run to the end in a loop of its own."""
    asyncio.run(coroutine)


class _Door:
    """Takes whatever is handed in."""

    def __init__(self) -> None:
        self.heard: list[Inbound] = []
        self._news = asyncio.Condition()

    async def submit(self, inbound: Inbound) -> bool:
        async with self._news:
            self.heard.append(inbound)
            self._news.notify_all()
        return True

    async def until(self, number: int, seconds: float) -> list[Inbound]:
        async with asyncio.timeout(seconds), self._news:
            await self._news.wait_for(lambda: len(self.heard) >= number)
        return list(self.heard)

    async def until_text(self, text: str, seconds: float) -> list[Inbound]:
        async with asyncio.timeout(seconds), self._news:
            await self._news.wait_for(lambda: any(one.text == text for one in self.heard))
        return list(self.heard)


@asynccontextmanager
async def _running(channel: Channel) -> AsyncIterator[_Door]:
    door = _Door()
    task = asyncio.ensure_future(channel.run(door))
    try:
        yield door
    finally:
        task.cancel()
        with suppress(BaseException):
            await asyncio.wait_for(asyncio.shield(task), 0.5)


async def _done(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


def _long(limits: Limits) -> str:
    """Words, lines, paragraphs, wide letters and pairs of surrogates: two and a half messages of them."""
    words = (
        f"word{number} 文字{number} 🚪{'.' if number % 7 else chr(10) * (1 + number % 2)}"
        for number in count()
    )
    text = ""
    while _units(text, limits) < limits.text_chars * 5 // 2:
        text += " ".join(next(words) for _ in range(64)) + " "
    return text.strip()


def _units(text: str, limits: Limits) -> int:
    return len(text.encode("utf-16-le")) // 2 if limits.utf16 else len(text)
