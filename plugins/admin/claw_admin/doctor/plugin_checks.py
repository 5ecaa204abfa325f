"""Checks of a plugin: its manifest and its state against what a probe of it recorded. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from claw import Finding, t
from claw.runtime import (
    ANY_ENDPOINT,
    DISABLED,
    HOOKS,
    IDLE,
    INCOMPATIBLE,
    LOADED,
    SLOTS,
    ConfigOutline,
    InstalledPlugin,
    Manifest,
    PluginState,
    api_matches,
    format_key,
    schema_violations,
)
from claw_tool_sdk import undeclared_access

from claw_admin.doctor.probe import ProbeResult


def check_unloaded(
    state: PluginState, wanted: ConfigOutline, environ: Mapping[str, str]
) -> Iterator[Finding]:
    """Check a plugin without loading it."""
    id, manifest = state.id, state.found.manifest
    yield from fault_findings(state)
    if manifest is None:
        return
    if state.state != INCOMPATIBLE and api_matches(manifest.api, (99, 0)):
        why = t(
            "its API range {range} has no upper bound, so an incompatible claw would load it",
            range=manifest.api,
        )
        yield Finding(id, "api", why, t("its author should write >=1,<2"), grave=False)
    if state.state == DISABLED:
        return
    if manifest.config_schema and manifest.has_own_section and id not in wanted.entries:
        for misfit in schema_violations({}, manifest.config_schema):
            key = format_key(("plugins", "entries", id, "config", *misfit.path))
            problem, fix = t(misfit.problem, **misfit.values), t(misfit.fix, **misfit.values)
            yield Finding(id, "setting", f"{key}: {problem}", fix, grave=state.state == LOADED)
    unset = [name for name in manifest.env if not environ.get(name, "").strip()]
    if unset:
        names = [*unset]
        yield Finding(id, "env", t("environment variables not set: {names}", names=names), grave=False)
    unlisted = [
        tool.name for tool in manifest.tools if tool.optional and not _opted_in(tool.name, manifest, wanted)
    ]
    if unlisted:
        names = [*unlisted]
        fix = t("claw config set 'tools.alsoAllow[]' {id}", id=unlisted[0])
        why = t("optional, and no allow list names them: {names}", names=names)
        yield Finding(id, "optional", why, fix, grave=False)


def fault_findings(state: PluginState) -> Iterator[Finding]:
    """Yield the faults of a plugin, as a list of plugins names them."""
    if state.stage:
        for why, fix in state.faults or ((state.why, state.fix),):
            yield Finding(state.id, state.stage, why, fix)


def _opted_in(tool: str, manifest: Manifest, wanted: ConfigOutline) -> bool:
    return not wanted.opt_ins.isdisjoint({tool.lower(), manifest.id.lower(), "group:plugins"})


def name_conflicts(found: Sequence[InstalledPlugin]) -> Iterator[Finding]:
    """Yield names of channels and providers that two plugins declare; the policy finds conflicts of tools."""
    owner: dict[tuple[str, str], str] = {}
    for one in found:
        if one.manifest is None:
            continue
        channels = [("channel", name) for name in one.manifest.channels]
        providers = [("provider", line.name) for line in one.manifest.providers if line.name != ANY_ENDPOINT]
        for kind, name in (*channels, *providers):
            first = owner.setdefault((kind, name), one.id)
            if first != one.id:
                why = t("{name} of plugin {second} is skipped: plugin {first} already provides that name",
                          name=name, second=one.id, first=first)  # fmt: skip
                fix = t("claw config set plugins.entries.{id}.enabled false", id=one.id)
                yield Finding(one.id, "conflict", why, fix)


def slot_conflicts(states: Sequence[PluginState], slots: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the slots that several usable plugins fill, while the operator has chosen none of them.

    :param slots: ``plugins.slots``: slot → the chosen name.
    """
    for slot, hook in SLOTS.items():
        kind = HOOKS[hook].kind
        filling = [
            state for state in states
            if state.state in (LOADED, IDLE) and state.found.manifest and kind in state.found.manifest.kinds
        ]  # fmt: skip
        if len(filling) > 1 and not slots.get(slot):
            ids = [state.id for state in sorted(filling, key=lambda state: not state.found.is_standard)]
            why = t("several plugins fill the slot {slot}: {ids}", slot=slot, ids=[*ids])
            fix = t("claw config set plugins.slots.{slot} {id}", slot=slot, id=ids[0])
            yield Finding(ids[-1], "slot", why, fix, grave=False)


