"""The file as a plain tree with line numbers. Reads YAML (a safe part of it) and JSON; knows nothing of keys."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from errno import EINVAL
from pathlib import Path
from typing import Any

from claw.config.names import Part, Path as KeyPath, dotted
from claw.errors import ConfigError
from claw.words import say

NAMES = ("config.yaml", "config.yml", "config.json")
MAX_DEPTH = 60
MAX_NODES = 200_000
MAX_BYTES = 4 * 1024 * 1024

_INT = re.compile(r"[-+]?\d+|0x[0-9a-fA-F]+|0o[0-7]+")
_FLOAT = re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?")
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
_CONFLICT = re.compile(r"^(<{7}|={7}|>{7})(\s|$)", re.M)
_TOKEN = re.compile(r'("(?:[^"\\\n]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+)(?=(\s*:)?)')


@dataclass(frozen=True, slots=True)
class Source:
    """One config file, read.

    :param path: None when there is no file.
    :param tree: mappings, lists, text, numbers, true, false, None.
    :param lines: where each key stands, 1-based; list entries too.
    """

    path: Path | None = None
    text: str = ""
    tree: Mapping[str, Any] = field(default_factory=dict)
    lines: Mapping[KeyPath, int] = field(default_factory=dict)


def find(home: Path) -> Path | None:
    """The config file of ``home``; None when there is none.

    :raises ConfigError: there are two, or the home cannot be read.
    """
    try:
        present = {entry.name for entry in home.iterdir()} if home.exists() else set()
    except OSError as cause:
        problem, fix = "the home {home} cannot be read ({cause})", "Set CLAW_HOME to a folder of yours"
        raise ConfigError("", problem, fix, home=home, cause=cause.strerror) from cause
    names = [name for name in NAMES if name in present]
    if len(names) > 1:
        problem, fix = "there are two config files: {names}", "Keep one and move the other away"
        raise ConfigError("", problem, fix, file=str(home), names=" and ".join(names))
    return home / names[0] if names else None


def read(path: Path) -> Source:
    """Read and parse ``path``.

    :raises ConfigError: with file and line, when it is not a config file at all.
    """
    file = str(path)
    try:
        if path.exists() and not path.is_file():  # to read from a pipe would wait for ever
            raise OSError(EINVAL, "it is not a regular file")
        data = path.read_bytes()
    except OSError as cause:
        problem = "is a folder, not a file" if path.is_dir() else "cannot be read ({cause})"
        raise ConfigError(
            "", problem, "Put a config file there", file=file, cause=cause.strerror or cause
        ) from cause
    if len(data) > MAX_BYTES:
        raise ConfigError(
            "", "is larger than {limit} bytes", "This is no config file", file=file, limit=MAX_BYTES
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        line = data[: cause.start].count(b"\n") + 1
        raise ConfigError("", "is not UTF-8 text", "Save it as UTF-8", file=file, line=line) from cause
    tree, lines = parse(text, json_only=path.suffix == ".json", file=file)
    return Source(path, text, tree, lines)


def parse(text: str, *, json_only: bool = False, file: str = "") -> tuple[dict[str, Any], dict[KeyPath, int]]:
    """The tree of ``text`` and the line of each key.

    :raises ConfigError: it cannot be read; ``line`` is set where there is one.
    """
    try:
        tree, lines = _parse_json(text) if json_only else _parse_yaml(text)
        if not isinstance(tree, dict):
            problem = "the top level must be an object (a mapping of keys), not a list or a single value"
            raise _Trouble(problem, "Begin with a key such as agents", (1, 1))
    except _Trouble as trouble:
        problem, values = trouble.problem, trouble.values
        line, column = trouble.at or (None, 0)
        if line:
            problem, values = "column {column}: {what}", {"column": column, "what": say(problem, **values)}
        raise ConfigError("", problem, trouble.fix, file=file, line=line, **values) from None
    return tree, lines


def value_of(text: str) -> Any:
    """One value as YAML writes it: ``true``, ``3``, ``[a, b]``, ``{a: 1}``, a word; ``null`` is None.

    :raises ConfigError: it is no YAML.
    """
    try:
        return _parse_yaml(f"value: {text}" if "\n" not in text else f"value:\n{text}")[0]["value"]
    except (_Trouble, TypeError, KeyError) as trouble:
        raise ConfigError("", "is not a value") from trouble


class _Trouble(Exception):
    """What is wrong with the text, and where: line and column, 1-based."""

    def __init__(
        self, problem: str, fix: str = "", at: tuple[int, int] | None = None, **values: object
    ) -> None:
        super().__init__(problem)
        self.problem, self.fix, self.at = problem, fix, at
        self.values: dict[str, Any] = values


def _look_over(text: str) -> None:
    if not text.strip():
        raise _Trouble("the file is empty", "Write a key into it, or delete it")
    if found := _CONFLICT.search(text):
        problem, fix = (
            "a mark of a merge conflict was left in the file",
            "Settle the conflict and delete the marks",
        )
        raise _Trouble(problem, fix, (text.count("\n", 0, found.start()) + 1, 1))


class _Builder:
    """Grows the tree from pieces in the order of the text, without recursion; ``at`` is where the reader is."""

    def __init__(self) -> None:
        self.at = (1, 1)
        self.root: Any = None
        self.lines: dict[KeyPath, int] = {}
        self._stack: list[tuple[Any, KeyPath]] = []
        self._key: str | None = None
        self._count = 0

    @property
    def wants_key(self) -> bool:
        return bool(self._stack) and isinstance(self._stack[-1][0], dict) and self._key is None

    @property
    def path(self) -> KeyPath:
        """Of the value that comes next."""
        if not self._stack:
            return ()
        holder, path = self._stack[-1]
        step: Part = self._key or "" if isinstance(holder, dict) else len(holder)
        return (*path, step)

    def refusal(self, problem: str, fix: str, **values: object) -> _Trouble:
        return _Trouble(problem, fix, self.at, **values)

    def key(self, name: str) -> None:
        holder, path = self._stack[-1]
        path = (*path, name)
        if name in holder:
            problem = "the key {key} stands there twice (first in line {first})"
            raise self.refusal(problem, "Keep one of them", key=dotted(path), first=self.lines.get(path))
        self._key = name
        self.lines[path] = self.at[0]

    def value(self, value: Any) -> None:
        self._count += 1
        if self._count > MAX_NODES:
            raise self.refusal("the file holds more than {limit} values", "Make it smaller", limit=MAX_NODES)
        path = self.path
        if not self._stack:
            self.root = value
        elif isinstance(holder := self._stack[-1][0], dict):
            holder[self._key] = value
            self._key = None
        else:
            holder.append(value)
            self.lines[path] = self.at[0]

    def open(self, value: Any) -> None:
        path = self.path
        self.value(value)
        self._stack.append((value, path))
        if len(self._stack) > MAX_DEPTH:
            raise self.refusal("is nested deeper than {limit} levels", "Make it flatter", limit=MAX_DEPTH)

    def close(self) -> None:
        self._stack.pop()


def _parse_yaml(text: str) -> tuple[Any, dict[KeyPath, int]]:
    import yaml

    _look_over(text)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    builder, documents = _Builder(), 0
    try:
        for event in yaml.parse(text, Loader=loader):
            mark: Any = event.start_mark
            builder.at = mark.line + 1, mark.column + 1
            documents += isinstance(event, yaml.DocumentStartEvent)
            if documents > 1:
                raise builder.refusal("a second document begins here", "Keep one document in the file")
            if isinstance(event, yaml.NodeEvent):
                _take_yaml(event, builder)
            elif isinstance(event, yaml.CollectionEndEvent):
                builder.close()
    except yaml.YAMLError as cause:
        raise _from_yaml(cause, text) from cause
    if builder.root is None:
        raise _Trouble("the file is empty", "Write a key into it, or delete it")
    return builder.root, builder.lines


def _take_yaml(event: Any, builder: _Builder) -> None:
    """One scalar, or the start of a mapping or list."""
    import yaml

    if isinstance(event, yaml.AliasEvent) or event.anchor:
        raise builder.refusal("anchors and aliases (& and *) are not allowed here", "Write the value out")
    if event.tag not in (None, "!"):
        raise builder.refusal("the tag {tag} is not allowed here", "Write plain values only", tag=event.tag)
    if builder.wants_key:
        if not isinstance(event, yaml.ScalarEvent):
            raise builder.refusal("a key must be a text", "Write key: value")
        builder.key(event.value)
    elif isinstance(event, yaml.ScalarEvent):
        builder.value(_plain(event.value) if event.implicit[0] else event.value)
    else:
        builder.open({} if isinstance(event, yaml.MappingStartEvent) else [])


def _plain(text: str) -> Any:
    """A YAML word without quotes, by the 1.2 core rules: ``off``, ``yes`` and ``12:30`` stay text."""
    lowered = text.lower()
    if lowered in _WORDS:
        return _WORDS[lowered]
    if len(text) < 40:
        if _INT.fullmatch(text):
            return int(text, 0 if text[:2] in ("0x", "0o") else 10)
        if _FLOAT.fullmatch(text):
            return float(text)
    return text


def _from_yaml(cause: Any, text: str) -> _Trouble:
    mark = getattr(cause, "problem_mark", None)
    if mark is None:
        return _Trouble("holds a character that YAML does not allow", "Delete it")
    for number, line in enumerate(text.splitlines()[: mark.line + 2], 1):
        if re.match(r" *\t", line) and line.strip():
            at = number, line.index("\t") + 1
            return _Trouble("the line is indented with a tab", "Indent with spaces", at)
    at = mark.line + 1, mark.column + 1
    return _Trouble("is not valid YAML ({cause})", "Mend the line", at, cause=cause.problem or "syntax")


def _parse_json(text: str) -> tuple[Any, dict[KeyPath, int]]:
    """Tokens first (depth, duplicates, lines), then the strict parser of the standard library for the values."""
    _look_over(text)
    lines = _json_lines(text)
    try:
        return json.loads(text, parse_constant=_no_constant), lines
    except json.JSONDecodeError as cause:
        problem, fix = "is not valid JSON ({cause})", "Mend the line; JSON allows no trailing comma"
        if cause.pos >= len(text.rstrip()) or cause.msg.startswith("Unterminated string"):
            problem, fix = "unexpected end of the file", "The file seems cut off: complete it"
        raise _Trouble(problem, fix, (cause.lineno, cause.colno), cause=cause.msg) from cause
    except (ValueError, RecursionError) as cause:
        raise _Trouble("is not valid JSON ({cause})", "Mend the file", cause=str(cause)) from cause


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _json_lines(text: str) -> dict[KeyPath, int]:
    """Where each key of a JSON text stands. Stops at the first thing that fits nowhere: the parser will name it."""
    builder = _Builder()
    try:
        for token, expects_colon, builder.at in _tokens(text):
            if token in "}]":
                builder.close()
            elif token in "{[":
                builder.open({} if token == "{" else [])
            elif builder.wants_key and expects_colon:
                builder.key(json.loads(token))
            else:
                builder.value(None)
    except (IndexError, ValueError, TypeError):
        pass
    return builder.lines


def _tokens(text: str) -> Iterator[tuple[str, bool, tuple[int, int]]]:
    """Tokens but commas and colons: the token, whether a colon follows, its line and column."""
    line, before = 1, 0
    for match in _TOKEN.finditer(text):
        at = match.start()
        line += text.count("\n", before, at)
        before = at
        if match[0] not in ",:":
            yield match[0], match[2] is not None, (line, at - text.rfind("\n", 0, at))
