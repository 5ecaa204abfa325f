"""``claw plugins``: what is installed, how it stands, and why. No plugin is imported here."""

import json

import typer

from claw.cli.brought import Plugins
from claw.cli.options import AsJson
from claw.cli.plugin_list import described, no_plugin, show
from claw.cli.show import document

app = typer.Typer(
    cls=Plugins, add_completion=False, no_args_is_help=True, help="What is installed, how it stands, and why."
)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List every installed plugin: state, version, kinds, tools, and why it is idle or set aside."""
    show(as_json)


@app.command()
def info(plugin: str, as_json: AsJson = False) -> None:
    """Say all that is known of one plugin, without importing it."""
    from claw.survey import standings

    found = {standing.id: standing for standing in standings()}
    if plugin not in found:
        raise no_plugin(plugin, found)
    body = described(found[plugin])
    if as_json:
        document("plugin", body)
        return
    for key, value in body.items():
        if value not in (None, "", [], {}):
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            typer.echo(f"{key}: {text}")
