"""Sessions of claw: listed, searched, exported, maintained; the chat commands that begin, reset and describe one."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from claw import hookimpl

if TYPE_CHECKING:
    from claw import ChatCommand, PluginConfig


@hookimpl
def register_chat_commands(config: "PluginConfig") -> "Iterable[ChatCommand]":
    """Contribute ``/new``, ``/reset``, ``/status``, ``/context`` and ``/tools``."""
    from claw_sessions.chat_commands import COMMANDS
    from claw_sessions.conversation import COMMANDS as OF_OTHERS

    return (*COMMANDS, *OF_OTHERS)
