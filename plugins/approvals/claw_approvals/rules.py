"""The rule that names tools whose calls a person must allow: ``approvals.tools``."""

from collections.abc import Sequence

from claw import CallContext, Review, ToolCall, ToolTraits, t
from claw.runtime import ToolFact, ToolMatcher, normalise_tool_name


class ApprovalRule:
    """A reviewer that asks about every call of the named tools.

    :param words: tools, groups, plugin ids and patterns, as in the tool lists of the policy.
    """

    position = 1000.0
    """Behind other reviewers: their reasons are shown to the person."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = tuple(map(normalise_tool_name, words))

    def before(self, call: ToolCall, context: CallContext) -> Review | None:
        """Ask a person if the tool of this call is named."""
        is_named = context.tool and self._names(context.tool)
        return Review("ask", t("approvals.tools names {tool}", tool=call.name)) if is_named else None

    def _names(self, tool: ToolTraits) -> bool:
        fact = ToolFact(tool.name, None if tool.is_core else tool.plugin, supplier=tool.plugin)
        matcher, name = ToolMatcher((fact,)), normalise_tool_name(tool.name)
        return any(name in matcher.match(word) for word in self._words)
