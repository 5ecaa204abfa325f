"""Loop detection: calls that bring nothing new are warned of, then refused, then end the turn.

Three signs (spec/runtime.md C10): one repeated call, a poll that always gives the same result, two
alternating calls. The circuit breaker is independent of them: a number of equal results of one call in a row,
whatever it is.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

import msgspec
from claw import Image, Text, ToolCall, t

BREAKER, POLL, PING_PONG, REPEAT = (
    "global_circuit_breaker",
    "known_poll_no_progress",
    "ping_pong",
    "generic_repeat",
)
MAX_REFUSED = 3
"""Refused calls in one turn; the last of them ends it, since refusals do not change what the model does."""
MAX_UNREADABLE = 3
"""Unreadable calls in a row that end the turn."""
_POLLS = {"process": frozenset({"poll", "log"})}


@dataclass(frozen=True, slots=True)
class LoopLimits:
    """The thresholds of loop detection. Those that do not increase are raised until they do.

    :param history: only this many of the newest calls are examined.
    :param warn: the model is warned; ``refuse`` the call does not run; ``stop`` the turn ends.
    :param detectors: the enabled ones: ``generic_repeat``, ``known_poll_no_progress``, ``ping_pong``.
    """

    enabled: bool = True
    history: int = 30
    warn: int = 10
    refuse: int = 20
    stop: int = 30
    detectors: frozenset[str] = frozenset({REPEAT, POLL, PING_PONG})

    def __post_init__(self) -> None:
        refuse = max(self.refuse, self.warn + 1)
        object.__setattr__(self, "refuse", refuse)
        object.__setattr__(self, "stop", max(self.stop, refuse + 1))


def limits_of(settings: Any) -> LoopLimits:
    """Return the limits that ``tools.loopDetection`` sets.

    :param settings: that section, of the whole file or of one agent.
    """
    on = settings.detectors
    wanted = {REPEAT: on.generic_repeat, POLL: on.known_poll_no_progress, PING_PONG: on.ping_pong}
    return LoopLimits(
        settings.enabled, settings.history_size, settings.warning_threshold, settings.critical_threshold,
        settings.breaker_threshold, frozenset(name for name, is_on in wanted.items() if is_on),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class LoopSign:
    """A detected loop.

    :param level: warning or critical.
    :param count: its length in calls, as the detector counts.
    """

    level: Literal["warning", "critical"]
    detector: str
    count: int


@dataclass(slots=True)
class CallRecord:
    """One call: what it is, and its outcome (None while it runs)."""

    key: str
    polls: bool = False
    outcome: str | None = None


def call_record(tool: str, arguments: Any) -> CallRecord:
    """Return a call as it is compared: by its tool and arguments, whatever the order of their keys."""
    polls = isinstance(arguments, Mapping) and arguments.get("action") in _POLLS.get(tool, ())
    return CallRecord(f"{tool}:{_digest(arguments)}", polls)


def outcome_of(content: Any, is_error: bool = False) -> str:
    """Return the outcome of a call as it is compared.

    :param content: plain data.
    """
    return _digest((is_error, content))


def detect_loop(history: Sequence[CallRecord], now: CallRecord, limits: LoopLimits) -> LoopSign | None:
    """Return the gravest sign of a loop that the call about to run gives, if any.

    :param history: the calls before it, oldest first; no more than ``limits.history`` of them count.
    """
    if not limits.enabled:
        return None
    seen = list(history)[-limits.history :]
    same = _same_results(seen, now.key)
    if same >= limits.stop:
        return LoopSign("critical", BREAKER, same)
    if now.polls:
        return _graded(POLL, same, limits, still=True) if POLL in limits.detectors else None
    if PING_PONG in limits.detectors:
        length, still = _alternating(seen, now)
        if sign := _graded(PING_PONG, length, limits, still):
            return sign
    earlier = sum(one.key == now.key for one in seen)
    if REPEAT in limits.detectors and earlier >= limits.warn:
        return LoopSign("warning", REPEAT, earlier)
    return None


def _graded(detector: str, count: int, limits: LoopLimits, still: bool) -> LoopSign | None:
    """Return the sign for a count. ``still``: no result ever changed, so that the call may be refused."""
    if count < limits.warn:
        return None
    return LoopSign("critical" if still and count >= limits.refuse else "warning", detector, count)


def _same_results(seen: Sequence[CallRecord], key: str) -> int:
    """Return how many of the newest results of this call are the same in a row."""
    outcomes = [one.outcome for one in reversed(seen) if one.key == key]
    first = outcomes[0] if outcomes else None
    if first is None:
        return 0
    return next((at for at, outcome in enumerate(outcomes) if outcome != first), len(outcomes))


def _alternating(seen: Sequence[CallRecord], now: CallRecord) -> tuple[int, bool]:
    """Return how long two calls have alternated, this one included, and true if each had one result only."""
    if not seen or seen[-1].key == now.key:
        return 0, False
    tail: list[CallRecord] = []
    wanted, other = seen[-1].key, now.key
    for one in reversed(seen):
        if one.key != wanted:
            break
        tail.append(one)
        wanted, other = other, wanted
    if len(tail) < 2:
        return 0, False
    outcomes = ({one.outcome for one in islice(tail, side, None, 2)} for side in (0, 1))
    return len(tail) + 1, all(len(side) == 1 and None not in side for side in outcomes)


def _digest(plain: Any) -> str:
    try:
        written = msgspec.json.encode(plain, order="sorted")
    except (TypeError, ValueError, msgspec.MsgspecError):  # half a surrogate pair, an object of a plugin
        written = repr(plain).encode("utf-8", "replace")
    return hashlib.sha256(written).hexdigest()[:16]


@dataclass
class LoopDetector:
    """The calls of one turn, each checked before it runs.

    :ivar stop_reason_text: the reason why the turn may not go on, as text for the person; empty while it may.
    """

    limits: LoopLimits = field(default_factory=LoopLimits)
    stop_reason_text: str = ""
    _history: deque[CallRecord] = field(default_factory=deque)
    _refused: int = 0
    _unreadable: int = 0

    def check_call(
        self, call: ToolCall
    ) -> tuple[LoopSign | None, Callable[[Sequence[Text | Image], bool], None]]:
        """Check a call about to run; return the sign it gives, and the function that takes its result."""
        now = call_record(call.name, call.arguments)
        sign = detect_loop(self._history, now, self.limits)
        self._history.append(now)
        while len(self._history) > self.limits.history:
            self._history.popleft()
        self._unreadable = 0

        def ended(content: Sequence[Text | Image], is_error: bool) -> None:
            now.outcome = outcome_of(msgspec.to_builtins(content), is_error)

        if sign and sign.level == "critical":  # it does not run, so its outcome is the last one
            now.outcome = next(
                (one.outcome for one in reversed(self._history) if one.outcome and one.key == now.key), None
            )
            self._refused += 1
            if sign.detector == BREAKER or self._refused >= MAX_REFUSED:
                self.stop_reason_text = t(
                    "the agent repeated itself: {count} calls ({tool}) returned nothing new, so "
                    "it was stopped",
                    count=sign.count,
                    tool=call.name,
                )
        return sign, ended

    def count_unreadable(self) -> None:
        """Count a call that cannot be read."""
        self._unreadable += 1
        if self._unreadable >= MAX_UNREADABLE:
            self.stop_reason_text = t(
                "the model tried to use a tool {count} times, but none of the calls could be "
                "parsed; another model may do better (claw models use PROVIDER/MODEL)",
                count=self._unreadable,
            )


def warning(sign: LoopSign, tool: str) -> str:
    """Return the text behind the result of a call that ran."""
    return (
        f"\n\n[claw: {_facts(sign, tool)}. If this returns nothing new, do something else, or answer with what you have; "
        "calls that only repeat are refused before long.]"
    )


def refusal(sign: LoopSign, tool: str) -> str:
    """Return the reason why a call is refused."""
    same = ", and each always gave the same answer" if sign.detector == PING_PONG else ""
    return (
        f"it was not made, because {_facts(sign, tool)}{same}. Do not make it again: try another way, or tell the person "
        "what you have and what is in the way."
    )


def _facts(sign: LoopSign, tool: str) -> str:
    if sign.detector == PING_PONG:
        return f"the same two calls, {tool} among them, took turns {sign.count} times"
    if sign.detector == REPEAT:
        return f"{tool} was called with the same arguments {sign.count} times before"
    return f"{tool} has given the same answer to this very call {sign.count} times"
