"""The command line: nouns and their modules, each imported when it is asked for. ``ClawError`` ends here, in words."""

import os
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from claw import survey, words
from claw.cli import brought
from claw.cli.ending import leave, tell

_NOUNS = {
    "chat": "claw.cli.chat",
    "init": "claw.cli.init",
    "status": "claw.cli.status",
    "gateway": "claw.cli.gateway",
    "channels": "claw.cli.channels",
    "pairing": "claw.cli.pairing",
    "route": "claw.cli.route",
    "sessions": "claw.cli.sessions",
    "turns": "claw.cli.turns",
    "logs": "claw.cli.logs",
    "usage": "claw.cli.usage",
    "plugins": "claw.cli.plugins",
    "models": "claw.cli.models",
    "auth": "claw.cli.auth",
    "tools": "claw.cli.tools",
    "policy": "claw.cli.policy",
    "approvals": "claw.cli.approvals",
    "config": "claw.cli.config",
    "prompt": "claw.cli.prompt",
    "doctor": "claw.cli.doctor",
    "upgrade": "claw.cli.upgrade",
    "completion": "claw.cli.completion",
}


class Nouns(TyperGroup):
    """The commands of claw, found by name; a name that is none of ours may be a plugin's."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Our own names. Those of plugins work too; ``plugins list`` shows who brings which."""
        return list(_NOUNS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command ``cmd_name``, imported now."""
        if cmd_name in _NOUNS:
            command = typer.main.get_command(import_module(_NOUNS[cmd_name]).app)
            command.name = cmd_name  # a group has none of its own, and the list of commands prints it
            return command
        return brought.command(cmd_name)


app = typer.Typer(
    cls=Nouns,
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
    """Run the command line and leave with its exit code; whatever goes wrong is told in words."""
    words.use(words.language_of(os.environ))
    survey.speak(os.environ)
    try:
        code = app(standalone_mode=False, prog_name="claw")  # an exit code, when a command left with one
    except BaseException as why:  # noqa: BLE001 - the last wall before the person
        leave(tell(why))
    if code == 130:  # typer makes an exit code of Ctrl-C
        tell(KeyboardInterrupt())
    leave(code if isinstance(code, int) else 0)
