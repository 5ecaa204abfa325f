"""Keys of the config file as a person types them, with short forms and ids of list entries: read, and located."""

from collections.abc import Mapping
from typing import Any

from claw import UsageError, nearest
from claw.runtime import IdStep, Layout, camel_case, format_key, id_of, normalise_layout, split_key, value_at

KeyPath = tuple[str | int, ...]
_MISSING: Any = object()


def get_value(tree: Mapping[str, Any], key: str, short_forms: Mapping[str, KeyPath]) -> Any:
    """Return the value at ``key``, as written; list entries by index or id.

    :raises UsageError: the file has no such key.
    """
    layout = normalise_layout(tree, short_forms)
    value = value_at(layout.tree, _resolve_path(layout, key, short_forms, must_exist=True), _MISSING)
    if value is _MISSING:
        fix = "claw config get without a key shows all of it"
        raise UsageError("{key} is not set in the file", fix=fix, key=key)
    return value


def written_path(
    tree: Mapping[str, Any], key: str, short_forms: Mapping[str, KeyPath], *, must_exist: bool
) -> KeyPath:
    """Return the path of ``key`` in the tree of the file; ids become indexes, and the spelling of the file is used.

    :param must_exist: false = ``[]`` is the end of a list.
    :raises UsageError: the key is malformed, or a list entry in it does not exist.
    """
    layout = normalise_layout(tree, short_forms)
    return layout.as_written(_resolve_path(layout, key, short_forms, must_exist=must_exist))


def _resolve_path(
    layout: Layout, key: str, short_forms: Mapping[str, KeyPath], *, must_exist: bool
) -> KeyPath:
    """Return the path of ``key`` in the arranged tree, also if it is not set yet; ids become indexes, and the spelling
    of the file is used."""
    wanted = split_key(key)
    if wanted is None:
        raise UsageError("{key} is not a valid key", fix="Write it like agents.list[0].tools.allow", key=key)
    here: Any = layout.tree
    path: list[str | int] = []
    for step in _expanded(wanted, layout, short_forms):
        found = _resolve_step(here, step, key, path, must_exist)
        path.append(found)
        here = value_at(here, (found,), _MISSING)
    return tuple(path)


def _expanded(
    wanted: tuple[str | int | IdStep, ...], layout: Layout, short_forms: Mapping[str, KeyPath]
) -> tuple[str | int | IdStep, ...]:
    """Expand short forms at the top level to their full path, those too that the file does not have yet."""
    head = wanted[0]
    known = normalise_layout({head: None}, short_forms).moved if isinstance(head, str) else ()
    for path, written in (*known, *layout.moved):
        if written == (head,):
            return (*path, *wanted[1:])
    if wanted[:2] == ("agents", "entries") and len(wanted) > 2 and isinstance(wanted[2], str):
        return ("agents", "list", IdStep(wanted[2]), *wanted[3:])
    return wanted


def _resolve_step(
    here: Any, step: str | int | IdStep, key: str, path: list[str | int], must_exist: bool
) -> str | int:
    if isinstance(step, str):
        if isinstance(here, Mapping) and step not in here:
            return next((name for name in here if camel_case(str(name)) == camel_case(step)), step)
        return step
    entries = here if isinstance(here, list) else []
    if isinstance(step, int):
        if -len(entries) <= step < len(entries):
            return step % len(entries)
        fix = "Indexes start at 0; [] appends"
        raise UsageError(
            "{list} has {count:entry|entries}", fix=fix, list=format_key(path), count=len(entries)
        )
    if not step.id and not must_exist:
        return len(entries)
    ids = [id_of(entry) for entry in entries]
    if step.id in ids:
        return ids.index(step.id)
    there = [id for id in ids if id]
    near = nearest(step.id, there)
    fix = "Did you mean {near}?" if near else "Ids there: {ids}"
    problem, names = "{key}: {list} has no entry with the id {id}", [*there] or "-"
    raise UsageError(problem, fix=fix, key=key, list=format_key(path), id=step.id, near=near, ids=names)
