"""``claw upgrade``: how claw is upgraded here, and with ``--check`` what the next one would do to the plugins."""

import os
from typing import Annotated

import typer

from claw.cli.options import AsJson
from claw.cli.show import document, table
from claw.errors import UsageError
from claw.words import say

app = typer.Typer(add_completion=False, help="How to upgrade claw, and what that would do to the plugins.")


@app.command()
def upgrade(
    check: Annotated[
        bool, typer.Option("--check", help="Try the next claw with every plugin; change nothing.")
    ] = False,
    to: Annotated[
        str, typer.Option("--to", help="A version, a wheel or a folder; default: the newest.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Say how claw is upgraded in this environment. --check exits 1 when a plugin would break."""
    from claw.lifecycle.environment import CORE, here

    if not check:
        if to:
            raise UsageError("--to goes with --check", fix="claw upgrade --check --to {to}", to=to)
        command = here().command("upgrade", CORE)
        if as_json:
            document("upgrade", {"environment": here().said, "command": command})
        else:
            typer.echo(command or say("claw belongs to the system's own packages here: upgrade it with them"))
        return
    from claw.lifecycle.installer import wish
    from claw.lifecycle.rehearsal import rehearse
    from claw.manifest import scan

    target = wish(f"{CORE}=={to}" if to[:1].isdigit() and "/" not in to else to or CORE)
    rehearsed = rehearse(target, scan(), os.environ, lambda line: None)
    broken = [one for one in rehearsed.trials if one.why]
    if as_json:
        rows = [{"plugin": one.plugin, "version": one.version, "why": one.why} for one in rehearsed.trials]
        document("rehearsal", {"core": rehearsed.core, "api": rehearsed.api, "plugins": rows})
    else:
        typer.echo(say("claw {core}, plugin API {api}", core=rehearsed.core, api=rehearsed.api))
        told = [[one.plugin, one.version, one.why or say("works")] for one in rehearsed.trials]
        table([say("plugin"), say("version"), say("with the next claw")], told)
    raise typer.Exit(code=1 if broken else 0)
