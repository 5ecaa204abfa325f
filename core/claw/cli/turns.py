"""``claw turns``: what was answered, what is under way, and what could not be delivered."""

import os
from datetime import datetime
from typing import Annotated, Any

import typer

from claw.cli.show import document, table
from claw.survey import home_of
from claw.words import say

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Turns: one message answered each.")


@app.callback()
def _top() -> None:
    """With it ``list`` keeps its name: a lone command would take its place."""


@app.command("list")
def list_(
    stuck: Annotated[
        bool, typer.Option("--stuck", help="Only those that have not ended, or owe something.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="The newest so many.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """The newest turns of channels and terminals; exit 1 when --stuck finds one."""
    from claw.journal import Journal
    from claw.store import Database

    path = home_of(os.environ) / "state.db"
    turns: list[dict[str, Any]] = []
    if path.exists():
        database = Database(path)
        turns = Journal(database).turns(limit, open_only=stuck)
        database.close()
    if as_json:
        document("turns", {"turns": turns})
    elif not turns:
        typer.echo(say("nothing is stuck") if stuck else say("no turn is recorded"), err=True)
    else:
        columns = [say("turn"), say("began"), say("conversation"), say("outcome"), say("owed"), say("why")]
        table(
            columns,
            [_row(turn) for turn in turns],
            {say("failed"): "red", say("delivered"): "green", say("not delivered"): "red"},
        )
    raise typer.Exit(code=1 if stuck and turns else 0)


def _row(turn: dict[str, Any]) -> list[str]:
    outcome = turn["outcome"] or say("runs, or was cut off")
    if outcome == "delivered" and turn["undelivered"]:  # it had an answer, and a part of it did not arrive
        outcome = "not delivered"
    why = turn["undelivered"] or (say("possibly sent twice") if turn["possiblyRepeated"] else "")
    began = datetime.fromtimestamp(turn["beganAtMs"] / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    return [turn["turn"], began, turn["session"], say(outcome), str(turn["owed"] or ""), why]
