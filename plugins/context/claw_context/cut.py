"""Cut points of a history: before a message of a user or of the model, never before a tool result. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from claw import Assistant, Message, Text, User
from claw.runtime import CHARS_PER_TOKEN, estimate_tokens, truncate


class TokenCosts:
    """The estimated tokens of each message of a conversation, and their sum."""

    def __init__(self, messages: Sequence[Message] = ()) -> None:
        self.each = [estimate_tokens(message) for message in messages]
        self.total = sum(self.each)

    def add(self, message: Message) -> None:
        """Append a message."""
        self.each.append(estimate_tokens(message))
        self.total += self.each[-1]

    def copy(self) -> "TokenCosts":
        """Return an independent copy."""
        other = TokenCosts()
        other.each, other.total = [*self.each], self.total
        return other


@dataclass(frozen=True, slots=True)
class CutPoint:
    """A cut point of a conversation.

    :param first_kept: index of the first message that stays unchanged.
    :param turn_start: index of the first message of the turn that is split; -1 when none is.
    """

    first_kept: int
    turn_start: int = -1

    @property
    def splits_turn(self) -> bool:
        """True if the cut is inside a turn: its beginning goes, its end stays."""
        return self.turn_start >= 0


def cut_point(messages: Sequence[Message], costs: Sequence[int], keep_recent_tokens: int) -> CutPoint:
    """Find the cut that keeps about the newest ``keep_recent_tokens``.

    Going back from the end, take the message at which the running sum reaches them. The cut is the first message of a
    user or of the model at or after it; without one, the first such message of the conversation.
    """
    candidates = [at for at, message in enumerate(messages) if isinstance(message, User | Assistant)]
    total, boundary = 0, None
    for at in range(len(messages) - 1, -1, -1):
        total += costs[at]
        if total >= keep_recent_tokens:
            boundary = at
            break
    after = (at for at in candidates if boundary is not None and at >= boundary)
    return cut_at(messages, next(after, candidates[0] if candidates else 0))


def cut_at(messages: Sequence[Message], first_kept: int) -> CutPoint:
    """Return the cut before ``first_kept``, with the turn that it splits."""
    if first_kept < len(messages) and isinstance(messages[first_kept], User):
        return CutPoint(first_kept)
    before = (at for at in range(first_kept - 1, -1, -1) if isinstance(messages[at], User))
    return CutPoint(first_kept, next(before, -1))


_MIN_CHARS = 400


def shorten_to_fit(messages: Sequence[Message], budget_tokens: int) -> tuple[Message, ...]:
    """Shorten the longest texts, head and tail kept, until all messages fit the budget (in tokens).

    The last fallback, when one message alone is too large. No text gets shorter than 400 characters, so a very small
    budget may still be exceeded.
    """
    budget = budget_tokens * CHARS_PER_TOKEN
    lengths = sorted(len(b.text) for m in messages for b in m.content if isinstance(b, Text))
    rest = sum(estimate_tokens(m) for m in messages) * CHARS_PER_TOKEN - sum(lengths)
    limit, left = _MIN_CHARS, budget - rest
    for at, length in enumerate(lengths):  # the long texts share equally what the short ones leave
        limit = max(_MIN_CHARS, left // (len(lengths) - at))
        if length > limit:
            break
        left -= length
    return tuple(_shortened(message, limit) for message in messages)


def _shortened(message: Message, limit: int) -> Message:
    if not any(isinstance(block, Text) and len(block.text) > limit for block in message.content):
        return message
    content = tuple(
        Text(truncate(block.text, limit, min_keep=limit // 4)) if isinstance(block, Text) else block
        for block in message.content
    )
    return msgspec.structs.replace(message, content=content)
