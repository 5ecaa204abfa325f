"""``claw approvals``: the approval requests that wait, and the calls that are always allowed."""

import os
from collections.abc import Callable
from typing import Annotated, Any

import typer
from claw import ClawError, UsageError, t
from claw.runtime import AsJson, Database, command_host, document, home_of, table, utc_time
from claw_config_sdk import open_state

from claw_approvals.approvals import Approvals
from claw_approvals.question import asked_by

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="List waiting requests and permanent approvals, and revoke them.",
)


@app.command("list")
def listed(as_json: AsJson = False) -> None:
    """List the waiting requests, and the permanently approved calls."""
    waiting, granted = _rows()
    if as_json:
        document("approvals", {"pending": waiting, "always": granted})
        return
    rows = [
        [row["id"], t("waits"), row["agent"], row["tool"], row["shown"], row["expiresAt"]] for row in waiting
    ]
    rows += [
        [row["id"], t("always"), row["agent"], row["tool"], row["shown"], row["usedAt"]] for row in granted
    ]
    if not rows:
        typer.echo(t("no request is waiting, and nothing is allowed permanently"))
        return
    head = [t("id"), t("state"), t("agent"), t("tool"), t("what"), t("until, or last used")]
    table(head, [[cell.replace("\n", " ⏎ ") for cell in row] for row in rows])


def _rows() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the waiting requests and the permanent grants. A home without a state file stays without one."""
    with open_state(home_of(os.environ)) as database:
        if database is None:
            return [], []
        approvals = Approvals(database, is_over=_turn_is_over(database))
        waiting, granted = approvals.pending(), approvals.grants()
    return [
        {
            "id": question.id, "agent": question.request.agent, "tool": question.request.tool,
            "title": question.request.title, "shown": question.request.shown, "askedBy": asked_by(question.request),
            "session": question.request.session_key, "expiresAt": utc_time(question.expires_at_ms / 1000),
        }
        for question in waiting
    ], [
        {
            "id": grant.id, "agent": grant.agent, "tool": grant.tool, "title": grant.title, "shown": grant.shown,
            "grantedBy": grant.granted_by, "grantedAt": utc_time(grant.granted_at_ms / 1000),
            "usedAt": utc_time(grant.used_at_ms / 1000),
        }
        for grant in granted
    ]  # fmt: skip


def _turn_is_over(database: Database) -> Callable[[str], bool]:
    """Return the question if a turn ended, as the turn log answers it; a wrong config file counts as no log."""
    try:
        host = command_host(database=database)
        host.on_demand("register_turn_logs")
        log = host.chosen("turnLog")
    except ClawError:
        log = None
    return getattr(log and log.value, "is_over", lambda turn: False)


@app.command()
def revoke(
    id: Annotated[str, typer.Argument(help="As claw approvals list shows it.")], as_json: AsJson = False
) -> None:
    """Revoke a permanent approval: the call needs approval again."""
    with open_state(home_of(os.environ)) as database:
        gone = database is not None and Approvals(database).revoke(id)
    if not gone:
        raise UsageError("there is no permanent approval {id}", fix="claw approvals list", id=id)
    if as_json:
        document("approval-revoked", {"id": id})
    else:
        typer.echo(t("{id} is revoked", id=id))
