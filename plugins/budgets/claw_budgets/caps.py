"""Budgets: the highest cost of model calls, checked before each call, and the account of each call. Pure.

Before a call its highest possible cost is reserved; afterwards the real cost replaces it. So concurrent calls never
exceed a cap: spent and reserved amounts count together.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from claw import Assistant, CallAccount, Image, Message, Text, Thinking, ToolCall

NANOS = 1_000_000_000
"""Billionths in a dollar: a token of the cheapest model costs some tens of them, so sums stay integers."""

# The most that a vendor documents: gpt-4o-mini, 8 tiles of 5,667 and 2,833 (OpenAI, "Images and vision").
_IMAGE_TOKENS = 48_169
_LETTERS_PER_TOKEN = 3
_MESSAGE_TOKENS = 8
_WORD_PART = re.compile(rb" ?[A-Za-z][a-z]{0,%d}" % (_LETTERS_PER_TOKEN - 1))


@dataclass(frozen=True, slots=True)
class Amount:
    """A cost in money and tokens.

    :param nanos: billionths of a dollar; None = the price is unknown.
    :param tokens: input and output, cached ones included.
    """

    nanos: int | None = 0
    tokens: int = 0

    def __add__(self, other: "Amount") -> "Amount":
        nanos = None if self.nanos is None or other.nanos is None else self.nanos + other.nanos
        return Amount(nanos, self.tokens + other.tokens)


@dataclass(frozen=True, slots=True)
class SpendingCap:
    """One entry of ``budgets``.

    :param nanos: billionths of a dollar; None = no limit of money. ``tokens`` likewise.
    :param per: day (of this machine), session or turn.
    :param agent: only calls of this agent; a pattern, as are ``job`` and ``session``. Empty = all.
    """

    name: str
    nanos: int | None = None
    tokens: int | None = None
    per: str = "day"
    agent: str = ""
    job: str = ""
    session: str = ""

    def applies(self, bill: CallAccount) -> bool:
        """Return true if a call with this bill counts."""
        values = {"agent": bill.agent, "job": bill.job, "session_key": bill.session_key}
        return all(fnmatchcase(values[name], pattern) for name, pattern in self._only.items())

    def where(self, bill: CallAccount, now: float) -> tuple[int, Mapping[str, str]]:
        """Return the calls that are summed with this one: since when (ms), and GLOB patterns of their columns."""
        if self.per == "turn":
            return 0, {"turn": bill.turn}
        if self.per == "session":
            return 0, {"session_key": bill.session_key, "conversation": bill.conversation}
        return int(start_of_day(now).timestamp() * 1000), self._only

    @property
    def _only(self) -> Mapping[str, str]:
        """Column → pattern; ``*`` means any non-empty value: a call without a job does not match."""
        named = {"agent": self.agent, "job": self.job, "session_key": self.session}
        return {name: like if like.strip("*") else "?*" for name, like in named.items() if like}

    def allows(self, spent: Amount, wanted: Amount) -> bool:
        """Return true if ``wanted`` fits beside the spent and reserved amounts; an unknown price never fits."""
        if self.tokens is not None and spent.tokens + wanted.tokens > self.tokens:
            return False
        return self.nanos is None or ((total := (spent + wanted).nanos) is not None and total <= self.nanos)


@dataclass(frozen=True, slots=True)
class BudgetRefusal:
    """A refused call.

    :param spent: the amount under this cap; includes ``held``, the part reserved for running calls.
    :param kind: stop: the turn ends with a notice; skip: a scheduled job is left out without a notice.
    """

    cap: SpendingCap
    spent: Amount
    reserved: Amount
    wanted: Amount
    kind: str = "stop"


def check_budgets(
    spent: Sequence[tuple[SpendingCap, Amount, Amount]], wanted: Amount, bill: CallAccount
) -> BudgetRefusal | None:
    """Return the refusal of the first cap that a call would exceed; None when it may be made.

    :param spent: each cap that applies, with the amount spent under it and the reserved part of that.
    """
    for cap, total, held in spent:
        if not cap.allows(total, wanted):
            return BudgetRefusal(cap, total, held, wanted, "skip" if bill.job else "stop")
    return None


def start_of_day(now: float) -> datetime:
    """Return the beginning of the local day that ``now`` (seconds since 1970) is in."""
    return datetime.fromtimestamp(now).replace(hour=0, minute=0, second=0, microsecond=0)


def seconds_until_reset(cap: SpendingCap, now: float) -> float | None:
    """Return the seconds until a cap starts from zero; None = with the next conversation or turn."""
    if cap.per != "day":
        return None
    tomorrow = (start_of_day(now) + timedelta(hours=36)).replace(hour=0)  # a day may have 23 hours, or 25
    return tomorrow.timestamp() - now


def max_tokens_of(messages: Iterable[Message], *texts: str) -> int:
    """Return an upper bound of the tokens of a request, for the byte-pair vocabularies of the services.

    Three lower-case letters in a row are one token, with a blank before them or a capital; every other UTF-8 byte is a
    token of its own, the worst case of such a vocabulary: digits, punctuation, blanks, capitals, other scripts.
    """
    return sum(map(_text_tokens, texts)) + sum(map(_message_tokens, messages))


class TokenBound:
    """The token bound of a conversation that grows, by :func:`max_tokens_of`."""

    def __init__(self) -> None:
        self.tokens = 0

    def add(self, message: Message) -> None:
        """Add a message."""
        self.tokens += _message_tokens(message)

    def fork(self) -> "TokenBound":
        """Return an independent copy."""
        return copy(self)


def _message_tokens(message: Message) -> int:
    return _MESSAGE_TOKENS + sum(map(_block_tokens, message.content))


def _block_tokens(block: Text | Image | Thinking | ToolCall) -> int:
    match block:
        case Text():
            return _text_tokens(block.text)
        case Thinking():
            return _text_tokens(block.text) + len(block.redacted)
        case ToolCall():
            return _text_tokens(block.name) + _text_tokens(str(block.arguments)) + _MESSAGE_TOKENS
        case Image():
            return _IMAGE_TOKENS


def estimated_answer_tokens(chars: int, answer: Assistant | None) -> int:
    """Estimate the tokens of an answer when the service does not report them."""
    return max_tokens_of((answer,)) if answer else -(-chars // _LETTERS_PER_TOKEN)


def _text_tokens(text: str) -> int:
    return len(_WORD_PART.sub(b".", text.encode("utf-8", "surrogatepass")))
