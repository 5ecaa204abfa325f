"""The rule that names tools whose calls a person must allow: ``approvals.tools``."""

from collections.abc import Mapping, Sequence

from claw import CallContext, Review, ToolCall, ToolTraits
from claw.runtime import ToolFact, ToolMatcher, is_core_tool, normalise_tool_name


class ApprovalRule:
    """A reviewer that asks about every call of the named tools.

    :param words: tools, groups, plugin ids and patterns, as in the tool lists of the policy.
    :param suppliers: ``tools.suppliers``: tool name → the plugin that the operator chose for it.
    """

    position = 1000.0
    """Behind other reviewers: their reasons are shown to the person."""

    def __init__(self, words: Sequence[str], suppliers: Mapping[str, str]) -> None:
        self._words = tuple(map(normalise_tool_name, words))
        self._suppliers = suppliers

    def before(self, call: ToolCall, context: CallContext) -> Review | None:
        """Ask a person if the tool of this call is named."""
        return Review("ask") if context.tool and self._names(context.tool) else None

    def _names(self, tool: ToolTraits) -> bool:
        is_core = is_core_tool(tool.name, tool.plugin, self._suppliers)
        fact = ToolFact(tool.name, None if is_core else tool.plugin, supplier=tool.plugin)
        matcher, name = ToolMatcher((fact,)), normalise_tool_name(tool.name)
        return any(name in matcher.match(word) for word in self._words)
