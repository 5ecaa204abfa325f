"""What is wrong with a plugin, judged from what it declares, how it stands and what was seen of it. Pure."""

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from claw.cli.probe import Seen
from claw.config.misfit import misfits
from claw.config.names import dotted
from claw.config.outline import ANY_ENDPOINT, Wanted
from claw.finding import Finding
from claw.manifest import Found, Manifest, ToolLine, fits
from claw.standing import DISABLED, INCOMPATIBLE, LOADED, QUARANTINED, Standing
from claw.words import say


def examine(standing: Standing, wanted: Wanted, environ: Mapping[str, str]) -> Iterator[Finding]:
    """What can be said of a plugin without loading it."""
    id, manifest = standing.id, standing.found.manifest
    if standing.state in (QUARANTINED, INCOMPATIBLE):
        yield Finding(id, standing.stage or "find", standing.why, standing.mend)
    if manifest is None:
        return
    if standing.state != INCOMPATIBLE and fits(manifest.api, (99, 0)):
        why = say("its API range {range} has no end: a claw that breaks it would load it", range=manifest.api)
        yield Finding(id, "api", why, say("its author writes >=1,<2"), grave=False)
    if standing.state == DISABLED:
        return
    if manifest.config_schema and manifest.keeps_own_section and id not in wanted.entries:
        for misfit in misfits({}, manifest.config_schema):
            key = dotted(("plugins", "entries", id, "config", *misfit.path))
            problem, fix = say(misfit.problem, **misfit.values), say(misfit.fix, **misfit.values)
            yield Finding(id, "setting", f"{key}: {problem}", fix, grave=standing.state == LOADED)
    unset = [name for name in manifest.env if not environ.get(name, "").strip()]
    if unset:
        names = ", ".join(unset)
        yield Finding(id, "env", say("not set, and it reads them: {names}", names=names), grave=False)
    asleep = [
        tool.name for tool in manifest.tools if tool.optional and not _opted_in(tool.name, manifest, wanted)
    ]
    if asleep:
        names, mend = ", ".join(asleep), say("claw config set 'tools.alsoAllow[]' {id}", id=asleep[0])
        why = say("optional, and no allow list names them: {names}", names=names)
        yield Finding(id, "optional", why, mend, grave=False)


def _opted_in(tool: str, manifest: Manifest, wanted: Wanted) -> bool:
    return not wanted.opt_ins.isdisjoint({tool.lower(), manifest.id.lower(), "group:plugins"})


def clashes(found: Sequence[Found]) -> Iterator[Finding]:
    """Names of channels and providers that two plugins declare; tools are judged by policy."""
    owner: dict[tuple[str, str], str] = {}
    for one in found:
        if one.manifest is None:
            continue
        channels = [("channel", name) for name in one.manifest.channels]
        providers = [("provider", line.name) for line in one.manifest.providers if line.name != ANY_ENDPOINT]
        for kind, name in (*channels, *providers):
            first = owner.setdefault((kind, name), one.id)
            if first != one.id:
                why = say("{name} of plugin {second} is skipped: plugin {first} brought that name before",
                          name=name, second=one.id, first=first)  # fmt: skip
                mend = say("claw config set plugins.entries.{id}.enabled false", id=one.id)
                yield Finding(one.id, "conflict", why, mend)


def compare(
    standing: Standing, seen: Seen, wanted: Wanted, budget_ms: float | None = None
) -> Iterator[Finding]:
    """What was seen while it was loaded against what it says of itself.

    :param budget_ms: what its import may cost.
    """
    id, manifest = standing.id, standing.found.manifest
    if seen.fault:
        yield _failed(standing, *seen.fault)
    if budget_ms is not None and seen.import_ms > budget_ms:
        why = say("its import takes {ms} ms, {budget} are allowed: {chain}", ms=seen.import_ms, budget=budget_ms,
                  chain=chain_of(seen))  # fmt: skip
        yield Finding(id, "budget", why, say("import what is slow at the first call"))
    for warning in seen.deprecated:
        yield Finding(id, "deprecated", say("deprecated: {text}", text=warning), grave=False)
    if manifest is None:
        why = say("it has no manifest, so every start imports it: {ms} ms", ms=seen.import_ms)
        yield Finding(id, "manifest", why, say("its author runs claw plugins build"), grave=False)
        return
    if not seen.fault:
        yield from _registered(manifest, seen, wanted)
    yield from _touched(manifest, seen)


