"""``claw upgrade``: the way to upgrade claw here; with ``--check`` a trial of the next version with every
plugin."""

import os
from typing import Annotated

import typer
from claw import UsageError, t
from claw.runtime import AsJson, document, table


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
    from claw_admin.plugin_manager.environment import CORE, current_environment

    if not check:
        if to:
            raise UsageError("--to needs --check", fix="claw upgrade --check --to {to}", to=to)
        command = current_environment().command_for("upgrade", CORE, *_release_train())
        if as_json:
            document("upgrade", {"environment": current_environment().description, "command": command})
        else:
            typer.echo(command or t("claw was installed by the system's package manager: upgrade it there"))
        return
    from claw.runtime import installed_plugins

    from claw_admin.plugin_manager.pip import parse_requirement
    from claw_admin.plugin_manager.rehearsal import rehearse_upgrade

    target = parse_requirement(f"{CORE}=={to}" if to[:1].isdigit() and "/" not in to else to or CORE)
    third_party = [
        one for one in installed_plugins() if not one.is_first_party
    ]  # ours are released with core
    rehearsed = rehearse_upgrade(target, third_party, os.environ, lambda line: None)
    broken = [one for one in rehearsed.trials if one.problem]
    if as_json:
        rows = [
            {"plugin": one.plugin, "version": one.version, "why": one.problem} for one in rehearsed.trials
        ]
        document("rehearsal", {"core": rehearsed.core, "api": rehearsed.api, "plugins": rows})
    else:
        typer.echo(t("claw {core}, plugin API {api}", core=rehearsed.core, api=rehearsed.api))
        cells = [[one.plugin, one.version, one.problem or t("works")] for one in rehearsed.trials]
        table([t("plugin"), t("version"), t("with the new version")], cells)
    raise typer.Exit(code=1 if broken else 0)


def _release_train() -> tuple[str, ...]:
    """Return the installed plugins of claw itself as distributions: each release of them needs the same one of core."""
    from claw.runtime import installed_plugins

    return tuple(sorted({one.distribution for one in installed_plugins() if one.is_first_party}))
