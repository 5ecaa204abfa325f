"""``claw plugins``: the installed plugins, their state, and why; ``claw plugins info`` comes from claw-admin."""

import typer

from claw.cli.plugin_commands import AsJson
from claw.cli.plugin_list import show

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Show plugins, their state, and the reason for it.",
)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List every installed plugin: state, version, kinds, tools, and why it is idle or disabled."""
    show(as_json)


@app.callback()
def _group() -> None:
    """Stay a group although it has one command."""
