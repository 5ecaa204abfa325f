"""A value of the config file before and after a change, as it may be shown: secrets are masked."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from claw import UsageError, t
from claw.runtime import (
    Redactor,
    escape_controls,
    format_key,
    installed_plugins,
    read_config,
    short_forms,
    split_key,
    value_at,
    with_ellipsis,
)
from claw_config_sdk import written_path

from claw_admin.config_file.get import masked

ABSENT: Any = object()
_MOST_CHARS = 200


def value_in(path: Path, key: str) -> Any:
    """Return the value of ``key`` in the file as written; of a key that ends with ``[]`` the whole list.

    :returns: ``ABSENT`` if the file does not have it.
    """
    try:
        tree, forms = read_config(path).tree if path.exists() else {}, short_forms(installed_plugins())
        return value_at(tree, written_path(tree, key.removesuffix("[]"), forms, must_exist=True), ABSENT)
    except UsageError:
        return ABSENT


def as_text(value: Any, key: str) -> str:
    """Format a value as one short line."""
    if value is ABSENT:
        return t("(not set)")
    shown = masked(value, _last_name(path_of(key)))
    text = shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False, default=str)
    return with_ellipsis(escape_controls(Redactor()(text)), _MOST_CHARS)


def as_data(value: Any, key: str) -> Any:
    """Return a value for ``--json``; None if it is not set."""
    return None if value is ABSENT else Redactor().redact_data(masked(value, _last_name(path_of(key))))


def clear_secrets(value: Any, path: tuple[str | int, ...]) -> list[str]:
    """Return the keys at and below ``path`` whose value is a secret itself, not a reference to one."""
    if isinstance(value, Mapping):
        below = () if set(value) in ({"env"}, {"file"}) else value.items()
        return [key for name, one in below for key in clear_secrets(one, (*path, str(name)))]
    if isinstance(value, list):
        return [key for index, one in enumerate(value) for key in clear_secrets(one, (*path, index))]
    is_clear = isinstance(value, str) and "${" not in value and masked(value, _last_name(path)) != value
    return [format_key(path)] if is_clear else []


def path_of(key: str) -> tuple[str | int, ...]:
    """Return the steps of a key without the ``[]`` of an append."""
    steps = split_key(key.removesuffix("[]")) or ()
    return tuple(step if isinstance(step, int) else str(step) for step in steps)


def _last_name(path: tuple[str | int, ...]) -> str:
    return next((step for step in reversed(path) if isinstance(step, str)), "")
