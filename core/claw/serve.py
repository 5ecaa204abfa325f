"""The channels of a house, listening until they are told to stop: in, through the ledger, and out again.

A channel is a stranger: one that cannot start or keeps failing is set aside after a few tries, spaced out, and the
others go on. What comes in is on disk before the channel may acknowledge it, and what a death left is taken up at start.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping, Set
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

from claw.app import App, House
from claw.backlog import Backlog
from claw.channel import WAITS, Channel, ChannelState, Unready
from claw.clock import SYSTEM
from claw.config.check import unheard
from claw.delivery import Delivery
from claw.directives import shown as visible
from claw.errors import ClawError, ConfigError, PluginError, UsageError
from claw.event import TurnEnded
from claw.failpoint import reach
from claw.guard.admission import rule
from claw.journal import Accepted, Unfinished
from claw.kit import Brought, account_of, channel_key
from claw.letter import block_key, letters, pieces, quoted, tokens_of
from claw.live import Live, find_again
from claw.message import Address, Inbound, Outbound, Receipt
from claw.question import Question, as_message
from claw.reception import Reception
from claw.report import PLACE, Listening, Report, place_of, unserved
from claw.route import TERMINAL
from claw.stage import TOOL_CHOICES, Stage, choosable
from claw.standing import LOADED, QUARANTINED
from claw.turn import Errand, run_turn
from claw.wall import is_ours, name_of
from claw.words import say

WAITING = 10_000
"""Messages taken in whose turn has not begun, at most; beyond it a channel waits at the door."""
_KNOCKS_SECONDS = 0.1  # so long a message may wait at the door before turns that could begin give way
_WELL_SECONDS = 60.0  # a channel that listened so long has recovered from what went wrong before
_LONGEST_PAUSE = 60.0


class Door:
    """What one channel may ask of the house: to take a message in. It speaks for itself only."""

    def __init__(self, house: "Serving", channel: Channel) -> None:
        self._house, self._place = house, (channel.name, account_of(channel))

    async def submit(self, inbound: Inbound) -> bool:
        """Take a message in; True once it may be acknowledged, also when it was seen before.

        :raises UsageError: it names another channel, or a tool that its turn would not have.
        """
        if (inbound.address.channel, inbound.address.account) != self._place:
            raise UsageError(
                "channel {mine} handed in a message of channel {theirs}",
                mine="/".join(self._place),
                theirs=f"{inbound.address.channel}/{inbound.address.account}",
            )
        await self._house.choosable(inbound)
        return await self._house.take_in(inbound)


class Serving:
    """All channels of an app but the terminal, until ``stop``. How long each may take is the app's ``leeway``."""

    def __init__(self, app: App) -> None:
        self.app, self._leeway, self._open = app, app.leeway, True
        self._unserved, self._unheard, self._failed = _unserved(app), _unheard(app), set[str]()
        self._journal = app.rooms.journal
        self._delivery = Delivery(self._journal, self._channel_of, app.complain, app.leeway)
        self._knocking: dict[object, float] = {}
        self._backlog = Backlog(
            app.rooms.lanes, self._answer, self._dropped, ended=self._journal.ended, pressed=self._is_pressed
        )
        self._reception = Reception(lambda: self.app, self._backlog, self._delivery, app.pairing)
        self._arrived: dict[Address, deque[Accepted | Unfinished]] = {}
        self._intake: set[asyncio.Task[None]] = set()
        self._listening: dict[str, asyncio.Task[str]] = {}
        self._approvals = app.rooms.approvals
        app.outlet = self._say
        if self._approvals:
            self._approvals.present = self._present

    @property
    def channels(self) -> Mapping[str, Brought[Channel]]:
        """The channels that listen."""
        return {key: one for key, one in self.app.kit.channels.items() if key != TERMINAL}

    async def run(self, stop: asyncio.Event) -> None:
        """Listen on every channel until ``stop`` is set; turns that run then may end within a limit, or are parked."""
        asyncio.get_running_loop().set_exception_handler(self.app.overheard)
        self._take_up()
        for key, one in self.channels.items():
            self._listening[key] = asyncio.ensure_future(self._listen(one))
        try:
            await stop.wait()
        finally:
            self._open = False
            await _ended(set(self._listening.values()), self._leeway.grace_seconds)
            await self._backlog.park(self._leeway.stop_seconds / 2, self._leeway.grace_seconds)
            await _ended(self._intake, self._leeway.grace_seconds)
            await self._delivery.stopped(self._leeway.stop_seconds / 4)
            self.app.outlet = None
            for approvals in (self._approvals, self.app.rooms.approvals):
                if approvals:
                    approvals.present = None

    async def reload(self, house: House) -> None:
        """Go on with another configuration: all of it, or none.

        Turns that run keep theirs to the end; a channel whose settings are as they were is not disturbed.

        :raises ClawError: a plugin that stands now would be missing; nothing has changed.
        """
        old = self.app
        new = App(house, before=old)
        if wrong := _newly_wrong(old, new):
            await new.retire(old)
            raise ClawError("{why}", why=wrong)
        if self._approvals and new.rooms.approvals:
            new.rooms.approvals.present = self._present
        self.app, self._unserved, self._unheard = new, _unserved(new), _unheard(new)
        new.rooms.lanes.widen(dict(new.config.settings.messages.lanes))
        for key, task in list(self._listening.items()):
            mine, theirs = old.kit.channels.get(key), new.kit.channels.get(key)
            if mine is not theirs or task.done():  # one that was set aside gets another try
                await _ended({task}, self._leeway.grace_seconds)
                del self._listening[key]
        for key, one in self.channels.items():
            if self._open and key not in self._listening:  # it may have been told to stop meanwhile
                self._listening[key] = asyncio.ensure_future(self._listen(one))
        retiring = asyncio.ensure_future(self._retire(old, new))
        self._intake.add(retiring)
        retiring.add_done_callback(self._intake.discard)

    async def _retire(self, old: App, new: App) -> None:
        """Close what only the old configuration had, once no turn runs with it."""
        await self._backlog.all_over()
        await old.retire(new)

    def report(self) -> Report:
        """How it is doing."""
        channels = (
            tuple(
                Listening(one.thing.name, account_of(one.thing), one.plugin, self._state_of(key))
                for key, one in self.channels.items()
            )
            + self._unserved
        )
        _, owed = self._journal.counts()
        waiting = self._backlog.waiting + sum(map(len, self._arrived.values()))
        return Report(channels, self._backlog.running, waiting, owed)

    def _state_of(self, key: str) -> ChannelState:
        state, task = _told_by(self.channels[key].thing), self._listening.get(key)
        if state.state == "up" and (why := self._unheard.get(key)):
            return replace(state, state="failed", detail=why, last_error=why)
        if state.state == "failed" or task is None or not task.done() or task.cancelled():
            self._heed(key, state, task)
            return state
        return replace(state, state="failed", detail=task.result(), last_error=task.result())

    def _heed(self, key: str, state: ChannelState, task: "asyncio.Task[str] | None") -> None:
        """A channel that says itself that it failed, and goes on listening, is told of once."""
        if state.state != "failed":
            self._failed.discard(key)
        elif key not in self._failed:
            self._failed.add(key)
            if task and not task.done():
                name, _, account = key.partition("/")
                before = PLACE.set({"channel": name, "account": account})
                self.app.complain(f"{key}: {state.detail}")
                PLACE.reset(before)

    async def choosable(self, inbound: Inbound) -> None:
        """Hold a tool that a caller names against what its turn would have, before anything is taken in.

        :raises UsageError: the turn would not have it.
        """
        if not inbound.tool_choice or inbound.tool_choice in TOOL_CHOICES:
            return
        try:
            stage = await self.app.stage(inbound)
        except ClawError:  # whatever that is, the turn tells it
            return
        choosable(inbound.tool_choice, stage)

    async def take_in(self, inbound: Inbound) -> bool:
        """Journal first, then everything else. False: it is not on disk; the channel must not acknowledge it."""
        while self._open and self._backlog.waiting >= WAITING:  # noqa: ASYNC110 - many events end it
            await asyncio.sleep(0.05)
        if not self._open:
            return False
        knock = object()
        self._knocking[knock] = SYSTEM.monotonic()
        try:
            return await self._taken_in(inbound)
        finally:
            del self._knocking[knock]

    def _is_pressed(self) -> bool:
        """Whether somebody has waited at the door for long: the oldest comes first."""
        since = next(iter(self._knocking.values()), None)
        return since is not None and SYSTEM.monotonic() - since > _KNOCKS_SECONDS

    async def _taken_in(self, inbound: Inbound) -> bool:
        accepted, told = None, True
        try:
            accepted = self._journal.accept(inbound)
            reach("inbox-written")
            channel = self._channel_of(inbound.address)
            if channel is None or WAITS not in channel.capabilities:
                await self._journal.durable()  # also what came before: it may be on its way
            reach("inbox-synced")
        except ClawError as refused:  # a full disk, mostly: the service keeps the message
            self.app.complain(str(refused))
            told = False
        finally:  # though it was not told, or its channel ends meanwhile: what comes again is known by now
            if accepted:
                self._arrive(inbound.address, accepted)
        return told

    # --- in

    def _take_up(self) -> None:
        """What a death left, before anything new: replies, turns, and messages that nobody took."""
        self._delivery.recover()
        for cut in self._journal.unfinished():
            if cut.taken:
                self._arrive(cut.taken[-1].inbound.address, cut)
        for accepted in self._journal.waiting():
            self._arrive(accepted.inbound.address, accepted)

    def _arrive(self, address: Address, arrived: Accepted | Unfinished) -> None:
        """Chats beside each other, what belongs to one chat in order."""
        place = replace(address, thread=None)
        waiting = self._arrived.get(place)
        if waiting is not None:
            waiting.append(arrived)
            return
        self._arrived[place] = deque([arrived])
        task = asyncio.ensure_future(self._receive_all(place))
        self._intake.add(task)
        task.add_done_callback(self._intake.discard)

    async def _receive_all(self, place: Address) -> None:
        waiting = self._arrived[place]
        PLACE.set(place_of(place))
        try:
            while waiting:
                arrived = waiting.popleft()
                try:
                    if isinstance(arrived, Unfinished):
                        await self._reception.resume(arrived)
                    else:
                        await self._reception.receive(arrived)
                except Exception as broken:  # noqa: BLE001 - one message, not the house
                    why = str(broken) if isinstance(broken, ClawError) else name_of(broken)
                    self.app.complain(
                        say(
                            "a message in channel {name} was not taken up: {why}", name=place.channel, why=why
                        )
                    )
                    if isinstance(arrived, Accepted):
                        failed = partial(self._journal.settle, arrived.number, "failed")
                        await self._journal.insist(failed, self.app.complain)
        finally:
            del self._arrived[place]

    async def _listen(self, one: Brought[Channel]) -> str:
        """Keep one channel running; after a few failures in a row it is set aside, and this says why."""
        name = channel_key(one.thing.name, account_of(one.thing))
        PLACE.set(place_of(Address(one.thing.name, "", account=account_of(one.thing))))
        pause, tries = self._leeway.pause_seconds, 0
        while True:
            began, fix, only_a_person_can_mend_it = SYSTEM.monotonic(), "", False
            try:
                await one.thing.run(Door(self, one.thing))
                why = say("it stopped listening")
            except BaseException as failed:
                if is_ours(failed):
                    raise
                why = name_of(failed)
                if isinstance(failed, ClawError):
                    why, fix = ": ".join(filter(None, (failed.where, failed.problem))), failed.fix
                only_a_person_can_mend_it = isinstance(failed, ConfigError)
            if SYSTEM.monotonic() - began > _WELL_SECONDS:
                tries, pause = 0, self._leeway.pause_seconds
            tries += 1
            if only_a_person_can_mend_it or tries >= self._leeway.tries:
                break
            if tries == 1:  # the next ones are told of together, if they all fail
                again = say("channel {name}: {why}. It is tried again", name=name, why=why)
                self.app.complain(say("{problem}. {fix}", problem=again, fix=fix) if fix else again)
                self._failed.add(name)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        told = say("channel {name} failed {count:time|times}: {why}", name=name, count=tries, why=why)
        if only_a_person_can_mend_it:
            told = say("channel {name} cannot start: {why}", name=name, why=why)
        whole = say("{problem}. {fix}", problem=told, fix=fix) if fix else told
        if self._beside(one):
            self.app.complain(whole)
        else:
            self.app.host.quarantine(one.plugin, "run", told, fix)
        return whole

    def _beside(self, one: Brought[Channel]) -> bool:
        """Whether its plugin serves another account that has not failed."""
        of_plugin = {key: other for key, other in self.channels.items() if other.plugin == one.plugin}
        return any(
            other is not one and self._state_of(key).state != "failed" for key, other in of_plugin.items()
        )

    # --- turns

    async def _answer(self, errand: Errand) -> None:
        """One turn, watched in its chat, and its answer on the way."""
        rooms, address = self.app.rooms, errand.message.address
        PLACE.set(place_of(address, errand.route.session_key))
        channel = self._channel_of(address)
        if channel is None:
            self._journal.ended(errand.turn, "refused")
            return
        where = Outbound(errand.turn, address, "", quoted(errand), answers=errand.message.message_id)
        streams, in_blocks = (rule(address, rooms.config, name) for name in ("streaming", "block_streaming"))
        if errand.resumed:
            await find_again(channel, where, errand.turn, self._journal)
        live = Live(
            channel, where, errand.turn, self._journal, partial(visible, tokens=tokens_of(rooms)), rooms.complain,
            streams is not False,
            partial(self._block, where, count(1)) if in_blocks else None,
            lambda: not self._delivery.busy(address), resumed=errand.resumed,
        )  # fmt: skip
        owed: tuple[Outbound, ...] = ()
        try:
            ended = await run_turn(errand, rooms, live.hear, partial(self._letters, live, channel))
            owed = ended.owed
            if ended.failed:
                rooms.complain(ended.event.text)
        finally:
            texts = [one for one in owed if one.text]
            await live.over(finished=bool(texts))
        self._deliver(live, channel, owed, errand.answer)

    def _block(self, where: Outbound, numbers: Iterator[int], text: str) -> None:
        """A part of an answer goes out before its end."""
        number = next(numbers)
        quote = where.reply_to if number == 1 else None
        one = replace(where, key=block_key(where.key, number), text=text, reply_to=quote)
        if self._journal.owe(where.key, one):
            self._delivery.post([one])

    async def _letters(
        self, live: Live, channel: Channel, errand: Errand, ending: TurnEnded, stage: Stage | None
    ) -> tuple[Outbound, ...]:
        await live.started()
        live.note()
        return await letters(self.app.rooms, channel, errand, ending, stage)

    def _deliver(self, live: Live, channel: Channel, owed: tuple[Outbound, ...], text: str) -> None:
        texts = tuple(one for one in owed if one.text)
        if live.writer and texts:
            self._delivery.finish(live.writer, replace(texts[0], replaces=(), text=text), texts, channel)
            self._delivery.post([one for one in owed if not one.text])
        else:
            self._delivery.post(owed)

    def _dropped(self, accepted: Accepted, why: str) -> None:
        self._reception.dropped(accepted, why)

    # --- out

    def _channel_of(self, address: Address) -> Channel | None:
        return self.app.kit.channel(address.channel, address.account)

    async def _say(self, outbound: Outbound) -> Receipt:
        """What a tool says while its turn runs: through the ledger, in pieces that fit."""
        channel = self._channel_of(outbound.address)
        if channel is None:
            raise UsageError("there is no channel {name}", name=outbound.address.channel)
        turn = outbound.key.partition(":")[0]
        ids: list[str] = []
        for one in pieces(outbound, channel):
            ids += (await self._delivery.say(turn, one)).message_ids
        return Receipt(tuple(ids))

    async def _present(self, question: Question) -> bool:
        """Put a question to the chat that its turn came from, with buttons where there are any."""
        whole = as_message(question, self._approvals.seconds_left(question) if self._approvals else 0)
        channel = self._channel_of(whole.address)
        if channel is None:
            return False
        for one in pieces(whole, channel):
            await self._delivery.say(question.request.turn, one)
        return True


