"""Token usage of model calls: read from the services' different fields, and priced. Pure."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from claw import Usage

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


def _number(raw: Mapping[str, Any], spellings: Iterable[str]) -> int | None:
    for spelling in spellings:
        value: Any = raw
        for key in spelling.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return max(0, int(value))
    return None


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
        price, total = self.at(usage.prompt_tokens or 0), 0.0
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
