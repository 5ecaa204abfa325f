"""Administration of claw: plugins installed and locked, ``claw doctor``, policy tests, set-up."""

from importlib import import_module
from typing import Any

from claw import Diagnostic, PluginConfig, hookimpl

_COMMANDS = {
    "completion": "setup.completion:completion",
    "config": "config_file.validate:app",
    "doctor": "doctor.command:doctor",
    "help": "setup.help:help_",
    "hooks": "doctor.hooks:app",
    "init": "setup.init:init",
    "policy": "policy.commands:app",
    "route": "policy.route:app",
    "status": "doctor.status:status",
    "upgrade": "plugin_manager.upgrade:upgrade",
    "config get": "config_file.get:get",
    "config schema": "config_file.commands:schema",
    "config set": "config_file.commands:set_:ValueCommand",
    "config unset": "config_file.commands:unset",
    "plugins bisect": "doctor.bisect:bisect",
    "plugins disable": "plugin_manager.commands:disable",
    "plugins doctor": "doctor.command:plugins_doctor",
    "plugins enable": "plugin_manager.commands:enable",
    "plugins index": "plugin_index.commands:index",
    "plugins info": "plugin_manager.info:info",
    "plugins install": "plugin_manager.commands:install",
    "plugins lock": "plugin_manager.commands:lock",
    "plugins retry": "doctor.command:retry",
    "plugins search": "plugin_index.commands:search",
    "plugins sync": "plugin_manager.commands:sync",
    "plugins uninstall": "plugin_manager.commands:uninstall",
    "plugins update": "plugin_manager.commands:update",
    "plugins verify": "plugin_manager.commands:verify",
    "tools call": "policy.tools:call",
    "tools explain": "policy.explanation_text:explain",
    "tools list": "policy.tools:list_",
}
"""Command → module and name of its function, or of its group (``app``); after it, a class of the command."""


@hookimpl
def register_diagnostics(config: PluginConfig) -> list[Diagnostic]:
    """Contribute the warnings about the config file."""
    from claw_admin.config_checks.diagnostic import ConfigDiagnostic

    return [ConfigDiagnostic()]


@hookimpl
def register_commands(app: Any) -> None:
    """Add the command that was typed, or all when none is named."""
    typed = app.info.name
    for name in [typed] if typed in _COMMANDS else _COMMANDS:
        module, attribute, *classes = _COMMANDS[name].split(":")
        imported = import_module(f"claw_admin.{module}")
        command = getattr(imported, attribute)
        if attribute == "app":
            app.add_typer(command, name=name)
        else:
            kind = getattr(imported, classes[0]) if classes else None
            app.command(name, cls=kind)(command)
