"""The channels of a house, listening until they are told to stop.

A channel is a stranger: one that cannot start or keeps failing is set aside after a few tries, spaced out, and the
others go on. What comes in is taken to the journal before the channel may acknowledge it.
"""

import asyncio
from collections.abc import Mapping

from claw.app import App
from claw.channel import Channel
from claw.errors import ClawError, UsageError
from claw.event import Event
from claw.kit import Brought
from claw.message import Inbound, Outbound
from claw.stage import Wish
from claw.turn import take_turn
from claw.wall import name_of
from claw.words import say

TRIES = 5
FIRST_PAUSE_SECONDS = 1.0
SEND_SECONDS = 30.0
STOP_SECONDS = 10.0
WAITING = 1000
"""Messages taken in and not yet answered, at most; beyond it a channel waits at the door."""


class Door:
    """What one channel may ask of the house: to take a message in. It speaks for itself only."""

    def __init__(self, house: "Serving", channel: str) -> None:
        self._house, self._channel = house, channel

    async def submit(self, inbound: Inbound) -> bool:
        """Take a message in; True once it may be acknowledged, also when it was seen before.

        :raises UsageError: it names another channel.
        """
        if inbound.address.channel != self._channel:
            raise UsageError(
                "channel {mine} handed in a message of channel {theirs}",
                mine=self._channel,
                theirs=inbound.address.channel,
            )
        return await self._house.take_in(inbound)


class Serving:
    """All channels of an app but the terminal, until ``stop``.

    :param pause_seconds: before the first new try of a channel that failed; doubled each time.
    """

    def __init__(self, app: App, pause_seconds: float = FIRST_PAUSE_SECONDS) -> None:
        self._app, self._pause = app, pause_seconds
        self._room = asyncio.Semaphore(WAITING)
        self._answers: set[asyncio.Task[None]] = set()
        self._open = True

    @property
    def channels(self) -> Mapping[str, Brought[Channel]]:
        """The channels that listen."""
        return {name: one for name, one in self._app.kit.channels.items() if name != "terminal"}

    async def run(self, stop: asyncio.Event) -> None:
        """Listen on every channel until ``stop`` is set; what was taken in is answered first, within a limit."""
        listening = {asyncio.ensure_future(self._listen(one)) for one in self.channels.values()}
        try:
            await stop.wait()
        finally:
            self._open = False
            await _ended(listening, 0)
            await _ended(self._answers, STOP_SECONDS)

    async def take_in(self, inbound: Inbound) -> bool:
        """Journal first, then the answer, beside everything else that runs."""
        await self._room.acquire()
        if not self._open or not self._app.rooms.journal.accept(inbound):
            self._room.release()
            return self._open
        task = asyncio.ensure_future(self._answer(inbound))
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)
        return True

    async def _listen(self, one: Brought[Channel]) -> None:
        """Keep one channel running; after a few failures in a row it is set aside."""
        name, pause = one.thing.name, self._pause
        for tries in range(1, TRIES + 1):
            try:
                await one.thing.run(Door(self, name))
                why = say("it stopped listening")
            except Exception as failed:  # noqa: BLE001 - a stranger's code
                why = name_of(failed)
            if tries < TRIES:
                await asyncio.sleep(pause)
                pause *= 2
        self._app.host.quarantine(
            one.plugin,
            "run",
            say("channel {name} failed {count} times: {why}", name=name, count=TRIES, why=why),
        )
        self._app.complain(self._app.host.diagnostics[-1])

    async def _answer(self, inbound: Inbound) -> None:
        try:
            outbound = await take_turn(inbound, Wish(), rooms=self._app.rooms, emit=_nowhere)
            if outbound:
                await self._send(outbound)
        except ClawError as failed:
            self._app.complain(str(failed))
            await self._send(Outbound(inbound.event_id or inbound.message_id, inbound.address, str(failed)))
        finally:
            self._room.release()

    async def _send(self, outbound: Outbound) -> None:
        """Once, within a limit; whether a send that failed arrived is unknown, so it is not repeated."""
        try:
            await asyncio.wait_for(self._app.deliver(outbound), SEND_SECONDS)
        except Exception as why:  # noqa: BLE001 - a stranger's code
            text = say(
                "channel {name}: an answer may not have arrived: {why}",
                name=outbound.address.channel,
                why=name_of(why),
            )
            self._app.complain(text)


async def _ended(tasks: set[asyncio.Task[None]], seconds: float) -> None:
    """Give tasks so long to end by themselves, then cancel what is left and give that a moment."""
    if tasks and seconds:
        await asyncio.wait(tasks, timeout=seconds)
    left = [task for task in tasks if not task.done()]
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=STOP_SECONDS)


async def _nowhere(event: Event) -> None:
    """A channel that shows a turn while it runs comes with the gateway."""
