"""The chat commands, as Telegram's menu shows them."""

from claw import say

COMMANDS = {
    "new": "Start a new conversation",
    "reset": "Start anew and forget what was chosen",
    "status": "What is going on here",
    "stop": "Stop the running answer",
    "queue": "What happens with messages that come meanwhile",
    "model": "Show or choose the model",
    "think": "How long to think",
    "reasoning": "Show or hide the thinking",
    "context": "What the model reads",
    "compact": "Summarise the past",
    "tools": "Which tools may be used here",
    "approve": "Allow a call that waits",
    "help": "What you can write here",
}
"""Names with their English templates: up to 32 small letters, up to 256 characters (botcommand)."""


def menu() -> list[dict[str, str]]:
    """For ``setMyCommands``, in the language in use."""
    return [{"command": name, "description": say(text)} for name, text in COMMANDS.items()]
