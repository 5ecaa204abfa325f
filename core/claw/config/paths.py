"""Normalisation of the layout: short forms that the file allows are moved to their full path, which is recorded.

The name of a channel at the top is ``channels.NAME``; ``heartbeat: {…}`` at the top is ``agents.defaults.heartbeat``;
``agents.entries`` is ``agents.list``; a plugin may have short forms for its own settings. An error names the path as the
person wrote it.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PathPart = str | int
Path = tuple[PathPart, ...]

_PLAIN = re.compile(r"[^.\[\]\"\s]+")
_STEP = re.compile(
    r'\.?(?P<plain>[^.\[\]"\s]+)|\[(?P<index>-?\d+)\]|\[(?P<quoted>"(?:[^"\\]|\\.)*")\]|\[(?P<id>[^\]"]*)\]'
)


@dataclass(frozen=True, slots=True)
class IdStep:
    """A step into a list: the entry whose ``id`` (or ``chatId``) is ``id``; empty = after the last entry."""

    id: str


KeyStep = str | int | IdStep


def format_key(path: Iterable[object]) -> str:
    """Format a path as a person types it: ``agents.list[0].tools``; a name that contains dots is quoted in brackets."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN.fullmatch(str(part)):
            text += f".{part}" if text else str(part)
        else:
            text += f"[{json.dumps(str(part), ensure_ascii=False)}]"
    return text


def split_key(key: str) -> tuple[KeyStep, ...] | None:
    """Parse a dotted key; None when it is malformed. ``[3]`` is an index, ``[coder]`` an id, ``[]`` the end of a list."""
    found: list[KeyStep] = []
    at = 0
    while at < len(key):
        match = _STEP.match(key, at)
        if match is None or (match["plain"] and (key[at] == ".") == (at == 0)):
            return None
        if match["plain"]:
            found.append(match["plain"])
        elif match["index"]:
            found.append(int(match["index"]))
        elif match["quoted"]:
            try:
                found.append(str(json.loads(match["quoted"])))
            except ValueError:
                return None
        else:
            found.append(IdStep(match["id"]))
        at = match.end()
    return tuple(found) or None


def value_at(tree: Any, path: Iterable[object], missing: Any = None) -> Any:
    """Return the value at ``path`` of a plain tree; ``missing`` when there is none."""
    for step in path:
        try:
            tree = missing if isinstance(tree, str) else tree[step]
        except (KeyError, IndexError, TypeError):
            return missing
    return tree


def values_at(tree: Mapping[str, Any], pattern: str) -> Iterator[tuple[Path, Any]]:
    """Yield path and value of every key that a pattern of ``configKeys`` names.

    :param tree: of the file, short forms moved to their full path.
    :param pattern: dotted, in camelCase. ``*`` is any name or entry; ``agents.KEY`` is KEY of the defaults and of every
        agent in the list.
    """
    first, *rest = pattern.split(".")
    if first == "agents":
        yield from _values_below(tree, ("agents", "defaults", *rest))
        yield from _values_below(tree, ("agents", "list", "*", *rest))
    else:
        yield from _values_below(tree, (first, *rest))


