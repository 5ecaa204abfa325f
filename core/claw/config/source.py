"""Parser of the config file into a plain tree with line numbers. Reads a safe subset of YAML, and JSON."""

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from errno import EINVAL
from pathlib import Path
from typing import Any

from claw.config.paths import Path as KeyPath, format_key
from claw.contracts.errors import ConfigError
from claw.i18n import t

CONFIG_FILE_NAMES = ("config.yaml", "config.yml", "config.json")
_OTHER_NAMES = {"config.toml", "config.json5", "config.jsonc", "config.ini", "openclaw.json"}
MAX_DEPTH = 60
MAX_NODES = 200_000
MAX_BYTES = 4 * 1024 * 1024

_INT = re.compile(r"[-+]?\d+|0x[0-9a-fA-F]+|0o[0-7]+")
_FLOAT = re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?")
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
_CONFLICT = re.compile(r"^(<{7}|={7}|>{7})(\s|$)", re.M)


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """One parsed config file.

    :param path: None when there is no file.
    :param tree: mappings, lists, text, numbers, true, false, None.
    :param lines: line of each key and list entry, 1-based.
    """

    path: Path | None = None
    text: str = ""
    tree: Mapping[str, Any] = field(default_factory=dict)
    lines: Mapping[KeyPath, int] = field(default_factory=dict)


def find_config(home: Path) -> Path | None:
    """Find the config file of ``home``; None when there is none.

    :raises ConfigError: there are two, or the home cannot be read.
    """
    try:
        present = {entry.name for entry in home.iterdir()} if home.exists() else set()
    except OSError as cause:
        raise unreadable_home(home, cause) from cause
    names = [name for name in CONFIG_FILE_NAMES if name in present]
    if len(names) > 1:
        problem, fix = "there are two config files: {names}", "Keep one and move the other elsewhere"
        raise ConfigError("", problem, fix, file=str(home), names=" and ".join(names))
    unread = sorted(name for name in present if name.lower() in _OTHER_NAMES)
    if unread and not names:
        problem, fix = "{name} is not read: the config file is named {names}", "Write its settings there"
        raise ConfigError("", problem, fix, file=str(home), name=unread[0], names=CONFIG_FILE_NAMES[0])
    return home / names[0] if names else None


def unreadable_home(home: Path, cause: OSError) -> ConfigError:
    """Return the error of a home that is closed to us."""
    problem, fix = "the home {home} cannot be read ({cause})", "Set CLAW_HOME to a folder of yours"
    return ConfigError("", problem, fix, home=home, cause=cause.strerror)


def read_home(home: Path) -> ConfigSource:
    """Read and parse the config file of ``home``, if there is one; see :func:`find_config` and :func:`read_config`."""
    path = find_config(home)
    return read_config(path) if path else ConfigSource()


def read_config(path: Path) -> ConfigSource:
    """Read and parse ``path``.

    :raises ConfigError: with file and line, when it cannot be parsed.
    """
    file = str(path)
    try:
        if path.exists() and not path.is_file():  # reading from a pipe would block
            raise OSError(EINVAL, "it is not a regular file")
        data = path.read_bytes()
    except OSError as cause:
        problem = "is a folder, not a file" if path.is_dir() else "cannot be read ({cause})"
        why = cause.strerror or cause
        raise ConfigError("", problem, "Put a config file there", file=file, cause=why) from cause
    if len(data) > MAX_BYTES:
        problem, fix = "is larger than {limit} bytes", "This is not a config file"
        raise ConfigError("", problem, fix, file=file, limit=MAX_BYTES)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        line = data[: cause.start].count(b"\n") + 1
        raise ConfigError("", "is not UTF-8 text", "Save it as UTF-8", file=file, line=line) from cause
    tree, lines = parse_config(text, json_only=path.suffix == ".json", file=file)
    return ConfigSource(path, text, tree, lines)


