"""What waits for a turn in each conversation, and what happens with a message that comes while one runs.

``steer`` puts it before the running turn's next step, ``collect`` makes one turn of all that wait, ``followup`` one of
each, ``interrupt`` stops the turn and answers the newest.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from claw.clock import SYSTEM, Clock
from claw.config.channels import QueueSettings
from claw.envelope import spoken
from claw.journal import Accepted
from claw.lane import Lanes, Mailbox
from claw.message import Address
from claw.route import Route, lane_of
from claw.turn import Errand, new_turn
from claw.words import say

GIVES_WAY_SECONDS = 1.0
"""The longest that a turn which could begin waits for messages to be taken in."""
_LINE_CHARS, _LOOK_SECONDS = 500, 0.05
_COLLECT = QueueSettings.model_validate({"mode": "collect"})


@dataclass(frozen=True)
class Waiting:
    """A message that shall become (a part of) a turn.

    :param queue: the mode of its conversation when it came.
    :param rights: what decides which tools its sender has here: only what has the same ones shares a turn with it.
    :param turn: the id of the turn that a death cut off, when this takes it up again; ``taken`` is then all of it.
    """

    accepted: Accepted
    route: Route
    queue: QueueSettings
    rights: Hashable = None
    turn: str = ""
    taken: tuple[Accepted, ...] = ()

    @property
    def sort(self) -> "Sort":
        """What shares a turn: what is answered in one place, with the same rights."""
        return self.accepted.inbound.address, self.rights


Sort = tuple[Address, Hashable]


@dataclass
class Conversation:
    """One session: what waits, what runs.

    :param overflow: what is told in short to the next turn of its sort.
    :param answering: of which sort the turn is that runs.
    """

    waiting: deque[Waiting] = field(default_factory=deque)
    overflow: dict[Sort, list[Accepted]] = field(default_factory=dict)
    errand: Errand | None = None
    answering: Sort | None = None
    running: "asyncio.Task[None] | None" = None
    worker: "asyncio.Task[None] | None" = None
    quiet_since: float = 0.0


class Backlog:
    """All conversations of the house.

    :param run: runs one turn to its end.
    :param dropped: told of a message that gets no turn, with one word why.
    :param ended: told of a turn that a death cut off and that is not taken up again, likewise.
    :param pressed: whether messages wait to be taken in: a new turn then waits for them, for a moment. A service gives
        up on us after three seconds and sends again; who waits for a turn has a second more.
    """

    def __init__(
        self,
        lanes: Lanes,
        run: Callable[[Errand], Awaitable[None]],
        dropped: Callable[[Accepted, str], None],
        clock: Clock = SYSTEM,
        ended: Callable[[str, str], None] = lambda turn, why: None,
        pressed: Callable[[], bool] = lambda: False,
    ) -> None:
        self._pressed = pressed
        self._lanes, self._run, self._dropped, self._clock = lanes, run, dropped, clock
        self._ended = ended
        self._all: dict[str, Conversation] = {}
        self._beside: dict[str, tuple[asyncio.Task[None], Accepted]] = {}
        self._open = True

    @property
    def running(self) -> int:
        """Turns that run now, and what is done beside them."""
        return sum(one.errand is not None for one in self._all.values()) + len(self._beside)

    @property
    def waiting(self) -> int:
        """Messages whose turn has not begun."""
        return sum(len(one.waiting) + sum(map(len, one.overflow.values())) for one in self._all.values())

    def errand(self, key: str) -> Errand | None:
        """The turn of this session that runs, if one does."""
        return self._all[key].errand if key in self._all else None

    def add(self, new: Waiting) -> None:
        """Take a message up: into the running turn, behind it, or as a turn of its own."""
        key = new.route.session_key
        one = self._all.setdefault(key, Conversation())
        one.quiet_since = self._clock.monotonic()
        if one.errand and not new.turn:
            if new.queue.mode == "steer" and self._steers(one, one.errand, new):
                return
            if new.queue.mode == "interrupt":
                self._interrupt(one)
        one.waiting.append(new)
        self._keep_to_cap(one, new.queue)
        if one.worker is None and self._open:
            one.worker = asyncio.ensure_future(self._work(key, one))

    def beside(self, key: str, accepted: Accepted, work: Coroutine[Any, Any, None]) -> bool:
        """Do what a message asks for beside the turns of its conversation; False: something is being done there already.

        :meth:`stop` ends it. When the house stops it is cut off, and the message is left for the next start.
        """
        if key in self._beside:
            work.close()
            return False
        task = asyncio.ensure_future(work)
        self._beside[key] = task, accepted
        task.add_done_callback(lambda done: self._is_over(key, task))
        return True

    def _is_over(self, key: str, task: "asyncio.Task[None]") -> None:
        if key in self._beside and self._beside[key][0] is task:
            del self._beside[key]

    def stop(self, key: str) -> tuple[bool, int]:
        """End what runs and forget what waits: whether something ran, and how many waited."""
        aside = self._beside.pop(key, None)
        if aside:
            aside[0].cancel()
            self._dropped(aside[1], "stopped")
        one = self._all.get(key)
        if one is None:
            return aside is not None, 0
        gone = [*chain.from_iterable(one.overflow.values()), *(w.accepted for w in one.waiting if not w.turn)]
        if one.errand:
            gone += one.errand.mailbox.take()
        cut_off = [w for w in one.waiting if w.turn]
        one.waiting.clear()
        one.overflow.clear()
        ran = self._cancel(one, "stopped") or aside is not None  # first: a full disk may refuse the rest
        for accepted in gone:
            self._dropped(accepted, "stopped")
        for old in cut_off:
            self._ended(old.turn, "stopped")
        return ran, len(gone) + sum(len(old.taken) for old in cut_off)

    async def idle(self, key: str) -> None:
        """Wait until no turn of this session runs."""
        one = self._all.get(key)
        if one and one.running:
            await asyncio.wait({one.running})

    async def all_over(self) -> None:
        """Wait until every turn that runs now has ended."""
        running = [one.running for one in self._all.values() if one.running]
        running += [task for task, _ in self._beside.values()]
        if running:
            await asyncio.wait(running)

    async def park(self, seconds: float, grace_seconds: float) -> None:
        """The house stops: turns may end for so long, then they are left for the next start, with all that waits."""
        self._open = False
        running = [one.running for one in self._all.values() if one.running]
        if running:
            await asyncio.wait(running, timeout=seconds)
        left = [task for task, _ in self._beside.values()]
        for one in self._all.values():
            if one.errand and one.running and not one.running.cancelling():  # what a person stopped stays so
                one.errand.parked = True
            left += [task for task in (one.running, one.worker) if task and not task.done()]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=grace_seconds)

    def _steers(self, one: Conversation, errand: Errand, new: Waiting) -> bool:
        """Into the running turn, when that answers in the same place with the same rights, and nobody there has waited
        longer: a turn with an owner's tools follows no one else's words.
        """
        place = new.accepted.inbound.address
        is_behind = any(old.accepted.inbound.address == place for old in one.waiting)
        return new.sort == one.answering and not is_behind and errand.mailbox.put(new.accepted)

    def _interrupt(self, one: Conversation) -> None:
        for old in one.waiting:
            if old.turn:
                self._ended(old.turn, "stopped")
            else:
                self._dropped(old.accepted, "interrupted")
        one.waiting.clear()
        self._cancel(one, "interrupted")

    def _cancel(self, one: Conversation, why: str) -> bool:
        """Stop the turn that runs; False when none does, or its end is written down already."""
        errand, running = one.errand, one.running
        if errand is None or running is None or errand.over:
            return False
        is_new = not (errand.begun or running.cancelling())
        is_cut = running.cancel()
        if is_new:  # it may never run at all: nobody else would settle this
            if errand.resumed:
                self._ended(errand.turn, why)
            for accepted in () if errand.resumed else (*errand.summed, *errand.taken):
                self._dropped(accepted, why)
        return is_cut

    def _keep_to_cap(self, one: Conversation, queue: QueueSettings) -> None:
        new = [waiting for waiting in one.waiting if not waiting.turn]  # what was begun is not dropped
        while len(new) > queue.cap:
            out = new.pop() if queue.drop == "new" else new.pop(0)
            one.waiting.remove(out)
            if queue.drop == "summarize":
                one.overflow.setdefault(out.sort, []).append(out.accepted)
            else:
                self._dropped(out.accepted, "overflow")
        for sort in one.overflow.keys() - {
            waiting.sort for waiting in new
        }:  # no turn comes that could tell it
            for accepted in one.overflow.pop(sort):
                self._dropped(accepted, "overflow")

    async def _work(self, key: str, one: Conversation) -> None:
        """Turn after turn, until nothing waits."""
        try:
            while one.waiting and self._open:
                await self._give_way()
                async with self._lanes.turn(key, lane_of(key)) as mailbox:
                    if not (one.waiting and self._open):  # stopped while it waited for its lane
                        continue
                    one.errand = self._next(one, mailbox)
                    one.running = asyncio.ensure_future(self._run(one.errand))
                    try:
                        await asyncio.wait({one.running})
                    finally:
                        errand, one.errand, one.running = one.errand, None, None
                late = [self._again(errand, one, accepted) for accepted in mailbox.take()]
                one.waiting.extendleft(reversed(late))
                await self._quiet(one)
        finally:
            one.worker = None
            if not one.waiting and not one.overflow:
                self._all.pop(key, None)

    async def _give_way(self) -> None:
        """Let messages be taken in first, if any wait for it; not for long, or no turn would begin in a flood."""
        until = self._clock.monotonic() + GIVES_WAY_SECONDS
        while self._open and self._pressed() and self._clock.monotonic() < until:  # noqa: ASYNC110 - many events end it
            await asyncio.sleep(_LOOK_SECONDS)

    def _again(self, errand: Errand, one: Conversation, accepted: Accepted) -> Waiting:
        """What was put into a turn that ended before it looked."""
        rights = one.answering[1] if one.answering else None
        return Waiting(accepted, errand.route, _COLLECT, rights)

    def _next(self, one: Conversation, mailbox: Mailbox) -> Errand:
        first = one.waiting.popleft()
        one.answering = first.sort
        if first.turn:
            return Errand(first.turn, first.route, list(first.taken), mailbox, resumed=True)
        taken = [first]
        if first.queue.mode != "followup":
            taken += self._like(first, one.waiting)
        if first.queue.mode == "interrupt":
            for old in taken[:-1]:
                self._dropped(old.accepted, "interrupted")
            taken = taken[-1:]
        summed = one.overflow.pop(first.sort, [])
        return Errand(
            new_turn(), taken[-1].route, [w.accepted for w in taken], mailbox,
            preface=_bullets(summed), summed=summed,
        )  # fmt: skip

    @staticmethod
    def _like(first: Waiting, waiting: deque[Waiting]) -> Iterator[Waiting]:
        """All that follow of the same sort."""
        while waiting and not waiting[0].turn and waiting[0].sort == first.sort:
            yield waiting.popleft()

    async def _quiet(self, one: Conversation) -> None:
        """Wait until nobody has written for the debounce of what waits."""
        while one.waiting and not one.waiting[0].turn:
            queue = one.waiting[0].queue
            left = one.quiet_since + queue.debounce - self._clock.monotonic()
            if left <= 0 or queue.mode in ("followup", "interrupt") or len(one.waiting) >= queue.cap:
                return
            with suppress(TimeoutError):
                await asyncio.sleep(left)


def _bullets(summed: list[Accepted]) -> str:
    if not summed:
        return ""
    head = say(
        "{count:earlier message|earlier messages} came faster than could be answered:", count=len(summed)
    )
    return "\n".join([head, *(f"- {' '.join(spoken(one.inbound).split())[:_LINE_CHARS]}" for one in summed)])
