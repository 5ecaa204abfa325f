"""``claw sessions``: list, show, export and search the conversations of this home."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import typer
from claw import ClawError, UsageError, t
from claw.runtime import (
    AsJson,
    Redactor,
    document,
    escape_controls,
    home_of,
    on_terminal,
    parse_key,
    replace_file,
    table,
    with_label,
)

from claw_sessions import commands_maintenance
from claw_sessions.document import render_html, render_lines, render_markdown, to_local_time
from claw_sessions.index import (
    CURRENT,
    LEFT_OVER,
    SessionFile,
    conversation_stats,
    find_session,
    list_sessions,
    parse_stored_session,
    read_bytes,
)
from claw_sessions.render import Passage, heading, passages
from claw_sessions.search import MemoryHit, search_sessions as find
from claw_sessions.session_file import ParsedSession

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="List, read, search, export and reset conversations."
)
Key = Annotated[
    str, typer.Argument(help="A session key, its end (main), or the name of an archived conversation.")
]
OfAgent = Annotated[str, typer.Option("--agent", help="Only conversations of this agent.")]
_NEIGHBOURS = 4
_CURRENT_STATES = (CURRENT, LEFT_OVER)
_EMPTY = "-"
_SIZES = ("B", "kB", "MB", "GB")


@app.command("list")
def list_(
    agent: OfAgent = "",
    aside: Annotated[bool, typer.Option("--aside", help="Archived conversations instead.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Number of entries at most, the newest ones.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List conversations, the newest first. Exit code 1: one of them is damaged."""
    found = [
        kept for kept in list_sessions(_home(), _agent_id(agent)) if (kept.state in _CURRENT_STATES) != aside
    ]
    rows = [_session_data(kept) for kept in found[:limit]]
    if not aside:  # a summary or a command writes to a file too, so its time is not that of the last message
        rows.sort(key=lambda row: row["lastHeardAt"] or "", reverse=True)
    if as_json:
        document("sessions", {"total": len(found), "sessions": rows})
    elif not rows:
        typer.echo(t("nothing was archived") if aside else t("there are no conversations yet"))
    else:
        head = [t("conversation"), t("channel"), t("messages"),
                *([] if aside else [t("tokens, about"), t("last message")]), t("size"), t("state"),
                *([t("name")] if aside else [])]  # fmt: skip
        _print_columns(head, [_row(row, aside) for row in rows])
        if len(found) > limit:
            typer.echo(t("{count} more: --limit", count=len(found) - limit), err=True)
    damaged = not aside and any(row["damage"] for row in rows)
    if damaged and not as_json:
        typer.echo(t("claw sessions repair --all repairs damaged ones"), err=True)
    raise typer.Exit(code=int(damaged))


def _agent_id(name: str) -> str:
    """Return the id of an agent; one that left the config file is known by its conversations.

    :raises UsageError: there is no such agent.
    """
    from claw.runtime import load_setup

    if not name or (_home() / "agents" / name / "sessions").is_dir():
        return name
    return load_setup().config.agent(name).id


