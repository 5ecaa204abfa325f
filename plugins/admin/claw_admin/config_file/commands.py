"""``claw config set``, ``unset`` and ``schema``: the config file changed, and described for editors."""

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from claw import ConfigError, t
from claw.runtime import (
    AsJson,
    ConfigSource,
    document,
    format_key,
    installed_plugins,
    plugin_keys,
    plugin_states,
    split_key,
    with_label,
)
from claw_config_sdk import config_findings, file_of, labelled, parse_value, set_value, unset_value
from typer.core import TyperCommand

from claw_admin.config_checks.installed_warnings import installed_names, refuse_misfits
from claw_admin.config_file.change import ABSENT, as_data, as_text, clear_secrets, path_of, value_in
from claw_admin.config_file.schema import config_schema

Key = Annotated[
    str, typer.Argument(help=r"Dotted: agents.list\[coder].tools.allow; [] is the end of a list.")
]


WRONG_TYPE = "must be of the type {type}"  # the problem of a text where a schema wants another type


class ValueCommand(TyperCommand):
    """KEY VALUE: a value may begin with a dash, as the id of a chat and one random token in 64 do."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; two of them are a key and a value, whatever the value looks like."""
        options = args[2:] if args[2:] == ["--json"] else []
        given = args[: len(args) - len(options)]
        plain = len(given) == 2 and given[0][:1] != "-" and given[1] not in ctx.help_option_names
        return super().parse_args(ctx, [*options, "--", *given] if plain else args)


def set_(
    key: Key,
    value: Annotated[str, typer.Argument(help=r"YAML: true, 3, \[a, b], a word.")],
    as_json: AsJson = False,
) -> None:
    """Set KEY to VALUE. Comments are kept; a change that would make the file invalid is refused, and so is a value that
    does not fit the settings of its plugin.
    """
    path = file_of(os.environ)
    fits = partial(refuse_misfits, known=installed_names(installed_plugins()))
    old, parsed = value_in(path, key), parse_value(value)
    try:
        changed = set_value(path, key, parsed, os.environ, check=fits)
    except ConfigError as first:
        if isinstance(parsed, str | list | dict):
            raise
        # An id that looks like a number: where the key takes text, the value is used as typed.
        try:
            changed = set_value(path, key, value, os.environ, check=fits)
        except ConfigError as second:
            raise (first if second.parts[0] == WRONG_TYPE else second) from None
    new = value_in(path, key)
    warned = _report_change(path, key, (old, new), t("was already set") if not changed else "", as_json)
    place = split_key(key) or ()
    if not (warned or as_json) and len(place) > 1 and place[0] == "channels":
        hint = t("check channel {name} with claw doctor {name}; claw gateway start serves it", name=place[1])
        typer.echo(hint, err=True)


def unset(key: Key, as_json: AsJson = False) -> None:
    """Remove KEY from the file."""
    path = file_of(os.environ)
    old = value_in(path, key)
    changed = unset_value(path, key, os.environ)
    _report_change(path, key, (old, ABSENT), t("was not set") if not changed else "", as_json)


def schema() -> None:
    """Print the JSON Schema of the file, for editors; it covers the installed plugins."""
    manifests = [one.manifest for one in installed_plugins() if one.manifest]
    whole = config_schema(manifests, plugin_keys(plugin_states(os.environ, ConfigSource())).models)
    sys.stdout.write(json.dumps(whole, ensure_ascii=False, indent=2) + "\n")


def _report_change(path: Path, key: str, values: tuple[Any, Any], unchanged: str, as_json: bool) -> bool:
    """Print what was done, and the errors and warnings about this key.

    :param values: before and after.
    :param unchanged: the words for a change that was none; empty = the file changed.
    :returns: true if something is wrong with the key.
    """
    place = format_key(step for step in split_key(key) or () if isinstance(step, str | int))
    errors, warnings = (
        [one for one in found if one.key.startswith(place) or place.startswith(f"{one.key}.")]
        for found in config_findings(path.parent, os.environ)
    )
    clear = [] if unchanged else clear_secrets(values[1], path_of(key))
    notes = [
        t("{key}: the secret is in the file as it is. Safer: set an environment variable NAME for claw and write "
          "{reference} here", key=one, reference="${NAME}")
        for one in clear
    ]  # fmt: skip
    texts = [*map(str, warnings), *notes]
    lines = [*labelled(errors, warnings), *((t("warning"), note) for note in notes)]
    if as_json:
        old, new = (as_data(value, key) for value in values)
        body = {"file": str(path), "key": key, "changed": not unchanged, "old": old, "new": new}
        document("config-changed", body | {"warnings": [*map(str, errors), *texts]})
        return bool(errors or warnings)
    old, new = (as_text(value, key) for value in values)
    done = f"{key} {unchanged}" if unchanged else f"{key.removesuffix('[]')}: {old} → {new}"
    typer.echo(f"{path}: {done}")
    for label, text in lines:
        typer.echo(with_label(label, text), err=True)
    return bool(errors or warnings)
