"""The command line: commands and their modules, each imported on use. ``ClawError`` is caught here and
printed."""

import os
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from claw import __version__, i18n
from claw.cli.errors import TERMINATION, exit_with, report_error
from claw.cli.plugin_commands import HELP_NAMES, LazyCommand, capitalize_values, contributed_commands
from claw.host import discovery
from claw.i18n import t

_COMMANDS = {
    "chat": ("claw.cli.chat", "Chat with an agent in this terminal."),
    "plugins": ("claw.cli.plugins", "Show plugins, their state, and the reason for it."),
    "tools": ("claw.cli.tools", "Show the tools of an agent, and why it has them."),
}
"""Command → its module and its summary."""


class CommandGroup(TyperGroup):
    """The group of all commands: core's own, and those that installed plugins declare."""

    def list_commands(self, ctx: Any) -> list[str]:
        """List core's names, then those of plugins."""
        return list(dict.fromkeys((*_COMMANDS, *contributed_commands())))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command ``cmd_name``, which is imported when it runs."""
        module, summary = _COMMANDS.get(cmd_name, ("", ""))
        if not module:
            return contributed_commands().get(cmd_name)
        return LazyCommand(cmd_name, summary, lambda: typer.main.get_command(import_module(module).app))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help in the language in use."""
        capitalize_values(self)
        self.help, self.epilog = t(self.help or ""), t(self.epilog or "")
        super().format_help(ctx, formatter)


app = typer.Typer(
    cls=CommandGroup, name="claw", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    help="A plugin host for chat agents.", context_settings={"help_option_names": HELP_NAMES},
    epilog="claw COMMAND --help tells more. Settings: CLAW_HOME (default ~/.claw)/config.yaml.",
)  # fmt: skip


@app.callback()
def _top(version: bool = typer.Option(False, "--version", "-V", help="Print the version.")) -> None:
    if version:
        print(f"claw {__version__}")
        raise typer.Exit


def run() -> None:
    """Run the command line and leave with its exit code; print any error as text."""
    i18n.use_language(i18n.language_of(os.environ))
    discovery.use_configured_locale(os.environ)
    TERMINATION.install()
    try:
        code = app(standalone_mode=False, prog_name="claw")  # an exit code, when a command left with one
    except BaseException as why:  # noqa: BLE001 - the last handler: the person gets text, not a traceback
        exit_with(report_error(why))
    if code == 130 or TERMINATION.signal:  # typer makes an exit code of Ctrl-C
        code = report_error(KeyboardInterrupt())
    exit_with(code if isinstance(code, int) else 0)