def compare_with_probe(
    state: PluginState, seen: ProbeResult, wanted: ConfigOutline, budget_ms: float | None = None
) -> Iterator[Finding]:
    """Compare what was recorded while the plugin was loaded with what its manifest says.

    :param budget_ms: the longest time that its import may take.
    """
    id, manifest = state.id, state.found.manifest
    if seen.fault:
        yield load_failure(state, *seen.fault)
    yield from (Finding(id, "part", why, fix) for why, fix in seen.notes)
    if budget_ms is not None and seen.import_ms > budget_ms:
        why = t("its import takes {ms} ms (budget {budget} ms): {chain}", ms=seen.import_ms, budget=budget_ms,
                  chain=format_import_chain(seen))  # fmt: skip
        yield Finding(id, "budget", why, t("import slow modules at the first call"))
    for warning in seen.deprecated:
        yield Finding(id, "deprecated", t("deprecated: {text}", text=warning), grave=False)
    if manifest is None:
        if not seen.fault:
            why = t("it has no manifest, so every start imports it: {ms} ms", ms=seen.import_ms)
            yield Finding(id, "manifest", why, t("its author runs claw plugins build"), grave=False)
        return
    if not seen.fault:
        yield from _contribution_findings(manifest, seen, wanted)
    yield from _undeclared_access(manifest, seen)


def load_failure(state: PluginState, stage: str, why: str, fix: str) -> Finding:
    """Return the finding of a plugin that did not load; its fix disables the plugin, unless it is required."""
    edit = (f"plugins.entries.{state.id}.enabled", False) if stage in ("import", "register") else None
    return Finding(state.id, stage, why, fix, edit=None if state.required else edit)


def _contribution_findings(manifest: Manifest, seen: ProbeResult, wanted: ConfigOutline) -> Iterator[Finding]:
    declared: dict[str, Iterable[str]] = {
        "register_channels": manifest.channels,
        "register_providers": [line.name for line in manifest.providers],
        "register_prompt_sections": manifest.prompt_sections,
        "register_sandboxes": manifest.sandboxes,
    }
    later = {"register_channels": wanted.channels, "register_providers": wanted.providers}
    fix = t("its author runs claw plugins build")
    for hook, names in declared.items():
        contributed, declared_names = set(seen.contributed_names.get(hook, ())), set(names)
        if ANY_ENDPOINT in declared_names:
            continue  # its contributions depend on its settings
        for name in sorted(contributed - declared_names):
            why = t(
                "its code provides {name}, which its manifest does not list ({hook})", name=name, hook=hook
            )
            yield Finding(manifest.id, "undeclared", why, fix)
        for name in sorted((declared_names - contributed) & set(later.get(hook, declared_names))):
            why = t(
                "its manifest lists {name}, which its code does not provide ({hook})", name=name, hook=hook
            )
            yield Finding(manifest.id, "absent", why, fix)
    kinds = {"reviewer": "register_reviewers", "filter": "register_filters", "observer": "register_observers"}
    named = {"reviewer": manifest.reviewers, "filter": manifest.filters, "observer": manifest.observers}
    for kind, hook in kinds.items():
        if seen.contributed_names.get(hook) and not named[kind]:
            why = t(
                "its code provides {name}, which its manifest does not list ({hook})", name=kind, hook=hook
            )
            yield Finding(manifest.id, "undeclared", why, fix)


def _undeclared_access(manifest: Manifest, seen: ProbeResult) -> Iterator[Finding]:
    """Find what the plugin used while it was loaded and does not declare. What its tools do later is not seen
    here."""
    used = undeclared_access(
        manifest.capabilities,
        {"network": seen.network, "subprocess": seen.subprocess, "paths": seen.written},
    )
    for name, what in used.items():
        why = t("it used {what} while it was loaded; its manifest does not declare {name}",
                  what=[*what], name=name)  # fmt: skip
        yield Finding(manifest.id, "capability", why, t("ask its author why"))


def format_import_chain(seen: ProbeResult) -> str:
    """Format the heaviest imports, one behind the other."""
    return " > ".join(f"{link.module} {link.ms:.0f} ms" for link in seen.chain)
