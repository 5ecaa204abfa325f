"""``FakeChannel``, and for each promise a twin that breaks it and no other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from typing import Any

from claw import Door, Inbound, Limits, Outbound, Receipt
from claw.testing import FakeChannel
from pytest_claw import ChannelSuite


class TestSound(ChannelSuite):
    channel: type[FakeChannel] = FakeChannel
    breaks = ""
    patience_seconds = 1.0
    stop_seconds = 0.3
    abort_seconds = 0.3

    @asynccontextmanager
    async def place(self) -> AsyncIterator[FakeChannel]:
        yield self.channel(limits=Limits(text_chars=200))


class _Changed:
    """A door behind which every message is another."""

    def __init__(self, door: Door, change: Any) -> None:
        self._door, self._change = door, change

    async def submit(self, inbound: Inbound) -> bool:
        return await self._door.submit(self._change(inbound))


class Anonymous(FakeChannel):
    async def run(self, door: Door) -> None:
        await super().run(_Changed(door, lambda one: replace(one, sender=replace(one.sender, id=""))))


class TestForgetsWhoSpoke(TestSound):
    channel, breaks = Anonymous, "test_a_message_is_put_into_our_words"


class FreshIds(FakeChannel):
    async def run(self, door: Door) -> None:
        numbers = count()
        await super().run(_Changed(door, lambda one: replace(one, message_id=f"mine-{next(numbers)}")))


class TestMintsIdsOfItsOwn(TestSound):
    channel, breaks = FreshIds, "test_a_message_delivered_twice_is_known_as_one"


class Whole(FakeChannel):
    async def send(self, outbound: Outbound) -> Receipt:
        limits, self.limits = self.limits, Limits(text_chars=1_000_000)
        try:
            return await super().send(outbound)
        finally:
            self.limits = limits


class TestSendsItWhole(TestSound):
    channel, breaks = Whole, "test_a_long_answer_comes_in_pieces_that_fit"


class Halved(FakeChannel):
    async def send(self, outbound: Outbound) -> Receipt:
        return await super().send(replace(outbound, text=outbound.text[: self.limits.text_chars]))


class TestSendsTheFirstPieceOnly(TestSound):
    channel, breaks = Halved, "test_a_long_answer_comes_in_pieces_that_fit"


class Forgetful(FakeChannel):
    async def send(self, outbound: Outbound) -> Receipt:
        self._receipts.clear()
        return await super().send(outbound)


class TestSaysItTwice(TestSound):
    channel, breaks = Forgetful, "test_the_same_delivery_key_is_shown_once"


class Stubborn(FakeChannel):
    async def send(self, outbound: Outbound) -> Receipt:
        sending = asyncio.ensure_future(super().send(outbound))
        try:
            return await asyncio.shield(sending)
        except asyncio.CancelledError:
            await asyncio.sleep(0.6)
            sending.cancel()
            raise


class TestSendsOn(TestSound):
    channel, breaks = Stubborn, "test_a_cancelled_send_ends_at_once"


class OneConnection(FakeChannel):
    def disconnect(self) -> None:
        self._news = asyncio.Event()  # nobody waits for this one


class TestStaysAway(TestSound):
    channel, breaks = OneConnection, "test_after_a_lost_connection_it_goes_on"


class SlowToGo(FakeChannel):
    async def run(self, door: Door) -> None:
        try:
            await super().run(door)
        except asyncio.CancelledError:
            await asyncio.sleep(0.6)
            raise


class TestWillNotGo(TestSound):
    channel, breaks = SlowToGo, "test_it_stops_when_it_is_told_and_leaves_nothing_behind"


class Littering(FakeChannel):
    async def run(self, door: Door) -> None:
        self._beat = asyncio.ensure_future(asyncio.sleep(60))
        await super().run(door)


class TestLeavesATaskBehind(TestSound):
    channel, breaks = Littering, "test_it_stops_when_it_is_told_and_leaves_nothing_behind"
