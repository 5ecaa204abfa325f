"""How much of the past a model is shown, without parting a call from its result. Pure.

First form: the last rung, which needs no model. Summaries and pruning come with the issue on long conversations.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from claw.transcript import Message, User

Estimate = Callable[[Message], int]


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


def fit(messages: Sequence[Message], budget_tokens: int, estimate: Estimate) -> Fit:
    """The newest whole turns (a user message and all that answers it) within the budget.

    The newest turn is shown even when it alone is larger: then the provider has the last word.
    """
    costs = [estimate(message) for message in messages]
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
