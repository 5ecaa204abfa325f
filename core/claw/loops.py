"""Whether a model goes round in circles: calls that bring nothing new are warned of, then refused, then end the turn.

Three signs (spec/runtime.md C10): one call again and again, a poll that always hears the same, two calls in turns. The
breaker stands above them: so many equal answers of one call in a row, whatever it is.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

import msgspec

from claw.config.tools import LoopDetection
from claw.transcript import Image, Text, ToolCall
from claw.words import say

BREAKER, POLL, PING_PONG, REPEAT = (
    "global_circuit_breaker",
    "known_poll_no_progress",
    "ping_pong",
    "generic_repeat",
)
MOST_REFUSED = 3
"""Refused calls in one turn; at the last of them it ends: a model that was told twice does not hear."""
MOST_GARBLED = 3
"""Calls in a row that nobody can read."""
_POLLS = {"process": frozenset({"poll", "log"})}


@dataclass(frozen=True, slots=True)
class Limits:
    """When a circle counts as one. Thresholds that do not grow are pushed up until they do.

    :param history: only so many of the newest calls are looked at.
    :param warn: the model is told; ``refuse`` the call does not run; ``stop`` the turn ends.
    :param detectors: which signs are looked for: ``generic_repeat``, ``known_poll_no_progress``, ``ping_pong``.
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


