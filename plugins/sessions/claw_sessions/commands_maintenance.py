"""``claw sessions reset|delete|purge|repair|archive``: changes to stored conversations, each under its lock."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from claw import ClawError, UsageError, t
from claw.runtime import AsJson, Clock, document, home_of, load_setup, parse_duration, with_label

from claw_sessions.index import CURRENT, LEFT_OVER, SessionFile, find_files, find_session, list_sessions
from claw_sessions.maintenance import (
    ArchiveResult,
    RepairResult,
    apply_retention as archived,
    end_session,
    purge_session,
    repair_session as repaired,
)
from claw_sessions.settings import Retention

Key = Annotated[str, typer.Argument(help="A session key, its end (main), or the name of a file.")]


def reset(key: Key, as_json: AsJson = False) -> None:
    """Reset a conversation. The old one is kept as *.reset.TIME."""
    _archive_as(key, "reset", as_json)


def delete(key: Key, as_json: AsJson = False) -> None:
    """Take a conversation off the list. What was said is kept aside, as *.deleted.TIME."""
    _archive_as(key, "deleted", as_json)


def purge(
    keys: Annotated[
        list[str] | None, typer.Argument(help="Session keys, their ends, or names of files.")
    ] = None,
    older_than: Annotated[str, typer.Option(help="Those without a change for this time, such as 30d.")] = "",
    every: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    agent: Annotated[str, typer.Option(help="Only conversations of this agent.")] = "",
    pretend: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove conversations for good, archived files and tool results too. Exit code 1: not confirmed, or one is held."""
    if sum(map(bool, (keys, older_than, every))) != 1:
        fix = "claw sessions list shows the conversations"
        raise UsageError("claw sessions purge needs conversations, or --older-than, or --all", fix=fix)
    if as_json and not (yes or pretend):
        raise UsageError("with --json nobody can confirm", fix="Add --yes, or --dry-run")
    home = home_of(os.environ)
    found = [kept for kept in list_sessions(home) if agent in ("", kept.agent)]
    chosen = _files_to_purge(found, keys or (), older_than)
    if not as_json:
        for kept in () if yes and not pretend else chosen:
            typer.echo(with_label(t("would be removed"), kept.path))
    if chosen and not (pretend or yes or _is_confirmed(len(chosen))):
        raise typer.Exit(code=1)
    removed, refused = list[SessionFile](), list[str]()
    for kept in () if pretend else chosen:
        try:
            purge_session(home, kept)
            removed.append(kept)
        except ClawError as why:
            refused.append(str(why))
    freed = sum(kept.size_bytes for kept in removed)
    if as_json:
        paths = [str(kept.path) for kept in (chosen if pretend else removed)]
        body = {"dryRun": pretend, "removed": paths, "freedBytes": freed, "refused": refused}
        document("sessions-purge", body)
    elif not chosen:
        typer.echo(t("no conversation fits"))
    elif not pretend:
        typer.echo(t("{count:file|files} removed, {size:byte|bytes}", count=len(removed), size=freed))
    for line in refused:
        typer.echo(line, err=True)
    raise typer.Exit(code=int(bool(refused)))


def _is_confirmed(count: int) -> bool:
    """Ask if so many files may be removed. :raises UsageError: the input has ended, and is no terminal."""
    try:
        return typer.confirm(t("Remove {count:file|files} for good?", count=count))
    except typer.Abort:
        if sys.stdin.isatty():
            raise
        problem = "confirmation is needed, but there is no terminal"
        raise UsageError(problem, fix="Add --yes, or --dry-run") from None


def _files_to_purge(
    found: Sequence[SessionFile], keys: Sequence[str], older_than: str
) -> tuple[SessionFile, ...]:
    """Select the files to remove: those of the keys, or those that are old enough, or all. Newest first.

    :raises UsageError: a key fits no conversation or several, or the age is no duration.
    """
    if keys:
        return tuple(dict.fromkeys(kept for key in keys for kept in find_files(found, key)))
    seconds = parse_duration(older_than) if older_than else 0.0
    if seconds is None:
        raise UsageError("{value} is no time", where="--older-than", fix="Write 12h or 30d", value=older_than)
    now = Clock().now()
    return tuple(kept for kept in found if not older_than or now - kept.changed_at > seconds)


