"""Editing of the config file: one key at a time. Comments are kept; the result is validated before it is written."""

import copy
import difflib
import io
import json
import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from claw import ConfigError
from claw.runtime import (
    Config,
    ConfigSource,
    PluginKeys,
    config_key_errors,
    format_key,
    make_folder,
    parse_config,
    plugin_keys,
    plugin_states,
    read_config,
    replace_file,
    validate_source,
    value_at,
)

from claw_config_sdk.keys import written_path
from claw_config_sdk.locks import Lock

Owners = Callable[[ConfigSource], PluginKeys]
Check = Callable[[str, Config], None]
KeyPath = tuple[str | int, ...]
_MISSING: Any = object()
_PLAIN = re.compile(r"(\d+(ms|kb|mb|gb|[smhdw]))+|[A-Za-z~$_/][\w./$~+-]*(:[\w./$~+-]+)*")
_RESERVED = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null", "~"})


def parse_value(text: str) -> Any:
    """Parse a value from the command line as YAML; invalid YAML is taken as plain text."""
    if not text.strip():
        return text
    try:
        return parse_config(f"value: {text}" if "\n" not in text else f"value:\n{text}")[0]["value"]
    except (ConfigError, KeyError):
        return text


def set_value(
    path: Path,
    key: str,
    value: Any,
    environ: Mapping[str, str] | None = None,
    owners: Owners | None = None,
    check: Check | None = None,
) -> bool:
    """Set ``key`` of the file at ``path`` to ``value``; a missing file and missing parents are created.

    ``[]`` at the end of the key appends to a list; an entry that is already in the list is not repeated.

    :param environ: of the process, for ``${NAME}``.
    :param owners: of the keys that plugins own; None = the installed plugins of this process, if there is ``environ``.
    :param check: called with the dotted key as written and the config with the change; what it raises refuses the change.
    :returns: true if the file changed.
    :raises UsageError: the key is malformed, or a list entry in it does not exist.
    :raises ConfigError: the file would become invalid; it is not changed.
    """
    return _change(path, key, value, environ, owners, check)


def unset_value(
    path: Path, key: str, environ: Mapping[str, str] | None = None, owners: Owners | None = None
) -> bool:
    """Remove ``key`` from the file; a missing key is no error.

    :returns: true if the file changed.
    :raises ConfigError: the file would become invalid; it is not changed.
    """
    return _change(path, key, _MISSING, environ, owners)


def _change(
    path: Path,
    key: str,
    value: Any,
    environ: Mapping[str, str] | None,
    owners: Owners | None,
    check: Check | None = None,
) -> bool:
    def keys_of(read: ConfigSource) -> PluginKeys:
        if owners:
            return owners(read)
        return PluginKeys() if environ is None else plugin_keys(plugin_states(environ, read))

    make_folder(path.parent)
    # Without the lock, one of two concurrent edits would be lost.
    lock = Lock(
        path.parent / "config.lock", "process {pid} is changing the config file", "Try again", str(path)
    )
    lock.take()
    try:
        old = read_config(path) if path.exists() else ConfigSource(path)
        place = written_path(old.tree, key, keys_of(old).short_forms, must_exist=value is _MISSING)
        if value is not _MISSING:
            place, value = _resolve_append(old.tree, place, value)
        if _equal(value_at(old.tree, place, _MISSING), value):
            return False
        text = (_edit_json if path.suffix == ".json" else _edit_yaml)(old.text, place, value)

        def validate(read: ConfigSource) -> None:
            config = validate_source(read, path.parent, environ or {}, keys_of(read))
            states = None if environ is None else plugin_states(environ, read)
            if states is not None and (errors := config_key_errors(config, states)):
                raise errors[0]
            if check and read.text == text:
                check(format_key(place), config)

        _validate(old, text, place, value, validate)
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600
        replace_file(path, text.encode(), mode)
        return True
    finally:
        lock.close()


