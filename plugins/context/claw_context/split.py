"""Division of a history into pieces to summarise, and dropping of its oldest pieces. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from claw import Message
from claw.runtime import estimate_tokens, pair

DEFAULT_PARTS = 2
MARGIN = 1.2
"""Safety factor for token estimates: four characters are not always a token."""

_BASE_RATIO, _MIN_RATIO, _LARGE_SHARE = 0.4, 0.15, 0.1


def split_evenly(costs: Sequence[int], parts: int | None = None) -> tuple[range, ...]:
    """Cut a conversation into parts of about the same tokens; the last one takes the rest.

    :param parts: None = 2; more than there are messages = as many; 0 and below = 1.
    """
    count = max(1, min(DEFAULT_PARTS if parts is None else parts, len(costs)))
    return _cut(costs, sum(costs) / count, count)


def split_by_size(costs: Sequence[int], max_tokens: int) -> tuple[range, ...]:
    """Cut a conversation into pieces of at most ``max_tokens``, less the margin; a larger message is its own piece."""
    return _cut(costs, max(1, int(max_tokens / MARGIN)), len(costs))


def split_into(costs: Sequence[int], parts: int) -> tuple[range, ...]:
    """Cut a conversation into at most ``parts`` pieces whose largest one is as small as possible."""
    low, high = max(costs, default=0), sum(costs)
    while low < high:
        limit = (low + high) // 2
        if len(_cut(costs, limit, len(costs))) > parts:
            low = limit + 1
        else:
            high = limit
    return _cut(costs, low, len(costs))


def _cut(costs: Sequence[int], limit: float, most: int) -> tuple[range, ...]:
    """Cut into at most ``most`` pieces of up to ``limit`` tokens; the last one takes the rest."""
    chunks: list[range] = []
    start, tokens = 0, 0
    for at, cost in enumerate(costs):
        if at > start and tokens + cost > limit and len(chunks) < most - 1:
            chunks.append(range(start, at))
            start, tokens = at, 0
        tokens += cost
    return (*chunks, range(start, len(costs))) if costs else ()


def chunk_ratio(costs: Sequence[int], window_tokens: int) -> float:
    """Return the share of a window for one piece: 0.4, down to 0.15 when the messages are large for the window."""
    if not costs:
        return _BASE_RATIO
    share = MARGIN * sum(costs) / len(costs) / window_tokens
    if share <= _LARGE_SHARE:
        return _BASE_RATIO
    return max(_MIN_RATIO, _BASE_RATIO - min(2 * share, _BASE_RATIO - _MIN_RATIO))


@dataclass(frozen=True, slots=True)
class PrunedHistory:
    """A conversation whose oldest parts were dropped.

    :param kept: the remaining messages, calls and results paired.
    :param dropped: the dropped messages, in order, without results that lost their call.
    :param chunks: number of dropped parts.
    :param dropped_messages: number of dropped messages, with results that lost their call.
    :param dropped_tokens: estimated tokens of the dropped parts.
    """

    kept: tuple[Message, ...]
    dropped: tuple[Message, ...]
    chunks: int
    dropped_messages: int
    dropped_tokens: int
    kept_tokens: int
    budget_tokens: int


def prune_history(
    messages: Sequence[Message], window_tokens: int, share: float = 0.5, parts: int | None = None
) -> PrunedHistory:
    """Drop the oldest part of a conversation repeatedly, until the rest fits its share of the window.

    A single message that is too large stays.
    """
    budget = max(1, int(window_tokens * share))
    kept = tuple(messages)
    dropped: list[Message] = []
    chunks = orphans = tokens = 0
    while kept and (total := sum(map(estimate_tokens, kept))) > budget:
        pieces = split_evenly([estimate_tokens(message) for message in kept], parts)
        if len(pieces) <= 1:
            break
        gone, rest = kept[: pieces[0].stop], kept[pieces[0].stop :]
        paired = pair(rest)
        chunks += 1
        tokens += sum(map(estimate_tokens, gone))
        dropped += gone
        orphans += len(rest) + paired.synthetic_added - len(paired.messages)
        kept = paired.messages
        del total
    return PrunedHistory(
        kept, tuple(dropped), chunks, len(dropped) + orphans, tokens, sum(map(estimate_tokens, kept)), budget
    )