def _unserved(app: App) -> tuple[Listening, ...]:
    rows = unserved(app.config.settings, app.host.standings)
    return tuple(one for one in rows if channel_key(one.name, one.account) not in app.kit.channels)


def _unheard(app: App) -> dict[str, str]:
    return {channel_key(name, account): str(why) for name, account, why in unheard(app.config)}


def _newly_wrong(old: App, new: App) -> str:
    """Why a plugin or an account that stood with the old file does not take the new one; empty when all do."""
    stood = {standing.id for standing in old.host.standings if standing.state == LOADED}
    faults = [
        str(PluginError(standing.id, *standing.fault_parts()))
        for standing in new.host.standings
        if standing.id in stood and standing.state == QUARANTINED and standing.stage == "config"
    ]
    unready = [{key: one.thing for key, one in app.kit.channels.items() if isinstance(one.thing, Unready)}
               for app in (old, new)]  # fmt: skip
    faults += [str(channel.why) for key, channel in unready[1].items() if key not in unready[0]]
    return "; ".join(faults)


def _told_by(channel: Channel) -> ChannelState:
    try:
        state = getattr(channel, "state", None)
    except Exception as why:  # noqa: BLE001 - a stranger's code
        return ChannelState("failed", name_of(why))
    return state if isinstance(state, ChannelState) else ChannelState("up")


async def _ended(tasks: Set[asyncio.Task[Any]], grace_seconds: float) -> None:
    """Cancel tasks and give them a moment."""
    left = [task for task in tasks if not task.done()]
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=grace_seconds)
