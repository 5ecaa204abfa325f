"""``claw channels``: which are configured, and how those of the running gateway are doing."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import typer

from claw.cli.options import AsJson
from claw.cli.show import document, plain, table
from claw.report import configured
from claw.survey import home_of
from claw.words import say

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="The places where people write to your agents."
)
_COLOURS = {"up": "green", "starting": "yellow", "waiting": "yellow", "failed": "red", "quarantined": "red"}


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """The channels of the file, their accounts, and how the plugin behind each stands; nothing is imported."""
    from claw.app import look_round

    house = look_round()
    found = list(configured(house.config.settings, house.standings))
    if as_json:
        document("channels", {"channels": found})
        return
    if not found:
        from claw.gateway.process import no_channel

        typer.echo(no_channel(house), err=True)
        return
    columns = [say("channel"), say("account"), say("plugin"), say("state"), say("why")]
    rows = [
        [one["channel"], one["account"], one["plugin"] or "-", say(one["state"]), _why(one)] for one in found
    ]
    table(columns, rows, {say(word): colour for word, colour in _COLOURS.items()})


@app.command()
def status(as_json: AsJson = False) -> None:
    """How the channels of the running gateway are doing; exit 1 when none runs, it hangs, or a channel has failed."""
    from claw.cli.gateway import facts_of, is_stuck, summary
    from claw.gateway.status import look

    seen = look(home_of(os.environ))
    facts = facts_of(seen)
    channels = facts["channels"]
    if as_json:
        document("channels-status", {name: facts[name] for name in ("running", "pid", "stuck", "channels")})
    else:
        if seen.told is None or is_stuck(seen):
            typer.echo(f"{say('gateway')}: {summary(seen)}", err=True)
        if channels:
            table(*rows_of(channels, seen.now))
        elif seen.told:
            typer.echo(say("no channel listens"), err=True)
    wrong = seen.told is None or is_stuck(seen) or any(one["state"] == "failed" for one in channels)
    raise typer.Exit(code=1 if wrong else 0)


def _why(row: Mapping[str, str]) -> str:
    mends = row["fix"] and row["state"] not in ("loaded", "disabled")
    return say("{problem}. {fix}", problem=row["why"], fix=row["fix"]) if mends else row["why"]


def rows_of(
    channels: Sequence[Mapping[str, Any]], now: float
) -> tuple[list[str], list[list[str]], dict[str, str]]:
    """The table of running channels: heads, rows, colours."""
    heads = [
        say("channel"),
        say("account"),
        say("state"),
        say("last frame"),
        say("reconnects"),
        say("what it says"),
    ]
    rows = [
        [
            one["channel"], one["account"], say(one["state"]), ago(one["lastFrameAt"], now), str(one["reconnects"]),
            plain(one["detail"] or _past(one)),
        ]
        for one in channels
    ]  # fmt: skip
    return heads, rows, {say(word): colour for word, colour in _COLOURS.items()}


def _past(one: Mapping[str, Any]) -> str:
    """The last error; of a channel that has come back, as what it is: over."""
    told: str = one["lastError"]
    return say("earlier: {why}", why=told) if told and one["state"] == "up" else told


def ago(moment: float | None, now: float) -> str:
    """How long ago something was, in the largest unit that fits."""
    if moment is None:
        return say("never")
    seconds = max(0, int(now - moment))
    if seconds < 120:
        return say("{count} s ago", count=seconds)
    if seconds < 7200:
        return say("{count} min ago", count=seconds // 60)
    return say("{count} h ago", count=seconds // 3600)
