"""A channel of a service like IRC: lines without ids, without repeats, and without an answer to what is sent."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

from claw import Address, ChannelLimits, DeliveryError, Inbound, Inbox, Outbound, Receipt, Sender
from pytest_claw import ChannelSuite

CHAT = Address("lines", "ann")
HUNG_UP = ""


class LineService:
    """The place: what people see, and the lines for the one connection."""

    def __init__(self, channel: type["LineChannel"]) -> None:
        self.shown: list[str] = []
        self.lines: asyncio.Queue[str] = asyncio.Queue()
        self.channel = channel(self)

    def address(self) -> Address:
        return CHAT

    def says(self, text: str) -> None:
        self.lines.put_nowait(text)

    def disconnect(self) -> None:
        self.lines.put_nowait(HUNG_UP)


class LineChannel:
    name = "lines"
    capabilities: frozenset[str] = frozenset()
    limits = ChannelLimits(text_chars=400)

    def __init__(self, service: LineService) -> None:
        self._service, self._numbers, self._is_connected = service, count(1), False

    async def run(self, inbox: Inbox) -> None:
        while True:
            self._is_connected = True
            while (line := await self._service.lines.get()) != HUNG_UP:
                id = f"line-{next(self._numbers)}"
                inbound = Inbound(CHAT, line, Sender("ann"), message_id=id, event_id=id)
                while not await inbox.submit(inbound):  # nobody else repeats it
                    await asyncio.sleep(0.01)
            self._is_connected = False
            await asyncio.sleep(0.01)

    async def send(self, outbound: Outbound) -> Receipt:
        if not self._is_connected:
            raise DeliveryError("there is no connection now")
        self._service.shown.append(outbound.text)
        return Receipt(())


class TestSound(ChannelSuite):
    without = ("groups", "bots", "acknowledgement", "credentials", "ids", "redelivery", "answers")
    channel: type[LineChannel] = LineChannel
    breaks = ""
    limit_seconds = 0.6

    @asynccontextmanager
    async def place(self) -> AsyncIterator[LineService]:
        yield LineService(self.channel)


class LineByLine(LineChannel):
    async def send(self, outbound: Outbound) -> Receipt:
        self._service.shown += outbound.text.split("\n")
        return Receipt(())


class TestSendsEachLineAlone(TestSound):
    channel, breaks = LineByLine, "test_an_answer_is_cut_into_messages_that_fit"


class StaysAway(LineChannel):
    async def run(self, inbox: Inbox) -> None:
        self._is_connected = True
        while (line := await self._service.lines.get()) != HUNG_UP:
            inbound = Inbound(CHAT, line, Sender("ann"), message_id=line, event_id=line)
            while not await inbox.submit(inbound):
                await asyncio.sleep(0.01)
        await asyncio.Event().wait()


class TestStaysAway(TestSound):
    channel, breaks = StaysAway, "test_it_reconnects_after_a_lost_connection"
