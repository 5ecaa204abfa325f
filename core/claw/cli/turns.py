"""``claw turns``: what was answered, what is under way, and what could not be delivered."""

import os
from datetime import datetime
from typing import Annotated, Any

import typer

from claw.cli.options import AsJson
from claw.cli.show import document, plain, table
from claw.survey import home_of, state_of
from claw.words import say

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Turns: one message answered each.")


@app.callback()
def _top() -> None:
    """With it ``list`` keeps its name: a lone command would take its place."""


@app.command("list")
def list_(
    stuck: Annotated[
        bool,
        typer.Option(
            "--stuck", help="Only what has not ended: turns, messages that wait, what is owed or was lost."
        ),
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="The newest so many.")] = 50,
    as_json: AsJson = False,
) -> None:
    """The newest turns of channels and terminals; exit 1 when --stuck finds something."""
    from claw.journal import Journal

    with state_of(home_of(os.environ)) as database:
        journal = Journal(database) if database else None
        found = {"turns": journal.turns(limit, open_only=stuck) if journal else []}
        if stuck:
            found["turns"] = _without_left(found["turns"])
            found["waiting"] = journal.unanswered() if journal else []
            found["notices"] = journal.notices() if journal else []
    rows = [
        *map(_row, found["turns"]),
        *map(_waits, found.get("waiting", ())),
        *map(_notice, found.get("notices", ())),
    ]
    if as_json:
        document("turns", found)
    elif not rows:
        typer.echo(say("nothing is stuck") if stuck else say("no turn is recorded"), err=True)
    else:
        columns = [say("turn"), say("began"), say("conversation"), say("outcome"), say("owed"), say("why")]
        table(
            columns,
            [[*map(plain, row)] for row in rows],
            {say("failed"): "red", say("delivered"): "green", say("not delivered"): "red"},
        )
    raise typer.Exit(code=1 if stuck and rows else 0)


def _without_left(turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without those that began at a terminal whose process is gone: nobody waits for them, and no start takes them up."""
    if all(turn["outcome"] or turn["served"] for turn in turns):
        return turns
    from claw.conversations.kept import conversations

    held = {kept.key for kept in conversations(home_of(os.environ)) if kept.pid is not None}
    return [turn for turn in turns if turn["outcome"] or turn["served"] or turn["session"] in held]


def _row(turn: dict[str, Any]) -> list[str]:
    outcome = turn["outcome"] or say("runs, or was cut off")
    if outcome == "delivered" and turn["undelivered"]:  # it had an answer, and a part of it did not arrive
        outcome = "not delivered"
    why = turn["undelivered"] or (say("possibly sent twice") if turn["possiblyRepeated"] else "")
    return [
        turn["turn"],
        _moment(turn["beganAtMs"]),
        turn["session"],
        say(outcome),
        str(turn["owed"] or ""),
        why,
    ]


def _waits(chat: dict[str, Any]) -> list[str]:
    told = say("{count:message waits|messages wait} for a turn", count=chat["messages"])
    return ["-", _moment(chat["sinceMs"]), _place(chat), told, "", ""]


def _notice(notice: dict[str, Any]) -> list[str]:
    if notice["state"] in ("owed", "sending"):
        return ["-", _moment(notice["owedAtMs"]), _place(notice), say("a notice"), "1", ""]
    why = f"{notice['state']}: {notice['why']}"
    return ["-", _moment(notice["owedAtMs"]), _place(notice), say("not delivered"), "", why]


def _place(chat: dict[str, Any]) -> str:
    account = "" if chat["account"] == "default" else f"/{chat['account']}"
    return f"{chat['channel']}{account}:{chat['chat']}"


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")
