"""The checks of ``claw doctor``: config, plugins, home, sessions, state, keys; on request also channels and
models."""

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

from claw import CallAccount, bill_to
from claw.agent.models import select_models
from claw.app import App, Setup, load_setup
from claw.cli.config import config_findings
from claw.config import Config
from claw.config.summary import outline_config
from claw.contracts.channel import Channel
from claw.contracts.diagnostics import DISABLED, Finding
from claw.contracts.errors import ClawError, UsageError
from claw.contracts.extensions import ModelOptions
from claw.contracts.messages import Address
from claw.contracts.provider import ModelRef, Request, SystemPrompt
from claw.contracts.transcript import Text, User
from claw.host.discovery import home_of, providers_used
from claw.host.isolation import describe_exception, within
from claw.host.manifest import variables_of
from claw.i18n import t
from claw.policy import RunFacts, judge_tools
from claw.security.admission import account_setting, configured_owners
from claw.storage.records import parse_session
from claw_gateway.commands.gateway import gateway_data, is_hung, status_line
from claw_gateway.process.report import configured_accounts
from claw_gateway.process.status import read_status

from claw_admin.doctor import model_checks
from claw_admin.doctor.plugin_checks import check_unloaded, name_conflicts
from claw_admin.doctor.status import key_source

_SECRET_FILES = (
    *("config.yaml", "config.yml", "config.json", "config.last-good", "gateway.env"),
    *("state.db", "state.db-wal", "state.db-shm"),
)
_PATTERNS = ("agents/*/auth-profiles.json", "agents/*/sessions/*.jsonl", "logs/*")
_LEAST_FREE_BYTES = 16 << 20
CHECK_SECONDS = 60.0
"""Time limit of the check of one account of a channel."""
_QUESTION = User((Text("Answer with the word: yes"),))


