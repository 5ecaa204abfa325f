"""Caps: how much model calls may cost before they are made, and on whose account each one goes. Pure.

Before a call the worst that it may cost is set aside, afterwards what it did cost takes its place. So whatever runs at
the same time, what is spent and what is set aside never pass a cap together.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from claw.transcript import Assistant, Image, Message, Text, Thinking, ToolCall

NANOS = 1_000_000_000
"""Of a dollar: a token of the cheapest model is some tens of them, so sums stay whole numbers."""

_IMAGE_TOKENS = (
    48_169  # the dearest documented: gpt-4o-mini, 8 tiles of 5,667 and 2,833 (OpenAI, "Images and vision")
)
_LETTERS_PER_TOKEN = 3
_MESSAGE_TOKENS = 8
_WORD_PART = re.compile(rb" ?[A-Za-z][a-z]{0,%d}" % (_LETTERS_PER_TOKEN - 1))


@dataclass(frozen=True, slots=True)
class Amount:
    """What something costs.

    :param nanos: billionths of a dollar; None = nobody knows the price.
    :param tokens: read and written, cached ones too.
    """

    nanos: int | None = 0
    tokens: int = 0

    def __add__(self, other: "Amount") -> "Amount":
        nanos = None if self.nanos is None or other.nanos is None else self.nanos + other.nanos
        return Amount(nanos, self.tokens + other.tokens)


@dataclass(frozen=True, slots=True)
class Bill:
    """On whose account a model call goes.

    :param conversation: id of the session that the key stands for now; another one after ``/new``.
    :param plugin: who caused it: of the channel that the message came through.
    :param job: of the clock: nobody waits for the answer. Empty when a person does.
    :param purpose: what it is for: answer, summary, saving or probe.
    """

    agent: str = ""
    session_key: str = ""
    conversation: str = ""
    turn: str = ""
    plugin: str = ""
    job: str = ""
    purpose: str = "answer"


@dataclass(frozen=True, slots=True)
class Cap:
    """One entry of ``budgets``.

    :param nanos: billionths of a dollar; None = money is not capped. ``tokens`` likewise.
    :param per: day (of this machine), session or turn.
    :param agent: only its calls; a pattern, as ``job`` and ``session`` are. Empty = all.
    """

    name: str
    nanos: int | None = None
    tokens: int | None = None
    per: str = "day"
    agent: str = ""
    job: str = ""
    session: str = ""

    def applies(self, bill: Bill) -> bool:
        """Whether a call on this bill counts."""
        values = {"agent": bill.agent, "job": bill.job, "session_key": bill.session_key}
        return all(fnmatchcase(values[name], pattern) for name, pattern in self._only.items())

    def where(self, bill: Bill, now: float) -> tuple[int, Mapping[str, str]]:
        """Which calls are summed up with one on this bill: since when (ms), and what their columns are like (GLOB)."""
        if self.per == "turn":
            return 0, {"turn": bill.turn}
        if self.per == "session":
            return 0, {"session_key": bill.session_key, "conversation": bill.conversation}
        return int(day_began(now).timestamp() * 1000), self._only

    @property
    def _only(self) -> Mapping[str, str]:
        """Column → pattern; a star means some value: a call for no job is for no job at all."""
        named = {"agent": self.agent, "job": self.job, "session_key": self.session}
        return {name: like if like.strip("*") else "?*" for name, like in named.items() if like}

    def allows(self, spent: Amount, wanted: Amount) -> bool:
        """Whether ``wanted`` still fits beside what is spent or set aside; what nobody can price never does."""
        if self.tokens is not None and spent.tokens + wanted.tokens > self.tokens:
            return False
        return self.nanos is None or ((total := (spent + wanted).nanos) is not None and total <= self.nanos)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A call that is not made.

    :param spent: under this cap, what is set aside for calls that run now included: ``held``.
    :param kind: stop: the turn ends and somebody is told; skip: a job of the clock is left out, and nobody is.
    """

    cap: Cap
    spent: Amount
    held: Amount
    wanted: Amount
    kind: str = "stop"


def rule(spent: Sequence[tuple[Cap, Amount, Amount]], wanted: Amount, bill: Bill) -> Refusal | None:
    """The first cap that a call would pass; None when it may be made.

    :param spent: each cap that applies, with what is spent under it and what of that is only set aside.
    """
    for cap, total, held in spent:
        if not cap.allows(total, wanted):
            return Refusal(cap, total, held, wanted, "skip" if bill.job else "stop")
    return None


def day_began(now: float) -> datetime:
    """When the day of this machine began that ``now`` (seconds since 1970) is in."""
    return datetime.fromtimestamp(now).replace(hour=0, minute=0, second=0, microsecond=0)


def free_in(cap: Cap, now: float) -> float | None:
    """Seconds until a cap counts from nothing again; None = with the next conversation or turn."""
    if cap.per != "day":
        return None
    tomorrow = (day_began(now) + timedelta(hours=36)).replace(hour=0)  # a day may have 23 hours, or 25
    return tomorrow.timestamp() - now


def most_tokens(messages: Iterable[Message], *texts: str) -> int:
    """More tokens than a request has, in the byte-pair vocabularies that the services use.

    Three small letters in a row are one token, with the blank before them or a capital; every other byte of UTF-8 is
    one of its own, as in the worst case of such a vocabulary: digits, marks, blanks, capitals, other scripts.
    """
    return sum(map(_dear, texts)) + sum(map(_of_message, messages))


class Weighed:
    """A conversation that grows, by :func:`most_tokens`."""

    def __init__(self) -> None:
        self.tokens = 0

    def add(self, message: Message) -> None:
        """One more message."""
        self.tokens += _of_message(message)

    def fork(self) -> "Weighed":
        """A copy that grows on its own."""
        return copy(self)


def _of_message(message: Message) -> int:
    return _MESSAGE_TOKENS + sum(map(_of_block, message.content))


def _of_block(block: Text | Image | Thinking | ToolCall) -> int:
    match block:
        case Text():
            return _dear(block.text)
        case Thinking():
            return _dear(block.text) + len(block.redacted)
        case ToolCall():
            return _dear(block.name) + _dear(str(block.arguments)) + _MESSAGE_TOKENS
        case Image():
            return _IMAGE_TOKENS


def heard_tokens(chars: int, answer: Assistant | None) -> int:
    """Tokens of an answer whose service does not say them."""
    return most_tokens((answer,)) if answer else -(-chars // _LETTERS_PER_TOKEN)


def _dear(text: str) -> int:
    return len(_WORD_PART.sub(b".", text.encode("utf-8", "surrogatepass")))
