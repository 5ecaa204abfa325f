"""Contents of plugins that a change of the set brought: what they add, what it costs, and how to switch it on."""

import json
from collections.abc import Iterator
from typing import Any

from claw import t
from claw.runtime import Manifest, PluginState, definition_tokens, plugin_data, with_label


def new_plugin_data(state: PluginState) -> dict[str, Any]:
    """Return a new plugin as plain data: as ``plugins info``, and ``toolTokens``, what its tools cost in each request."""
    return {**plugin_data(state), "toolTokens": _tool_tokens(state.found.declares)}


def new_plugin_lines(state: PluginState) -> Iterator[str]:
    """Yield lines about a new plugin for people: state and fix, kinds, tools with their cost, grade, declared
    capabilities.
    """
    why = f" ({state.why})" if state.why else ""
    yield with_label(f"{state.id} {state.found.version}", f"{t(state.state)}{why}")
    if state.fix:
        yield f"  {state.fix}"
    manifest = state.found.declares
    if manifest.kinds:
        yield "  " + with_label(t("kinds"), t(",").join(map(t, manifest.kinds)))
    if manifest.tools:
        names = ", ".join(_marked(tool.name, tool.optional, tool.owner_only) for tool in manifest.tools)
        cost = t("about {count:token|tokens} in each request", count=_tool_tokens(manifest))
        yield "  " + with_label(t("tools"), f"{names}; {cost}")
    if any(tool.optional for tool in manifest.tools) and "alsoAllow" not in state.fix:
        yield "  " + t("its optional tools are switched on by: {command}", command=_switch_on(state.id))
    graded = (
        t(state.grade) if state.grade else t("not known here; claw plugins grade {id} finds it", id=state.id)
    )
    yield "  " + with_label(t("grade"), graded)
    for kind, said in manifest.capabilities.items():
        shown = ", ".join(map(str, said)) if isinstance(said, list) else json.dumps(said, ensure_ascii=False)
        yield "  " + t("it says that it uses {kind}: {said}", kind=kind, said=shown)


def part_lines(distribution: str, user: PluginState) -> Iterator[str]:
    """Yield lines about a new distribution whose entry points an installed plugin uses: its state and fix."""
    why = f" ({user.why})" if user.why else ""
    said = t("used by plugin {plugin}, which is {state}", plugin=user.id, state=t(user.state))
    yield with_label(distribution, f"{said}{why}")
    if user.fix:
        yield f"  {user.fix}"
    for command in user.found.declares.commands:
        yield "  " + t("its commands: {command}", command=f"claw {command} --help")


def _switch_on(plugin: str) -> str:
    return f"claw config set 'tools.alsoAllow[]' {plugin}"


def _marked(name: str, optional: bool, owner_only: bool) -> str:
    marks = [t("optional")] * optional + [t("owners only")] * owner_only
    return f"{name} ({t(',').join(marks)})" if marks else name


def _tool_tokens(manifest: Manifest) -> int:
    return sum(definition_tokens(tool.name, tool.description, tool.parameters) for tool in manifest.tools)
