"""Token usage of model calls: read from the services' different fields, added up, priced. Pure."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from claw.contracts.transcript import Usage

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


def usage_of(raw: Mapping[str, Any]) -> Usage | None:
    """Parse a service's own usage figures.

    Cached tokens are not subtracted from ``input`` here: only the provider's plugin knows if a service counts
    them twice.

    :returns: None when it contains no known number; a negative number counts as 0.
    """
    found = {name: _number(raw, spellings) for name, spellings in _SPELLINGS.items()}
    return Usage(**found) if any(number is not None for number in found.values()) else None


def prompt_tokens(usage: Usage) -> int | None:
    """Return the size of the prompt, cached or not; None when it is unknown."""
    return (usage.input or 0) + (usage.cache_read or 0) + (usage.cache_write or 0) or None


def total_usage(usages: Iterable[Usage | None]) -> Usage | None:
    """Return the total of several calls; None when no service reported usage."""
    paid = SessionUsage()
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


class SessionUsage(msgspec.Struct, frozen=True):
    """The total usage of a session: sums over all calls, and the prompt of the newest one separately.

    The sums are the cost; they do not tell how full the context is (a cached prompt counts again in every
    call).
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
        """Size of the context at the newest call."""
        return prompt_tokens(Usage(self.last_input, None, self.last_cache_read, self.last_cache_write)) or 0

    def plus_outside(self, usage: Usage | None) -> "SessionUsage":
        """Add a call outside the conversation (a summary, a memory flush): it costs, but is no part of the
        context.
        """
        paid = self.plus(usage)
        return msgspec.structs.replace(
            paid,
            last_input=self.last_input,
            last_cache_read=self.last_cache_read,
            last_cache_write=self.last_cache_write,
        )

    def plus(self, usage: Usage | None) -> "SessionUsage":
        """Add a call; one without numbers, or with only zeros, changes nothing."""
        if usage is None or not any(msgspec.structs.astuple(usage)):
            return self
        fresh, out = max(0, usage.input or 0), max(0, usage.output or 0)
        read, write = max(0, usage.cache_read or 0), max(0, usage.cache_write or 0)
        total = fresh + out + read + write if usage.total is None else max(0, usage.total)
        return SessionUsage(
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
    """The price of a model: US dollars per million tokens. None is unknown.

    :param cache_read: None = as ``input``; ``cache_write`` likewise.
    :param over: a prompt size above which another price holds for the whole request, and that price.
    """

    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None
    over: "tuple[int, Price] | None" = None

    def at(self, prompt: int) -> "Price":
        """Return the price of a request with a prompt of this size."""
        return self.over[1].at(prompt) if self.over and prompt > self.over[0] else self

    def nanos(self, usage: Usage) -> int | None:
        """Return the cost of a call in billionths of a dollar, rounded up; None when a part of it has no
        known price.
        """
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

    def worst_case(self, prompt: int, answer: int) -> int | None:
        """Return the most that a call can cost: none of its prompt is read from a cache, and all of it is
        written to one.

        :param answer: tokens of the longest answer.
        """
        price = self.at(prompt)
        highest = Price(
            max(price.input or 0.0, price.cache_write or 0.0) if price.input is not None else None,
            price.output,
        )
        return highest.nanos(Usage(input=prompt, output=answer))