@app.command()
def show(
    key: Key,
    last: Annotated[
        int, typer.Option(min=0, help="Number of entries at most, the newest ones; 0 = all.")
    ] = 0,
    around: Annotated[str, typer.Option(help="Only the records around the one with this id.")] = "",
    raw: Annotated[bool, typer.Option("--raw", help="The file as it is.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a conversation: messages, answers, calls in short, summaries."""
    kept = find_session(list_sessions(_home()), key)
    data = read_bytes(kept)
    if raw:
        typer.get_binary_stream("stdout").write(data)
        return
    reading = parse_stored_session(kept, data)
    entries = _selected(list(passages(reading.entries, _clean)), around, last)
    if as_json:
        document("session", {**_session_data(kept, reading), "entries": [*map(_entry_data, entries)]})
        return
    for name, value in _facts(kept, reading):
        typer.echo(with_label(name, value))
    for line in render_lines(entries):
        typer.echo(line)
    if damage := _damage(reading):
        typer.echo(f"{damage}. {t('claw sessions repair {key} repairs it', key=kept.name)}", err=True)


@app.command()
def export(
    key: Key,
    to: Annotated[Literal["md", "html", "json"], typer.Option("--to", help="Output format.")] = "md",
    out: Annotated[Path | None, typer.Option("--out", help="Into this file instead of stdout.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="As --to json; with --out, a JSON document that names the file.")
    ] = False,
) -> None:
    """Write a whole conversation as Markdown, one HTML page or JSON. Secrets are masked."""
    kept = find_session(list_sessions(_home()), key)
    reading = parse_stored_session(kept, read_bytes(kept))
    text = _document(kept, reading, "json" if as_json and out is None else to)
    if out is None:
        typer.echo(text, nl=False)
        return
    try:
        replace_file(out, text.encode("utf-8", "replace"))
    except OSError as refused:
        problem = "cannot write: {reason}"
        raise ClawError(
            problem, where=str(out), fix="Name another place", reason=refused.strerror
        ) from refused
    if as_json:
        document("session-exported", {"key": kept.key, "file": str(out), "form": to})
    else:
        typer.echo(t("written to {place}", place=out), err=True)


@app.command()
def search(
    text: Annotated[list[str], typer.Argument(help="Words that a match must all contain.")],
    agent: OfAgent = "",
    limit: Annotated[int, typer.Option(min=1, help="Number of entries at most, the newest ones.")] = 20,
    deleted: Annotated[bool, typer.Option("--deleted", help="Search deleted conversations too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Find words in all conversations, also in reset ones. Exit code 1: no match."""
    left_out = {"bak"} if deleted else {"bak", "deleted"}  # a bak is a copy
    looked_at = [kept for kept in list_sessions(_home(), _agent_id(agent)) if kept.state not in left_out]
    hits = find(looked_at, " ".join(text), limit, _clean)
    if as_json:
        document("session-search", {"query": " ".join(text), "hits": [*map(_hit_data, hits)]})
    elif not hits:
        typer.echo(t("no matches"))
    else:
        for hit in hits:
            _print_hit(hit)
    raise typer.Exit(code=int(not hits))


app.command()(commands_maintenance.reset)
app.command()(commands_maintenance.delete)
app.command()(commands_maintenance.purge)
app.command()(commands_maintenance.repair)
app.command()(commands_maintenance.archive)


# --- output


def _home() -> Path:
    return home_of(os.environ)


def _clean(text: str) -> str:
    return escape_controls(_redactor(text))


_redactor = Redactor()


def _session_data(kept: SessionFile, reading: ParsedSession | None = None) -> dict[str, Any]:
    try:
        reading = reading or parse_stored_session(kept, read_bytes(kept))
        damage = _damage(reading)
    except ClawError as refused:
        reading, damage = ParsedSession(None), str(refused)
    count = conversation_stats(reading)
    return {
        "key": kept.key,
        "name": kept.name,
        "agent": kept.agent,
        "channel": _channel(kept.key),
        "state": kept.state,
        "stamp": kept.archived_stamp,
        "messages": count.messages,
        "tokens": count.tokens,
        "spentTokens": count.usage.total,
        "lastHeardAt": count.last_user_message_at or None,
        "bytes": kept.size_bytes,
        "heldBy": kept.pid,
        "file": str(kept.path),
        "damage": damage,
    }


def _damage(reading: ParsedSession) -> str:
    """Return what cannot be read of it; empty when all can."""
    if reading.reason == "invalid session header":
        return t("its first line is not a header")
    if reading.bad_lines:
        lines = [*reading.bad_lines[:10], *(["…"] if len(reading.bad_lines) > 10 else [])]
        return t("damaged lines: {lines}", lines=lines)
    return ""


def _print_columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table without its empty columns."""
    shown = [at for at in range(len(head)) if any(row[at] != _EMPTY for row in rows)]
    table([head[at] for at in shown], [[row[at] for at in shown] for row in rows])


def _row(row: dict[str, Any], aside: bool) -> list[str]:
    head = [escape_controls(row["key"] or row["name"]), row["channel"] or _EMPTY, str(row["messages"])]
    if aside:
        return [*head, _size(row["bytes"]), t(row["state"]), row["stamp"]]
    held = row["heldBy"]
    state = t("process {pid} holds it", pid=held) if held is not None else t(row["state"])
    last_message_at = to_local_time(row["lastHeardAt"])[:16] if row["lastHeardAt"] else _EMPTY
    return [*head, str(row["tokens"]), last_message_at, _size(row["bytes"]), row["damage"] or state]


def _facts(kept: SessionFile, reading: ParsedSession) -> list[tuple[str, str]]:
    row = _session_data(kept, reading)
    values = {
        t("conversation"): escape_controls(kept.key or kept.path.name),
        t("agent"): kept.agent,
        t("channel"): row["channel"],
        t("messages"): str(row["messages"]),
        t("tokens, about"): str(row["tokens"]),
        t("state"): t(kept.state) if kept.state != CURRENT else "",
        t("process"): str(row["heldBy"] or ""),
        t("file"): str(kept.path),
    }
    return [(name, value) for name, value in values.items() if value]


def _document(kept: SessionFile, reading: ParsedSession, to: str) -> str:
    head = escape_controls(kept.key or kept.path.name)
    facts = [fact for fact in _facts(kept, reading) if fact[1] != str(kept.path)]
    match to:
        case "md":
            return render_markdown(head, facts, passages(reading.entries, _clean))
        case "html":
            return render_html(head, facts, passages(reading.entries, _clean))
    body = {
        key: value for key, value in _session_data(kept, reading).items() if key not in ("heldBy", "file")
    }
    records = _redactor.redact_data(msgspec.to_builtins(reading.entries, enc_hook=repr))
    written = {"schemaVersion": 1, "kind": "session-export", **body, "records": records}
    return msgspec.json.format(msgspec.json.encode(written), indent=2).decode() + "\n"


def _selected(entries: Sequence[Passage], around: str, last: int) -> Sequence[Passage]:
    if around:
        matches = [index for index, passage in enumerate(entries) if passage.id == around]
        if not matches:
            raise UsageError("no record {id} is in this conversation", id=around)
        return entries[max(0, matches[0] - _NEIGHBOURS) : matches[-1] + _NEIGHBOURS + 1]
    return entries[-last:] if last else entries


def _entry_data(passage: Passage) -> dict[str, Any]:
    body = {
        "id": passage.id,
        "at": passage.at,
        "kind": passage.kind,
        "who": passage.author,
        "text": passage.text,
    }
    pictures = [image.mime for image in passage.images]
    more = {"thinking": passage.thinking, "pictures": pictures, "failed": passage.is_error}
    return body | {name: value for name, value in more.items() if value}


def _hit_data(hit: MemoryHit) -> dict[str, Any]:
    return {
        "session": hit.session.name,
        "agent": hit.session.agent,
        "state": hit.session.state,
        "id": hit.passage.id,
        "at": hit.at,
        "kind": hit.passage.kind,
        "who": hit.passage.author,
        "before": hit.before,
        "found": hit.found,
        "after": hit.after,
        "show": _command(hit),
    }


def _print_hit(hit: MemoryHit) -> None:
    state = "" if hit.session.state == CURRENT else f" ({t(hit.session.state)})"
    who = _clean(heading(hit.passage))
    found = typer.style(hit.found, bold=True) if on_terminal() else hit.found
    typer.echo(
        f"{to_local_time(hit.at)[:16]}  {escape_controls(hit.session.key or hit.session.name)}{state}  {who}"
    )
    typer.echo(f"    {hit.before}{found}{hit.after}")
    typer.echo(f"    {_command(hit)}")


def _command(hit: MemoryHit) -> str:
    return f"claw sessions show {shlex.quote(hit.session.name)} --around {shlex.quote(hit.passage.id)}"


def _channel(key: str) -> str:
    """Return the channel that a key names; empty when people of several channels may share it."""
    rest = (parse_key(key).rest or "").split(":")
    return rest[0] if len(rest) > 2 and rest[0] not in ("direct", "subagent", "cron") else ""


def _size(size_bytes: int) -> str:
    size, unit = float(size_bytes), 0
    while size >= 1000 and unit < len(_SIZES) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.0f} {_SIZES[unit]}" if unit == 0 else f"{size:.1f} {_SIZES[unit]}"
