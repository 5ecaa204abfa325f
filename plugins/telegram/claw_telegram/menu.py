"""The chat commands, as Telegram's menu shows them."""

from claw import chat_menu

COMMANDS = frozenset(name for name, _, _ in chat_menu())


def menu() -> list[dict[str, str]]:
    """For ``setMyCommands``, in the language in use: up to 32 small letters, and up to 256 characters (botcommand)."""
    return [{"command": name, "description": meaning} for name, meaning, _ in chat_menu()]
