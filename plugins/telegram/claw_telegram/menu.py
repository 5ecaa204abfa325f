"""The chat commands as Telegram's command menu."""

from claw import chat_menu

COMMANDS = frozenset(name for name, _, _ in chat_menu())


def menu() -> list[dict[str, str]]:
    """Return the parameter of ``setMyCommands`` in the active language; names up to 32 lower-case letters,
    descriptions up to 256 characters (BotCommand)."""
    return [{"command": name, "description": meaning} for name, meaning, _ in chat_menu()]
