"""Commands that plugins bring: ``NAME``, or ``plugins NAME`` for one that joins a group of ours."""

import os
from typing import Any

import typer
from typer.core import TyperGroup

from claw.errors import UsageError

OF_THE_SET = ("install", "uninstall", "update", "enable", "disable", "lock", "sync", "verify")
FOR_AUTHORS = ("new", "build", "check")


def names() -> tuple[str, ...]:
    """Every command that an installed plugin declares."""
    from claw.index import scan
    from claw.survey import home_of

    found = scan(home_of(os.environ))
    return tuple(dict.fromkeys(name for one in found if one.manifest for name in one.manifest.commands))


def command(name: str) -> Any:
    """The command ``name`` of the plugin that declares it, imported now; None when no plugin does.

    :raises UsageError: the plugin is there and not in use; it says how to mend that.
    """
    if name not in names():
        return None
    from claw.app import commands_host

    brought = typer.Typer(add_completion=False, no_args_is_help=True)
    brought.callback()(lambda: None)  # so that it stays a group when it holds one command
    host = commands_host()
    if not host.command(name, brought):
        for one in host.standings:
            if one.found.manifest and name in one.found.manifest.commands:
                problem = "claw {name} is part of plugin {id}, which is {state}: {why}"
                raise UsageError(
                    problem, fix="{mend}", name=name, id=one.id, state=one.state, why=one.why, mend=one.mend
                )
        return None
    found = typer.main.get_group(brought).commands.get(name)
    if found:
        found.name = name.rpartition(" ")[2]  # as it is typed, for its help
    return found


class Plugins(TyperGroup):
    """``claw plugins``: our own commands, and those that a plugin adds as ``plugins NAME``."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Ours first."""
        theirs = (name.partition(" ") for name in names())
        return [
            *super().list_commands(ctx),
            *OF_THE_SET,
            "doctor",
            *(name for group, _, name in theirs if name and group == "plugins"),
        ]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command ``cmd_name``, imported now."""
        if cmd_name in OF_THE_SET:
            from claw.cli.plugin_set import app

            return typer.main.get_group(app).commands[cmd_name]
        if cmd_name == "doctor":
            from claw.cli.doctor import plugins_app

            return typer.main.get_command(plugins_app)
        found = super().get_command(ctx, cmd_name) or command(f"plugins {cmd_name}")
        if found is None and cmd_name in FOR_AUTHORS:
            raise UsageError(
                "claw plugins {name} is part of claw-author",
                fix="claw plugins install claw-author",
                name=cmd_name,
            )
        return found
