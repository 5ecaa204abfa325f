"""Names in the file: dotted keys, agent ids, and the nearest known word."""

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Part = str | int
Path = tuple[Part, ...]

_PLAIN = re.compile(r"[^.\[\]\"\s]+")
_STEP = re.compile(
    r'\.?(?P<plain>[^.\[\]"\s]+)|\[(?P<index>-?\d+)\]|\[(?P<quoted>"(?:[^"\\]|\\.)*")\]|\[(?P<id>[^\]"]*)\]'
)


@dataclass(frozen=True, slots=True)
class ById:
    """A step into a list: the entry whose ``id`` (or ``chatId``) is ``id``; empty = behind the last one."""

    id: str


Step = str | int | ById


def dotted(path: Iterable[object]) -> str:
    """Write a path as a person types it: ``agents.list[0].tools``; a name with dots in it is quoted in brackets."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN.fullmatch(str(part)):
            text += f".{part}" if text else str(part)
        else:
            text += f"[{json.dumps(str(part), ensure_ascii=False)}]"
    return text


def steps(key: str) -> tuple[Step, ...] | None:
    """Read a dotted key; None when it is not one. ``[3]`` is an index, ``[coder]`` an id, ``[]`` the end of a list."""
    found: list[Step] = []
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
            found.append(ById(match["id"]))
        at = match.end()
    return tuple(found) or None


def value_at(tree: Any, path: Iterable[object], missing: Any = None) -> Any:
    """What stands at ``path`` of a plain tree; ``missing`` when nothing does."""
    for step in path:
        try:
            tree = missing if isinstance(tree, str) else tree[step]
        except (KeyError, IndexError, TypeError):
            return missing
    return tree


def id_of(entry: object) -> str:
    """By which an entry of a list is known: ``chatId`` of a group, else ``id``; empty when it has none."""
    own = entry if isinstance(entry, Mapping) else {}
    return str(next((own[name] for name in ("chatId", "chat_id", "id") if name in own), ""))


def line_of(path: Path, lines: Mapping[Path, int]) -> int | None:
    """The line of a key, or of the nearest one above it that stands in the file."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that ``word`` was probably meant to be, letter case aside."""
    by_lower = {name.lower(): name for name in known}
    hits = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[hits[0]] if hits else None


def normalise_agent_id(value: str | None, default: str = "default") -> str:
    """Make an agent id of what a person wrote: lower case, 64 of ``a-z 0-9 _ -``; nothing usable = ``default``."""
    lowered = (value or "").strip().lower()
    if re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", lowered):
        return lowered
    cleaned = re.sub(r"[^a-z0-9_-]+", "-", lowered).strip("-")[:64]
    return cleaned or default
