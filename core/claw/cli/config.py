"""``claw config``: read and check the one config file; ``set``, ``unset`` and ``schema`` come from claw-admin."""

import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from claw.cli.output import document
from claw.cli.plugin_commands import AsJson
from claw.config import source
from claw.config.paths import get_value, split_key
from claw.contracts.errors import ConfigError
from claw.host.discovery import home_of, use_configured_locale
from claw.i18n import t

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Read, change and check the config file.")

_SECRET = re.compile(
    r"(^|[a-z_])(api_?key|encrypt_?key|token|secret|password|passphrase|private_?key|dsn)$", re.I
)
_NO_SECRET = frozenset({"silentToken", "silent_token"})
MASK = "******"


@app.command()
def get(
    key: Annotated[str, typer.Argument(help="Dotted; empty = the whole file.")] = "", as_json: AsJson = False
) -> None:
    """Print the value of KEY as written in the file; secrets are shown as asterisks."""
    path = source.find_config(home_of(os.environ))
    tree = source.read_config(path).tree if path else {}
    value = masked(get_value(tree, key) if key else tree, _last_name(key))
    if as_json:
        document("config-value", {"key": key, "value": value})
    else:
        sys.stdout.write(_as_text(value))


@app.command()
def validate(as_json: AsJson = False) -> None:
    """Check the file: every error with key, line and fix (exit code 3), then the warnings."""
    path = source.find_config(home_of(os.environ))
    use_configured_locale(os.environ)
    errors, warnings = config_findings(home_of(os.environ), os.environ)
    if as_json:
        body = {"file": str(path) if path else None, "valid": not errors}
        document("config-findings", body | {"errors": _as_data(errors), "warnings": _as_data(warnings)})
    else:
        for error in errors:
            typer.echo(f"{t('error')}: {error}", err=True)
        for warning in warnings:
            typer.echo(f"{t('warning')}: {warning}", err=True)
        if not errors:
            absent = t("there is no config file; all settings have their defaults")
            typer.echo(t("{file} is valid", file=path) if path else absent)
    if errors:
        raise typer.Exit(code=3)


@app.command()
def path(as_json: AsJson = False) -> None:
    """Print the path of the file, also when it does not exist yet."""
    found = source.find_config(home_of(os.environ))
    if as_json:
        document("config-path", {"path": str(file_of(os.environ)), "exists": found is not None})
    else:
        typer.echo(str(file_of(os.environ)))


def file_of(environ: Mapping[str, str]) -> Path:
    """Return the path of the config file, or of the one that would be created."""
    home = home_of(environ)
    return source.find_config(home) or home / source.CONFIG_FILE_NAMES[0]


def config_findings(home: Path, environ: Mapping[str, str]) -> tuple[list[ConfigError], list[ConfigError]]:
    """Return errors and warnings of the file in ``home``: the judgement that every command shows."""
    from claw.app import command_host, load_setup
    from claw.config import ConfigErrors
    from claw.host.registry import file_warnings
    from claw.host.state import config_key_errors

    try:
        setup = load_setup({**environ, "CLAW_HOME": str(home)})
    except ConfigErrors as several:
        return list(several.errors), []
    except ConfigError as one:
        return [one], []
    host = command_host(setup=setup)
    errors = [*config_key_errors(setup.config, setup.plugin_states), *host.slot_errors(setup.config)]
    warnings = [*file_warnings(setup, host.on_demand("register_diagnostics"))]
    if not host.on_demand("register_diagnostics", at_start=True):
        why = t("no plugin in use looks for settings without effect (claw-admin does)")
        fixes = (one.fix for one in host.plugin_states if one.found.checks_config and one.fix)
        warnings.append(setup.config.error("plugins", why, next(fixes, "pip install claw-admin")))
    # Settings of this file that a plugin refused when it was last loaded.
    refused = [one for one in setup.plugin_states if one.without_failure and one.stage == "config"]
    recorded = [ConfigError(one.id, "{why}", "{advice}", why=one.why, advice=one.fix) for one in refused]
    return errors, [*warnings, *recorded]


def masked(value: Any, key: str = "") -> Any:
    """Return ``value`` as it may be shown: values under a secret's name are hidden, references are not."""
    if isinstance(value, Mapping):
        if set(value) in ({"env"}, {"file"}):
            return value
        inner = key if key == "headers" else ""
        return {name: masked(child, inner or str(name)) for name, child in value.items()}
    if isinstance(value, list):
        return [masked(child, key) for child in value]
    hidden = key == "headers" or (_SECRET.search(key) is not None and key not in _NO_SECRET)
    if hidden and isinstance(value, str | int | float) and not isinstance(value, bool) and value != "":
        return value if re.fullmatch(r"\$\{\w+\}", str(value)) else MASK
    return value


def _last_name(key: str) -> str:
    """Return the last name in ``key``."""
    return next((step for step in reversed(split_key(key) or ()) if isinstance(step, str)), "")


def _as_text(value: Any) -> str:
    """Format a scalar as it is, anything larger as YAML."""
    if not isinstance(value, Mapping | list):
        return f"{json.dumps(value) if not isinstance(value, str) else value}\n"
    import yaml

    return yaml.safe_dump(value, allow_unicode=True, sort_keys=False) if value else ""


def _as_data(found: list[ConfigError]) -> list[dict[str, Any]]:
    return [
        {"key": one.key, "file": one.file, "line": one.line, "problem": one.problem, "fix": one.fix}
        for one in found
    ]
