"""Changing the file: one key at a time, comments stay, the result is judged before it is written."""

import copy
import difflib
import io
import json
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from claw import store
from claw.config import source
from claw.config.layout import AGENT_KEYS, CHANNELS, Layout, arrange, camel
from claw.config.loaded import judge
from claw.config.names import ById, Part, Path as KeyPath, Step, dotted, id_of, nearest, steps, value_at
from claw.errors import ConfigError, UsageError

_MISSING: Any = object()
_PLAIN = re.compile(r"(\d+(ms|kb|mb|gb|[smhdw]))+|[A-Za-z~$_/][\w./$~+-]*(:[\w./$~+-]+)*")
_RESERVED = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null", "~"})


def get_value(tree: Mapping[str, Any], key: str) -> Any:
    """What the file says at ``key``, as written; list entries by index or id.

    :raises UsageError: nothing stands there.
    """
    layout = arrange(tree)
    value = value_at(layout.tree, _place(layout, key, must_exist=True), _MISSING)
    if value is _MISSING:
        fix = "claw config get without a key shows all of it"
        raise UsageError("the file says nothing at {key}", fix=fix, key=key)
    return value


def parse_value(text: str) -> Any:
    """A value from the command line, read as YAML; what is no YAML is the text itself."""
    if not text.strip():
        return text
    try:
        return source.value_of(text)
    except ConfigError:
        return text


def set_value(path: Path, key: str, value: Any, environ: Mapping[str, str] | None = None) -> bool:
    """Put ``value`` at ``key`` of the file at ``path``; a missing file and missing parents are made.

    ``[]`` at the end of the key is the place behind the last entry; an entry that is there already is not repeated.

    :returns: whether the file changed.
    :raises UsageError: the key is no key, or a list entry on its way is not there.
    :raises ConfigError: the file would become wrong; it stays as it was.
    """
    return _change(path, key, value, environ or {})


def unset(path: Path, key: str, environ: Mapping[str, str] | None = None) -> bool:
    """Take ``key`` out of the file; what is not there is no error.

    :returns: whether the file changed.
    :raises ConfigError: the file would become wrong; it stays as it was.
    """
    return _change(path, key, _MISSING, environ or {})


def _change(path: Path, key: str, value: Any, environ: Mapping[str, str]) -> bool:
    store.make_folder(path.parent)
    # Two editors at once would lose one change.
    lock = store.Lock(
        path.parent / "config.lock", "process {pid} is changing the config file", "Try again", str(path)
    )
    lock.take()
    try:
        old = source.read(path) if path.exists() else source.Source(path)
        layout = arrange(old.tree)
        place = layout.as_written(_place(layout, key, must_exist=value is _MISSING))
        if value is not _MISSING:
            place, value = _list_end(old.tree, place, value)
        if _same(value_at(old.tree, place, _MISSING), value):
            return False
        text = (_in_json if path.suffix == ".json" else _in_yaml)(old.text, place, value)
        _judge(path, old, text, place, value, environ)
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600
        store.replace(path, text.encode(), mode)
        return True
    finally:
        lock.close()


def _judge(
    path: Path, old: source.Source, text: str, place: KeyPath, value: Any, environ: Mapping[str, str]
) -> None:
    """The last look. The new text must say what was asked for and nothing else; it may not break a file that was
    sound, and one that was broken may be mended step by step."""
    wanted = copy.deepcopy(dict(old.tree))
    _put(wanted, place, value, dict)
    tree, _ = source.parse(text, json_only=path.suffix == ".json", file=str(path))
    if tree != wanted:
        problem = "cannot be changed without touching other keys"
        raise ConfigError(dotted(place), problem, "Change it in an editor", file=str(path))
    try:
        judge(source.Source(path, text, tree), path.parent, environ)  # no lines: the file does not have them
    except ConfigError:
        try:
            judge(old, path.parent, environ)
        except ConfigError:
            return
        raise


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


def _place(layout: Layout, key: str, *, must_exist: bool) -> KeyPath:
    """Where ``key`` is, or would be, in the arranged tree: ids become indexes, spellings those of the file."""
    wanted = steps(key)
    if wanted is None:
        raise UsageError("{key} is not a key", fix="Write it like agents.list[0].tools.allow", key=key)
    here: Any = layout.tree
    path: list[Part] = []
    for step in _canonical(wanted):
        found = _step(here, step, key, path, must_exist)
        path.append(found)
        here = value_at(here, (found,), _MISSING)
    return tuple(path)


def _canonical(wanted: tuple[Step, ...]) -> tuple[Step, ...]:
    """Short forms at the top mean their one place."""
    head = wanted[0]
    if isinstance(head, str) and camel(head) in AGENT_KEYS:
        return ("agents", "defaults", *wanted)
    if isinstance(head, str) and head in CHANNELS:
        return ("channels", *wanted)
    if wanted[:2] == ("agents", "entries") and len(wanted) > 2 and isinstance(wanted[2], str):
        return ("agents", "list", ById(wanted[2]), *wanted[3:])
    return wanted


def _step(here: Any, step: Step, key: str, path: list[Part], must_exist: bool) -> Part:
    if isinstance(step, str):
        if isinstance(here, Mapping) and step not in here:
            return next((name for name in here if camel(str(name)) == camel(step)), step)
        return step
    entries = here if isinstance(here, list) else []
    if isinstance(step, int):
        if -len(entries) <= step < len(entries):
            return step % len(entries)
        fix = "Indexes begin at 0; [] is behind the last one"
        raise UsageError("{list} has {count:entry|entries}", fix=fix, list=dotted(path), count=len(entries))
    if not step.id and not must_exist:
        return len(entries)
    ids = [id_of(entry) for entry in entries]
    if step.id in ids:
        return ids.index(step.id)
    there = [id for id in ids if id]
    near = nearest(step.id, there)
    fix = "Did you mean {near}?" if near else "Ids there: {ids}"
    problem, names = "{key}: no entry of {list} has the id {id}", ", ".join(there) or "-"
    raise UsageError(problem, fix=fix, key=key, list=dotted(path), id=step.id, near=near, ids=names)