def _values_below(here: Any, steps: Sequence[str], path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if not steps:
        yield path, here
        return
    entries: Iterable[tuple[str | int, Any]] = ()
    if isinstance(here, Mapping):
        entries = here.items()
    elif isinstance(here, list):
        entries = enumerate(here)
    for name, value in entries:
        if steps[0] == "*" or camel_case(str(name)) == steps[0]:
            yield from _values_below(value, steps[1:], (*path, name))


def without_values(tree: Any, paths: Iterable[Path]) -> Any:
    """Return a plain tree without the values at ``paths``; what has none of them is not copied."""
    inner: dict[PathPart, list[Path]] = {}
    for first, *rest in paths:
        inner.setdefault(first, []).append(tuple(rest))
    if not inner:
        return tree
    entries = tree.items() if isinstance(tree, Mapping) else enumerate(tree)
    left = [(name, value) for name, value in entries if () not in inner.get(name, ())]
    kept = {name: without_values(value, inner.get(name, ())) for name, value in left}
    return kept if isinstance(tree, Mapping) else list(kept.values())


def id_of(entry: object) -> str:
    """Return the id of a list entry: ``chatId`` of a group, else ``id``; empty when it has neither."""
    own = entry if isinstance(entry, Mapping) else {}
    return str(next((own[name] for name in ("chatId", "chat_id", "id") if name in own), ""))


def line_of(path: Path, lines: Mapping[Path, int]) -> int | None:
    """Return the line of a key, or of its nearest parent in the file."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path)


AGENT_ID_CHARS = 64
"""Limit of an agent id: longer ones would be cut."""


def normalise_agent_id(value: str | None, default: str = "default") -> str:
    """Normalise an agent id: lower case, at most 64 of ``a-z 0-9 _ -``; ``default`` when nothing usable is left."""
    lowered = (value or "").strip().lower()
    if len(lowered) <= AGENT_ID_CHARS and re.fullmatch(r"[a-z0-9][a-z0-9_-]*", lowered):
        return lowered
    cleaned = re.sub(r"[^a-z0-9_-]+", "-", lowered).strip("-")[:AGENT_ID_CHARS]
    return cleaned or default


AGENT_KEYS = {
    "workspace", "workspaceDir", "systemPrompt", "thinkingDefault", "toolChoice", "contextTokens", "maxTokens",
    "maxTurns", "subagents", "sandbox", "identity", "userTimezone", "model", "historyLimit", "bootstrapMaxChars",
    "bootstrapTotalMaxChars",
}  # fmt: skip
"""Keys of ``agents.defaults`` that are also accepted at the top level, beside those that plugins own (``agents.KEY``)."""

_CHANNEL_KEYS = frozenset({"groups", "allowFrom", "dmPolicy", "groupPolicy", "botToken", "appId"})
_TOP_LEVEL_KEYS = frozenset({
    "locale", "agents", "tools", "channels", "providers", "plugins", "owners", "prompt", "session", "logging", "messages",
    "bindings", "models",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Layout:
    """The normalised tree, and the written path of each part that was moved."""

    tree: Mapping[str, Any]
    moved: tuple[tuple[Path, Path], ...] = ()

    def as_written(self, path: Path) -> Path:
        """Convert a path in ``tree`` to the path that the person wrote."""
        for place, written in self.moved:
            if path[: len(place)] == place:
                return written + path[len(place) :]
        return path


def camel_case(name: str) -> str:
    """Convert ``dm_policy`` to ``dmPolicy``; other spellings are kept."""
    head, *rest = name.split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in rest) if head and all(rest) else name


def normalise_layout(raw: Mapping[str, Any], short_forms: Mapping[str, Path]) -> Layout:
    """Move short forms to their full path. A key that exists in both places is not moved, so validation refuses it.

    :param short_forms: those of plugins (``claw.host.manifest.short_forms``); any other top-level mapping that looks like
        a channel is one too.
    """
    tree: dict[str, Any] = dict(raw)
    moved: list[tuple[Path, Path]] = []
    for key in raw:
        target = _long_form(key, short_forms)
        if target is None and key not in _TOP_LEVEL_KEYS and _looks_like_a_channel(raw[key]):
            target = ("channels", key)
        if target and _set_if_absent(tree, target, raw[key]):
            del tree[key]
            moved.append((target, (key,)))
    moved += _entries_to_list(tree)
    return Layout(tree, tuple(moved))


def _long_form(key: str, short_forms: Mapping[str, Path]) -> Path | None:
    """Return the path that a name at the top level stands for; None when it is no short form."""
    if camel_case(key) in AGENT_KEYS:
        return ("agents", "defaults", key)
    return None if key in _TOP_LEVEL_KEYS else short_forms.get(key, short_forms.get(camel_case(key)))


def _looks_like_a_channel(value: Any) -> bool:
    return isinstance(value, Mapping) and any(camel_case(key) in _CHANNEL_KEYS for key in value)


def _set_if_absent(tree: dict[str, Any], target: Path, value: Any) -> bool:
    """Set ``target`` to ``value``, and copy the mappings it changes; return False when the key exists already."""
    holder = tree
    for step in target[:-1]:
        below = holder.get(str(step), {})
        if not isinstance(below, Mapping):
            return False
        holder[str(step)] = dict(below)
        holder = holder[str(step)]
    if str(target[-1]) in holder:
        return False
    holder[str(target[-1])] = value
    return True


def _entries_to_list(tree: dict[str, Any]) -> list[tuple[Path, Path]]:
    agents = tree.get("agents")
    entries = agents.get("entries") if isinstance(agents, Mapping) and "list" not in agents else None
    if not isinstance(agents, Mapping) or not isinstance(entries, Mapping | list):
        return []
    tree["agents"] = agents = {key: value for key, value in agents.items() if key != "entries"}
    if isinstance(entries, list):
        agents["list"] = entries
        return [(("agents", "list"), ("agents", "entries"))]
    agents["list"] = [
        {"id": id} | dict(entry) if isinstance(entry, Mapping) else entry for id, entry in entries.items()
    ]
    return [(("agents", "list", index), ("agents", "entries", id)) for index, id in enumerate(entries)]