def _failed(standing: Standing, stage: str, why: str, mend: str) -> Finding:
    """A plugin that every start sets aside may as well be switched off, unless it is required."""
    edit = (f"plugins.entries.{standing.id}.enabled", False) if stage in ("import", "register") else None
    return Finding(standing.id, stage, why, mend, edit=None if standing.required else edit)


def _registered(manifest: Manifest, seen: Seen, wanted: Wanted) -> Iterator[Finding]:
    declared: dict[str, Iterable[str]] = {
        "register_channels": manifest.channels,
        "register_providers": [line.name for line in manifest.providers],
        "register_tools": [line.name for line in manifest.tools],
        "register_prompt_sections": manifest.prompt_sections,
        "register_sandboxes": manifest.sandboxes,
    }
    later = {"register_channels": wanted.channels, "register_providers": wanted.providers}
    mend = say("its author runs claw plugins build")
    for hook, names in declared.items():
        brought, promised = set(seen.brought.get(hook, ())), set(names)
        if (hook == "register_tools" and not promised) or ANY_ENDPOINT in promised:
            continue  # what it brings depends on its settings
        for name in sorted(brought - promised):
            why = say("its code brings {name}, its manifest does not name it ({hook})", name=name, hook=hook)
            yield Finding(manifest.id, "undeclared", why, mend)
        for name in sorted((promised - brought) & set(later.get(hook, promised))):
            why = say("its manifest names {name}, its code does not bring it ({hook})", name=name, hook=hook)
            yield Finding(manifest.id, "absent", why, mend)
    kinds = {"reviewer": "register_reviewers", "filter": "register_filters", "observer": "register_observers"}
    named = {"reviewer": manifest.reviewers, "filter": manifest.filters, "observer": manifest.observers}
    for kind, hook in kinds.items():
        if seen.brought.get(hook) and not named[kind]:
            why = say("its code brings {name}, its manifest does not name it ({hook})", name=kind, hook=hook)
            yield Finding(manifest.id, "undeclared", why, mend)
    lines = {line.name: line for line in manifest.tools}
    for tool in seen.tools:
        if (line := lines.get(tool["name"])) and (other := _differs(line, tool)):
            why = say(
                "tool {name}: manifest and code differ in {fields}", name=line.name, fields=", ".join(other)
            )
            yield Finding(manifest.id, "differs", why, mend)


def _differs(line: ToolLine, tool: Mapping[str, Any]) -> list[str]:
    written = msgspec.to_builtins(line) | {"parameters": line.parameters}
    return [field for field, value in tool.items() if written[field] != value]


def _touched(manifest: Manifest, seen: Seen) -> Iterator[Finding]:
    """What it used while it was loaded and did not declare. What its tools do later is not seen here."""
    network = manifest.capabilities.get("network")
    hosts = [
        host
        for host in seen.network
        if not network or (isinstance(network, list) and not _is_known(host, network))
    ]
    used = {
        "network": hosts,
        "subprocess": seen.subprocess if not manifest.capabilities.get("subprocess") else (),
        "paths": seen.written if not manifest.capabilities.get("paths") else (),
    }
    for name, what in used.items():
        if what:
            why = say("it used {what} while it was loaded; its manifest does not declare {name}",
                      what=", ".join(what), name=f"capabilities.{name}")  # fmt: skip
            yield Finding(manifest.id, "capability", why, say("ask its author what for"))


def _is_known(host: str, declared: Sequence[Any]) -> bool:
    """An address counts as known when there are declared names: it may be what one of them resolved to."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host in declared or "*" in declared
    return True


def chain_of(seen: Seen) -> str:
    """The heaviest imports, one behind the other."""
    return " > ".join(f"{link.module} {link.ms:.0f} ms" for link in seen.chain)
