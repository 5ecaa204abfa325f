"""``claw plugins info``: all that is known of one plugin."""

import json
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

import typer
from claw import t
from claw.runtime import (
    IDLE,
    LOADED,
    AsJson,
    PluginState,
    document,
    files_digest,
    plugin_data,
    plugin_states,
    unknown_plugin_error,
    with_label,
)

from claw_admin.doctor.hooks import loaded_plugins
from claw_admin.plugin_manager.contents import user_of
from claw_admin.plugin_manager.new_plugins import part_lines

_LABELS = {
    "mend": "fix", "promptSections": "prompt sections", "env": "environment variables", "mcpServers": "MCP servers",
    "skills": "skills",
}  # fmt: skip
"""The words for people, of the keys of the document that are no such words."""


def info(plugin: str, as_json: AsJson = False) -> None:
    """Show the details of one plugin. A plugin in use is loaded, to show the order of its contributions."""
    found = {state.id: state for state in plugin_states() if not state.found.rival}
    if plugin not in found:
        _show_part(plugin, found, as_json)
        return
    hooks, states = loaded_plugins(plugin) if found[plugin].state in (LOADED, IDLE) else ([], {})
    contributions = _contributions(plugin, hooks)
    after, *unused = (one for one in plugin_states() if one.id == plugin)  # it may have failed just now
    if after.is_untried and plugin in states:  # nothing can be recorded in a read-only home
        here = states[plugin]
        after = replace(here, sound=files_digest(here.found)) if here.state == LOADED else here
    body, contributions = plugin_data(after), contributions if after.state in (LOADED, IDLE) else []
    if as_json:
        others = {"unused": [plugin_data(one) for one in unused]} if unused else {}
        document("plugin", {**body, **others, "contributions": contributions})
        return
    for key, value in body.items():
        if value not in (None, "", [], {}):
            typer.echo(with_label(t(_LABELS.get(key, key)), _shown(key, value)))
    for state in unused:
        typer.echo(with_label(t(state.state), f"{state.why} ({state.fix})"))
    for one in contributions:
        line = t("{hook}: {name}, order {order}, position {position:g}", **one)
        choice = t("active") if one["inForce"] else t("inactive")
        if one["slot"]:
            line += f", plugins.slots.{one['slot']}: {choice}"
        typer.echo(line if one["slot"] or one["inForce"] else f"{line}, {choice}")


def _show_part(name: str, found: dict[str, PluginState], as_json: bool) -> None:
    """Show a distribution that is no plugin, and whose entry points an installed plugin uses.

    :raises UsageError: there is no such distribution, or no plugin uses it.
    """
    try:
        part = distribution(name)
    except PackageNotFoundError:
        raise unknown_plugin_error(name, found) from None
    user = user_of(part, [state.found for state in found.values()])
    if not user:
        raise unknown_plugin_error(name, found)
    if as_json:
        about = {"distribution": part.name, "version": part.version, "usedBy": user}
        document("pluginPart", {**about, "state": found[user].shown})
        return
    typer.echo("\n".join(part_lines(f"{part.name} {part.version}", found[user])))


def _shown(key: str, value: Any) -> str:
    if key in ("state", "stage", "origin", "grade"):
        return t(value)
    if isinstance(value, bool):
        return t("yes") if value else t("no")
    if key == "kinds":
        return t(",").join(map(t, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _contributions(plugin: str, hooks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what the plugin contributes to each hook, and its position among the answers."""
    return [
        {"hook": hook["hook"], "slot": hook["slot"], **{key: one[key] for key in one if key != "plugin"}}
        for hook in hooks
        for one in hook["answers"]
        if one["plugin"] == plugin
    ]
