"""``claw pairing``: unknown senders who asked to be admitted, and those who were."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Annotated, Any

import typer
from claw import UsageError, t
from claw.runtime import AsJson, Database, document, home_of, printable, table, utc_time
from claw_config_sdk import open_state

from claw_gateway.pairing import VALID_SECONDS, Pairing, PairingEntry

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="List, approve and deny pairing requests.",
)
Code = Annotated[str, typer.Argument(help="The code that the person was shown.")]


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List pending requests with their codes, and paired people."""
    with open_state(home_of(os.environ)) as database:
        pairing = Pairing(database) if database else None
        waiting, people = (pairing.pending(), pairing.people()) if pairing else ((), ())
    if as_json:
        document("pairing", {"pending": [*map(_as_data, waiting)], "paired": [*map(_as_data, people)]})
        return
    if not waiting and not people:
        typer.echo(t("no pending requests and no paired people"))
        return
    rows = [
        [one.code or "-", t("waits") if one.code else t("paired"), one.channel, one.account, printable(one.sender),
         one.name, utc_time(one.at)]
        for one in (*waiting, *people)
    ]  # fmt: skip
    head = [t("code"), t("state"), t("channel"), t("account"), t("id"), t("name"), t("since")]
    table(head, rows)


@app.command()
def approve(code: Code, as_json: AsJson = False) -> None:
    """Approve the request with CODE: the person may write in direct chats; they are no owner."""
    with _pairing() as pairing:
        person = pairing.approve(code)
    if as_json:
        document("pairing-approved", _as_data(person))
    else:
        typer.echo(t("{person} may now write to your agents on {channel}", **_named(person)))


@app.command()
def deny(code: Code, as_json: AsJson = False) -> None:
    """Deny the request with CODE: the person gets no other code for an hour."""
    with _pairing() as pairing:
        person = pairing.deny(code)
    if as_json:
        document("pairing-denied", _as_data(person))
    else:
        typer.echo(t("{person} was denied", **_named(person)))


@app.command()
def forget(
    person: Annotated[str, typer.Argument(help="CHANNEL:ID, as claw pairing list shows them.")],
    account: Annotated[str, typer.Option("--account", help="Account on that channel.")] = "default",
    as_json: AsJson = False,
) -> None:
    """Remove a paired person. Entries in allowFrom are not changed."""
    channel, colon, id = person.partition(":")
    if not colon:
        raise UsageError("{person} has no channel", fix="Write CHANNEL:ID", person=person)
    with _pairing() as pairing:
        gone = pairing.unpair(channel, account, id)
    if not gone:
        raise UsageError(
            "{person} is not paired", fix="claw pairing list shows paired people", person=printable(person)
        )
    text = t("{person} may no longer write, unless an allow list includes them", person=printable(person))
    if as_json:
        document("pairing-forgotten", {"channel": channel, "account": account, "sender": id})
    else:
        typer.echo(text)


@contextmanager
def _pairing() -> Iterator[Pairing]:
    with closing(Database(home_of(os.environ) / "state.db")) as database:
        yield Pairing(database)


def _named(person: PairingEntry) -> dict[str, str]:
    id = printable(person.sender)
    return {"person": f"{person.name} ({id})" if person.name else id, "channel": person.channel}


def _as_data(person: PairingEntry) -> dict[str, Any]:
    body = {
        "channel": person.channel,
        "account": person.account,
        "sender": person.sender,
        "name": person.name,
    }
    if person.code:
        return {**body, "code": person.code, "until": utc_time(person.at + VALID_SECONDS)}
    return {**body, "since": utc_time(person.at)}
