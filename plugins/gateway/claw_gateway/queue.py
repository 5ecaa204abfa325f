"""Turn queue: the messages that wait for a turn in each conversation, and the queue modes for a running turn.

``steer`` puts a new message before the running turn's next step, ``collect`` makes one turn of all that wait,
``followup`` one of each, ``interrupt`` stops the turn and answers the newest.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterator, Set
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from claw import AcceptedEvent, Address, t
from claw.runtime import (
    SYSTEM_CLOCK,
    Clock,
    QueueSettings,
    Route,
    SessionQueues,
    new_turn_id,
    user_text,
)

from claw_gateway.channel_turn import ChannelTurn
from claw_gateway.turn_limits import ConcurrencyLimit, TurnLimits

ACCEPT_WAIT_SECONDS = 1.0
"""The longest that a turn which could begin waits until pending messages are accepted."""
_LINE_CHARS, _LOOK_SECONDS = 500, 0.05
_COLLECT = QueueSettings.model_validate({"mode": "collect"})


@dataclass(frozen=True)
class QueuedMessage:
    """A message that waits to become a turn, or a part of one.

    :param queue: the queue settings of its conversation when it arrived.
    :param rights: the values that decide which tools its sender has here: only messages with equal ones share a turn.
    :param turn: the id of the turn that a crash cut off, when this resumes it; ``taken`` is then all of its messages.
    :param suspect: the process ended by itself while this turn ran: such turns run one at a time, so that the next end
        by itself counts against one of them.
    """

    accepted: AcceptedEvent
    route: Route
    queue: QueueSettings
    rights: Hashable = None
    turn: str = ""
    taken: tuple[AcceptedEvent, ...] = ()
    suspect: bool = False

    @property
    def sharing_key(self) -> "SharingKey":
        """The key of messages that may share a turn: same address, same rights."""
        return self.accepted.inbound.address, self.rights


SharingKey = tuple[Address, Hashable]


@dataclass
class ConversationQueue:
    """The queue of one session: waiting messages and the running turn.

    :param overflow: messages beyond the limit, which the next turn with their sharing key gets as a short list.
    :param running_key: the sharing key of the running turn.
    """

    waiting: deque[QueuedMessage] = field(default_factory=deque)
    overflow: dict[SharingKey, list[AcceptedEvent]] = field(default_factory=dict)
    turn: ChannelTurn | None = None
    running_key: SharingKey | None = None
    running: "asyncio.Task[None] | None" = None
    worker: "asyncio.Task[None] | None" = None
    quiet_since: float = 0.0


class TurnQueue:
    """The turn queues of all conversations.

    :param limits: of concurrent turns, over all conversations.
    :param run: run one turn to its end.
    :param dropped: called for a message that gets no turn, with one word for the reason.
    :param ended: called for a turn that a crash cut off and that is not resumed, with one word for the reason.
    :param pressed: return true if messages wait to be accepted: a new turn then waits for them, for a moment. A service
        gives up after three seconds and sends again; a turn can wait one second more.
    """

    def __init__(
        self,
        session_queues: SessionQueues,
        limits: TurnLimits,
        run: Callable[[ChannelTurn], Awaitable[None]],
        dropped: Callable[[AcceptedEvent, str], None],
        clock: Clock = SYSTEM_CLOCK,
        ended: Callable[[str, str], None] = lambda turn, why: None,
        pressed: Callable[[], bool] = lambda: False,
    ) -> None:
        self._pressed = pressed
        self._session_queues, self.limits = session_queues, limits
        self._run, self._dropped, self._clock = run, dropped, clock
        self._ended = ended
        self._by_key: dict[str, ConversationQueue] = {}
        self._side_tasks: dict[str, tuple[asyncio.Task[None], AcceptedEvent]] = {}
        self._open, self._suspects = True, ConcurrencyLimit(1)
        self._unserved: list[AcceptedEvent] = []

    @property
    def running(self) -> int:
        """The number of turns that run now, plus the side tasks."""
        return sum(one.turn is not None for one in self._by_key.values()) + len(self._side_tasks)

    @property
    def waiting(self) -> int:
        """The number of messages whose turn has not begun."""
        queued = sum(len(one.waiting) + sum(map(len, one.overflow.values())) for one in self._by_key.values())
        return queued + len(self._unserved)

    def running_turn(self, key: str) -> ChannelTurn | None:
        """Return the running turn of this session, if there is one."""
        return self._by_key[key].turn if key in self._by_key else None

    def add(self, new: QueuedMessage) -> None:
        """Add a message: to the running turn, behind it, or as a new turn."""
        key = new.route.session_key
        one = self._by_key.setdefault(key, ConversationQueue())
        one.quiet_since = self._clock.monotonic()
        if one.turn and not new.turn:
            if new.queue.mode == "steer" and self._steer(one, one.turn, new):
                return
            if new.queue.mode == "interrupt":
                self._interrupt(one)
        one.waiting.append(new)
        self._apply_cap(one, new.queue)
        if one.worker is None and self._open:
            one.worker = asyncio.ensure_future(self._work(key, one))

    def hold(self, turn: ChannelTurn) -> None:
        """Hold the messages of a turn whose channel is not served; the turn has not begun."""
        self._unserved += (*turn.summarised, *turn.taken)

    def release(self, is_served: Callable[[Address], bool]) -> tuple[AcceptedEvent, ...]:
        """Return the held messages whose channel is served now, and hold them no longer."""
        released = tuple(one for one in self._unserved if is_served(one.inbound.address))
        self._unserved = [one for one in self._unserved if one not in released]
        return released

    def run_beside(self, key: str, accepted: AcceptedEvent, work: Coroutine[Any, Any, None]) -> bool:
        """Run the work of a message beside the turns of its conversation; return false if such work runs there already.

        :meth:`stop` ends it. A shutdown cuts it off and leaves the message for the next start.
        """
        if key in self._side_tasks:
            work.close()
            return False
        task = asyncio.ensure_future(work)
        self._side_tasks[key] = task, accepted
        task.add_done_callback(lambda done: self._remove_side_task(key, task))
        return True

    def _remove_side_task(self, key: str, task: "asyncio.Task[None]") -> None:
        if key in self._side_tasks and self._side_tasks[key][0] is task:
            del self._side_tasks[key]

    def stop(self, key: str) -> tuple[bool, int]:
        """Cancel what runs and drop what waits; return true if something ran, and how many messages waited."""
        side_task = self._side_tasks.pop(key, None)
        if side_task:
            side_task[0].cancel()
            self._dropped(side_task[1], "stopped")
        one = self._by_key.get(key)
        if one is None:
            return side_task is not None, 0
        gone = [*chain.from_iterable(one.overflow.values()), *(w.accepted for w in one.waiting if not w.turn)]
        if one.turn:
            gone += one.turn.steering.take()
        cut_off = [w for w in one.waiting if w.turn]
        one.waiting.clear()
        one.overflow.clear()
        ran = (
            self._cancel(one, "stopped") or side_task is not None
        )  # first, as a full disk may refuse the rest
        for accepted in gone:
            self._dropped(accepted, "stopped")
        for old in cut_off:
            self._ended(old.turn, "stopped")
        return ran, len(gone) + sum(len(old.taken) for old in cut_off)

    async def wait_for_turn(self, key: str) -> None:
        """Wait until no turn of this session runs."""
        one = self._by_key.get(key)
        if one and one.running:
            await asyncio.wait({one.running})

    async def wait_until_idle(self) -> None:
        """Wait until every turn that runs now has ended."""
        running = [one.running for one in self._by_key.values() if one.running]
        running += [task for task, _ in self._side_tasks.values()]
        if running:
            await asyncio.wait(running)

    async def shut_down(self, seconds: float, grace_seconds: float) -> None:
        """Shut down: wait ``seconds`` for running turns; leave the others, with all that waits, for the next start."""
        self._open = False
        running = [one.running for one in self._by_key.values() if one.running]
        if running:
            await asyncio.wait(running, timeout=seconds)
        left = [task for task, _ in self._side_tasks.values()]
        for one in self._by_key.values():
            # A turn that a person stopped is not resumed.
            if one.turn and one.running and not one.running.cancelling():
                one.turn.parked = True
            left += [task for task in (one.running, one.worker) if task and not task.done()]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=grace_seconds)

    def _steer(self, one: ConversationQueue, turn: ChannelTurn, new: QueuedMessage) -> bool:
        """Steer the running turn if it answers in the same chat with the same rights and no older message waits there.

        A turn with an owner's tools must not follow the words of another person.
        """
        address = new.accepted.inbound.address
        is_behind = any(old.accepted.inbound.address == address for old in one.waiting)
        return new.sharing_key == one.running_key and not is_behind and turn.steering.put(new.accepted)

    def _interrupt(self, one: ConversationQueue) -> None:
        for old in one.waiting:
            if old.turn:
                self._ended(old.turn, "stopped")
            else:
                self._dropped(old.accepted, "interrupted")
        one.waiting.clear()
        self._cancel(one, "interrupted")

    def _cancel(self, one: ConversationQueue, why: str) -> bool:
        """Cancel the running turn; return false if none runs, or if its end is recorded already."""
        turn, running = one.turn, one.running
        if turn is None or running is None or turn.over:
            return False
        is_new = not (turn.begun or running.cancelling())
        is_cut = running.cancel()
        if is_new:  # it may never run at all, and then nothing else settles its messages
            if turn.resumed:
                self._ended(turn.id, why)
            for accepted in () if turn.resumed else (*turn.summarised, *turn.taken):
                self._dropped(accepted, why)
        return is_cut

    def _apply_cap(self, one: ConversationQueue, queue: QueueSettings) -> None:
        new = [waiting for waiting in one.waiting if not waiting.turn]  # a turn that began is not dropped
        while len(new) > queue.cap:
            out = new.pop() if queue.drop == "new" else new.pop(0)
            one.waiting.remove(out)
            if queue.drop == "summarize":
                one.overflow.setdefault(out.sharing_key, []).append(out.accepted)
            else:
                self._dropped(out.accepted, "overflow")
        for sort in one.overflow.keys() - {
            waiting.sharing_key for waiting in new
        }:  # no turn will come to list them
            for accepted in one.overflow.pop(sort):
                self._dropped(accepted, "overflow")

    async def _work(self, key: str, one: ConversationQueue) -> None:
        """Run turn after turn until nothing waits."""
        try:
            while one.waiting and self._open:
                await self._wait_for_accepting()
                alone = self._suspects if one.waiting and one.waiting[0].suspect else nullcontext()
                async with alone, self._session_queues.turn(key), self.limits.of(key):
                    if not (one.waiting and self._open):  # stopped while it waited for the session queue
                        continue
                    one.turn = self._next_turn(one)
                    one.running = asyncio.ensure_future(self._run(one.turn))
                    try:
                        await asyncio.wait({one.running})
                    finally:
                        turn, one.turn, one.running = one.turn, None, None
                        turn.steering.open = False
                late = [self._requeued(turn, one, accepted) for accepted in turn.steering.take()]
                one.waiting.extendleft(reversed(late))
                await self._debounce(one)
        finally:
            one.worker = None
            if not one.waiting and not one.overflow:
                self._by_key.pop(key, None)

    async def _wait_for_accepting(self) -> None:
        """Wait until pending messages are accepted; not for long, or no turn would begin under a flood of messages."""
        until = self._clock.monotonic() + ACCEPT_WAIT_SECONDS
        while self._open and self._pressed() and self._clock.monotonic() < until:  # noqa: ASYNC110 - many events end it
            await asyncio.sleep(_LOOK_SECONDS)

    def _requeued(self, turn: ChannelTurn, one: ConversationQueue, accepted: AcceptedEvent) -> QueuedMessage:
        """Return a message that a turn took and ended without reading, as one that waits."""
        rights = one.running_key[1] if one.running_key else None
        return QueuedMessage(accepted, turn.route, _COLLECT, rights)

    def _next_turn(self, one: ConversationQueue) -> ChannelTurn:
        first = one.waiting.popleft()
        one.running_key = first.sharing_key
        if first.turn:
            return ChannelTurn(first.turn, first.route, list(first.taken), resumed=True)
        taken = [first]
        if first.queue.mode != "followup":
            taken += self._take_same_sort(first, one.waiting)
        if first.queue.mode == "interrupt":
            for old in taken[:-1]:
                self._dropped(old.accepted, "interrupted")
            taken = taken[-1:]
        summed = one.overflow.pop(first.sharing_key, [])
        return ChannelTurn(
            new_turn_id(),
            taken[-1].route,
            [w.accepted for w in taken],
            preface=_overflow_preface(summed),
            summarised=summed,
        )

    @staticmethod
    def _take_same_sort(first: QueuedMessage, waiting: deque[QueuedMessage]) -> Iterator[QueuedMessage]:
        """Take the messages of the same sort from the front of the queue."""
        while waiting and not waiting[0].turn and waiting[0].sharing_key == first.sharing_key:
            yield waiting.popleft()

    async def _debounce(self, one: ConversationQueue) -> None:
        """Wait until no message has come for the debounce time of the next message."""
        while one.waiting and not one.waiting[0].turn:
            queue = one.waiting[0].queue
            left = one.quiet_since + queue.debounce - self._clock.monotonic()
            if left <= 0 or queue.mode in ("followup", "interrupt") or len(one.waiting) >= queue.cap:
                return
            with suppress(TimeoutError):
                await asyncio.sleep(left)


def _overflow_preface(summed: list[AcceptedEvent]) -> str:
    if not summed:
        return ""
    head = t(
        "{count:earlier message|earlier messages} arrived faster than they could be answered:",
        count=len(summed),
    )
    return "\n".join(
        [head, *(f"- {' '.join(user_text(one.inbound).split())[:_LINE_CHARS]}" for one in summed)]
    )


async def cancel_tasks(tasks: Set[asyncio.Task[Any]], grace_seconds: float) -> None:
    """Cancel tasks and wait briefly for their end."""
    left = [task for task in tasks if not task.done()]
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=grace_seconds)
