"""``claw approvals``: what waits for an answer, and what was allowed for always."""

import os
from typing import Annotated, Any

import typer

from claw.approval import Approvals
from claw.cli.options import AsJson
from claw.cli.show import document, table, utc
from claw.errors import UsageError
from claw.journal import Journal
from claw.survey import home_of, state_of
from claw.words import say

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="What people were asked, and what they allowed for always.",
)


@app.command("list")
def listed(as_json: AsJson = False) -> None:
    """List what waits for an answer, and the calls that were allowed for always."""
    waiting, granted = _rows()
    if as_json:
        document("approvals", {"pending": waiting, "always": granted})
        return
    rows = [
        [row["id"], say("waits"), row["agent"], row["tool"], row["shown"], row["expiresAt"]]
        for row in waiting
    ]
    rows += [
        [row["id"], say("always"), row["agent"], row["tool"], row["shown"], row["usedAt"]] for row in granted
    ]
    if not rows:
        typer.echo(say("nothing waits for an answer, and nothing was allowed for always"))
        return
    head = [say("id"), say("state"), say("agent"), say("tool"), say("what"), say("until, or last used")]
    table(head, [[cell.replace("\n", " ⏎ ") for cell in row] for row in rows])


def _rows() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What waits, and what was allowed for always. A home without a state is left as it is."""
    with state_of(home_of(os.environ)) as database:
        if database is None:
            return [], []
        approvals = Approvals(database, is_over=Journal(database).is_over)
        waiting, granted = approvals.pending(), approvals.grants()
    return [
        {
            "id": question.id, "agent": question.request.agent, "tool": question.request.tool,
            "title": question.request.title, "shown": question.request.shown, "askedBy": question.request.asked_by,
            "session": question.request.session_key, "expiresAt": utc(question.expires_at_ms / 1000),
        }
        for question in waiting
    ], [
        {
            "id": grant.id, "agent": grant.agent, "tool": grant.tool, "title": grant.title, "shown": grant.shown,
            "grantedBy": grant.granted_by, "grantedAt": utc(grant.granted_at_ms / 1000),
            "usedAt": utc(grant.used_at_ms / 1000),
        }
        for grant in granted
    ]  # fmt: skip


@app.command()
def revoke(id: Annotated[str, typer.Argument(help="As claw approvals list shows it.")]) -> None:
    """Take back what was allowed for always: from now on it is asked about again."""
    with state_of(home_of(os.environ)) as database:
        gone = database is not None and Approvals(database).revoke(id)
    if not gone:
        raise UsageError("nothing was allowed for always under {id}", fix="claw approvals list", id=id)
    typer.echo(say("{id} is taken back", id=id))
