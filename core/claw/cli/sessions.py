"""``claw sessions``: the conversations of this home: which there are, what was said, and where."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import typer

from claw.cli import session_care, session_compact
from claw.cli.options import AsJson
from claw.cli.show import document, on_terminal, table
from claw.conversations.kept import CURRENT, LEFT, Kept, content, conversations, figures, named, reading_of
from claw.conversations.page import as_html, as_lines, as_markdown, local_time
from claw.conversations.sought import Hit, search as find
from claw.conversations.told import Passage, harmless, passages, title
from claw.errors import ClawError, UsageError
from claw.guard.redact import Redactor
from claw.record import Reading
from claw.route import parse_key
from claw.store import replace
from claw.survey import home_of
from claw.words import say

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Conversations: read, find, tend to them.")
Key = Annotated[
    str, typer.Argument(help="A session key, its end (main), or the name of one that was set aside.")
]
OfAgent = Annotated[str, typer.Option("--agent", help="Only conversations of this agent.")]
_NEIGHBOURS = 4
_GOING = (CURRENT, LEFT)
_NOTHING = "-"
_SIZES = ("B", "kB", "MB", "GB")


@app.command("list")
def list_(
    agent: OfAgent = "",
    aside: Annotated[bool, typer.Option("--aside", help="Those that were set aside instead.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="The newest so many.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List conversations, the newest first; exit 1 when one of them is damaged."""
    found = [kept for kept in conversations(_home(), agent) if (kept.state in _GOING) != aside]
    rows = [_described(kept) for kept in found[:limit]]
    if not aside:  # a summary or a command writes to a file too: that is not when it was last heard of
        rows.sort(key=lambda row: row["lastHeardAt"] or "", reverse=True)
    if as_json:
        document("sessions", {"total": len(found), "sessions": rows})
    elif not rows:
        typer.echo(say("nothing was set aside") if aside else say("nothing was said here yet"), err=True)
    else:
        head = [say("conversation"), say("channel"), say("messages"),
                *([] if aside else [say("tokens, about"), say("last heard")]), say("size"), say("state"),
                *([say("name")] if aside else [])]  # fmt: skip
        _columns(head, [_row(row, aside) for row in rows])
        if len(found) > limit:
            typer.echo(say("{count} more: --limit", count=len(found) - limit), err=True)
    damaged = not aside and any(row["damage"] for row in rows)
    if damaged and not as_json:
        typer.echo(say("claw sessions repair --all mends what is damaged"), err=True)
    raise typer.Exit(code=int(damaged))


