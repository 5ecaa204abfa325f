"""Commands that plugins contribute: ``NAME``, or ``plugins NAME`` for one that joins a group of ours."""

import os
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from claw.contracts.errors import ConfigError, UsageError

LIFECYCLE_COMMANDS = ("install", "uninstall", "update", "enable", "disable", "lock", "sync", "verify")
AUTHOR_COMMANDS = ("new", "build", "check")


def command_names() -> tuple[str, ...]:
    """Return every command that an installed plugin declares."""
    from claw.host.discovery import home_of, installed_plugins

    found = installed_plugins(home_of(os.environ))
    return tuple(dict.fromkeys(name for one in found if one.manifest for name in one.manifest.commands))


def load_command(name: str) -> Any:
    """Import the command ``name`` from the plugin that declares it, and return it; None when no plugin does.

    :raises UsageError: the plugin is installed and not in use; the error says how to fix that.
    """
    if name not in command_names():
        return None
    group = typer.Typer(add_completion=False, no_args_is_help=True)
    group.callback()(lambda: None)  # so that it stays a group when it holds one command
    host = _commands_host()
    if not host.command(name, group):
        for one in host.standings:
            if one.found.manifest and name in one.found.manifest.commands:
                problem = "claw {name} is part of plugin {id}, which is {state}: {why}"
                raise UsageError(
                    problem, fix="{mend}", name=name, id=one.id, state=one.state, why=one.why, mend=one.fix
                )
        return None
    found = typer.main.get_group(group).commands.get(name)
    if found:
        found.name = name.rpartition(" ")[2]  # as it is typed, for its help
    return found


def _commands_host() -> Any:
    """Return a host that can let a plugin add its commands; nothing is loaded yet.

    A wrong config file stops only the commands that need it: many of them help to correct it.
    """
    from claw.host import discovery
    from claw.host.manager import Host

    home = discovery.home_of(os.environ)
    try:
        plugin_states = discovery.plugin_states(os.environ)
    except ConfigError:
        plugin_states = discovery.states_of(discovery.installed_plugins(home), {}, os.environ)
    return Host(plugin_states, _no_view, home / "plugins")


def _no_view(plugin: str) -> Any:
    raise AssertionError("commands are added without a view of the config")


class PluginsGroup(TyperGroup):
    """The group ``claw plugins``: our own commands, and those that a plugin adds as ``plugins NAME``."""

    def list_commands(self, ctx: Any) -> list[str]:
        """List our own commands first."""
        contributed = (name.partition(" ") for name in command_names())
        return [
            *super().list_commands(ctx),
            *LIFECYCLE_COMMANDS,
            "doctor",
            *(name for group, _, name in contributed if name and group == "plugins"),
        ]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import and return the command ``cmd_name``."""
        if cmd_name in LIFECYCLE_COMMANDS:
            from claw_admin.plugin_manager.commands import app

            return typer.main.get_group(app).commands[cmd_name]
        if cmd_name == "doctor":
            from claw_admin.doctor.command import plugins_app

            return typer.main.get_command(plugins_app)
        found = super().get_command(ctx, cmd_name) or load_command(f"plugins {cmd_name}")
        if found is None and cmd_name in AUTHOR_COMMANDS:
            raise UsageError(
                "claw plugins {name} is part of claw-author",
                fix="claw plugins install claw-author",
                name=cmd_name,
            )
        return found


AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
