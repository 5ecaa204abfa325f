"""Unknown words in the tool lists of the config, reported once at start and by the config check."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from claw.config.paths import format_key
from claw.contracts.errors import ConfigError, nearest
from claw.policy.catalog import (
    CORE_TOOLS,
    PLUGINS_GROUP,
    TOOL_GROUPS,
    is_pattern,
    matches_pattern,
    normalise_tool_name,
)
from claw.policy.subjects import ToolFact

_LISTS = frozenset({"allow", "deny", "alsoAllow", "also_allow"})
_SECTIONS = frozenset({"tools", "toolsBySender", "tools_by_sender"})
_NOT_NAMES = frozenset({"exec", "web", "fs"})  # sections of single tools: their lists hold commands and hosts


def unknown_words(
    config: Any, facts: Iterable[ToolFact], installed: Iterable[str] = ()
) -> tuple[ConfigError, ...]:
    """Return an error for each word of an allow or deny list in the file that names no tool, plugin or group.

    :param config: a ``claw.config.Config``.
    :param installed: ids of all installed plugins and the tools they declare; those count as known even when unused.
    """
    facts = tuple(facts)
    names = (
        {normalise_tool_name(fact.name) for fact in facts}
        | set(CORE_TOOLS)
        | set(map(normalise_tool_name, installed))
    )
    known = (
        names | {normalise_tool_name(fact.supplier or fact.plugin or "") for fact in facts} | set(TOOL_GROUPS)
    )
    known = (known | {PLUGINS_GROUP}) - {""}
    found = []
    for path, word in _words(config.layout.tree, ()):
        entry = normalise_tool_name(word)
        if (
            not entry
            or entry in known
            or (is_pattern(entry) and any(matches_pattern(entry, name) for name in names))
        ):
            continue
        key = format_key(config.layout.as_written(path))
        near = nearest(entry, known)
        fault = ConfigError(
            key,
            "there is no tool, plugin or group {word}",
            "did you mean {near}?" if near else "claw tools list --all shows every tool",
            file=config.file,
            line=config.line(format_key(path)),
            word=word.strip(),
            near=near or "",
        )
        found.append(fault)
    return tuple(found)


def _words(tree: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield every word of every tool list below ``tree``, with its path."""
    if isinstance(tree, Mapping):
        for key, below in tree.items():
            if path and path[-1] == "tools" and key in _NOT_NAMES:
                continue
            yield from _words(below, (*path, key))
    elif isinstance(tree, list):
        listed = path and path[-1] in _LISTS and not _SECTIONS.isdisjoint(path)
        listed = listed or path == ("approvals", "tools")  # a typo there would disable the approval silently
        for index, below in enumerate(tree):
            if listed and isinstance(below, str):
                yield (*path, index), below
            else:
                yield from _words(below, (*path, index))
