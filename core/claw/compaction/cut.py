"""Where the past may be cut: at the word of a user or of the model, never at a tool's result. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from claw.transcript import CHARS_PER_TOKEN, Assistant, Message, Text, User, estimate_tokens
from claw.truncation import truncate


class Costs:
    """The estimate of each message of a conversation, in tokens, and of all."""

    def __init__(self, messages: Sequence[Message] = ()) -> None:
        self.each = [estimate_tokens(message) for message in messages]
        self.total = sum(self.each)

    def add(self, message: Message) -> None:
        """One more message."""
        self.each.append(estimate_tokens(message))
        self.total += self.each[-1]

    def fork(self) -> "Costs":
        """A copy that grows on its own."""
        other = Costs()
        other.each, other.total = [*self.each], self.total
        return other


@dataclass(frozen=True, slots=True)
class Fit:
    """What is shown of the past.

    :param messages: the newest whole turns that fit.
    :param left_out: how many older messages are not shown.
    :param tokens: estimate of what is shown.
    """

    messages: tuple[Message, ...]
    left_out: int
    tokens: int


def fit(messages: Sequence[Message], costs: Sequence[int], budget_tokens: int) -> Fit:
    """The newest whole turns (a user message and all that answers it) within the budget.

    The newest turn is shown even when it alone is larger: then the provider has the last word.

    :param costs: tokens of each message.
    """
    total = sum(costs)
    if total <= budget_tokens:
        return Fit(tuple(messages), 0, total)
    starts = [index for index, message in enumerate(messages) if isinstance(message, User)]
    start = 0
    for following in starts[1:]:
        total -= sum(costs[start:following])
        start = following
        if total <= budget_tokens:
            break
    return Fit(tuple(messages[start:]), start, total)


@dataclass(frozen=True, slots=True)
class Cut:
    """A place in a conversation.

    :param first_kept: index of the first message that stays as it is.
    :param turn_start: where the turn that is cut through begins; -1 when none is.
    """

    first_kept: int
    turn_start: int = -1

    @property
    def splits_a_turn(self) -> bool:
        """Whether the beginning of a turn goes and its end stays."""
        return self.turn_start >= 0


def cut_point(messages: Sequence[Message], costs: Sequence[int], keep_recent_tokens: int) -> Cut:
    """Where to cut so that about the newest ``keep_recent_tokens`` stay.

    Going back from the end, the message at which the running sum reaches them decides: the cut is the first word of a
    user or of the model at or after it, or the first one of all when there is none.
    """
    places = [at for at, message in enumerate(messages) if isinstance(message, User | Assistant)]
    total, reached = 0, None
    for at in range(len(messages) - 1, -1, -1):
        total += costs[at]
        if total >= keep_recent_tokens:
            reached = at
            break
    after = (at for at in places if reached is not None and at >= reached)
    return cut_at(messages, next(after, places[0] if places else 0))


def cut_at(messages: Sequence[Message], first_kept: int) -> Cut:
    """The cut before ``first_kept``, with the turn that it goes through."""
    if first_kept < len(messages) and isinstance(messages[first_kept], User):
        return Cut(first_kept)
    before = (at for at in range(first_kept - 1, -1, -1) if isinstance(messages[at], User))
    return Cut(first_kept, next(before, -1))


_LEAST_CHARS = 400


def squeezed(messages: Sequence[Message], budget_tokens: int) -> tuple[Message, ...]:
    """The same messages with their longest texts cut, head and tail kept, until all fit the budget (in tokens).

    The last rung of all, when one message alone is too large. No text gets shorter than 400 characters, so a very small
    budget may still be passed.
    """
    budget = budget_tokens * CHARS_PER_TOKEN
    lengths = sorted(len(b.text) for m in messages for b in m.content if isinstance(b, Text))
    rest = sum(estimate_tokens(m) for m in messages) * CHARS_PER_TOKEN - sum(lengths)
    limit, room = _LEAST_CHARS, budget - rest
    for at, length in enumerate(lengths):  # the limit at which the long ones share what the short ones leave
        limit = max(_LEAST_CHARS, room // (len(lengths) - at))
        if length > limit:
            break
        room -= length
    return tuple(_shortened(message, limit) for message in messages)


def _shortened(message: Message, limit: int) -> Message:
    if not any(isinstance(block, Text) and len(block.text) > limit for block in message.content):
        return message
    content = tuple(
        Text(truncate(block.text, limit, min_keep=limit // 4)) if isinstance(block, Text) else block
        for block in message.content
    )
    return msgspec.structs.replace(message, content=content)
