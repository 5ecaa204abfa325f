"""``claw sessions reset|delete|repair|archive``: what is done to conversations, each under its lock."""

import os
from typing import Annotated, Any

import typer

from claw.cli.options import AsJson
from claw.cli.show import document
from claw.conversations.kept import CURRENT, LEFT, conversations, named
from claw.conversations.tended import Archived, Mended, archive as archived, put_aside, repair as mended
from claw.errors import ClawError, UsageError
from claw.survey import home_of
from claw.words import say

Key = Annotated[str, typer.Argument(help="A session key, its end (main), or the name of a file.")]


def reset(key: Key, as_json: AsJson = False) -> None:
    """Begin a conversation anew. What was said is kept aside, as *.reset.TIME."""
    _put_aside(key, "reset", as_json)


def delete(key: Key, as_json: AsJson = False) -> None:
    """Take a conversation off the list. What was said is kept aside, as *.deleted.TIME."""
    _put_aside(key, "deleted", as_json)


def repair(
    key: Annotated[str, typer.Argument(help="Which conversation; or --all.")] = "",
    every: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    as_json: AsJson = False,
) -> None:
    """Leave out what cannot be read of a conversation; the file as it was stays beside it. Exit 1 when one is held."""
    if bool(key) == every:
        raise UsageError("claw sessions repair wants one conversation, or --all")
    home = home_of(os.environ)
    found = conversations(home)
    chosen = [kept for kept in found if kept.state in (CURRENT, LEFT)] if every else [named(found, key)]
    done, refused = list[Mended](), list[str]()
    for kept in chosen:
        try:
            done.append(mended(home, kept))
        except ClawError as why:
            if not every:
                raise
            refused.append(str(why))
    if as_json:
        body = [_mended(one) for one in done if one.place]
        document("sessions-repair", {"looked": len(done), "repaired": body, "refused": refused})
    else:
        for one in done:
            _print_mended(one)
        if not any(one.place for one in done):
            typer.echo(say("{count} looked at: nothing is damaged", count=len(done)))
    for line in refused:
        typer.echo(line, err=True)
    raise typer.Exit(code=int(bool(refused)))


def archive(
    pretend: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compress and remove conversations that were set aside, as session.keep says. The gateway does it once a day."""
    from claw.config import load

    home = home_of(os.environ)
    keep = load(home, os.environ).settings.session.keep
    done = archived(home, keep, pretend=pretend)
    if as_json:
        document("sessions-archive", {"dryRun": pretend, **_archived(done)})
        return
    removed = say("would be removed") if pretend else say("removed")
    compressed = say("would be compressed") if pretend else say("compressed")
    for word, old in ((removed, done.removed), (compressed, done.compressed)):
        for kept in old:
            typer.echo(f"{word}: {kept.path}")
    if not (done.removed or done.compressed):
        settled = keep.compress_after or keep.remove_after or keep.max_size is not None
        typer.echo(
            say("nothing is due") if settled else say("everything is kept: session.keep names no limit")
        )


def _put_aside(name: str, tag: str, as_json: bool) -> None:
    home = home_of(os.environ)
    kept = named(conversations(home), name)
    place = put_aside(home, kept, tag)
    if as_json:
        document("session-aside", {"key": kept.key, "state": tag, "file": str(place)})
        return
    said = (
        say("{name} begins anew with its next message", name=kept.name)
        if tag == "reset"
        else say("{name} is deleted", name=kept.name)
    )
    typer.echo(f"{said}\n{say('what was said is kept: {place}', place=place)}")


def _mended(one: Mended) -> dict[str, Any]:
    damages = [{"line": each.line, "atByte": each.at_byte, "bytes": each.bytes} for each in one.damages]
    return {"key": one.kept.key, "file": str(one.kept.path), "damages": damages, "headerLost": one.header,
            "keptAs": str(one.place)}  # fmt: skip


def _print_mended(one: Mended) -> None:
    if one.place is None:
        return
    typer.echo(say("{name}: repaired", name=one.kept.name))
    if one.header:
        typer.echo("  " + say("its first line was no header and was written anew"))
    for each in one.damages:
        told = say(
            "line {line} is left out: {count:byte|bytes} from byte {at}",
            line=each.line,
            count=each.bytes,
            at=each.at_byte,
        )
        typer.echo(f"  {told}")
    typer.echo("  " + say("the file as it was: {place}", place=one.place))


def _archived(done: Archived) -> dict[str, Any]:
    return {
        "compressed": [str(kept.path) for kept in done.compressed],
        "removed": [str(kept.path) for kept in done.removed],
        "freedBytes": done.freed_bytes,
    }
