"""The values that the turns of one engine share."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from claw_provider_sdk import IncrementalCache

from claw_context.cut import TokenCosts


@dataclass(frozen=True)
class SharedState:
    """The values that all turns share.

    :param aliases: names of models in the config file. ``silent_token``: the answer of an agent that says nothing.
    :param costs: the estimated tokens of conversations.
    """

    aliases: Mapping[str, str] = field(default_factory=dict)
    silent_token: str = ""
    costs: IncrementalCache[TokenCosts] = field(default_factory=lambda: IncrementalCache(TokenCosts))
