"""``claw channels``: the configured channels, and the status of those that the running gateway serves."""

import os
from collections.abc import Mapping

import typer
from claw import t
from claw.runtime import AsJson, document, home_of, table, with_label

from claw_gateway.commands.channel_table import STATE_COLOURS, channel_table
from claw_gateway.process.report import configured_accounts

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Show the channels and their state.")


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """The channels of the file, their accounts, and the states of their plugins; nothing is imported."""
    from claw.runtime import load_setup

    setup = load_setup()
    found = list(configured_accounts(setup.config.settings, setup.plugin_states))
    if as_json:
        document("channels", {"channels": found})
        return
    if not found:
        from claw_gateway.process.run import no_channel_hint

        typer.echo(no_channel_hint(setup))
        return
    columns = [t("channel"), t("account"), t("plugin"), t("state"), t("why")]
    rows = [
        [one["channel"], one["account"], one["plugin"] or "-", t(one["state"]), _why(one)] for one in found
    ]
    table(columns, rows, {t(word): colour for word, colour in STATE_COLOURS.items()})


@app.command()
def status(as_json: AsJson = False) -> None:
    """Show the channels of the running gateway. Exit code 1: no gateway runs, it hangs, or a channel receives nothing."""
    from claw_gateway.commands.gateway import (
        config_lines,
        gateway_data,
        is_hung,
        is_unserved,
        shortages,
        status_line,
    )
    from claw_gateway.process.status import read_status

    home = home_of(os.environ)
    seen = read_status(home)
    facts = gateway_data(seen)
    channels = facts["channels"]
    if as_json:
        body = {name: facts[name] for name in ("running", "pid", "stuck", "channels")}
        document("channels-status", {**body, "shortages": shortages(home, facts)})
    else:
        if seen.live_run is None or is_hung(seen):
            typer.echo(with_label(t("gateway"), status_line(seen)))
        if channels:
            table(*channel_table(channels, seen.now))
        elif seen.live_run:
            typer.echo(t("no channel listens"))
        for line in [*shortages(home, facts), *config_lines()]:
            typer.echo(line, err=True)
    wrong = seen.live_run is None or is_hung(seen) or any(is_unserved(one, seen.now) for one in channels)
    raise typer.Exit(code=1 if wrong else 0)


def _why(row: Mapping[str, str]) -> str:
    has_fix = row["fix"] and row["state"] not in ("loaded", "disabled")
    return t("{problem}. {fix}", problem=row["why"], fix=row["fix"]) if has_fix else row["why"]
