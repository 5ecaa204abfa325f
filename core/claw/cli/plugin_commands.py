"""Commands that plugins contribute: ``NAME``, or ``GROUP NAME`` for one that joins a group of core or of another plugin.

The lists are made from manifests; a plugin is imported when one of its commands runs.
"""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from claw import i18n
from claw.config.summary import outline_config, package_of, plugins_that_bring
from claw.contracts.diagnostics import IDLE, LOADED
from claw.contracts.errors import ClawError, ConfigError, PluginError, UsageError
from claw.host import discovery, state
from claw.host.discovery import home_of, installed_plugins
from claw.host.health import PluginHealth, files_digest
from claw.host.isolation import failure_of, run_bounded
from claw.host.manifest import InstalledPlugin
from claw.host.state import PluginState
from claw.i18n import t

HELP_NAMES = ["-h", "--help"]


class LazyCommand(TyperCommand):
    """A command in a list: its code is imported when it runs.

    :param path: the words behind ``claw``.
    :param summary: one line, in English.
    :param load: imports and returns the command.
    :param replaces: it takes the place of core's command of the same name.
    """

    def __init__(self, path: str, summary: str, load: Callable[[], Any], replaces: bool = False) -> None:
        super().__init__(name=path.rpartition(" ")[2], help=t(summary) if summary else "")
        self._path, self._load, self.replaces = path, load, replaces

    def load(self) -> Any:
        """Return the command itself; a group has the sub-commands that plugins add to it.

        :raises ClawError: its plugin is not in use, or does not load.
        """
        command = self._load()
        command.name = self.name  # a group has no name of its own, and help prints it
        if isinstance(command, TyperGroup):
            for name, sub_command in contributed_commands(self._path).items():
                if sub_command.replaces or name not in command.commands:
                    command.commands[name] = sub_command
        capitalize_values(command)
        return command

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Import the command, and let it read its arguments."""
        return self.load().make_context(info_name, args, parent, **extra)


def capitalize_values(command: Any) -> None:
    """Name the values in the help of a command by capitals (``--agent AGENT``), as errors do; a flag has none."""
    for param in command.get_params(typer.Context(command, help_option_names=HELP_NAMES)):
        if not param.type_descriptor.is_choice:
            param.metavar = "" if getattr(param, "is_flag", False) else param.name.rstrip("_").upper()
    for sub_command in getattr(command, "commands", {}).values():
        if not isinstance(sub_command, LazyCommand):
            capitalize_values(sub_command)


def contributed_commands(group: str = "") -> dict[str, LazyCommand]:
    """Return the commands that manifests declare, by their last word; no plugin is imported.

    :param group: the words before the last one; empty = the commands right behind ``claw``.
    """
    commands: dict[str, LazyCommand] = {}
    found = installed_plugins(home_of(os.environ))
    for one in sorted(found, key=lambda one: not one.is_operator):
        for path in one.manifest.commands if one.manifest else ():
            before, _, name = path.rpartition(" ")
            if before == group and name not in commands:
                if one.folder:
                    i18n.add_translations(one.folder)
                summaries = one.manifest.commands if one.manifest else ()
                summary = summaries[path] if isinstance(summaries, dict) else ""
                commands[name] = LazyCommand(path, summary, partial(_import_command, path), one.is_operator)
    return commands


def missing_command_error(path: str) -> UsageError | None:
    """Return the error for a command of ours whose package is not installed; None for any other name."""
    package = package_of(plugins_that_bring("commands").get(path, ""))
    if not package:
        return None
    installs = "install" in contributed_commands("plugins")
    fix = "claw plugins install {package}" if installs else "pip install {package}"
    return UsageError("claw {name} comes with {package}", fix=fix, name=path, package=package)


def _import_command(path: str) -> Any:
    """Import the command ``path`` from the plugin that declares it, and return it.

    :raises UsageError: the plugin is installed and not in use; the error says how to fix that.
    :raises PluginError: the plugin cannot be imported, or does not bring the command.
    """
    home = home_of(os.environ)
    found = installed_plugins(home)
    declaring = (one for one in found if one.manifest and path in one.manifest.commands)
    plugin = min(declaring, key=lambda one: not one.is_operator)
    states = _plugin_states(found, to_repair=plugin.is_operator)
    owner = next(one for one in states if one.id == plugin.id).to_load
    if owner.state not in (LOADED, IDLE) and not plugin.is_operator:
        facts = {"name": path, "id": owner.id, "state": t(owner.state), "why": owner.why, "advice": owner.fix}
        raise UsageError(
            "claw {name} is part of plugin {id}, which is {state}: {why}", fix="{advice}", **facts
        )
    if owner.stage and owner.state not in (LOADED, IDLE):
        template = "plugin {id} is {state} ({why}); its commands run all the same"
        line = t(template, id=owner.id, state=t(owner.state), why=owner.why)
        print(f"claw: {line}", file=sys.stderr)
    app = typer.Typer(name=path, add_completion=False, no_args_is_help=True)
    app.callback()(lambda: None)  # so that it stays a group when it holds one command
    if register := getattr(_import_plugin(plugin, home), "register_commands", None):
        register(app)
    command = typer.main.get_group(app).commands.get(path)
    if command is None:
        problem, fix = (
            "it declares the command {name}, but does not provide it",
            "update it, or tell its author",
        )
        raise PluginError(plugin.id, "run", problem, fix, name=path)
    return command


def _plugin_states(found: Sequence[InstalledPlugin], to_repair: bool) -> tuple[PluginState, ...]:
    """Return the plugin states. A wrong config file stops only the commands that need it.

    :param to_repair: for a command that must run whatever is wrong, such as a lock that cannot be read.
    """
    try:
        try:
            return discovery.plugin_states(os.environ)
        except ConfigError:
            return discovery.states_of(found, os.environ)
    except ClawError:
        if not to_repair:
            raise
        return state.decide_states(found, outline_config({}), ())


def _import_plugin(plugin: InstalledPlugin, home: Path) -> Any:
    """Import a plugin for its commands, without a host, which most commands do not need.

    Without a note that it is being loaded, too: the person sees how the command ends, and a listing writes nothing.

    :raises PluginError: it cannot be imported. That is recorded.
    """
    try:
        module = run_bounded(partial(import_module, plugin.package), state.IMPORT_SECONDS)
    except BaseException as why:  # noqa: BLE001 - a plugin's code
        failure = failure_of(plugin.id, "import", why)
        PluginHealth(home / "plugins").record(replace(failure, digest=files_digest(plugin)))
        fix = failure.fix or state.failure_fix(plugin, failure)
        raise PluginError(plugin.id, "import", failure.cause, fix) from None
    i18n.add_translations(plugin.package)
    return module


AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