def offline_findings(environ: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """Run every check that needs neither the code of a plugin nor the network."""
    home = home_of(environ)
    errors, warnings = config_findings(home, environ)
    for grave, problems in ((True, errors), (False, warnings)):
        yield from (Finding(one.where, "config", one.problem, one.fix, grave=grave) for one in problems)
    yield from permission_findings(home)
    yield from disk_findings(home)
    yield from gateway_findings(home)
    yield from session_findings(home)
    yield from database_findings(home / "state.db")
    if not errors:
        setup = load_setup(environ)
        yield from plugin_findings(setup, environ)
        yield from key_findings(setup, environ)
        yield from closed_channel_findings(setup)
        settings = setup.config.settings
        yield from model_checks.capability_findings(
            settings, ((ref, model_checks.configured_capabilities(settings, ref)) for ref in setup.models())
        )


def plugin_findings(setup: Setup, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Check the plugins together, and each one, without loading any."""
    wanted = outline_config(setup.config.raw)
    for state in setup.plugin_states:
        yield from check_unloaded(state, wanted, environ)
    yield from name_conflicts(setup.found)
    for conflict in judge_tools(setup.facts, (), RunFacts()).conflicts:
        yield Finding(conflict.fact.plugin or conflict.fact.supplier, "conflict", str(conflict), grave=False)


def permission_findings(home: Path) -> Iterator[Finding]:
    """Find what others may read and should not: the home itself, and its files with keys and conversations."""
    files = [home / name for name in _SECRET_FILES] + [path for each in _PATTERNS for path in home.glob(each)]
    for path, allowed in ((home, 0o700), *((file, 0o600) for file in files)):
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
        except OSError:
            continue
        if mode & ~0o700:
            why = t("other users can access it (mode {mode:o})", mode=mode)
            yield Finding(str(path), "permissions", why, f"chmod {allowed:o} {path}")


def fix_permissions(finding: Finding) -> str:
    """Fix what ``permissions`` found; return what was done."""
    path = Path(finding.about)
    path.chmod(0o700 if path.is_dir() else 0o600)
    return finding.mend


def disk_findings(home: Path, disk: os.statvfs_result | None = None) -> Iterator[Finding]:
    """Check that the disk has space left and can be written. File systems that do not count report 0 of 0.

    :param disk: the figures of the disk; None = read them.
    """
    try:
        disk = disk or os.statvfs(home)
    except OSError:
        return
    left = disk.f_bavail * disk.f_frsize
    if not os.access(home, os.W_OK):
        yield Finding(
            str(home), "disk", t("cannot be written"), t("correct its permissions or how it is mounted")
        )
    elif disk.f_blocks and left < _LEAST_FREE_BYTES:
        why = t("the disk is almost full: {mb} MB free", mb=f"{left / 2**20:.1f}")
        yield Finding(str(home), "disk", why, t("free some space"))
    elif disk.f_files and not disk.f_favail:
        yield Finding(str(home), "disk", t("the disk has no room for another file"), t("free some space"))


def gateway_findings(home: Path) -> Iterator[Finding]:
    """Find what is wrong with the gateway that runs, by its own status."""
    seen = read_status(home)
    if is_hung(seen):
        yield Finding("gateway", "gateway", status_line(seen), t("claw logs; then claw gateway restart"))
    for one in gateway_data(seen)["channels"]:
        if one["state"] in ("failed", "waiting"):
            key = _key(one["channel"], one["account"])
            yield Finding(key, one["state"], one["detail"], grave=one["state"] == "failed")


def closed_channel_findings(setup: Setup) -> Iterator[Finding]:
    """Find accounts that admit nobody: a missing or empty list admits nobody, and senders get no answer."""
    for row in configured_accounts(setup.config.settings, setup.plugin_states):
        address = Address(row["channel"], "", account=row["account"])
        if row["state"] not in (DISABLED, "absent") and not _admits_someone(address, setup.config):
            key = _key(address.channel, address.account)
            why = t("no one may write there: its allow lists are empty")
            yield Finding(
                key, "nobody", why, t("claw config set '{key}.allowFrom[]' ID", key=key), grave=False
            )


def _admits_someone(address: Address, config: Config) -> bool:
    """Return true if ``claw.security.admission`` may admit someone's message, in a direct chat or in a group."""
    setting = partial(account_setting, address, config)
    has_owner = any(_may_be_on(one, address.channel) for one in configured_owners(config.settings))

    def is_open(people: Sequence[str] | None) -> bool:
        return people is None or has_owner or any(one.strip() for one in people)

    if setting("dm_policy") == "pairing" or (
        setting("dm_policy") != "disabled" and is_open(setting("allow_from"))
    ):
        return True
    if setting("group_policy") == "disabled":
        return False
    everywhere = setting("group_allow_from")
    lists = [everywhere] if setting("group_policy") == "open" else []
    for one in setting("groups").values():
        if one.enabled:
            lists.append(everywhere if one.allow_from is None else one.allow_from)
    return any(map(is_open, lists))


def _may_be_on(owner: str, channel: str) -> bool:
    """Return true if an owner belongs to this channel, or is a phone number, which may be on any."""
    return owner.strip().startswith("+") or owner.partition(":")[0].strip().lower() == channel


def _key(channel: str, account: str) -> str:
    return f"channels.{channel}" if account == "default" else f"channels.{channel}.accounts.{account}"


def session_findings(home: Path) -> Iterator[Finding]:
    """Find session files with lines that cannot be read."""
    for path in sorted(home.glob("agents/*/sessions/*.jsonl")):
        try:
            reading = parse_session(path.read_bytes())
        except OSError as refused:
            yield Finding(str(path), "session", t("cannot be read: {why}", why=refused.strerror))
            continue
        fix = t("the next message repairs it and keeps a copy of the damaged file beside it")
        if reading.reason:
            yield Finding(str(path), "session", t("is damaged: {why}", why=reading.reason), fix)
        elif reading.bad_lines:
            lines = ", ".join(map(str, reading.bad_lines))
            yield Finding(str(path), "session", t("is damaged: line {lines}", lines=lines), fix)


def database_findings(path: Path) -> Iterator[Finding]:
    """Check that the database is whole (sqlite.org, "PRAGMA quick_check")."""
    if not path.exists():
        return
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
            [(result,), *_] = database.execute("PRAGMA quick_check").fetchall()
    except sqlite3.DatabaseError as why:
        result = str(why)
    if result != "ok":
        fix = t("move it elsewhere: sessions are found again, everything else starts empty")
        yield Finding(str(path), "state", t("is damaged: {why}", why=result), fix)


def key_findings(setup: Setup, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Find providers that a model of the file needs and that have no key."""
    config = setup.config
    for provider in providers_used(outline_config(config.raw), setup.found, environ, config.raw):
        if key_source(config, setup.found, provider, environ) == t("none"):
            variables = variables_of(setup.found, provider)
            fix = t("export {variable}=…", variable=variables[0]) if variables else ""
            yield Finding(f"providers.{provider}", "key", t("it has no API key"), fix)


def model_findings(environ: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """Check the capabilities of the default agent's models, and call each one with one word, which costs a
    few tokens.

    :raises ClawError: the config cannot be used.
    """
    app = App(load_setup(environ))
    refs, settings = app.setup.models(), app.config.settings
    known = ((ref, app.runtime.registry.providers.get(ref.provider)) for ref in refs)
    capabilities = [
        (ref, model_checks.provider_capabilities(one.value, settings, ref)) for ref, one in known if one
    ]
    yield from model_checks.capability_findings(settings, capabilities)
    try:
        for ref in refs:
            try:
                asyncio.run(_call_model(app, ref))
            except ClawError as why:
                yield Finding(str(ref), "model", why.problem, why.fix)
    finally:
        asyncio.run(app.close())


def channel_findings(only: str = "", environ: Mapping[str, str] = os.environ) -> list[Finding]:
    """Ask the services of the configured channels about our accounts there. Nothing is sent to anybody.

    :param only: the name of a channel, or ``NAME/ACCOUNT``.
    :raises UsageError: the file has no such channel.
    :raises ClawError: the config cannot be used.
    """
    return asyncio.run(_diagnose_all(load_setup(environ), only))


async def _diagnose_all(setup: Setup, only: str) -> list[Finding]:
    app = App(setup)
    found: list[Finding] = []
    try:
        for row in _selected(list(configured_accounts(setup.config.settings, app.host.standings)), only):
            name, account = row["channel"], row["account"]
            key = _key(name, account)
            channel = app.registry.channel(name, account)
            if channel is not None:
                diagnosed = await _diagnose(channel)
                found += [
                    replace(one, about=one.about or key, problem=app.redact(one.problem)) for one in diagnosed
                ]
            elif row["state"] != DISABLED or only:
                why = row["why"] or t("its plugin has no such account")
                found.append(Finding(key, row["state"], why, row["fix"]))
    finally:
        await app.close()
    return found


def _selected(rows: list[dict[str, Any]], only: str) -> list[dict[str, Any]]:
    if not only:
        return rows
    chosen = [row for row in rows if only in (row["channel"], f"{row['channel']}/{row['account']}")]
    if not chosen:
        near = "".join(get_close_matches(only, sorted({row["channel"] for row in rows}), 1))
        fix = "did you mean {near}?" if near else "claw channels list shows those of the file"
        raise UsageError("no channel {name} is configured", fix=fix, name=only, near=near)
    return chosen


async def _diagnose(channel: Channel) -> list[Finding]:
    """Return what a channel's own check finds; third-party code, so it gets a limit, and an error is a
    finding."""
    diagnose = getattr(channel, "diagnose", None)
    if diagnose is None:
        return [Finding("", "unchecked", t("this channel has no check"), grave=False)]
    try:
        return [one for one in await within(CHECK_SECONDS, diagnose()) if isinstance(one, Finding)]
    except ClawError as why:
        return [Finding("", "check", why.problem, why.fix)]
    except TimeoutError:
        return [Finding("", "check", t("it did not answer within {seconds} s", seconds=CHECK_SECONDS))]
    except Exception as why:  # noqa: BLE001 - third-party code
        return [Finding("", "check", t("its check failed: {why}", why=describe_exception(why)))]


async def _call_model(app: App, ref: ModelRef) -> None:
    registry = app.runtime.registry
    options = ModelOptions(detached=True, key_variables=registry.key_variables)
    request = Request("", SystemPrompt(""), (), max_tokens=64)
    bill_to(CallAccount(app.config.agent().id, purpose="probe"))
    async for _ in select_models(registry, (ref,), request, options)((_QUESTION,), "none"):
        pass
