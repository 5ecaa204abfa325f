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
from claw.wall import is_ours, name_of, within
from claw.words import say

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
    """All channels of an app but the terminal, until ``stop``. How long each may take is the app's ``leeway``."""

    def __init__(self, app: App) -> None:
        self._app, self._leeway = app, app.leeway
        self._room = asyncio.Semaphore(WAITING)
        self._answers: set[asyncio.Task[None]] = set()
        self._open = True

    @property
    def channels(self) -> Mapping[str, Brought[Channel]]:
        """The channels that listen."""
        return {name: one for name, one in self._app.kit.channels.items() if name != "terminal"}

    async def run(self, stop: asyncio.Event) -> None:
        """Listen on every channel until ``stop`` is set; what was taken in is answered first, within a limit."""
        asyncio.get_running_loop().set_exception_handler(self._app.overheard)
        listening = {asyncio.ensure_future(self._listen(one)) for one in self.channels.values()}
        try:
            await stop.wait()
        finally:
            self._open = False
            await _ended(listening, 0, self._leeway.stop_seconds)
            await _ended(self._answers, self._leeway.stop_seconds, self._leeway.stop_seconds)

    async def take_in(self, inbound: Inbound) -> bool:
        """Journal first, then the answer, beside everything else that runs."""
        await self._room.acquire()
        accepted = False
        try:
            accepted = self._open and self._app.rooms.journal.accept(inbound)
        finally:
            if not accepted:
                self._room.release()
        if not accepted:
            return self._open
        task = asyncio.ensure_future(self._answer(inbound))
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)
        return True

    async def _listen(self, one: Brought[Channel]) -> None:
        """Keep one channel running; after a few failures in a row it is set aside."""
        name, pause, most = one.thing.name, self._leeway.pause_seconds, self._leeway.tries
        for tries in range(1, most + 1):
            try:
                await one.thing.run(Door(self, name))
                why = say("it stopped listening")
            except BaseException as failed:
                if is_ours(failed):
                    raise
                why = name_of(failed)
            if tries < most:
                await asyncio.sleep(pause)
                pause *= 2
        told = say("channel {name} failed {count} times: {why}", name=name, count=most, why=why)
        self._app.host.quarantine(one.plugin, "run", told)

    async def _answer(self, inbound: Inbound) -> None:
        try:
            outbound = await take_turn(inbound, Wish(), rooms=self._app.rooms, emit=_nowhere)
            if outbound:
                await self._send(outbound)
        except ClawError as failed:
            self._app.complain(str(failed))
            await self._send(Outbound(inbound.event_id or inbound.message_id, inbound.address, str(failed)))
        except Exception as broken:  # noqa: BLE001 - one turn, not the house
            self._app.complain(
                say(
                    "an answer in channel {name} failed: {why}",
                    name=inbound.address.channel,
                    why=name_of(broken),
                )
            )
        finally:
            self._room.release()

    async def _send(self, outbound: Outbound) -> None:
        """Once, within a limit; whether a send that failed arrived is unknown, so it is not repeated."""
        try:
            await within(self._leeway.send_seconds, self._app.deliver(outbound), self._leeway.grace_seconds)
        except Exception as why:  # noqa: BLE001 - a stranger's code
            text = say(
                "channel {name}: an answer may not have arrived: {why}",
                name=outbound.address.channel,
                why=name_of(why),
            )
            self._app.complain(text)


async def _ended(tasks: set[asyncio.Task[None]], seconds: float, grace_seconds: float) -> None:
    """Give tasks so long to end by themselves, then cancel what is left and give that a moment."""
    if tasks and seconds:
        await asyncio.wait(tasks, timeout=seconds)
    left = [task for task in tasks if not task.done()]
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=grace_seconds)


async def _nowhere(event: Event) -> None:
    """A channel that shows a turn while it runs comes with the gateway."""
