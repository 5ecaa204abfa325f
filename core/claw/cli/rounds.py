"""The doctor's round through the house: config, plugins, home, sessions, state, keys, and, when asked, the models."""

import asyncio
import os
import sqlite3
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

from claw.app import App, House, look_round
from claw.caps import Bill
from claw.channel import Channel
from claw.cli import aptitude
from claw.cli.checkup import clashes, examine
from claw.cli.config import findings as config_findings
from claw.cli.gateway import facts_of, is_stuck, summary
from claw.cli.status import key_of
from claw.config import Config
from claw.config.outline import outline
from claw.errors import ClawError, UsageError
from claw.fallback import ModelRef, with_fallback
from claw.finding import Finding
from claw.gateway.status import look
from claw.guard.admission import owners_of, rule
from claw.manifest import variables_of
from claw.message import Address
from claw.policy import Run, judge
from claw.provider import Request, SystemPrompt
from claw.record import read
from claw.report import configured
from claw.spending import account
from claw.standing import DISABLED
from claw.survey import home_of, providers_used
from claw.transcript import Text, User
from claw.wall import name_of, within
from claw.words import say

_SECRET_FILES = (
    *("config.yaml", "config.yml", "config.json", "config.last-good", "gateway.env"),
    *("state.db", "state.db-wal", "state.db-shm"),
)
_PATTERNS = ("agents/*/auth-profiles.json", "agents/*/sessions/*.jsonl", "logs/*")
_ROOM_BYTES = 16 << 20
CHECK_SECONDS = 60.0
"""What one account of a channel may take to look at itself."""
_QUESTION = User((Text("Answer with the word: yes"),))


