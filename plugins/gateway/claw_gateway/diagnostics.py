"""Checks of channels and the gateway for ``claw doctor``, and both for ``claw status``."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from claw import Channel, ClawError, DiagnosticContext, Finding, UsageError, nearest, t
from claw.runtime import (
    DISABLED,
    App,
    Setup,
    describe_exception,
    within,
)

from claw_gateway.channel_checks import (
    account_key,
    channel_findings,
    unknown_channel_findings,
    webhooks_without_listener,
)
from claw_gateway.commands.gateway import gateway_data, how_it_ended, is_hung, is_unserved, status_line
from claw_gateway.pairing import TABLES as PAIRING_TABLES
from claw_gateway.process.descriptors import file_shortage
from claw_gateway.process.report import configured_accounts
from claw_gateway.process.service import SystemService
from claw_gateway.process.status import TABLE as RUNS_TABLE, read_status

CHECK_SECONDS = 60.0
"""Time limit of the check of one account of a channel."""


class ChannelDiagnostic:
    """The diagnostic of this plugin."""

    name = subject = "channels"
    tables = (*PAIRING_TABLES, RUNS_TABLE)
    position = 50  # before those of models, as a person reads them

    async def check(self, context: DiagnosticContext) -> Sequence[Finding]:
        """Check what the gateway reports; online, ask the services. Nothing is sent to anybody."""
        if context.channel:
            return await service_findings(context.setup, context.channel)
        found = [*gateway_findings(context.setup.config.home, context.environ)]
        return [*found, *await service_findings(context.setup)] if context.online else found

    def check_config(self, setup: Setup) -> Iterator[Finding]:
        """Check who may write, whether webhooks can arrive, and names of channels that no plugin provides."""
        yield from channel_findings(setup)
        yield from unknown_channel_findings(setup)

    def status(self, context: DiagnosticContext) -> Mapping[str, Any]:
        """Return the state of the gateway, and how many of its channels are in which state."""
        gateway = read_status(context.setup.config.home)
        channels = dict(Counter(one["state"] for one in gateway_data(gateway)["channels"]))
        return {"gateway": status_line(gateway), **({"channels": channels} if channels else {})}


def gateway_findings(home: Path, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Find what is wrong with the gateway that runs, by its own status, and with the service that shall run it."""
    seen = read_status(home)
    if is_hung(seen):
        yield Finding("gateway", "gateway", status_line(seen), t("claw logs; then claw gateway restart"))
    if ended := how_it_ended(gateway_data(seen)):
        yield Finding("gateway", "gateway", ended, t("claw logs; then claw gateway start"), grave=False)
    elif problem := _service_problem(SystemService(home, environ), seen.pid):
        fix = "claw gateway restart" if seen.pid else "claw gateway start"
        yield Finding("gateway", "gateway", problem, fix, grave=False)
    if few := file_shortage(gateway_data(seen)["files"] or {}):
        yield few
    for one in gateway_data(seen)["channels"]:
        if one["state"] in ("failed", "waiting"):
            key = account_key(one["channel"], one["account"])
            yield Finding(key, one["state"], one["detail"], grave=is_unserved(one, seen.now))


def _service_problem(service: SystemService, pid: int | None) -> str:
    """Return how the gateway that runs differs from the service that is installed; empty if it does not.

    :param pid: of the gateway that runs; None = none runs.
    """
    if not service.installed:
        return ""
    if not pid:
        return t("the service {name} is installed, and no gateway runs", name=service.name)
    if service.usable() and service.pid() != pid:
        problem = "process {pid} was not started by the service {name}, which is installed"
        return t(problem, pid=pid, name=service.name)
    return ""


async def service_findings(setup: Setup, only: str = "") -> list[Finding]:
    """Ask the services of the configured channels about our accounts there.

    :param only: the name of a channel, or ``NAME/ACCOUNT``.
    :raises UsageError: the file has no such channel.
    :raises ClawError: the config cannot be used.
    """
    found: list[Finding] = []
    unheard = webhooks_without_listener(setup.config) if only else {}  # check_config finds all of them
    async with App(setup) as app:
        for row in _selected(list(configured_accounts(setup.config.settings, app.host.plugin_states)), only):
            name, account = row["channel"], row["account"]
            key = account_key(name, account)
            found += [unheard[name, account]] if (name, account) in unheard else []
            channel = app.registry.channel(name, account)
            if channel is not None:
                diagnosed = await _diagnose(channel)
                if not any(one.grave for one in diagnosed):
                    diagnosed += await _facts(channel)
                found += [
                    replace(one, about=one.about or key, problem=app.redact(one.problem)) for one in diagnosed
                ]
            elif row["state"] != DISABLED or only:
                why = row["why"] or t("its plugin has no such account")
                found.append(Finding(key, row["state"], why, row["fix"]))
    return found


def _selected(rows: list[dict[str, Any]], only: str) -> list[dict[str, Any]]:
    if not only:
        return rows
    chosen = [row for row in rows if only in (row["channel"], f"{row['channel']}/{row['account']}")]
    if not chosen:
        near = nearest(only, sorted({row["channel"] for row in rows}))
        fix = "did you mean {near}?" if near else "claw channels list shows those of the file"
        raise UsageError("no channel {name} is configured", fix=fix, name=only, near=near)
    return chosen


async def _facts(channel: Channel) -> list[Finding]:
    """Return what a channel knows of its account, as findings of the kind ``fact``; empty when it fails: what is wrong
    was looked for before."""
    facts = getattr(channel, "facts", None)
    try:
        lines = await within(CHECK_SECONDS, facts()) if facts else ()
    except Exception:  # noqa: BLE001 - third-party code
        return []
    return [Finding("", "fact", str(line), grave=False) for line in lines]


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