def _validate(
    old: ConfigSource,
    text: str,
    place: KeyPath,
    value: Any,
    validate: Callable[[ConfigSource], object],
) -> None:
    """Validate the new text. It must contain the requested change and no other. It may not make a valid file invalid; a
    file that is invalid already may be fixed step by step."""
    path = old.path or Path()
    wanted = copy.deepcopy(dict(old.tree))
    _set_at(wanted, place, value, dict)
    tree, _ = parse_config(text, json_only=path.suffix == ".json", file=str(path))
    if tree != wanted:
        problem = "cannot be changed without touching other keys"
        raise ConfigError(format_key(place), problem, "Change it in an editor", file=str(path))
    try:
        validate(ConfigSource(path, text, tree))  # no lines: the text is not on disk
    except ConfigError:
        try:
            validate(old)
        except ConfigError:
            return
        raise


def _equal(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


def _resolve_append(tree: Any, place: KeyPath, value: Any) -> tuple[KeyPath, Any]:
    """Resolve an append to a list: an equal entry is reused; ``"*"`` without brackets becomes a list."""
    if not isinstance(place[-1], int):
        return place, value
    entries = value_at(tree, place[:-1])
    if isinstance(entries, list):
        same = (
            index for index, each in enumerate(entries) if place[-1] == len(entries) and _equal(each, value)
        )
        return (*place[:-1], next(same, place[-1])), value
    return place[:-1], ["*", value] if entries == "*" else [value]


def _set_at(tree: Any, place: KeyPath, value: Any, make: type) -> None:
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


def _edit_json(text: str, place: KeyPath, value: Any) -> str:
    tree = json.loads(text) if text.strip() else {}
    _set_at(tree, place, value, dict)
    indent = re.search(r"\n([ \t]+)\S", text)
    width = indent[1] if indent else None if text.strip() and "\n" not in text.strip() else "  "
    end = "\n" if text.endswith("\n") or not text else ""
    return json.dumps(tree, ensure_ascii=False, indent=width) + end


def _edit_yaml(text: str, place: KeyPath, value: Any) -> str:
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
    _set_at(tree, tuple(_quoted_scalar(step) for step in place), _quoted(value), CommentedMap)
    if not tree:
        return "".join(line for line in text.splitlines(keepends=True) if line.startswith("#")) + "{}\n"
    after = dumped()
    if not text.strip():
        return text + after
    spliced = _splice(text, before, after)
    return spliced if _parses_equal(spliced, after) else after


def _quoted(value: Any) -> Any:
    """Return ``value`` with every text quoted that some YAML parser may not read as a plain string."""
    if isinstance(value, Mapping):
        return {_quoted_scalar(name): _quoted(part) for name, part in value.items()}
    return [_quoted(part) for part in value] if isinstance(value, list) else _quoted_scalar(value)


def _quoted_scalar(value: Any) -> Any:
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString, SingleQuotedScalarString

    if not isinstance(value, str) or (_PLAIN.fullmatch(value) and value.lower() not in _RESERVED):
        return value
    return (SingleQuotedScalarString if value and value.isprintable() else DoubleQuotedScalarString)(value)


def _indents(text: str) -> tuple[int, int, int]:
    """Detect the indentation of the file: of mappings, list entries, and the dash before them."""
    mapping = re.search(r"^( *)\S[^\n]*:\s*(?:#[^\n]*)?\n(?:[ ]*(?:#[^\n]*)?\n)*\1( +)[^\s#-]", text, re.M)
    listing = re.search(r"^( *)[^\s#-][^\n]*:\s*(?:#[^\n]*)?\n(?:[ ]*(?:#[^\n]*)?\n)*\1( *)-( +)", text, re.M)
    offset = len(listing[2]) if listing else 2
    return len(mapping[2]) if mapping else 2, offset + (1 + len(listing[3]) if listing else 2), offset


def _splice(text: str, before: str, after: str) -> str:
    """Apply the lines in which two dumps differ to the text, so that all other lines keep every byte."""
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
            result.append(_align_comment(old[low + number], written) if low + number < high else written)
    return "".join(result)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _align_comment(old: str, new: str) -> str:
    """Return ``new`` with its comment in the column where it was."""
    was, now = re.search(r"\s+#.*$", old), re.search(r"\s+#.*$", new)
    return new[: now.start()] + was[0] + "\n" if was and now and was[0].strip() == now[0].strip() else new


def _parses_equal(one: str, other: str) -> bool:
    try:
        return parse_config(one)[0] == parse_config(other)[0]
    except ConfigError:
        return False