def parse_config(
    text: str, *, json_only: bool = False, file: str = ""
) -> tuple[dict[str, Any], dict[KeyPath, int]]:
    """Parse ``text`` into a tree and the line of each key.

    :raises ConfigError: it cannot be parsed; ``line`` is set where it is known.
    """
    try:
        tree, lines = _parse_json(text) if json_only else _parse_yaml(text)
        if not isinstance(tree, dict):
            problem = "the top level must be an object (a mapping of keys), not a list or a single value"
            raise _refusal(problem, "Begin with a key such as agents", (1, 1))
    except ConfigError as error:
        raise error.under("", file) from None
    return tree, lines


def _refusal(problem: str, fix: str = "", at: tuple[int, int] | None = None, **values: Any) -> ConfigError:
    """Return the error of a text that cannot be parsed; ``at`` is its line and column, 1-based."""
    if at is None:
        return ConfigError("", problem, fix, **values)
    what = t(problem, **values)
    return ConfigError("", "column {column}: {what}", fix, line=at[0], column=at[1], what=what)


def _check_text(text: str) -> None:
    if not text.strip():
        raise _refusal("the file is empty", "Write a key into it, or delete it")
    if found := _CONFLICT.search(text):
        problem, at = "the file contains a merge conflict marker", (text.count("\n", 0, found.start()) + 1, 1)
        raise _refusal(problem, "Resolve the conflict and delete the markers", at)


def _parse_yaml(text: str) -> tuple[Any, dict[KeyPath, int]]:
    import yaml

    _check_text(text)
    lines: dict[KeyPath, int] = {}
    try:
        tree = _read_document(text, lines)
    except yaml.YAMLError as cause:
        raise _yaml_error(cause, text) from cause
    if tree is None:
        raise _refusal("the file is empty", "Write a key into it, or delete it")
    return tree, lines


