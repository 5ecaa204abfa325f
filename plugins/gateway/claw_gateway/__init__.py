"""The gateway of claw: one process that serves the channels, with inbox, outbox, queues, pairing, reload and logs.

Its turn log (``journal``) is used by every process, so that a turn at a terminal is recorded too.
"""

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from claw import hookimpl

if TYPE_CHECKING:
    from claw import ChatCommand, Describer, Diagnostic, Observer, PluginConfig, Service, TurnLog


@hookimpl
def register_turn_logs(config: "PluginConfig") -> "Iterable[TurnLog]":
    from claw_gateway.journal import Journal

    return [Journal(config.database, config.clock)]


@hookimpl
def register_services(config: "PluginConfig") -> "Iterable[Service]":
    from claw_gateway.process.services import ChannelService

    return [ChannelService()]


@hookimpl
def register_observers(config: "PluginConfig") -> "Iterable[Observer]":
    """Log tool calls at level debug."""
    from claw_gateway.process.log_settings import LogLevel
    from claw_gateway.tool_log import ToolLog, is_wanted

    return [ToolLog(config.clock)] if is_wanted(config.section("logging.level", LogLevel).root) else []


@hookimpl
def register_filters(config: "PluginConfig") -> "Iterable[Describer]":
    """Put the sender, the time and what surrounds a message before its words."""
    from claw_gateway.metadata import MetadataFilter

    return [MetadataFilter()]


@hookimpl
def register_chat_commands(config: "PluginConfig") -> "Iterable[ChatCommand]":
    """Contribute ``/queue``."""
    from claw_gateway.chat_commands import COMMANDS

    return COMMANDS


@hookimpl
def register_diagnostics(config: "PluginConfig") -> "Iterable[Diagnostic]":
    """Contribute the checks of channels and the gateway."""
    from claw_gateway.diagnostics import ChannelDiagnostic

    return [ChannelDiagnostic()]


_COMMANDS = ("gateway", "channels", "pairing", "turns", "logs")


@hookimpl
def register_commands(app: Any) -> None:
    """Add the command that was typed, or all when none is named."""
    typed = app.info.name
    for name in [typed] if typed in _COMMANDS else _COMMANDS:
        module = import_module(f"claw_gateway.commands.{name}")
        if name == "logs":
            app.command(name)(module.logs)
        else:
            app.add_typer(module.app, name=name)
