"""What a word of a list stands for among the tools that are loaded."""

from collections.abc import Iterable

from claw.catalog import GROUPS, PLUGINS_GROUP, is_pattern, matching, normalise
from claw.policy.facts import ToolFact


class Reach:
    """Words → loaded tools, by normalised name. A plugin's id stands before a tool of the same name."""

    def __init__(self, loaded: Iterable[ToolFact]) -> None:
        plugins: dict[str, set[str]] = {}
        names, foreign = set(), set()
        for fact in loaded:
            name = normalise(fact.name)
            names.add(name)
            if fact.plugin is not None:
                foreign.add(name)
            if owner := fact.plugin or fact.supplier:
                plugins.setdefault(normalise(owner), set()).add(name)
        self.names = frozenset(names)
        self._foreign = frozenset(foreign)
        self._plugins = {plugin: frozenset(tools) for plugin, tools in plugins.items()}
        self._seen: dict[str, frozenset[str]] = {"*": self.names, PLUGINS_GROUP: self._foreign}

    def of(self, word: str) -> frozenset[str]:
        """The tools that a normalised word hits; empty when it names nothing that is loaded."""
        if word not in self._seen:
            self._seen[word] = self._find(word)
        return self._seen[word]

    def _find(self, word: str) -> frozenset[str]:
        if word in self._plugins:
            return self._plugins[word]
        if is_pattern(word):
            return matching(word, self.names)
        return GROUPS.get(word, frozenset((word,))) & self.names

    def is_opt_in(self, word: str) -> bool:
        """Whether the word names plugin tools and nothing else: a tool, a plugin or all plugins, not a pattern."""
        if word == PLUGINS_GROUP:
            return True
        if is_pattern(word):
            return False
        return bool(hit := self.of(word)) and hit <= self._foreign