def _read_document(text: str, lines: dict[KeyPath, int]) -> Any:
    """Read the one document of a YAML text, and record the line of each key and entry."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    _check_events(yaml.parse(text, Loader=loader))
    root = yaml.compose(text, Loader=loader)
    return root and _plain(root, (), lines)


def _check_events(events: Iterable[Any]) -> None:
    """Refuse what plain settings do not need, before the tree is built."""
    import yaml

    documents = depth = count = 0
    for event in events:
        at = event.start_mark.line + 1, event.start_mark.column + 1
        documents += isinstance(event, yaml.DocumentStartEvent)
        count += isinstance(event, yaml.NodeEvent)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if documents > 1:
            raise _refusal("a second document begins here", "Keep one document in the file", at)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            problem = "anchors and aliases (& and *) are not allowed here"
            raise _refusal(problem, "Write the value in full", at)
        if getattr(event, "tag", None):
            raise _refusal("the tag {tag} is not allowed here", "Write plain values only", at, tag=event.tag)
        if count > MAX_NODES:
            problem = "the file contains more than {limit} values"
            raise _refusal(problem, "Make it smaller", at, limit=MAX_NODES)
        if depth > MAX_DEPTH:
            raise _refusal("is nested deeper than {limit} levels", "Make it flatter", at, limit=MAX_DEPTH)


def _plain(node: Any, path: KeyPath, lines: dict[KeyPath, int]) -> Any:
    """Return the plain value of a node of the YAML tree."""
    if isinstance(node.value, str):
        return node.value if node.style else _scalar(node.value)
    if node.id == "sequence":
        lines.update({(*path, at): part.start_mark.line + 1 for at, part in enumerate(node.value)})
        return [_plain(part, (*path, at), lines) for at, part in enumerate(node.value)]
    found: dict[str, Any] = {}
    for key, part in node.value:
        at = key.start_mark.line + 1, key.start_mark.column + 1
        if not isinstance(key.value, str):
            raise _refusal("a key must be a string", "Write key: value", at)
        place = (*path, key.value)
        if key.value in found:
            problem = "the key {key} appears twice (first in line {first})"
            raise _refusal(problem, "Keep one of them", at, key=format_key(place), first=lines.get(place))
        lines[place] = at[0]
        found[key.value] = _plain(part, place, lines)
    return found


def _scalar(text: str) -> Any:
    """Convert an unquoted YAML word by the core schema of YAML 1.2: ``off``, ``yes`` and ``12:30`` stay text."""
    lowered = text.lower()
    if lowered in _WORDS:
        return _WORDS[lowered]
    if len(text) < 40:
        if _INT.fullmatch(text):
            return int(text, 0 if text[:2] in ("0x", "0o") else 10)
        if _FLOAT.fullmatch(text):
            return float(text)
    return text


def _yaml_error(cause: Any, text: str) -> ConfigError:
    mark = getattr(cause, "problem_mark", None)
    if mark is None:
        return _refusal("contains a character that YAML does not allow", "Delete it")
    for number, line in enumerate(text.splitlines()[: mark.line + 2], 1):
        if re.match(r" *\t", line) and line.strip():
            at = number, line.index("\t") + 1
            return _refusal("the line is indented with a tab", "Indent with spaces", at)
    if (opened := cause.context_mark) and sum(map(text.count, "{[")) > sum(map(text.count, "}]")):
        at = opened.line + 1, opened.column + 1
        return _refusal("the bracket that opens here is never closed", "Close it with }} or ]", at)
    at = mark.line + 1, mark.column + 1
    return _refusal("is not valid YAML ({cause})", "Correct the line", at, cause=cause.problem or "syntax")


def _parse_json(text: str) -> tuple[Any, dict[KeyPath, int]]:
    """Read depth, duplicates and lines as YAML, of which JSON is a part; the values with the strict standard library.

    Where the parser of YAML stops (a syntax error, an escaped surrogate), the rest has no lines.
    """
    import yaml

    _check_text(text)
    lines: dict[KeyPath, int] = {}
    with suppress(yaml.YAMLError):
        _read_document(text, lines)
    try:
        return json.loads(text, parse_constant=_reject_constant, object_pairs_hook=_unique), lines
    except json.JSONDecodeError as cause:
        problem, fix = "is not valid JSON ({cause})", "Correct the line; JSON allows no trailing comma"
        if cause.msg.startswith("Expecting property name") and text[cause.pos : cause.pos + 1] not in "}'":
            fix = 'Put the key in double quotes: "key": value'
        if text[cause.pos : cause.pos + 2] in ("//", "/*"):
            fix = "JSON allows no comments: delete them, or rename the file to config.yaml and write # before them"
        if cause.pos >= len(text.rstrip()) or cause.msg.startswith("Unterminated string"):
            problem, fix = "unexpected end of the file", "The file seems cut off: complete it"
        raise _refusal(problem, fix, (cause.lineno, cause.colno), cause=cause.msg) from cause
    except (ValueError, RecursionError) as cause:
        raise _refusal("is not valid JSON ({cause})", "Correct the file", cause=str(cause)) from cause


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError(f"the same key twice, beside {next(iter(found))}")
    return found


_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class SubstitutedText(str):
    """A text from the file with ``${NAME}`` substituted; ``template`` is the text as written."""

    template: str
    missing: tuple[str, ...]


def substitute(text: str, environ: Mapping[str, str]) -> str:
    """Substitute environment variables in ``text``. An unset one stays as written and is named in ``missing``."""
    names = _VARIABLE.findall(text)
    if not names:
        return text
    filled = SubstitutedText(_VARIABLE.sub(lambda match: environ.get(match[1], match[0]), text))
    filled.template = text
    filled.missing = tuple(dict.fromkeys(name for name in names if name not in environ))
    return filled


PROSE_KEYS = frozenset({"systemPrompt", "system_prompt", "prompt", "placeholder", "instructions"})
"""Keys whose text is for a model or a person: ``${NAME}`` in them is not substituted."""


def substitute_all(value: Any, environ: Mapping[str, str], key: str = "") -> Any:
    """Return the tree with environment variables substituted, except in prose."""
    if isinstance(value, str):
        return value if key in PROSE_KEYS else substitute(value, environ)
    if isinstance(value, Mapping):
        return {name: substitute_all(part, environ, name) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [substitute_all(part, environ, key) for part in value]
    return value
