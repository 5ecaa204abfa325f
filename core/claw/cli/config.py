"""``claw config``: check the one config file; ``get``, ``set``, ``unset`` and ``schema`` come from claw-admin."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from claw.cli.output import document
from claw.cli.plugin_commands import AsJson
from claw.config import source
from claw.config.summary import outline_config
from claw.contracts.diagnostics import INCOMPATIBLE, LOADED, QUARANTINED
from claw.contracts.errors import ConfigError
from claw.host.discovery import home_of, use_configured_locale
from claw.i18n import t

if TYPE_CHECKING:
    from claw.app import Setup
    from claw.host.manager import Host

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Read, change and check the config file.")


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
    from claw.config.errors import ConfigErrors
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
    checking = [one for one in host.plugin_states if one.found.declares.config_checks]
    if all(one.state in (QUARANTINED, INCOMPATIBLE) for one in checking):
        why = t("no plugin in use looks for settings without effect (claw-admin does)")
        fix = checking[0].fix if checking else "pip install claw-admin"
        warnings.append(setup.config.error("plugins", why, fix))
    said = "\n".join(map(str, warnings))
    return errors, [*warnings, *(one for one in _refused_settings(setup, host) if one.problem not in said)]


def _refused_settings(setup: "Setup", host: "Host") -> Iterator[ConfigError]:
    """Yield the settings that a plugin refuses: now, or when it was last loaded."""
    from claw.host.state import chosen_by_file

    wanted = outline_config(setup.config.layout.tree)
    for state in setup.plugin_states:
        if state.state == LOADED and (state.found.channels or chosen_by_file(state.id, wanted)):
            host.ask(state.id)
    known = {one.id for one in setup.plugin_states if one.state == QUARANTINED and not one.without_failure}
    for state in host.plugin_states:
        if state.state == QUARANTINED and state.stage == "config" and state.id not in known:
            yield ConfigError(state.id, "{why}", "{advice}", why=state.why, advice=state.fix)
    for channel in host.ordered("register_channels"):
        if isinstance(error := getattr(channel.value, "error", None), ConfigError):  # of one account
            yield error


def _as_data(found: list[ConfigError]) -> list[dict[str, Any]]:
    return [
        {"key": one.key, "file": one.file, "line": one.line, "problem": one.problem, "fix": one.fix}
        for one in found
    ]