@app.command()
def show(
    key: Key,
    last: Annotated[int, typer.Option(min=0, help="Only the newest so many entries; 0 = all.")] = 0,
    around: Annotated[str, typer.Option(help="Only what stands round the record with this id.")] = "",
    raw: Annotated[bool, typer.Option("--raw", help="The file as it is.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what was said in a conversation: people, answers, calls in short, summaries."""
    kept = named(conversations(_home()), key)
    data = content(kept)
    if raw:
        typer.get_binary_stream("stdout").write(data)
        return
    reading = reading_of(kept, data)
    told = _selected(list(passages(reading.entries, _clean)), around, last)
    if as_json:
        document("session", {**_described(kept, reading), "entries": [*map(_told, told)]})
        return
    for name, value in _facts(kept, reading):
        typer.echo(say("{name}: {value}", name=name, value=value))
    for line in as_lines(told):
        typer.echo(line)
    if damage := _damage(reading):
        typer.echo(f"{damage}. {say('claw sessions repair {key} mends it', key=kept.name)}", err=True)


@app.command()
def export(
    key: Key,
    to: Annotated[Literal["md", "html", "json"], typer.Option("--to", help="In which form.")] = "md",
    out: Annotated[Path | None, typer.Option("--out", help="Into this file instead of stdout.")] = None,
) -> None:
    """Write a whole conversation as Markdown, one HTML page or JSON. Secrets are masked."""
    kept = named(conversations(_home()), key)
    reading = reading_of(kept, content(kept))
    written = _document(kept, reading, to)
    if out is None:
        typer.echo(written, nl=False)
        return
    try:
        replace(out, written.encode("utf-8", "replace"))
    except OSError as refused:
        problem = "cannot write: {reason}"
        raise ClawError(
            problem, where=str(out), fix="Name another place", reason=refused.strerror
        ) from refused
    typer.echo(say("written to {place}", place=out), err=True)


@app.command()
def search(
    text: Annotated[list[str], typer.Argument(help="Words that all stand in what is looked for.")],
    agent: OfAgent = "",
    limit: Annotated[int, typer.Option(min=1, help="The newest so many.")] = 20,
    deleted: Annotated[bool, typer.Option("--deleted", help="Look through deleted ones too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Find words in all conversations, also those begun anew since; exit 1 when they stand nowhere."""
    left_out = {"bak"} if deleted else {"bak", "deleted"}  # a bak is a copy
    looked_at = [kept for kept in conversations(_home(), agent) if kept.state not in left_out]
    hits = find(looked_at, " ".join(text), limit, _clean)
    if as_json:
        document("session-search", {"query": " ".join(text), "hits": [*map(_hit, hits)]})
    elif not hits:
        typer.echo(say("nothing was found"), err=True)
    else:
        for hit in hits:
            _print_hit(hit)
    raise typer.Exit(code=int(not hits))


app.command()(session_care.reset)
app.command()(session_care.delete)
app.command()(session_care.repair)
app.command()(session_care.archive)
app.command()(session_compact.compact)


# --- what is told


def _home() -> Path:
    return home_of(os.environ)


def _clean(text: str) -> str:
    return harmless(_redactor(text))


_redactor = Redactor()


def _described(kept: Kept, reading: Reading | None = None) -> dict[str, Any]:
    try:
        reading = reading or reading_of(kept, content(kept))
        damage = _damage(reading)
    except ClawError as refused:
        reading, damage = Reading(None), str(refused)
    count = figures(reading)
    return {
        "key": kept.key,
        "name": kept.name,
        "agent": kept.agent,
        "channel": _channel(kept.key),
        "state": kept.state,
        "stamp": kept.stamp,
        "messages": count.messages,
        "tokens": count.tokens,
        "spentTokens": count.spent.total,
        "lastHeardAt": count.heard_at or None,
        "bytes": kept.size_bytes,
        "heldBy": kept.pid,
        "file": str(kept.path),
        "damage": damage,
    }


def _damage(reading: Reading) -> str:
    """What cannot be read of it; empty when all can."""
    if reading.reason == "invalid session header":
        return say("its first line is no header")
    if reading.bad_lines:
        lines = ", ".join(map(str, reading.bad_lines[:10])) + (", …" if len(reading.bad_lines) > 10 else "")
        return say("damaged lines: {lines}", lines=lines)
    return ""


def _columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table without the columns that say nothing."""
    told = [at for at in range(len(head)) if any(row[at] != _NOTHING for row in rows)]
    table([head[at] for at in told], [[row[at] for at in told] for row in rows])


def _row(row: dict[str, Any], aside: bool) -> list[str]:
    head = [harmless(row["key"] or row["name"]), row["channel"] or _NOTHING, str(row["messages"])]
    if aside:
        return [*head, _size(row["bytes"]), say(row["state"]), row["stamp"]]
    held = row["heldBy"]
    state = say("process {pid} holds it", pid=held) if held is not None else say(row["state"])
    heard = local_time(row["lastHeardAt"])[:16] if row["lastHeardAt"] else _NOTHING
    return [*head, str(row["tokens"]), heard, _size(row["bytes"]), row["damage"] or state]


def _facts(kept: Kept, reading: Reading) -> list[tuple[str, str]]:
    row = _described(kept, reading)
    named_by = {
        say("conversation"): harmless(kept.key or kept.path.name),
        say("agent"): kept.agent,
        say("channel"): row["channel"],
        say("messages"): str(row["messages"]),
        say("tokens, about"): str(row["tokens"]),
        say("state"): say(kept.state) if kept.state != CURRENT else "",
        say("process"): str(row["heldBy"] or ""),
        say("file"): str(kept.path),
    }
    return [(name, value) for name, value in named_by.items() if value]


def _document(kept: Kept, reading: Reading, to: str) -> str:
    head = harmless(kept.key or kept.path.name)
    facts = [fact for fact in _facts(kept, reading) if fact[1] != str(kept.path)]
    match to:
        case "md":
            return as_markdown(head, facts, passages(reading.entries, _clean))
        case "html":
            return as_html(head, facts, passages(reading.entries, _clean))
    body = {key: value for key, value in _described(kept, reading).items() if key not in ("heldBy", "file")}
    records = _redactor.data(msgspec.to_builtins(reading.entries, enc_hook=repr))
    written = {"schemaVersion": 1, "kind": "session-export", **body, "records": records}
    return msgspec.json.format(msgspec.json.encode(written), indent=2).decode() + "\n"


def _selected(told: Sequence[Passage], around: str, last: int) -> Sequence[Passage]:
    if around:
        at = [place for place, passage in enumerate(told) if passage.id == around]
        if not at:
            raise UsageError("no record {id} is in this conversation", id=around)
        return told[max(0, at[0] - _NEIGHBOURS) : at[-1] + _NEIGHBOURS + 1]
    return told[-last:] if last else told


def _told(passage: Passage) -> dict[str, Any]:
    body = {
        "id": passage.id,
        "at": passage.at,
        "kind": passage.kind,
        "who": passage.who,
        "text": passage.text,
    }
    pictures = [image.mime for image in passage.images]
    more = {"thinking": passage.thinking, "pictures": pictures, "failed": passage.is_error}
    return body | {name: value for name, value in more.items() if value}


def _hit(hit: Hit) -> dict[str, Any]:
    return {
        "session": hit.kept.name,
        "agent": hit.kept.agent,
        "state": hit.kept.state,
        "id": hit.passage.id,
        "at": hit.at,
        "kind": hit.passage.kind,
        "who": hit.passage.who,
        "before": hit.before,
        "found": hit.found,
        "after": hit.after,
        "show": _command(hit),
    }


def _print_hit(hit: Hit) -> None:
    state = "" if hit.kept.state == CURRENT else f" ({say(hit.kept.state)})"
    who = _clean(title(hit.passage))
    found = typer.style(hit.found, bold=True) if on_terminal() else hit.found
    typer.echo(f"{local_time(hit.at)[:16]}  {harmless(hit.kept.key or hit.kept.name)}{state}  {who}")
    typer.echo(f"    {hit.before}{found}{hit.after}")
    typer.echo(f"    {_command(hit)}")


def _command(hit: Hit) -> str:
    import shlex

    return f"claw sessions show {shlex.quote(hit.kept.name)} --around {shlex.quote(hit.passage.id)}"


def _channel(key: str) -> str:
    """The channel that a key names; empty when people of several may share it."""
    rest = (parse_key(key).rest or "").split(":")
    return rest[0] if len(rest) > 2 and rest[0] not in ("direct", "subagent", "cron") else ""


def _size(size_bytes: int) -> str:
    size, unit = float(size_bytes), 0
    while size >= 1000 and unit < len(_SIZES) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.0f} {_SIZES[unit]}" if unit == 0 else f"{size:.1f} {_SIZES[unit]}"
