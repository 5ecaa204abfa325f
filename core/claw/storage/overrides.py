"""Overrides: settings that a person chose for one conversation with chat commands.

They hold until ``/reset``. They take precedence over the agent's settings; an empty field leaves it to the
agent. In ``state.db``.
"""

from typing import Any

import msgspec

from claw.storage.database import Database

_TABLE = """CREATE TABLE IF NOT EXISTS overrides
(session_key TEXT PRIMARY KEY, chosen TEXT NOT NULL) WITHOUT ROWID"""


class Override(msgspec.Struct, frozen=True, omit_defaults=True):
    """The settings that differ in one conversation.

    :param model: ``provider/model`` or an alias, tried first, as with ``--model``; may name a key, ``MODEL@KEY``.
    :param thinking: off, minimal, low, medium, high or adaptive.
    :param reasoning: show the thinking of the model; None = as the channel does.
    :param queue: steer, collect, followup or interrupt.
    """

    model: str = ""
    thinking: str = ""
    reasoning: bool | None = None
    queue: str = ""


NO_OVERRIDE = Override()


class Overrides:
    """The overrides of all conversations, by session key."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.tables("overrides", _TABLE)

    def of(self, session_key: str) -> Override:
        """Return what was chosen there, with defaults for the rest. Fields of a newer claw are ignored."""
        rows = self._database.read("SELECT chosen FROM overrides WHERE session_key = ?", session_key)
        return msgspec.json.decode(rows[0][0], type=Override) if rows else NO_OVERRIDE

    def set(self, session_key: str, **chosen: Any) -> Override:
        """Set fields of :class:`Override`; the others stay."""
        override = msgspec.structs.replace(self.of(session_key), **chosen)
        if override == NO_OVERRIDE:
            self.clear(session_key)
            return override
        written = msgspec.json.encode(override).decode()
        self._database.write("INSERT OR REPLACE INTO overrides VALUES (?, ?)", session_key, written)
        return override

    def clear(self, session_key: str) -> None:
        """Return to the agent's settings."""
        self._database.write("DELETE FROM overrides WHERE session_key = ?", session_key)
