"""``claw turns``: the turns that were answered or are running, and the replies that could not be delivered."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from claw import ConfigError, UsageError, t
from claw.runtime import (
    AsJson,
    Database,
    command_host,
    document,
    home_of,
    printable,
    table,
)
from claw_config_sdk import open_state

from claw_gateway.process.presence import gateway_pid

if TYPE_CHECKING:
    from claw_gateway.journal import Journal

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="List recent and interrupted turns; retry or dismiss replies that failed.",
)
TurnId = Annotated[
    str, typer.Argument(metavar="[TURN]", help="The turn, as claw turns list --stuck shows it.")
]
All = Annotated[bool, typer.Option("--all", help="Every turn with a reply that failed.")]


@app.command("list")
def list_(
    stuck: Annotated[
        bool,
        typer.Option(
            "--stuck",
            help="Only what has not ended: running turns, waiting messages, pending and lost replies.",
        ),
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="Number of turns at most, the newest first.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List the newest turns of channels and terminals. Exit code 1: --stuck finds something."""
    from claw_gateway.journal import Journal

    with open_state(home_of(os.environ)) as database:
        journal = Journal(database) if database else None
        found = {"turns": journal.turns(limit, open_only=stuck) if journal else []}
        if stuck:
            if database:
                found["turns"] = _without_abandoned(found["turns"], database)
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
        typer.echo(t("nothing is stuck") if stuck else t("no turn is recorded"))
    else:
        columns = [t("turn"), t("began"), t("conversation"), t("outcome"), t("to send"), t("why")]
        table(
            columns,
            [[*map(printable, row)] for row in rows],
            {t("failed"): "red", t("delivered"): "green", t("not delivered"): "red"},
        )
    raise typer.Exit(code=1 if stuck and rows else 0)


@app.command()
def retry(turn: TurnId = "", everything: All = False, as_json: AsJson = False) -> None:
    """Send the replies of TURN that failed again. One with an unknown outcome may then be in its chat twice."""
    with _journal() as journal:
        changed = _change(journal, journal.retry, turn, everything)
    if as_json:
        document("turns-retried", {"turns": changed})
        return
    running = gateway_pid(home_of(os.environ)) is not None
    for id, count in changed.items():
        if running:
            text = t("turn {id}: {count:reply is|replies are} sent again now", id=id, count=count)
        else:
            text = t(
                "turn {id}: {count:reply is|replies are} sent at the next start of the gateway",
                id=id,
                count=count,
            )
        typer.echo(text)
    if not changed:
        typer.echo(t("no reply has failed"))


@app.command()
def dismiss(turn: TurnId = "", everything: All = False, as_json: AsJson = False) -> None:
    """Acknowledge the replies of TURN that failed: --stuck shows them no longer, and they are not sent."""
    with _journal() as journal:
        changed = _change(journal, journal.dismiss, turn, everything)
    if as_json:
        document("turns-dismissed", {"turns": changed})
        return
    for id, count in changed.items():
        typer.echo(t("turn {id}: {count:reply is|replies are} dismissed", id=id, count=count))
    if not changed:
        typer.echo(t("no reply has failed"))


@contextmanager
def _journal() -> "Iterator[Journal]":
    from claw_gateway.journal import Journal

    with closing(Database(home_of(os.environ) / "state.db")) as database:
        yield Journal(database)


def _change(journal: "Journal", change: Callable[[str], int], turn: str, everything: bool) -> dict[str, int]:
    """Apply a change to one turn, or to all with a failed reply; return the number of its replies for each.

    :raises UsageError: neither or both are given, or the turn has no failed reply.
    """
    if bool(turn) == everything:
        raise UsageError("name one turn, or give --all", fix="claw turns list --stuck shows the turns")
    if everything:
        return {id: change(id) for id in journal.failed_turns()}
    if not (count := change(turn)):
        raise UsageError(
            "turn {id} has no reply that failed",
            fix="claw turns list --stuck shows the turns with one. An interrupted turn is resumed at the next start; one "
            "that ended without a reply is not run again, because its tools may have acted: send the message again",
            id=printable(turn),
        )
    return {turn: count}


def _without_abandoned(turns: list[dict[str, Any]], database: Database) -> list[dict[str, Any]]:
    """Leave out turns of a terminal whose process is gone: nothing waits for them, and no start resumes them."""
    holder = None
    if not all(turn["outcome"] or turn["served"] for turn in turns):
        with suppress(ConfigError):  # with a file that is wrong, each one is shown
            host = command_host(database=database)
            host.on_demand("register_session_stores")
            store = host.chosen("sessions")
            holder = getattr(store and store.value, "holder", None)
    return [
        turn
        for turn in turns
        if turn["outcome"] or turn["served"] or holder is None or holder(turn["session"]) is not None
    ]


def _row(turn: dict[str, Any]) -> list[str]:
    outcome = turn["outcome"] or t("running or interrupted")
    if outcome == "delivered" and turn["undelivered"]:  # it had an answer, and a part of it did not arrive
        outcome = "not delivered"
    delivery = turn["undelivered"] or (t("possibly sent twice") if turn["possiblyRepeated"] else "")
    return [
        turn["turn"],
        _moment(turn["beganAtMs"]),
        turn["session"],
        t(outcome),
        str(turn["owed"] or ""),
        "; ".join(filter(None, (turn["why"], delivery))),
    ]


def _waiting_row(chat: dict[str, Any]) -> list[str]:
    text = t("{count:message is|messages are} waiting for a turn", count=chat["messages"])
    return ["-", _moment(chat["sinceMs"]), _chat_name(chat), text, "", ""]


def _notice_row(notice: dict[str, Any]) -> list[str]:
    if notice["state"] in ("owed", "sending", "retry"):
        return [notice["turn"], _moment(notice["owedAtMs"]), _chat_name(notice), t("a notice"), "1", ""]
    why = f"{notice['state']}: {notice['why']}"
    return [notice["turn"], _moment(notice["owedAtMs"]), _chat_name(notice), t("not delivered"), "", why]


def _chat_name(chat: dict[str, Any]) -> str:
    account = "" if chat["account"] == "default" else f"/{chat['account']}"
    return f"{chat['channel']}{account}:{chat['chat']}"


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")
