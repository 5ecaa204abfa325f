"""``claw plugins``: the installed plugins, their state, and why. No plugin is imported here."""

import json

import typer

from claw.cli.output import document
from claw.cli.plugin_commands import AsJson
from claw.cli.plugin_list import plugin_data, show, unknown_plugin_error

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
    """Say all that is known of one plugin, without importing it."""
    from claw.host.discovery import plugin_states

    found = {state.id: state for state in plugin_states()}
    if plugin not in found:
        raise unknown_plugin_error(plugin, found)
    body = plugin_data(found[plugin])
    if as_json:
        document("plugin", body)
        return
    for key, value in body.items():
        if value not in (None, "", [], {}):
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            typer.echo(f"{key}: {text}")
