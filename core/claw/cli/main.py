"""The command line: commands and their modules, each imported on use. ``ClawError`` is caught here and
printed."""

import os
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from claw import i18n
from claw.cli import plugin_commands
from claw.cli.errors import exit_with, report_error
from claw.host import discovery

_COMMANDS = {
    "chat": "claw.cli.chat",
    "init": "claw_admin.setup.init",
    "status": "claw_admin.doctor.status",
    "route": "claw_admin.policy.route",
    "sessions": "claw_sessions.commands",
    "plugins": "claw.cli.plugins",
    "hooks": "claw.cli.hooks",
    "tools": "claw.cli.tools",
    "policy": "claw_admin.policy.commands",
    "approvals": "claw_approvals.command",
    "config": "claw.cli.config",
    "doctor": "claw_admin.doctor.command",
    "upgrade": "claw_admin.plugin_manager.upgrade",
    "completion": "claw_admin.setup.completion",
}


class CommandGroup(TyperGroup):
    """The group of claw's commands, found by name; any other name may be a command of a plugin."""

    def list_commands(self, ctx: Any) -> list[str]:
        """List our own names, and those that installed plugins declare; no plugin is imported."""
        return [*_COMMANDS, *(name for name in plugin_commands.command_names() if " " not in name)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import and return the command ``cmd_name``."""
        if cmd_name in _COMMANDS:
            command = typer.main.get_command(import_module(_COMMANDS[cmd_name]).app)
            command.name = cmd_name  # a group has no name of its own, and the list of commands prints it
            return command
        return plugin_commands.load_command(cmd_name)


app = typer.Typer(
    cls=CommandGroup,
    name="claw",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A plugin host for chat agents.",
    epilog="claw COMMAND --help tells more. Settings: CLAW_HOME (default ~/.claw)/config.yaml.",
)


@app.callback()
def _top(version: bool = typer.Option(False, "--version", "-V", help="Print the version.")) -> None:
    if version:
        from claw import __version__

        print(f"claw {__version__}")
        raise typer.Exit


def run() -> None:
    """Run the command line and leave with its exit code; print any error as text."""
    i18n.use_language(i18n.language_of(os.environ))
    discovery.use_configured_locale(os.environ)
    try:
        code = app(standalone_mode=False, prog_name="claw")  # an exit code, when a command left with one
    except BaseException as why:  # noqa: BLE001 - the last handler: the person gets text, not a traceback
        exit_with(report_error(why))
    if code == 130:  # typer makes an exit code of Ctrl-C
        report_error(KeyboardInterrupt())
    exit_with(code if isinstance(code, int) else 0)
