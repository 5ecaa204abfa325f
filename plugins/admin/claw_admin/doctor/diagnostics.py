"""The diagnostics of plugins (hook ``register_diagnostics``), asked in isolation."""

import asyncio
import inspect
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from claw import ClawError, ConfigError, Diagnostic, Finding, HttpClients, PluginConfig, UsageError, t
from claw.runtime import (
    HOOKS,
    LOADED,
    QUARANTINED,
    Contribution,
    Database,
    HookRules,
    Host,
    PluginHealth,
    RunFacts,
    Setup,
    ToolFact,
    describe_exception,
    judge_tools,
    run_bounded,
    tool_fact,
    within,
)

from claw_admin.doctor.state_tables import DeclaredTables
from claw_admin.policy.tool_limits import MANY_TOKENS, limit_findings

HOOK = "register_diagnostics"
SECONDS, ONLINE_SECONDS = 60.0, 600.0
"""Time limits of one check."""
_EVERY_SERVICE_TAKES = 64  # tools in a request; a longer list is compared with the limits of the models


@dataclass(frozen=True, slots=True)
class DoctorContext:
    """The subject of the checks (``claw.DiagnosticContext``)."""

    setup: Setup
    environ: Mapping[str, str]
    online: bool = False
    channel: str = ""


@contextmanager
def _folder_for_notes() -> Iterator[str]:
    """Yield a temporary folder; a place where no file can be written when there is none, as on a full disk."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="claw-doctor-")
    except OSError:
        yield os.devnull
        return
    with folder as notes:
        yield notes


@contextmanager
def diagnostics_host(
    setup: Setup, hooks: tuple[str, ...] = (HOOK,), statements: list[str] | None = None
) -> Iterator[Host]:
    """Yield a host that asks plugins for their diagnostics and nothing else; it writes only failures to load.

    :param statements: gets those of the tables in ``state.db`` that plugins declare as they register.
    """
    network, home = HttpClients(), setup.config.home

    def view(plugin: str) -> PluginConfig:
        kept = (
            home / "plugins" if hooks == (HOOK,) else Path(notes)
        )  # what a plugin writes while it registers tools
        own = databases.enter_context(closing(DeclaredTables(home / "state.db", known)))
        return PluginConfig(setup.config, plugin, network.client, kept / plugin, own)

    known = statements if statements is not None else []
    with (
        ExitStack() as databases,
        _folder_for_notes() as notes,
        closing(Database(home / "state.db")) as database,
    ):
        health = PluginHealth(Path(notes), database, only_looks=True)
        yield Host(setup.plugin_states, view, health, rules=HookRules(hooks=hooks))


def plugin_findings(context: DoctorContext, statements: list[str]) -> list[Finding]:
    """Ask the diagnostics of every usable plugin, in order.

    A plugin that does not load, and a check that raises or hangs, is a finding about its plugin.

    :param statements: gets those of the tables in ``state.db`` that diagnostics name (``tables``).
    :raises UsageError: a channel is named that does not exist, or no plugin checks channels.
    """
    with diagnostics_host(context.setup) as host:
        broken = {one.id for one in host.plugin_states if one.state == QUARANTINED}
        asked = host.on_demand(HOOK)
        statements += (sql for one in asked for sql in getattr(one.value, "tables", ()))
        found = [
            Finding(one.id, one.stage, one.why, one.fix)
            for one in host.plugin_states
            if one.state == QUARANTINED and one.id not in broken
        ]
        if context.channel:
            asked = tuple(one for one in asked if getattr(one.value, "subject", "") == "channels")
            if not asked:
                fix = "pip install claw-gateway"
                raise UsageError("no plugin in use checks channels: claw-gateway does", fix=fix)
        return asyncio.run(_ask_all(asked, context, found))


def load_findings(setup: Setup, statements: list[str]) -> tuple[list[Finding], Setup]:
    """Load each plugin in use as a start does, all but its tools.

    Channels and model services are asked apart: a channel that fails must not hide a model service.

    :param statements: gets those of the tables in ``state.db`` that plugins declare.
    :returns: a finding for each that fails, and for each part that cannot be used; the setup without those that fail,
        so that no later check waits for one that hangs.
    """
    apart, found = ("register_channels", "register_providers"), list[Finding]()
    others = tuple(hook for hook in HOOKS if hook not in (*apart, "register_tools", HOOK))
    for hooks in ((apart[0],), (apart[1],), others):
        kinds = {HOOKS[hook].kind for hook in hooks}
        with diagnostics_host(setup, hooks, statements) as host:
            for state in setup.plugin_states:
                manifest = state.found.manifest
                is_asked = manifest is None or not kinds.isdisjoint(manifest.kinds)
                if state.state == LOADED and is_asked:
                    found += _load_findings(host, state.id)
            setup = replace(setup, plugin_states=host.plugin_states)
    return found, setup


def _load_findings(host: Host, plugin: str) -> Iterator[Finding]:
    """Load a plugin; yield its failure, or its parts that cannot be used."""
    if host.ask(plugin) is None:
        after = next(one for one in host.plugin_states if one.id == plugin)
        yield Finding(plugin, after.stage, after.why, after.fix)
    yield from (Finding(plugin, "part", note.problem, note.fix) for note in host.notes.get(plugin, ()))


def tool_findings(setup: Setup) -> Iterator[Finding]:
    """Load each plugin in use that provides tools, and check them; one whose tools depend on its settings
    (kind tool without a tool in its manifest) is left to its own diagnostic.
    """
    suppliers, undeclared = setup.config.settings.tools.suppliers, list[ToolFact]()
    with diagnostics_host(setup, ("register_tools",)) as host:
        for state in setup.plugin_states:
            manifest = state.found.manifest
            if state.state != LOADED or (manifest and not manifest.tools):
                continue
            yield from _load_findings(host, state.id)
            if manifest is None and (answers := host.ask(state.id)) is not None:
                undeclared += (
                    tool_fact(tool, state.id, suppliers) for tool in answers.get("register_tools", ())
                )
        told = frozenset(host.notes)
    facts = sorted((*undeclared, *setup.facts), key=lambda fact: fact.plugin is not None)  # as in an app
    yield from tool_conflicts(facts)
    for fact in facts:
        if fact.schema_problem and fact.supplier not in told:
            why = t("its tool {tool} is withheld: model services do not accept its parameters: {why}",
                    tool=fact.name, why=fact.schema_problem)  # fmt: skip
            fix = t("update the plugin, or ask its author for a sound schema")
            yield Finding(fact.supplier, "schema", why, fix)
    by_settings = any(
        state.state == LOADED and state.found.manifest
        and "tool" in state.found.manifest.kinds and not state.found.manifest.tools
        for state in setup.plugin_states
    )  # fmt: skip
    is_long = len(facts) > _EVERY_SERVICE_TAKES or sum(fact.tokens for fact in facts) > MANY_TOKENS
    if by_settings or is_long:
        with suppress(ClawError):  # what keeps claw from starting is another finding
            yield from asyncio.run(limit_findings(setup))


def tool_conflicts(facts: Iterable[ToolFact]) -> Iterator[Finding]:
    """Yield the tools that are skipped because another plugin owns their names."""
    ordered = sorted(facts, key=lambda fact: fact.plugin is not None)  # as in an app
    # One that is there twice is a note of its plugin; one that the operator gave to another plugin is as wanted.
    for conflict in judge_tools(ordered, (), RunFacts()).conflicts:
        if conflict.kind not in ("twice", "handed"):
            fix = t(
                "claw config set tools.suppliers.{name} {id}, or uninstall one of the plugins",
                **conflict.names,
            )
            yield Finding(conflict.fact.supplier, "conflict", str(conflict), fix)


async def _ask_all(
    asked: tuple[Contribution[Diagnostic], ...], context: DoctorContext, found: list[Finding]
) -> list[Finding]:
    for one in asked:
        found += await _ask(one, context)
    return found


async def _ask(one: Contribution[Diagnostic], context: DoctorContext) -> list[Finding]:
    """Return what one diagnostic finds; plugin code, so it gets a limit, and an error is a finding."""
    seconds = ONLINE_SECONDS if context.online or context.channel else SECONDS
    name = one.value.name
    try:
        check = one.value.check
        if inspect.iscoroutinefunction(check):
            answer = await within(seconds, check(context))
        else:
            answer = await asyncio.to_thread(run_bounded, lambda: check(context), seconds)
            if inspect.isawaitable(answer):
                answer = await within(seconds, answer)
        return [finding for finding in answer if isinstance(finding, Finding)]
    except UsageError:
        if context.channel:
            raise
        return [Finding(one.plugin, "check", t("its check {name} failed", name=name))]
    except ConfigError as why:  # as ``config validate`` names it
        return [Finding(why.where or one.plugin, "config", why.problem, why.fix)]
    except ClawError as why:
        problem = t("its check {name} failed: {why}", name=name, why=why.problem)
        return [Finding(one.plugin, "check", problem, why.fix)]
    except Exception as why:  # noqa: BLE001 - plugin code
        problem = t("its check {name} failed: {why}", name=name, why=describe_exception(why))
        fix = t("update it, or disable it: claw config set plugins.entries.{id}.enabled false", id=one.plugin)
        return [Finding(one.plugin, "check", problem, fix)]


def status_facts(context: DoctorContext) -> dict[str, Any]:
    """Return the facts for ``claw status`` of every diagnostic that has some; one that fails is left out."""
    facts: dict[str, Any] = {}
    with diagnostics_host(context.setup) as host:
        for one in host.on_demand(HOOK):
            if status := getattr(one.value, "status", None):
                try:
                    facts |= run_bounded(lambda status=status: dict(status(context)), SECONDS)  # type: ignore[misc]
                except Exception as why:  # noqa: BLE001 - plugin code
                    facts[one.plugin] = describe_exception(why)
    return facts