def limits_of(settings: LoopDetection) -> Limits:
    """The limits that ``tools.loopDetection`` sets."""
    on = settings.detectors
    wanted = {REPEAT: on.generic_repeat, POLL: on.known_poll_no_progress, PING_PONG: on.ping_pong}
    return Limits(
        settings.enabled, settings.history_size, settings.warning_threshold, settings.critical_threshold,
        settings.breaker_threshold, frozenset(name for name, is_on in wanted.items() if is_on),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sign:
    """A circle that was seen.

    :param level: warning or critical.
    :param count: how many calls it is long, as the detector counts.
    """

    level: Literal["warning", "critical"]
    detector: str
    count: int


@dataclass(slots=True)
class Made:
    """One call that was made: what it is, and what came of it (None while it runs)."""

    key: str
    polls: bool = False
    outcome: str | None = None


def made(tool: str, arguments: Any) -> Made:
    """A call as it is compared: by its tool and arguments, whatever the order of their keys."""
    polls = isinstance(arguments, Mapping) and arguments.get("action") in _POLLS.get(tool, ())
    return Made(f"{tool}:{_digest(arguments)}", polls)


def outcome_of(content: Any, is_error: bool = False) -> str:
    """What came of a call, as it is compared.

    :param content: plain data.
    """
    return _digest((is_error, content))


def look(history: Sequence[Made], now: Made, limits: Limits) -> Sign | None:
    """Whether the call that is about to be made closes a circle; the gravest sign alone.

    :param history: the calls before it, oldest first; no more than ``limits.history`` of them count.
    """
    if not limits.enabled:
        return None
    seen = list(history)[-limits.history :]
    same = _same_answers(seen, now.key)
    if same >= limits.stop:
        return Sign("critical", BREAKER, same)
    if now.polls:
        return _graded(POLL, same, limits, still=True) if POLL in limits.detectors else None
    if PING_PONG in limits.detectors:
        length, still = _alternating(seen, now)
        if sign := _graded(PING_PONG, length, limits, still):
            return sign
    earlier = sum(one.key == now.key for one in seen)
    if REPEAT in limits.detectors and earlier >= limits.warn:
        return Sign("warning", REPEAT, earlier)
    return None


def _graded(detector: str, count: int, limits: Limits, still: bool) -> Sign | None:
    """``still``: nothing ever changed, so that it may be refused."""
    if count < limits.warn:
        return None
    return Sign("critical" if still and count >= limits.refuse else "warning", detector, count)


def _same_answers(seen: Sequence[Made], key: str) -> int:
    """How many answers of this call in a row, from the newest back, are the same."""
    outcomes = [one.outcome for one in reversed(seen) if one.key == key]
    first = outcomes[0] if outcomes else None
    if first is None:
        return 0
    return next((at for at, outcome in enumerate(outcomes) if outcome != first), len(outcomes))


def _alternating(seen: Sequence[Made], now: Made) -> tuple[int, bool]:
    """How long two calls have been taking turns, this one included, and whether each always heard the same."""
    if not seen or seen[-1].key == now.key:
        return 0, False
    tail: list[Made] = []
    wanted, other = seen[-1].key, now.key
    for one in reversed(seen):
        if one.key != wanted:
            break
        tail.append(one)
        wanted, other = other, wanted
    if len(tail) < 2:
        return 0, False
    sides = ({one.outcome for one in islice(tail, side, None, 2)} for side in (0, 1))
    return len(tail) + 1, all(len(side) == 1 and None not in side for side in sides)


def _digest(plain: Any) -> str:
    try:
        written = msgspec.json.encode(plain, order="sorted")
    except (TypeError, ValueError, msgspec.MsgspecError):  # half a surrogate pair, a stranger's object
        written = repr(plain).encode("utf-8", "replace")
    return hashlib.sha256(written).hexdigest()[:16]


@dataclass
class Repetition:
    """The calls of one turn: what to say of each before it runs.

    :ivar over: why the turn may not go on, in words for the person; empty while it may.
    """

    limits: Limits = field(default_factory=Limits)
    over: str = ""
    _history: deque[Made] = field(default_factory=deque)
    _refused: int = 0
    _garbled: int = 0

    def begins(self, call: ToolCall) -> tuple[Sign | None, Callable[[Sequence[Text | Image], bool], None]]:
        """A call is about to be made: the sign it gives, and where to say what came of it."""
        now = made(call.name, call.arguments)
        sign = look(self._history, now, self.limits)
        self._history.append(now)
        while len(self._history) > self.limits.history:
            self._history.popleft()
        self._garbled = 0

        def came(content: Sequence[Text | Image], is_error: bool) -> None:
            now.outcome = outcome_of(msgspec.to_builtins(content), is_error)

        if sign and sign.level == "critical":  # it is not made, so nothing has changed
            now.outcome = next(
                (one.outcome for one in reversed(self._history) if one.outcome and one.key == now.key), None
            )
            self._refused += 1
            if sign.detector == BREAKER or self._refused >= MOST_REFUSED:
                self.over = say(
                    "the agent went round in circles: {count} calls ({tool}) brought nothing new, so it was stopped",
                    count=sign.count, tool=call.name,
                )  # fmt: skip
        return sign, came

    def garbled(self) -> None:
        """A call came that nobody can read."""
        self._garbled += 1
        if self._garbled >= MOST_GARBLED:
            self.over = say(
                "the model tried to use a tool {count} times, and none of the calls could be read; a model that is "
                "better at tools may help (claw models use PROVIDER/MODEL)", count=self._garbled,
            )  # fmt: skip


def warning(sign: Sign, tool: str) -> str:
    """What the model is told behind the result of a call that ran."""
    return (
        f"\n\n[claw: {_what(sign, tool)}. If this brings nothing new, do something else, or answer with what you have; "
        "calls that only repeat are refused before long.]"
    )


def refusal(sign: Sign, tool: str) -> str:
    """What the model is told in the place of a result."""
    same = ", and each always gave the same answer" if sign.detector == PING_PONG else ""
    return (
        f"The call was not made: {_what(sign, tool)}{same}. Do not make it again: try another way, or tell the person "
        "what you have and what is in the way."
    )


def _what(sign: Sign, tool: str) -> str:
    if sign.detector == PING_PONG:
        return f"the same two calls, {tool} among them, took turns {sign.count} times"
    if sign.detector == REPEAT:
        return f"{tool} was called with the same arguments {sign.count} times before"
    return f"{tool} has given the same answer to this very call {sign.count} times"
