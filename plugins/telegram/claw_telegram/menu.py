"""The chat commands as Telegram's command menu."""

from collections.abc import Callable, Iterable, Sequence

ChatMenu = Callable[[], Sequence[tuple[str, str, str]]]
"""Returns name, summary and arguments of each chat command; it blocks while plugins are loaded."""


def menu_of(commands: Iterable[tuple[str, str, str]]) -> list[dict[str, str]]:
    """Return the parameter of ``setMyCommands``; names up to 32 lower-case letters, digits and underscores,
    descriptions up to 256 characters (BotCommand).

    :param commands: name, summary and arguments of each.
    """
    return [{"command": name, "description": meaning[:256]} for name, meaning, _ in commands]
