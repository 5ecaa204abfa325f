"""The chat commands as Discord application commands: registration, and conversion back into command lines. Pure.

Shapes from https://discord.com/developers/docs/interactions/application-commands#application-command-object.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

_SLASH, _TEXT_OPTION = 1, 3  # types of command and of option
_WORDS_CHARS = 100
_REST = "text"


def menu_of(commands: Iterable[tuple[str, str, str]]) -> list[dict[str, Any]]:
    """Return the commands to register; all arguments are one text option.

    :param commands: name, summary and arguments of each.
    """
    return [_command(name, meaning, usage) for name, meaning, usage in commands]


def _command(name: str, meaning: str, usage: str) -> dict[str, Any]:
    made = {"type": _SLASH, "name": name, "description": meaning[:_WORDS_CHARS]}
    option = {"type": _TEXT_OPTION, "name": _REST, "description": usage[:_WORDS_CHARS]}
    return made | ({"options": [option]} if usage else {})


def registration(
    there: Sequence[Mapping[str, Any]], ours: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]] | None:
    """Return the list to register instead of the current one; None when all commands of claw are present.

    :param ours: of :func:`menu_of`.
    :param there: the registered commands. Commands of others stay: another program may answer them.
    """
    names = {one["name"] for one in ours}
    known = {one["name"]: one for one in there if one.get("type", _SLASH) == _SLASH and one["name"] in names}
    if all(one["name"] in known and _same(known[one["name"]], one) for one in ours):
        return None
    return [*(one for one in there if one is not known.get(one.get("name", ""))), *ours]


def _same(there: Mapping[str, Any], ours: Mapping[str, Any]) -> bool:
    options = [
        {name: option.get(name) for name in ("type", "name", "description")}
        for option in there.get("options") or ()
    ]
    return there.get("description") == ours["description"] and options == ours.get("options", [])


def line_of(chosen: Mapping[str, Any], names: Collection[str]) -> str:
    """Return the command line for a chosen command; empty when it is not one of claw's.

    :param names: of claw's commands.
    """
    name = chosen.get("name")
    if chosen.get("type", _SLASH) != _SLASH or name not in names:
        return ""
    given = (str(option.get("value") or "") for option in chosen.get("options") or ())
    return " ".join([f"/{name}", *given]).strip()