def house(environ: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """All that can be seen from here: no plugin is imported, nobody is called."""
    home = home_of(environ)
    errors, warnings = config_findings(home, environ)
    for grave, told in ((True, errors), (False, warnings)):
        yield from (Finding(one.where, "config", one.problem, one.fix, grave=grave) for one in told)
    yield from permissions(home)
    yield from room(home)
    yield from serving(home)
    yield from sessions(home)
    yield from state(home / "state.db")
    if not errors:
        seen = look_round(environ)
        yield from plugins(seen, environ)
        yield from keys(seen, environ)
        yield from shut(seen)
        settings = seen.config.settings
        yield from aptitude.findings(
            settings, ((ref, aptitude.written(settings, ref)) for ref in seen.models())
        )


def plugins(seen: House, environ: Mapping[str, str]) -> Iterator[Finding]:
    """What can be said of the plugins together, and of each, without loading one."""
    wanted = outline(seen.config.raw)
    for standing in seen.standings:
        yield from examine(standing, wanted, environ)
    yield from clashes(seen.found)
    for conflict in judge(seen.facts, (), Run()).conflicts:
        yield Finding(conflict.fact.plugin or conflict.fact.supplier, "conflict", str(conflict), grave=False)


def permissions(home: Path) -> Iterator[Finding]:
    """What others may read and should not: the home itself, and the files with keys and conversations in it."""
    files = [home / name for name in _SECRET_FILES] + [path for each in _PATTERNS for path in home.glob(each)]
    for path, allowed in ((home, 0o700), *((file, 0o600) for file in files)):
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
        except OSError:
            continue
        if mode & ~0o700:
            why = say("others may get at it (mode {mode:o})", mode=mode)
            yield Finding(str(path), "permissions", why, f"chmod {allowed:o} {path}")


def close(finding: Finding) -> str:
    """Mend what ``permissions`` found; what was done."""
    path = Path(finding.about)
    path.chmod(0o700 if path.is_dir() else 0o600)
    return finding.mend


def room(home: Path, disk: os.statvfs_result | None = None) -> Iterator[Finding]:
    """Whether there is room for what is written, and the right to write it. File systems that do not count say 0 of 0.

    :param disk: what it says of itself; None = it is asked.
    """
    try:
        disk = disk or os.statvfs(home)
    except OSError:
        return
    left = disk.f_bavail * disk.f_frsize
    if not os.access(home, os.W_OK):
        yield Finding(
            str(home), "disk", say("cannot be written"), say("mend its permissions, or how it is mounted")
        )
    elif disk.f_blocks and left < _ROOM_BYTES:
        why = say("the disk is full: {mb} MB are left", mb=f"{left / 2**20:.1f}")
        yield Finding(str(home), "disk", why, say("free some space"))
    elif disk.f_files and not disk.f_favail:
        yield Finding(str(home), "disk", say("the disk has no room for another file"), say("free some space"))


def serving(home: Path) -> Iterator[Finding]:
    """What the gateway that runs says of itself that is not as it should be."""
    seen = look(home)
    if is_stuck(seen):
        yield Finding("gateway", "gateway", summary(seen), say("claw logs; then claw gateway restart"))
    for one in facts_of(seen)["channels"]:
        if one["state"] in ("failed", "waiting"):
            key = _key(one["channel"], one["account"])
            yield Finding(key, one["state"], one["detail"], grave=one["state"] == "failed")


def shut(seen: House) -> Iterator[Finding]:
    """Accounts that let nobody in: what is missing or empty admits nobody, and nothing is said to who writes there."""
    for row in configured(seen.config.settings, seen.standings):
        place = Address(row["channel"], "", account=row["account"])
        if row["state"] not in (DISABLED, "absent") and not _lets_anybody_in(place, seen.config):
            key = _key(place.channel, place.account)
            why = say("nobody may write there: its lists are empty")
            yield Finding(
                key, "nobody", why, say("claw config set '{key}.allowFrom[]' ID", key=key), grave=False
            )


def _lets_anybody_in(place: Address, config: Config) -> bool:
    """Whether there may be somebody whose message ``claw.guard.admission`` takes up, in a direct chat or in a group."""
    said = partial(rule, place, config)
    owned = any(_means(one, place.channel) for one in owners_of(config.settings))

    def is_open(people: Sequence[str] | None) -> bool:
        return people is None or owned or any(one.strip() for one in people)

    if said("dm_policy") == "pairing" or (said("dm_policy") != "disabled" and is_open(said("allow_from"))):
        return True
    if said("group_policy") == "disabled":
        return False
    everywhere = said("group_allow_from")
    lists = [everywhere] if said("group_policy") == "open" else []
    for one in said("groups").values():
        if one.enabled:
            lists.append(everywhere if one.allow_from is None else one.allow_from)
    return any(map(is_open, lists))


def _means(owner: str, channel: str) -> bool:
    """Whether an owner is somebody of this channel, or a phone number, which may be anywhere."""
    return owner.strip().startswith("+") or owner.partition(":")[0].strip().lower() == channel


def _key(channel: str, account: str) -> str:
    return f"channels.{channel}" if account == "default" else f"channels.{channel}.accounts.{account}"


def sessions(home: Path) -> Iterator[Finding]:
    """Files of conversations with lines that cannot be read."""
    for path in sorted(home.glob("agents/*/sessions/*.jsonl")):
        try:
            reading = read(path.read_bytes())
        except OSError as refused:
            yield Finding(str(path), "session", say("cannot be read: {why}", why=refused.strerror))
            continue
        mend = say("the next message to it repairs it, and keeps the file as it was beside it")
        if reading.reason:
            yield Finding(str(path), "session", say("is damaged: {why}", why=reading.reason), mend)
        elif reading.bad_lines:
            lines = ", ".join(map(str, reading.bad_lines))
            yield Finding(str(path), "session", say("is damaged: line {lines}", lines=lines), mend)


def state(path: Path) -> Iterator[Finding]:
    """Whether the database is whole (sqlite.org, "PRAGMA quick_check")."""
    if not path.exists():
        return
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
            [(told,), *_] = database.execute("PRAGMA quick_check").fetchall()
    except sqlite3.DatabaseError as why:
        told = str(why)
    if told != "ok":
        mend = say("move it away: sessions are found again, the rest begins anew")
        yield Finding(str(path), "state", say("is damaged: {why}", why=told), mend)


def keys(seen: House, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Providers that a model of the file asks for, and that have no key."""
    config = seen.config
    for provider in providers_used(outline(config.raw), seen.found, environ, config.raw):
        if key_of(config, seen.found, provider, environ) == say("none"):
            variables = variables_of(seen.found, provider)
            mend = say("export {variable}=…", variable=variables[0]) if variables else ""
            yield Finding(f"providers.{provider}", "key", say("there is no key for it"), mend)


def models(environ: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """What the models of the default agent are good for; and each is asked one word, which costs a few tokens.

    :raises ClawError: there is no house to ask in.
    """
    app = App(look_round(environ))
    refs, settings = app.house.models(), app.config.settings
    known = ((ref, app.rooms.kit.providers.get(ref.provider)) for ref in refs)
    able = [(ref, aptitude.asked(brought.thing, settings, ref)) for ref, brought in known if brought]
    yield from aptitude.findings(settings, able)
    try:
        for ref in refs:
            try:
                asyncio.run(_asked(app, ref))
            except ClawError as why:
                yield Finding(str(ref), "model", why.problem, why.fix)
    finally:
        asyncio.run(app.close())


def channels(only: str = "", environ: Mapping[str, str] = os.environ) -> list[Finding]:
    """What the services of the configured channels say of our accounts there. Nothing is sent to anybody.

    :param only: the name of a channel, or ``NAME/ACCOUNT``.
    :raises UsageError: the file has no such channel.
    :raises ClawError: there is no house to ask in.
    """
    return asyncio.run(_diagnosed(look_round(environ), only))


async def _diagnosed(seen: House, only: str) -> list[Finding]:
    app = App(seen)
    found: list[Finding] = []
    try:
        for row in _chosen(list(configured(seen.config.settings, app.host.standings)), only):
            name, account = row["channel"], row["account"]
            key = _key(name, account)
            channel = app.kit.channel(name, account)
            if channel is not None:
                told = await _asked_of_itself(channel)
                found += [
                    replace(one, about=one.about or key, problem=app.redact(one.problem)) for one in told
                ]
            elif row["state"] != DISABLED or only:
                why = row["why"] or say("its plugin brings no such account")
                found.append(Finding(key, row["state"], why, row["fix"]))
    finally:
        await app.close()
    return found


def _chosen(rows: list[dict[str, Any]], only: str) -> list[dict[str, Any]]:
    if not only:
        return rows
    chosen = [row for row in rows if only in (row["channel"], f"{row['channel']}/{row['account']}")]
    if not chosen:
        near = "".join(get_close_matches(only, sorted({row["channel"] for row in rows}), 1))
        fix = "did you mean {near}?" if near else "claw channels list shows those of the file"
        raise UsageError("no channel {name} is configured", fix=fix, name=only, near=near)
    return chosen


async def _asked_of_itself(channel: Channel) -> list[Finding]:
    """What a channel finds; a stranger's code, so it gets a limit, and what it raises is a finding."""
    diagnose = getattr(channel, "diagnose", None)
    if diagnose is None:
        return [Finding("", "unchecked", say("this channel has no check of its own"), grave=False)]
    try:
        return [one for one in await within(CHECK_SECONDS, diagnose()) if isinstance(one, Finding)]
    except ClawError as why:
        return [Finding("", "check", why.problem, why.fix)]
    except TimeoutError:
        return [Finding("", "check", say("it did not come back within {seconds} s", seconds=CHECK_SECONDS))]
    except Exception as why:  # noqa: BLE001 - a stranger's code
        return [Finding("", "check", say("its check failed: {why}", why=name_of(why)))]


async def _asked(app: App, ref: ModelRef) -> None:
    async def nobody(text: str) -> None:
        return None

    providers = {name: brought.thing for name, brought in app.rooms.kit.providers.items()}
    request = Request("", SystemPrompt(""), (), max_tokens=64)
    account(Bill(app.config.agent().id, purpose="probe"))
    async for _ in with_fallback((ref,), providers, request, nobody)((_QUESTION,), "none"):
        pass
