"""Detection of repeated tool calls for claw: a reviewer that warns the model, refuses the call, and ends the turn.

Read it as an example of a reviewer: ``detector`` decides and knows nothing of claw's turns, ``reviewer`` connects it.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from claw import hookimpl

if TYPE_CHECKING:
    from claw import PluginConfig, Reviewer


@hookimpl
def register_reviewers(config: "PluginConfig") -> "Iterable[Reviewer]":
    """Contribute the loop guard."""
    from claw_loop_guard.detector import limits_of
    from claw_loop_guard.reviewer import LoopGuard
    from claw_loop_guard.settings import LoopDetection

    default = config.section("tools.loopDetection", LoopDetection)
    by_agent = config.agent_sections("tools.loopDetection", LoopDetection)
    return [LoopGuard(limits_of(default), {agent: limits_of(own) for agent, own in by_agent.items()})]
