"""``claw turns``: the turns that were answered or are under way, and the replies that could not be delivered."""

import os
from datetime import datetime
from typing import Annotated, Any

import typer
from claw import t
from claw.runtime import AsJson, document, home_of, open_state, printable, table

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Turns: one message answered each.")


@app.callback()
def _top() -> None:
    """Keep ``list`` a sub-command: a lone command would take the place of the group."""


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
    from claw_gateway.journal import Journal

    with open_state(home_of(os.environ)) as database:
        journal = Journal(database) if database else None
        found = {"turns": journal.turns(limit, open_only=stuck) if journal else []}
        if stuck:
            found["turns"] = _without_abandoned(found["turns"])
            found["waiting"] = journal.unanswered() if journal else []
            found["notices"] = journal.replies_without_turn() if journal else []
    rows = [
        *map(_row, found["turns"]),
        *map(_waiting_row, found.get("waiting", ())),
        *map(_notice_row, found.get("notices", ())),
    ]
    if as_json:
        document("turns", found)
    elif not rows:
        typer.echo(t("nothing is stuck") if stuck else t("no turn is recorded"), err=True)
    else:
        columns = [t("turn"), t("began"), t("conversation"), t("outcome"), t("to send"), t("why")]
        table(
            columns,
            [[*map(printable, row)] for row in rows],
            {t("failed"): "red", t("delivered"): "green", t("not delivered"): "red"},
        )
    raise typer.Exit(code=1 if stuck and rows else 0)


def _without_abandoned(turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out turns of a terminal whose process is gone: nothing waits for them, and no start resumes them."""
    if all(turn["outcome"] or turn["served"] for turn in turns):
        return turns
    from claw_sessions.index import list_sessions

    held = {kept.key for kept in list_sessions(home_of(os.environ)) if kept.pid is not None}
    return [turn for turn in turns if turn["outcome"] or turn["served"] or turn["session"] in held]


def _row(turn: dict[str, Any]) -> list[str]:
    outcome = turn["outcome"] or t("running or interrupted")
    if outcome == "delivered" and turn["undelivered"]:  # it had an answer, and a part of it did not arrive
        outcome = "not delivered"
    why = turn["undelivered"] or (t("possibly sent twice") if turn["possiblyRepeated"] else "")
    return [
        turn["turn"],
        _moment(turn["beganAtMs"]),
        turn["session"],
        t(outcome),
        str(turn["owed"] or ""),
        why,
    ]


def _waiting_row(chat: dict[str, Any]) -> list[str]:
    text = t("{count:message is|messages are} waiting for a turn", count=chat["messages"])
    return ["-", _moment(chat["sinceMs"]), _chat_name(chat), text, "", ""]


def _notice_row(notice: dict[str, Any]) -> list[str]:
    if notice["state"] in ("owed", "sending"):
        return ["-", _moment(notice["owedAtMs"]), _chat_name(notice), t("a notice"), "1", ""]
    why = f"{notice['state']}: {notice['why']}"
    return ["-", _moment(notice["owedAtMs"]), _chat_name(notice), t("not delivered"), "", why]


def _chat_name(chat: dict[str, Any]) -> str:
    account = "" if chat["account"] == "default" else f"/{chat['account']}"
    return f"{chat['channel']}{account}:{chat['chat']}"


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")
