"""The context engine of claw: compaction, pruning, recovery, memory flush, kept tool results."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from claw import hookimpl

if TYPE_CHECKING:
    from claw import ChatCommand, ContextEngine, PluginConfig


@hookimpl
def register_context_engines(config: "PluginConfig") -> "Iterable[ContextEngine]":
    """Contribute the engine that summarises what has grown too long."""
    import claw_config_sdk  # noqa: F401 - the engine imports it in a turn: without it, core's own engine is in use

    from claw_context.compacting import CompactingEngine
    from claw_context.shared import SharedState

    settings = config.settings
    yield CompactingEngine(SharedState(settings.models.aliases, settings.messages.silent_token))


@hookimpl
def register_chat_commands(config: "PluginConfig") -> "Iterable[ChatCommand]":
    """Contribute ``/compact``."""
    from claw_context.chat_commands import COMMANDS

    return COMMANDS


@hookimpl
def register_commands(app: Any) -> None:
    """Add ``claw sessions compact``."""
    from claw_context.command import compact

    app.command("sessions compact")(compact)
