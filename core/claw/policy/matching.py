"""Resolution of the words of tool lists to loaded tools."""

from collections.abc import Iterable

from claw.policy.catalog import PLUGINS_GROUP, TOOL_GROUPS, is_pattern, names_matching, normalise_tool_name
from claw.policy.subjects import ToolFact


class ToolMatcher:
    """Lookup from words to loaded tools, by normalised name. A plugin id takes precedence over a tool of that name."""

    def __init__(self, loaded: Iterable[ToolFact]) -> None:
        plugins: dict[str, set[str]] = {}
        names, plugin_tools = set(), set()
        for fact in loaded:
            name = normalise_tool_name(fact.name)
            names.add(name)
            if fact.plugin is not None:
                plugin_tools.add(name)
            if owner := fact.plugin or fact.supplier:
                plugins.setdefault(normalise_tool_name(owner), set()).add(name)
        self.names = frozenset(names)
        self._plugin_tools = frozenset(plugin_tools)
        self._plugins = {plugin: frozenset(tools) for plugin, tools in plugins.items()}
        self._cache: dict[str, frozenset[str]] = {"*": self.names, PLUGINS_GROUP: self._plugin_tools}

    def match(self, word: str) -> frozenset[str]:
        """Return the tools that a normalised word matches; empty when it names nothing that is loaded."""
        if word not in self._cache:
            self._cache[word] = self._resolve(word)
        return self._cache[word]

    def _resolve(self, word: str) -> frozenset[str]:
        if word in self._plugins:
            return self._plugins[word]
        if is_pattern(word):
            return names_matching(word, self.names)
        return TOOL_GROUPS.get(word, frozenset((word,))) & self.names

    def is_opt_in(self, word: str) -> bool:
        """Return true if the word names plugin tools only: a tool, a plugin or all plugins, not a pattern."""
        if word == PLUGINS_GROUP:
            return True
        if is_pattern(word):
            return False
        return bool(hit := self.match(word)) and hit <= self._plugin_tools
