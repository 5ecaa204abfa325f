"""``claw doctor`` and ``claw plugins doctor``: list what is wrong and how to fix it; with ``--fix``, fix it."""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Annotated, Any, cast

import typer
from claw import ClawError, Finding, Tool, t
from claw.runtime import (
    BLOCKED,
    DISABLED,
    IDLE,
    INCOMPATIBLE,
    QUARANTINED,
    AsJson,
    LoadFailure,
    PluginHealth,
    PluginState,
    Setup,
    document,
    files_digest,
    plugin_data,
    table,
    tool_fact,
    unknown_plugin_error,
    with_label,
)

from claw_admin.doctor.plugin_checks import (
    check_unloaded,
    compare_with_probe,
    fault_findings,
    format_import_chain,
    load_failure,
    name_conflicts,
)
from claw_admin.doctor.probe import SECONDS, ProbeResult, probe_plugin, record_health

Fix = Annotated[
    bool, typer.Option("--fix", help="Apply the fixes that need no confirmation, and report each.")
]


def doctor(
    channel: Annotated[
        str, typer.Argument(help="A channel (feishu, or feishu/ACCOUNT): ask its service, and nothing else.")
    ] = "",
    fix: Fix = False,
    online: Annotated[
        bool,
        typer.Option(
            "--online",
            help="Also ask the service of each channel, and each model of the default agent one word.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Look at config, plugins, permissions, sessions, state and keys; exit 1 when something is wrong."""
    from claw.runtime import home_of, load_setup, plugin_states
    from claw_config_sdk import config_findings

    from claw_admin.doctor import checks, diagnostics, state_tables

    errors, warnings = ([], []) if channel else config_findings(home_of(os.environ), os.environ)
    found = [] if channel else [*checks.offline_findings(errors, warnings)]
    if errors:  # plugins have no config to check
        why = t("the checks of plugins wait for a valid config file")
        found.append(Finding("plugins", "unasked", why, grave=False))
    else:
        setup, statements = load_setup(only_looks=True), list[str]()
        if not channel:
            failures, setup = diagnostics.load_findings(setup, statements)
            found += checks.beside(warnings, (*failures, *diagnostics.tool_findings(setup)))
            found += _unlisted_findings(setup)
        context = diagnostics.DoctorContext(setup, os.environ, online, channel)
        found += checks.beside(warnings, diagnostics.plugin_findings(context, statements))
        if not channel:
            found += state_tables.table_findings(setup.config.home / "state.db", statements)
            # what one plugin did to another, and so what a list of plugins says from now on
            after = (one for state in plugin_states() if state.found.package for one in fault_findings(state))
            found += checks.beside(warnings, after)
        found = list({(one.about, one.problem): one for one in found}.values())
    facts = [one for one in found if one.kind == "fact"]
    found = [one for one in found if one.kind != "fact"]
    left, fixed = _apply_fixes(found) if fix else (found, [])
    if as_json:
        lines = [{"about": one.about, "text": one.problem} for one in facts]
        document(
            "doctor", {"findings": [_finding_data(one) for one in left], "mended": fixed, "facts": lines}
        )
    else:
        for one in facts:
            typer.echo(with_label(one.about, one.problem))
        _print_findings(left, fixed)
    raise typer.Exit(code=1 if any(one.grave for one in left) else 0)


def plugins_doctor(
    plugin: Annotated[str, typer.Argument(help="One plugin; default: all that are in use or could be.")] = "",
    cost: Annotated[
        bool, typer.Option("--cost", help="Show the time of each import, and its slowest chain.")
    ] = False,
    budget_ms: Annotated[
        float | None,
        typer.Option("--budget-ms", min=0, help="Maximum import time in ms; a longer one is a finding."),
    ] = None,
    fix: Fix = False,
    as_json: AsJson = False,
) -> None:
    """Load each plugin in a process of its own and compare it with its manifest.

    Exit 1 when something is wrong.
    """
    from claw.runtime import load_setup, outline_config

    from claw_admin.doctor.checks import is_asked_for

    setup = load_setup()
    wanted = outline_config(setup.config.layout.tree)
    chosen = _chosen(setup.plugin_states, plugin)
    times = 2 if cost or budget_ms is not None else 1
    seen: dict[str, ProbeResult] = {}
    ids = {one.id for one in chosen}
    found: list[Finding] = [one for one in name_conflicts(setup.found) if one.about in ids]
    for state in chosen:
        unloaded = check_unloaded(state.without_failure or state, wanted, os.environ)
        found += (one for one in unloaded if plugin or is_asked_for(state, one))
        if _may_load(state, named=bool(plugin)):
            if state.prevented:
                seconds = f"{SECONDS * times:g}"
                typer.echo(t("loading {id} again, up to {seconds} s", id=state.id, seconds=seconds), err=True)
            elif sys.stderr.isatty():
                typer.echo(t("checking {id}", id=state.id), err=True)
            seen[state.id] = probe_plugin(state.id, times)
            found += _beside_others(state.id, record_health(state.found, seen[state.id], setup.config.home))
            diffs = compare_with_probe(state, seen[state.id], wanted, budget_ms)
            said = {(one.about, one.problem) for one in found}
            found += (one for one in diffs if (one.about, one.problem) not in said)
    said = {(one.about, one.problem) for one in found}
    clashes = _tool_clashes(setup, seen)
    found += (one for one in clashes if one.about in ids and (one.about, one.problem) not in said)
    left, fixed = _apply_fixes(found) if fix else (found, [])
    if as_json:
        rows = [_plugin_data(one, seen.get(one.id)) for one in chosen]
        document(
            "plugins-doctor", {"plugins": rows, "findings": [_finding_data(f) for f in left], "mended": fixed}
        )
    else:
        if cost:
            _costs(seen)
        _print_findings(left, fixed)
    raise typer.Exit(code=1 if any(one.grave for one in left) else 0)


def retry(
    plugins: Annotated[list[str] | None, typer.Argument(help="Plugin ids; none: all that failed.")] = None,
    as_json: AsJson = False,
) -> None:
    """Load plugins that failed once more, each in a process of its own, and record how that went.

    Exit 1 when one fails again.
    """
    from claw.runtime import load_setup, plugin_states

    setup = load_setup()
    failed = PluginHealth(setup.config.home / "plugins").failures()
    chosen = [one for id in plugins or () for one in _chosen(setup.plugin_states, id)]
    chosen = chosen or [one for one in setup.plugin_states if not plugins and one.id in failed]
    for state in chosen:
        if _may_load(state, named=bool(plugins)):
            record_health(state.found, probe_plugin(state.id), setup.config.home, parts=True)
    ids = {one.id for one in chosen}
    after = [one for one in plugin_states() if one.id in ids]
    if as_json:
        document("plugins", {"plugins": [plugin_data(one) for one in after]})
    elif not after:
        typer.echo(t("no plugin has failed"), err=True)
    else:
        rows = [[one.id, t(one.state), one.why + (f" ({one.fix})" if one.fix else "")] for one in after]
        table([t("plugin"), t("state"), t("why")], rows)
    raise typer.Exit(code=1 if any(one.state == QUARANTINED for one in after) else 0)


def _beside_others(plugin: str, failure: LoadFailure | None) -> Iterator[Finding]:
    """Yield the failure of a plugin that loads in a process of its own."""
    if failure:
        why = t(
            "it loads in a process of its own, and failed beside the other plugins: {why}", why=failure.why
        )
        advice = "claw plugins bisect -- claw tools list; if the cause is gone: claw plugins retry {id}"
        yield Finding(plugin, failure.stage, why, t(advice, id=plugin))


def _unlisted_findings(setup: Setup) -> Iterator[Finding]:
    """Load each third party's plugin whose manifest lists nothing, so that nothing loads it, in a process of its own."""
    for state in setup.plugin_states:
        lists = state.found.declares.kinds or state.found.is_first_party
        if state.state == IDLE and not lists and state.sound != files_digest(state.found):
            seen = probe_plugin(state.id)
            record_health(state.found, seen, setup.config.home)
            if seen.fault:
                yield load_failure(state, *seen.fault)


def _tool_clashes(setup: Setup, seen: Mapping[str, ProbeResult]) -> Iterator[Finding]:
    """Yield the tools that are skipped for their names, those of plugins without a manifest included."""
    from claw_admin.doctor.diagnostics import tool_conflicts

    plain = {"description": "", "parameters": {}, "optional": False, "owner_only": False}
    undeclared = [
        tool_fact(
            cast("Tool", SimpleNamespace(name=name, **plain)), state.id, setup.config.settings.tools.suppliers
        )
        for state in setup.plugin_states
        if state.id in seen and state.found.manifest is None and not state.found.rival
        for name in seen[state.id].contributed_names.get("register_tools", ())
    ]
    return tool_conflicts((*undeclared, *setup.facts))


def _chosen(plugin_states: Sequence[PluginState], plugin: str) -> list[PluginState]:
    if not plugin:
        return list(plugin_states)
    if not (chosen := [one for one in plugin_states if one.id == plugin]):
        raise unknown_plugin_error(plugin, [one.id for one in plugin_states])
    return chosen


def _may_load(state: PluginState, named: bool) -> bool:
    """Return false for a plugin that the operator blocks, or whose files changed: it is not run."""
    if state.found.rival or state.state in (BLOCKED, INCOMPATIBLE) or state.stage in ("find", "integrity"):
        return False
    return named or state.state != DISABLED


def _apply_fixes(found: Iterable[Finding]) -> tuple[list[Finding], list[str]]:
    """Fix what can be fixed; return what is left, and what was done."""
    from claw_config_sdk import file_of, set_value

    from claw_admin.doctor.checks import fix_permissions

    left, done = [], []
    for one in found:
        try:
            if one.kind == "permissions":
                done.append(fix_permissions(one))
            elif one.edit:
                key, value = one.edit
                set_value(file_of(os.environ), key, value, os.environ)
                done.append(f"claw config set {key} {str(value).lower()}")
            else:
                left.append(one)
        except (ClawError, OSError):
            left.append(one)
    return left, done


def _print_findings(found: Sequence[Finding], fixed: Sequence[str]) -> None:
    for line in fixed:
        typer.echo(t("fixed: {what}", what=line))
    for one in sorted(found, key=lambda one: not one.grave):
        mark = t("problem") if one.grave else t("note")
        names_a_key = f" {one.about}." in f" {one.problem}"
        text = one.problem if names_a_key else with_label(one.about, one.problem)
        typer.echo(with_label(mark, text) + (f" ({one.fix})" if one.fix else ""))
    grave = sum(one.grave for one in found)
    typer.echo(t("{count:problem|problems} found", count=grave) if grave else t("no problems found"))


def _costs(seen: dict[str, ProbeResult]) -> None:
    rows = [
        [
            id,
            f"{one.import_ms:.1f}",
            f"{one.memory_kb / 1024:.1f}",
            str(one.modules),
            format_import_chain(one),
        ]
        for id, one in sorted(seen.items(), key=lambda item: -item[1].import_ms)
    ]
    table([t("plugin"), t("import, ms"), t("memory, MB"), t("modules"), t("slowest chain")], rows)


def _finding_data(finding: Finding) -> dict[str, Any]:
    """Return the JSON form of a finding; the key of its fix is part of schema version 1."""
    keys = {"about": "about", "kind": "kind", "problem": "problem", "fix": "mend", "grave": "grave"}
    return {key: getattr(finding, name) for name, key in keys.items()}


def _plugin_data(state: PluginState, seen: ProbeResult | None) -> dict[str, Any]:
    body: dict[str, Any] = {"id": state.id, "state": state.shown, "looked": seen is not None}
    if seen:
        body |= {
            "importMs": seen.import_ms, "memoryKb": seen.memory_kb, "modules": seen.modules,
            "chain": [{"module": link.module, "ms": link.ms} for link in seen.chain],
            "brought": seen.contributed_names, "network": seen.network, "subprocess": seen.subprocess,
            "written": seen.written,
        }  # fmt: skip
    return body
