"""``claw config validate`` and ``path``, and the group of all commands about the config file."""

import os
from typing import Any

import typer
from claw import ConfigError, t
from claw.runtime import AsJson, document, find_config, home_of, use_configured_locale, with_label
from claw_config_sdk import config_findings, file_of, labelled

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Read, change and check the config file.")


@app.command()
def validate(as_json: AsJson = False) -> None:
    """Check the file: every error with key, line and fix (exit code 3), the settings that do not work (exit code 1), then
    those without effect.
    """
    path = find_config(home_of(os.environ))
    use_configured_locale(os.environ)
    errors, warnings = config_findings(home_of(os.environ), os.environ)
    problems = [one for one in warnings if one.grave]
    if as_json:
        body = {"file": str(path) if path else None, "valid": not errors and not problems}
        document("config-findings", body | {"errors": _as_data(errors), "warnings": _as_data(warnings)})
    else:
        for label, one in labelled(errors, warnings):
            typer.echo(with_label(label, one), err=True)
        if problems:
            place = f"{path}: " if path else ""
            typer.echo(place + t("{count:setting does|settings do} not work", count=len(problems)))
        elif not errors:
            absent = t("there is no config file; all settings have their defaults")
            typer.echo(t("{file} is valid", file=path) if path else absent)
    if errors or problems:
        raise typer.Exit(code=3 if errors else 1)


@app.command()
def path(as_json: AsJson = False) -> None:
    """Print the path of the file, also when it does not exist yet."""
    found = find_config(home_of(os.environ))
    if as_json:
        document("config-path", {"path": str(file_of(os.environ)), "exists": found is not None})
    else:
        typer.echo(str(file_of(os.environ)))


def _as_data(found: list[ConfigError]) -> list[dict[str, Any]]:
    return [
        {
            "key": one.key,
            "file": one.file,
            "line": one.line,
            "problem": one.problem,
            "fix": one.fix,
            "grave": one.grave,
        }
        for one in found
    ]
