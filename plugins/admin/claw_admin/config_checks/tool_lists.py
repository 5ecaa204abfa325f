"""Warnings about the tool lists of the config: words that name nothing, and lists that restrict nothing."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from claw import ConfigError, nearest
from claw.runtime import (
    CORE_TOOLS,
    PLUGINS_GROUP,
    TOOL_CHOICES,
    TOOL_GROUPS,
    Config,
    ToolFact,
    format_key,
    is_pattern,
    matches_pattern,
    normalise_tool_name,
)

_LISTS = frozenset({"allow", "deny", "alsoAllow", "also_allow"})
_SECTIONS = frozenset({"tools", "toolsBySender", "tools_by_sender"})
_NOT_NAMES = frozenset({"exec", "web", "fs"})  # sections of single tools: their lists hold commands and hosts


def unknown_words(
    config: Config, facts: Iterable[ToolFact], installed: Iterable[str] = (), *, complete: bool = True
) -> tuple[ConfigError, ...]:
    """Return an error for each word of an allow or deny list, and each tool choice, that names no tool, plugin or group.

    :param installed: ids of all installed plugins and the tools they declare; those count as known even when unused.
    :param complete: no plugin provides tools that only its code lists.
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
    written = (
        ((*path, index), word)
        for path, entries in _lists(config.layout.tree, ())
        for index, word in enumerate(entries)
        if isinstance(word, str)
    )
    for path, word in (*written, *_tool_choices(config.layout.tree, ())):
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
            "there is no tool, plugin or group {word}"
            if complete
            else "no manifest lists a tool, plugin or group {word}",
            "Did you mean {near}?" if near else "claw tools list --all shows every tool",
            file=config.file,
            line=config.line(format_key(path)),
            word=word.strip(),
            near=near or "",
        )
        fault.grave = complete and isinstance(path[-1], str)  # no turn begins with such a choice
        found.append(fault)
    return tuple(found)


def unrestricted_lists(config: Config) -> Iterator[ConfigError]:
    """Yield an error for each ``allow: []`` in the file: it restricts nothing."""
    for path, entries in _lists(config.layout.tree, ()):
        if path[-1] == "allow" and not entries:
            problem = "an empty list restricts nothing: every tool is allowed here"
            fix = "For no tools at all, write deny: ['*'] beside it; otherwise remove the key"
            yield config.sections.error(path, problem, fix)


def _tool_choices(tree: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield path and value of every ``toolChoice`` below ``tree`` that names a tool."""
    for key, below in tree.items() if isinstance(tree, Mapping) else enumerate(tree):
        if key in ("toolChoice", "tool_choice") and isinstance(below, str) and below not in TOOL_CHOICES:
            yield (*path, key), below
        elif isinstance(below, Mapping | list):
            yield from _tool_choices(below, (*path, key))


def _lists(tree: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], list[Any]]]:
    """Yield path and entries of every tool list below ``tree``."""
    if isinstance(tree, Mapping):
        for key, below in tree.items():
            if not (path and path[-1] == "tools" and key in _NOT_NAMES):
                yield from _lists(below, (*path, key))
    elif isinstance(tree, list):
        listed = path and path[-1] in _LISTS and not _SECTIONS.isdisjoint(path)
        if listed or path == ("approvals", "tools"):  # a typo there would disable the approval silently
            yield path, tree
        for index, below in enumerate(tree):
            yield from _lists(below, (*path, index))