def _list_end(tree: Any, place: KeyPath, value: Any) -> tuple[KeyPath, Any]:
    """For a place behind a list: an entry that is there already is its own place; ``"*"`` without brackets gets them."""
    if not isinstance(place[-1], int):
        return place, value
    entries = value_at(tree, place[:-1])
    if isinstance(entries, list):
        same = (
            index for index, each in enumerate(entries) if place[-1] == len(entries) and _same(each, value)
        )
        return (*place[:-1], next(same, place[-1])), value
    return place[:-1], ["*", value] if entries == "*" else [value]


def _put(tree: Any, place: KeyPath, value: Any, make: type) -> None:
    """Change ``tree`` in place; ``make`` is the kind of mapping for parents that are missing."""
    for step in place[:-1]:
        below = tree[step] if not isinstance(tree, Mapping) or step in tree else None
        if not isinstance(below, Mapping | list):
            below = tree[step] = make()
        tree = below
    last = place[-1]
    if value is _MISSING:
        del tree[last]
    elif isinstance(tree, list) and last == len(tree):
        tree.append(value)
    else:
        tree[last] = value


def _in_json(text: str, place: KeyPath, value: Any) -> str:
    tree = json.loads(text) if text.strip() else {}
    _put(tree, place, value, dict)
    indent = re.search(r"\n([ \t]+)\S", text)
    width = indent[1] if indent else None if text.strip() and "\n" not in text.strip() else "  "
    end = "\n" if text.endswith("\n") or not text else ""
    return json.dumps(tree, ensure_ascii=False, indent=width) + end


def _in_yaml(text: str, place: KeyPath, value: Any) -> str:
    from ruamel.yaml import YAML
    from ruamel.yaml.comments import CommentedMap

    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 100_000
    yaml.map_indent, yaml.sequence_indent, yaml.sequence_dash_offset = _indents(text)

    def dumped() -> str:
        out = io.StringIO()
        yaml.dump(tree, out)
        return out.getvalue()

    tree = yaml.load(text) if text.strip() else CommentedMap()
    before = dumped()
    _put(tree, tuple(_word(step) for step in place), _words(value), CommentedMap)
    if not tree:
        return "".join(line for line in text.splitlines(keepends=True) if line.startswith("#")) + "{}\n"
    after = dumped()
    if not text.strip():
        return text + after
    spliced = _splice(text, before, after)
    return spliced if _reads_the_same(spliced, after) else after


def _words(value: Any) -> Any:
    """``value`` with every text quoted that is no plain word to all YAML readers."""
    if isinstance(value, Mapping):
        return {_word(name): _words(part) for name, part in value.items()}
    return [_words(part) for part in value] if isinstance(value, list) else _word(value)


def _word(value: Any) -> Any:
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString, SingleQuotedScalarString

    if not isinstance(value, str) or (_PLAIN.fullmatch(value) and value.lower() not in _RESERVED):
        return value
    return (SingleQuotedScalarString if value and value.isprintable() else DoubleQuotedScalarString)(value)


def _indents(text: str) -> tuple[int, int, int]:
    """How the file indents: mappings, list entries, and the dash in front of them."""
    mapping = re.search(r"^( *)\S[^\n]*:\s*(?:#[^\n]*)?\n(?:[ ]*(?:#[^\n]*)?\n)*\1( +)[^\s#-]", text, re.M)
    listing = re.search(r"^( *)[^\s#-][^\n]*:\s*(?:#[^\n]*)?\n(?:[ ]*(?:#[^\n]*)?\n)*\1( *)-( +)", text, re.M)
    offset = len(listing[2]) if listing else 2
    return len(mapping[2]) if mapping else 2, offset + (1 + len(listing[3]) if listing else 2), offset


def _splice(text: str, before: str, after: str) -> str:
    """Carry the lines in which two dumps differ over to the text, so that all other lines keep every byte."""
    old, dumped, new = (part.splitlines(keepends=True) for part in (text, before, after))
    if len(old) != len(dumped):
        return after
    if old and not old[-1].endswith("\n"):
        old[-1] += "\n"
    result: list[str] = []
    changes = difflib.SequenceMatcher(None, dumped, new, autojunk=False).get_opcodes()
    for kind, low, high, start, end in changes:
        if kind == "equal":
            result += old[low:high]
            continue
        near = low if kind == "replace" else max(low - 1, 0)
        shift = _indent(old[near]) - _indent(dumped[near])
        for number, line in enumerate(new[start:end]):
            written = " " * max(_indent(line) + shift, 0) + line.lstrip(" ")
            result.append(_same_comment(old[low + number], written) if low + number < high else written)
    return "".join(result)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _same_comment(old: str, new: str) -> str:
    """``new`` with its comment as far to the right as it stood."""
    was, now = re.search(r"\s+#.*$", old), re.search(r"\s+#.*$", new)
    return new[: now.start()] + was[0] + "\n" if was and now and was[0].strip() == now[0].strip() else new


def _reads_the_same(one: str, other: str) -> bool:
    try:
        return source.parse(one)[0] == source.parse(other)[0]
    except ConfigError:
        return False
