"""``claw pairing``: strangers who asked to be let in, and the people who were."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Annotated, Any

import typer

from claw.cli.options import AsJson
from claw.cli.show import document, plain, table, utc
from claw.errors import UsageError
from claw.pairing import VALID_SECONDS, Pairing, Person
from claw.store import Database
from claw.survey import home_of, state_of
from claw.words import say

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Strangers who ask to be let in, and who was."
)
Code = Annotated[str, typer.Argument(help="The code that the person was shown.")]


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List who waits, with the code that each was given, and who was let in."""
    with state_of(home_of(os.environ)) as database:
        pairing = Pairing(database) if database else None
        waiting, people = (pairing.pending(), pairing.people()) if pairing else ((), ())
    if as_json:
        document("pairing", {"pending": [*map(_told, waiting)], "paired": [*map(_told, people)]})
        return
    if not waiting and not people:
        typer.echo(say("nobody waits, and nobody was let in"))
        return
    rows = [
        [one.code or "-", say("waits") if one.code else say("paired"), one.channel, one.account, plain(one.sender),
         one.name, utc(one.at)]
        for one in (*waiting, *people)
    ]  # fmt: skip
    head = [say("code"), say("state"), say("channel"), say("account"), say("id"), say("name"), say("since")]
    table(head, rows)


@app.command()
def approve(code: Code, as_json: AsJson = False) -> None:
    """Let the person in who was shown CODE. They may write in direct chats; they are no owner."""
    with _pairing() as pairing:
        person = pairing.approve(code)
    if as_json:
        document("pairing-approved", _told(person))
    else:
        typer.echo(say("{person} may write to your agents on {channel} now", **_named(person)))


@app.command()
def deny(code: Code, as_json: AsJson = False) -> None:
    """Send the person away who was shown CODE: they get no other one for an hour."""
    with _pairing() as pairing:
        person = pairing.deny(code)
    if as_json:
        document("pairing-denied", _told(person))
    else:
        typer.echo(say("{person} was sent away", **_named(person)))


@app.command()
def forget(
    person: Annotated[str, typer.Argument(help="CHANNEL:ID, as claw pairing list shows them.")],
    account: Annotated[str, typer.Option("--account", help="Account on that channel.")] = "default",
) -> None:
    """Take a person out again who was let in. What allowFrom says of them stays."""
    channel, colon, id = person.partition(":")
    if not colon:
        raise UsageError("{person} names no channel", fix="Write CHANNEL:ID", person=person)
    with _pairing() as pairing:
        gone = pairing.forget(channel, account, id)
    if not gone:
        raise UsageError(
            "{person} was not paired", fix="claw pairing list shows who was", person=plain(person)
        )
    typer.echo(say("{person} may not write any more, unless a list names them", person=plain(person)))


@contextmanager
def _pairing() -> Iterator[Pairing]:
    with closing(Database(home_of(os.environ) / "state.db")) as database:
        yield Pairing(database)


def _named(person: Person) -> dict[str, str]:
    id = plain(person.sender)
    return {"person": f"{person.name} ({id})" if person.name else id, "channel": person.channel}


def _told(person: Person) -> dict[str, Any]:
    body = {
        "channel": person.channel,
        "account": person.account,
        "sender": person.sender,
        "name": person.name,
    }
    if person.code:
        return {**body, "code": person.code, "until": utc(person.at + VALID_SECONDS)}
    return {**body, "since": utc(person.at)}