def repair(
    key: Annotated[str, typer.Argument(help="Session key or its end; or --all.")] = "",
    every: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    as_json: AsJson = False,
) -> None:
    """Leave out what cannot be read of a conversation; the file as it was stays beside it. Exit 1 when one is held."""
    if bool(key) == every:
        raise UsageError("claw sessions repair needs a conversation, or --all")
    home = home_of(os.environ)
    found = list_sessions(home)
    chosen = (
        [kept for kept in found if kept.state in (CURRENT, LEFT_OVER)]
        if every
        else [find_session(found, key)]
    )
    done, refused = list[RepairResult](), list[str]()
    for kept in chosen:
        try:
            done.append(repaired(home, kept))
        except ClawError as why:
            if not every:
                raise
            refused.append(str(why))
    if as_json:
        body = [_repair_data(one) for one in done if one.backup]
        document("sessions-repair", {"looked": len(done), "repaired": body, "refused": refused})
    else:
        for one in done:
            _print_repair(one)
        if not any(one.backup for one in done):
            typer.echo(t("{count} checked: nothing is damaged", count=len(done)))
    for line in refused:
        typer.echo(line, err=True)
    raise typer.Exit(code=int(bool(refused)))


def archive(
    pretend: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compress and remove archived conversations as configured by session.keep. The gateway does it once a day."""
    home = home_of(os.environ)
    keep = load_setup().config.section("session.keep", Retention)
    done = archived(home, keep, pretend=pretend)
    if as_json:
        document("sessions-archive", {"dryRun": pretend, **_archive_data(done)})
        return
    removed = t("would be removed") if pretend else t("removed")
    compressed = t("would be compressed") if pretend else t("compressed")
    for word, group in ((removed, done.removed), (compressed, done.compressed)):
        for kept in group:
            typer.echo(with_label(word, kept.path))
    if not (done.removed or done.compressed):
        has_limits = keep.compress_after or keep.remove_after or keep.max_size is not None
        typer.echo(
            t("nothing needs to be cleaned up")
            if has_limits
            else t("everything is kept: session.keep sets no limit")
        )


def _archive_as(name: str, tag: str, as_json: bool) -> None:
    home = home_of(os.environ)
    kept = find_session(list_sessions(home), name)
    archived_at = end_session(home, kept, tag)
    if as_json:
        document("session-aside", {"key": kept.key, "state": tag, "file": str(archived_at)})
        return
    message = (
        t("{name} starts over with the next message", name=kept.name)
        if tag == "reset"
        else t("{name} is deleted", name=kept.name)
    )
    typer.echo(f"{message}\n{t('the transcript is kept: {place}', place=archived_at)}")


def _repair_data(one: RepairResult) -> dict[str, Any]:
    damages = [{"line": each.line, "atByte": each.at_byte, "bytes": each.bytes} for each in one.bad_lines]
    return {"key": one.session.key, "file": str(one.session.path), "damages": damages, "headerLost": one.restored_header,
            "keptAs": str(one.backup)}  # fmt: skip


def _print_repair(one: RepairResult) -> None:
    if one.backup is None:
        return
    typer.echo(t("{name}: repaired", name=one.session.name))
    if one.restored_header:
        typer.echo("  " + t("its first line was not a header and has been rewritten"))
    for each in one.bad_lines:
        text = t(
            "line {line} is left out: {count:byte|bytes} from byte {at}",
            line=each.line,
            count=each.bytes,
            at=each.at_byte,
        )
        typer.echo(f"  {text}")
    typer.echo("  " + t("copy of the damaged file: {place}", place=one.backup))


def _archive_data(done: ArchiveResult) -> dict[str, Any]:
    return {
        "compressed": [str(kept.path) for kept in done.compressed],
        "removed": [str(kept.path) for kept in done.removed],
        "freedBytes": done.freed_bytes,
    }
