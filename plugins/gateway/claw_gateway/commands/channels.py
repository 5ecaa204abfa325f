"""``claw channels``: the configured channels, and the status of those that the running gateway serves."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import typer
from claw import t
from claw.runtime import AsJson, document, home_of, printable, table

from claw_gateway.process.report import configured_accounts

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Show the channels and their state.")
_COLOURS = {"up": "green", "starting": "yellow", "waiting": "yellow", "failed": "red", "quarantined": "red"}


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
    table(columns, rows, {t(word): colour for word, colour in _COLOURS.items()})


@app.command()
def status(as_json: AsJson = False) -> None:
    """Show the channels of the running gateway. Exit code 1: no gateway runs, it hangs, or a channel has failed."""
    from claw_gateway.commands.gateway import config_lines, gateway_data, is_hung, status_line
    from claw_gateway.process.status import read_status

    seen = read_status(home_of(os.environ))
    facts = gateway_data(seen)
    channels = facts["channels"]
    if as_json:
        document("channels-status", {name: facts[name] for name in ("running", "pid", "stuck", "channels")})
    else:
        if seen.live_run is None or is_hung(seen):
            typer.echo(f"{t('gateway')}: {status_line(seen)}")
        if channels:
            table(*channel_table(channels, seen.now))
        elif seen.live_run:
            typer.echo(t("no channel listens"))
        for line in config_lines():
            typer.echo(line, err=True)
    wrong = seen.live_run is None or is_hung(seen) or any(one["state"] == "failed" for one in channels)
    raise typer.Exit(code=1 if wrong else 0)


def _why(row: Mapping[str, str]) -> str:
    has_fix = row["fix"] and row["state"] not in ("loaded", "disabled")
    return t("{problem}. {fix}", problem=row["why"], fix=row["fix"]) if has_fix else row["why"]


def channel_table(
    channels: Sequence[Mapping[str, Any]], now: float
) -> tuple[list[str], list[list[str]], dict[str, str]]:
    """Return the table of running channels: heads, rows, colours."""
    heads = [
        t("channel"),
        t("account"),
        t("state"),
        t("last data"),
        t("reconnects"),
        t("message"),
    ]
    rows = [
        [
            one["channel"], one["account"], t(one["state"]), format_age(one["lastFrameAt"], now), str(one["reconnects"]),
            printable(one["detail"] or _last_error(one)),
        ]
        for one in channels
    ]  # fmt: skip
    return heads, rows, {t(word): colour for word, colour in _COLOURS.items()}


def _last_error(one: Mapping[str, Any]) -> str:
    """Return the last error; mark it as past when the channel is up again."""
    error: str = one["lastError"]
    return t("earlier: {why}", why=error) if error and one["state"] == "up" else error


def format_age(moment: float | None, now: float) -> str:
    """Format how long ago something was, in the largest unit that fits."""
    if moment is None:
        return t("never")
    seconds = max(0, int(now - moment))
    if seconds < 120:
        return t("{count} s ago", count=seconds)
    if seconds < 7200:
        return t("{count} min ago", count=seconds // 60)
    return t("{count} h ago", count=seconds // 3600)
