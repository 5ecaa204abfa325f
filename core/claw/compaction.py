"""How much of the past a model is shown, without parting a call from its result. Pure.

First form: the last rung, which needs no model. Summaries and pruning come with the issue on long conversations.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from claw.transcript import Message, User, estimate_tokens


class Costs:
    """The estimate of each message of a conversation, in tokens."""

    def __init__(self, messages: Sequence[Message] = ()) -> None:
        self.each = [estimate_tokens(message) for message in messages]

    def add(self, message: Message) -> None:
        """One more message."""
        self.each.append(estimate_tokens(message))


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
