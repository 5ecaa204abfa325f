"""Words in the tool lists of the file that name nothing at all: told once, at start and by the config check."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from claw.catalog import CORE_TOOLS, GROUPS, PLUGINS_GROUP, is_pattern, matches, normalise
from claw.config.names import dotted, nearest
from claw.errors import ConfigError
from claw.policy.facts import ToolFact

_LISTS = frozenset({"allow", "deny", "alsoAllow", "also_allow"})
_SECTIONS = frozenset({"tools", "toolsBySender", "tools_by_sender"})
_NOT_NAMES = frozenset({"exec", "web", "fs"})  # sections of single tools: their lists hold commands and hosts


def strays(config: Any, facts: Iterable[ToolFact], installed: Iterable[str] = ()) -> tuple[ConfigError, ...]:
    """Each word of an allow or deny list, anywhere in the file, that no tool, plugin or group is called.

    :param config: a ``claw.config.Config``.
    :param installed: ids of all installed plugins and the tools that these declare; what is not in use is no stray.
    """
    facts = tuple(facts)
    names = {normalise(fact.name) for fact in facts} | set(CORE_TOOLS) | set(map(normalise, installed))
    known = names | {normalise(fact.supplier or fact.plugin or "") for fact in facts} | set(GROUPS)
    known = (known | {PLUGINS_GROUP}) - {""}
    found = []
    for path, word in _words(config.layout.tree, ()):
        entry = normalise(word)
        if not entry or entry in known or (is_pattern(entry) and any(matches(entry, name) for name in names)):
            continue
        key = dotted(config.layout.as_written(path))
        near = nearest(entry, known)
        fault = ConfigError(
            key, "{word} is the name of no tool, plugin or group here",
            "did you mean {near}?" if near else "claw tools list --all shows every tool",
            file=config.file, line=config.line(dotted(path)), word=word.strip(), near=near or "",
        )  # fmt: skip
        found.append(fault)
    return tuple(found)


def _words(tree: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Every word of every tool list below ``tree``, with where it stands."""
    if isinstance(tree, Mapping):
        for key, below in tree.items():
            if path and path[-1] == "tools" and key in _NOT_NAMES:
                continue
            yield from _words(below, (*path, key))
    elif isinstance(tree, list):
        listed = path and path[-1] in _LISTS and not _SECTIONS.isdisjoint(path)
        listed = listed or path == ("approvals", "tools")  # a typo there would ask nobody
        for index, below in enumerate(tree):
            if listed and isinstance(below, str):
                yield (*path, index), below
            else:
                yield from _words(below, (*path, index))
