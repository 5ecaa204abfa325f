"""``claw plugins``: the installed plugins, their state, and why."""

import json
from typing import Any

import typer

from claw.cli.hooks import answered_hooks
from claw.cli.output import document
from claw.cli.plugin_commands import AsJson
from claw.cli.plugin_list import plugin_data, show, unknown_plugin_error
from claw.contracts.diagnostics import IDLE, LOADED
from claw.host.discovery import plugin_states
from claw.i18n import t

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="What is installed, its state, and why.",
)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List every installed plugin: state, version, kinds, tools, and why it is idle or set aside."""
    show(as_json)


@app.command()
def info(plugin: str, as_json: AsJson = False) -> None:
    """Say all that is known of one plugin. One that is in use is loaded for the order of what it contributes."""
    found = {state.id: state for state in plugin_states()}
    if plugin not in found:
        raise unknown_plugin_error(plugin, found)
    body = plugin_data(found[plugin])
    contributions = _contributions(plugin) if found[plugin].state in (LOADED, IDLE) else []
    if as_json:
        document("plugin", {**body, "contributions": contributions})
        return
    for key, value in body.items():
        if value not in (None, "", [], {}):
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            typer.echo(f"{key}: {text}")
    for one in contributions:
        line = t("{hook}: {name}, order {order}, position {position:g}", **one)
        choice = t("active") if one["inForce"] else t("inactive")
        typer.echo(f"{line}, plugins.slots.{one['slot']}: {choice}" if one["slot"] else line)


def _contributions(plugin: str) -> list[dict[str, Any]]:
    """Return what the plugin contributes to each hook, and its position among the answers."""
    return [
        {"hook": hook["hook"], "slot": hook["slot"], **{key: one[key] for key in one if key != "plugin"}}
        for hook in answered_hooks()
        for one in hook["answers"]
        if one["plugin"] == plugin
    ]
