"""``claw config``: read, change and judge the one config file."""

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from claw.cli.options import AsJson
from claw.cli.show import document
from claw.config import source
from claw.config.names import dotted, steps
from claw.errors import ConfigError, UsageError
from claw.survey import home_of, speak
from claw.words import say

if TYPE_CHECKING:
    from claw.config import Config

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Read, change and judge the config file.")
Key = Annotated[
    str, typer.Argument(help=r"Dotted: agents.list\[coder].tools.allow; [] is the end of a list.")
]

_SECRET = re.compile(
    r"(^|[a-z_])(api_?key|encrypt_?key|token|secret|password|passphrase|private_?key|dsn)$", re.I
)
_NO_SECRET = frozenset({"silentToken", "silent_token"})
MASK = "******"


@app.command()
def get(
    key: Annotated[str, typer.Argument(help="Dotted; empty = the whole file.")] = "", as_json: AsJson = False
) -> None:
    """Print what the file says at KEY, as written; secrets are shown as asterisks."""
    from claw.config.edit import get_value

    path = source.find(home_of(os.environ))
    tree = source.read(path).tree if path else {}
    value = masked(get_value(tree, key) if key else tree, _last(key))
    if as_json:
        document("config-value", {"key": key, "value": value})
    else:
        sys.stdout.write(_plain(value))


class _AsTyped(TyperCommand):
    """KEY VALUE: a value may begin with a dash, as a chat's number and every 64th random token do."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        plain = len(args) == 2 and args[0][:1] != "-" and args[1] not in ctx.help_option_names
        return super().parse_args(ctx, ["--", *args] if plain else args)


@app.command("set", cls=_AsTyped)
def set_(key: Key, value: Annotated[str, typer.Argument(help=r"YAML: true, 3, \[a, b], a word.")]) -> None:
    """Put VALUE at KEY. Comments stay; a change that would break the file is refused."""
    from claw.config import edit

    path = file_of(os.environ)
    parsed = edit.parse_value(value)
    try:
        changed = edit.set_value(path, key, parsed, os.environ)
    except ConfigError:
        if isinstance(parsed, str | list | dict):
            raise
        # An id that looks like a number: where a text is wanted, the words as typed are meant.
        changed = edit.set_value(path, key, value, os.environ)
    odd = _told(path, key, say("set") if changed else say("was so already"))
    place = steps(key) or ()
    if not odd and len(place) > 1 and place[0] == "channels":
        next_ = say(
            "is channel {name} complete? claw doctor {name} asks; claw gateway start serves it", name=place[1]
        )
        typer.echo(next_, err=True)


@app.command()
def unset(key: Key) -> None:
    """Take KEY out of the file."""
    from claw.config import edit

    path = file_of(os.environ)
    _told(path, key, say("taken out") if edit.unset(path, key, os.environ) else say("was not there"))


@app.command()
def validate(as_json: AsJson = False) -> None:
    """Judge the file: every error with key, line and fix (exit 3), then what is odd."""
    path = source.find(home_of(os.environ))
    speak(os.environ)
    errors, warnings = findings(home_of(os.environ), os.environ)
    if as_json:
        body = {"file": str(path) if path else None, "valid": not errors}
        document("config-findings", body | {"errors": _all(errors), "warnings": _all(warnings)})
    else:
        for error in errors:
            typer.echo(f"{say('error')}: {error}", err=True)
        for warning in warnings:
            typer.echo(f"{say('warning')}: {warning}", err=True)
        if not errors:
            typer.echo(
                say("{file} is sound", file=path) if path else say("there is no config file: all defaults")
            )
    if errors:
        raise typer.Exit(code=3)


@app.command()
def schema() -> None:
    """Print the JSON Schema of the file, for editors; installed plugins are in it."""
    from claw.config.schema import schema as whole
    from claw.index import scan

    manifests = [one.manifest for one in scan(home_of(os.environ)) if one.manifest]
    sys.stdout.write(json.dumps(whole(manifests), ensure_ascii=False, indent=2) + "\n")


@app.command()
def path(as_json: AsJson = False) -> None:
    """Print where the file is, or would be."""
    found = source.find(home_of(os.environ))
    if as_json:
        document("config-path", {"path": str(file_of(os.environ)), "exists": found is not None})
    else:
        typer.echo(str(file_of(os.environ)))


def file_of(environ: Mapping[str, str]) -> Path:
    """The config file, or where a new one goes."""
    home = home_of(environ)
    return source.find(home) or home / source.NAMES[0]


def findings(home: Path, environ: Mapping[str, str]) -> tuple[list[ConfigError], list[ConfigError]]:
    """Errors and warnings of the file in ``home``; installed plugins are compared by their manifests."""
    from claw.catalog import CORE_TOOLS, GROUPS
    from claw.config import ConfigErrors, load
    from claw.config.check import check, known_of
    from claw.index import scan

    try:
        config = load(home, environ)
    except ConfigErrors as several:
        return list(several.errors), []
    except ConfigError as one:
        return [one], []
    known = known_of(scan(home), CORE_TOOLS, GROUPS)
    return [], [*config.warnings, *check(config, known), *_no_addresses(config)]


def _no_addresses(config: "Config") -> Iterator[ConfigError]:
    """``baseUrl`` of providers that lead nowhere: their plugin sets them aside when it is loaded."""
    from claw.guard.fetch import origin_of

    for name, section in config.settings.providers.items():
        try:
            if section.base_url:
                origin_of(section.base_url)
        except UsageError as wrong:
            yield config.teller.tell(("providers", name, "baseUrl"), "{why}", why=str(wrong).rstrip("."))


def masked(value: Any, key: str = "") -> Any:
    """``value`` as it may be shown: what stands under a secret's name is hidden, references are not."""
    if isinstance(value, Mapping):
        if set(value) in ({"env"}, {"file"}):
            return value
        inner = key if key == "headers" else ""
        return {name: masked(part, inner or str(name)) for name, part in value.items()}
    if isinstance(value, list):
        return [masked(part, key) for part in value]
    hidden = key == "headers" or (_SECRET.search(key) is not None and key not in _NO_SECRET)
    if hidden and isinstance(value, str | int | float) and not isinstance(value, bool) and value != "":
        return value if re.fullmatch(r"\$\{\w+\}", str(value)) else MASK
    return value


def _last(key: str) -> str:
    """The name under which the value of ``key`` stands."""
    return next((step for step in reversed(steps(key) or ()) if isinstance(step, str)), "")


def _plain(value: Any) -> str:
    """A word as it is, anything larger as YAML."""
    if not isinstance(value, Mapping | list):
        return f"{json.dumps(value) if not isinstance(value, str) else value}\n"
    import yaml

    return yaml.safe_dump(value, allow_unicode=True, sort_keys=False) if value else ""


def _told(path: Path, key: str, done: str) -> bool:
    """Say what was done, and what is odd there now; whether anything is."""
    typer.echo(f"{path}: {key} {done}")
    written = dotted(step for step in steps(key) or () if isinstance(step, str | int))
    odd = [
        one
        for one in findings(path.parent, os.environ)[1]
        if one.key.startswith(written) or written.startswith(f"{one.key}.")
    ]
    for warning in odd:
        typer.echo(f"{say('warning')}: {warning}", err=True)
    return bool(odd)


def _all(found: list[ConfigError]) -> list[dict[str, Any]]:
    return [
        {"key": one.key, "file": one.file, "line": one.line, "problem": one.problem, "fix": one.fix}
        for one in found
    ]
