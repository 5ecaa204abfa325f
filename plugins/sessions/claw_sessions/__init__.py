"""Sessions of claw: kept in files, listed, searched, exported, maintained; the chat commands that begin, reset and
describe one.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from claw import hookimpl

if TYPE_CHECKING:
    from claw import ChatCommand, Diagnostic, PluginConfig, Service, SessionStore


@hookimpl
def register_chat_commands(config: "PluginConfig") -> "Iterable[ChatCommand]":
    """Contribute ``/new``, ``/reset``, ``/status``, ``/context`` and ``/tools``."""
    from claw_sessions.chat_commands import COMMANDS

    return COMMANDS


@hookimpl
def register_session_stores(config: "PluginConfig") -> "Iterable[SessionStore]":
    """Keep each conversation in a file below ``agents/ID/sessions``."""
    from claw_sessions.store import JsonlSessionStore

    return [JsonlSessionStore(config.home, config.database, config.clock, config.database.disk)]


@hookimpl
def register_diagnostics(config: "PluginConfig") -> "Iterable[Diagnostic]":
    """Find session files with lines that cannot be read."""
    from claw_sessions.diagnostics import DamagedSessions

    return [DamagedSessions()]


@hookimpl
def register_services(config: "PluginConfig") -> "Iterable[Service]":
    """Apply ``session.keep`` once a day."""
    from claw_sessions.retention import RetentionService

    return [RetentionService()]


@hookimpl
def register_commands(app: Any) -> None:
    """Add ``claw sessions``."""
    from claw_sessions.commands import app as sessions_app

    app.add_typer(sessions_app, name="sessions")
