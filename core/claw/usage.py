"""Usage: what calls of a model cost, in tokens, whatever words a service uses for it. Pure."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from claw.transcript import Usage

# Spellings seen on the wire: Anthropic and OpenAI (chat, responses), their SDKs, and our own. First number wins.
_SPELLINGS: dict[str, tuple[str, ...]] = {
    "input": ("input", "inputTokens", "input_tokens", "promptTokens", "prompt_tokens"),
    "output": ("output", "outputTokens", "output_tokens", "completionTokens", "completion_tokens"),
    "cache_read": (
        *("cacheRead", "cache_read", "cache_read_input_tokens", "cached_tokens"),
        *("prompt_tokens_details.cached_tokens", "input_tokens_details.cached_tokens"),
    ),
    "cache_write": ("cacheWrite", "cache_write", "cache_creation_input_tokens"),
    "total": ("total", "totalTokens", "total_tokens"),
}


def normalise(raw: Mapping[str, Any]) -> Usage | None:
    """Read a service's own figures.

    Cached tokens are not taken out of ``input`` here: whether a service counts them twice, only its plugin knows.

    :returns: None when nothing in it is a number that we know; a negative number counts as 0.
    """
    found = {name: _number(raw, spellings) for name, spellings in _SPELLINGS.items()}
    return Usage(**found) if any(number is not None for number in found.values()) else None


def prompt_tokens(usage: Usage) -> int | None:
    """How large the prompt was, cached or not; None when that is not known."""
    return (usage.input or 0) + (usage.cache_read or 0) + (usage.cache_write or 0) or None


def together(usages: Iterable[Usage | None]) -> Usage | None:
    """What several calls cost; None when no service said so."""
    paid = Ledger()
    for usage in usages:
        paid = paid.plus(usage)
    return (
        Usage(paid.input, paid.output, paid.cache_read, paid.cache_write, paid.total) if paid.total else None
    )


def _number(raw: Mapping[str, Any], spellings: Iterable[str]) -> int | None:
    for spelling in spellings:
        value: Any = raw
        for key in spelling.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return max(0, int(value))
    return None


class Ledger(msgspec.Struct, frozen=True):
    """What a session has cost: sums over all calls, and the prompt of the newest one apart.

    The sums are what is paid; they say nothing about how full the context is (a cached prompt is in every call anew).
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total: int = 0
    last_input: int = 0
    last_cache_read: int = 0
    last_cache_write: int = 0

    @property
    def context_tokens(self) -> int:
        """How full the context was at the newest call."""
        return prompt_tokens(Usage(self.last_input, None, self.last_cache_read, self.last_cache_write)) or 0

    def beside(self, usage: Usage | None) -> "Ledger":
        """The ledger after calls beside the conversation (a summary, a saving): paid for, and no part of its context."""
        paid = self.plus(usage)
        return msgspec.structs.replace(
            paid,
            last_input=self.last_input,
            last_cache_read=self.last_cache_read,
            last_cache_write=self.last_cache_write,
        )

    def plus(self, usage: Usage | None) -> "Ledger":
        """The ledger after one more call; one without numbers, or with zeros alone, changes nothing."""
        if usage is None or not any(msgspec.structs.astuple(usage)):
            return self
        fresh, out = max(0, usage.input or 0), max(0, usage.output or 0)
        read, write = max(0, usage.cache_read or 0), max(0, usage.cache_write or 0)
        total = fresh + out + read + write if usage.total is None else max(0, usage.total)
        return Ledger(
            input=self.input + fresh,
            output=self.output + out,
            cache_read=self.cache_read + read,
            cache_write=self.cache_write + write,
            total=self.total + total,
            last_input=fresh,
            last_cache_read=read,
            last_cache_write=write,
        )


class Price(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What a model costs: US dollars for a million tokens. None is what nobody knows.

    :param cache_read: None = as ``input``; ``cache_write`` likewise.
    :param over: from so many tokens of prompt on another price holds for the whole request: that number, and the price.
    """

    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None
    over: "tuple[int, Price] | None" = None

    def at(self, prompt: int) -> "Price":
        """The price of a request with a prompt of so many tokens."""
        return self.over[1].at(prompt) if self.over and prompt > self.over[0] else self

    def nanos(self, usage: Usage) -> int | None:
        """What a call cost, in billionths of a dollar, rounded up; None when a part of it has no known price."""
        price, total = self.at(prompt_tokens(usage) or 0), 0.0
        parts = (
            (usage.input, price.input), (usage.output, price.output),
            (usage.cache_read, price.input if price.cache_read is None else price.cache_read),
            (usage.cache_write, price.input if price.cache_write is None else price.cache_write),
        )  # fmt: skip
        for tokens, dollars in parts:
            if tokens and dollars is None:
                return None
            total += (tokens or 0) * (dollars or 0.0) * 1000
        return math.ceil(round(total, 3))

    def worst(self, prompt: int, answer: int) -> int | None:
        """The most that a call may cost: nothing of its prompt is in a cache, and all of it is written into one.

        :param answer: tokens of the longest answer.
        """
        price = self.at(prompt)
        dear = Price(
            max(price.input or 0.0, price.cache_write or 0.0) if price.input is not None else None,
            price.output,
        )
        return dear.nanos(Usage(input=prompt, output=answer))
