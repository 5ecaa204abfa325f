"""Overrides: what a person chose for one conversation with a chat command. They hold until ``/reset``.

They stand between the agent's settings and the call: an empty field leaves it to the agent. In ``state.db``.
"""

import json
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from claw.store import Database

_TABLE = """CREATE TABLE IF NOT EXISTS overrides
(session_key TEXT PRIMARY KEY, chosen TEXT NOT NULL) WITHOUT ROWID"""


@dataclass(frozen=True, slots=True)
class Override:
    """What differs in one conversation.

    :param model: ``provider/model`` or an alias, asked first, as with ``--model``; may name a key: see :func:`split`.
    :param thinking: off, minimal, low, medium, high or adaptive.
    :param reasoning: whether what the model thinks is shown; None = as the channel does.
    :param queue: steer, collect, followup or interrupt.
    """

    model: str = ""
    thinking: str = ""
    reasoning: bool | None = None
    queue: str = ""


NONE = Override()
_FIELDS = frozenset(field.name for field in fields(Override))


def split(text: str) -> tuple[str, str]:
    """A model that a person named, and the key of its provider that they want used first: ``openai/gpt-4o@work``.

    A number behind the ``@`` belongs to the model's name, and so does a path: ``x@20260514``, ``@cf/meta/x``.
    """
    model, _, key = text.strip().rpartition("@")
    is_key = bool(model and key) and not key.isdecimal() and "/" not in key
    return (model, key) if is_key else (text.strip(), "")


class Overrides:
    """The overrides of all conversations, by session key."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.tables("overrides", _TABLE)

    def of(self, session_key: str) -> Override:
        """What was chosen there; nothing is a choice too. Fields that only a newer claw knows are left alone."""
        rows = self._database.read_lately("SELECT chosen FROM overrides WHERE session_key = ?", session_key)
        chosen: dict[str, Any] = json.loads(rows[0][0]) if rows else {}
        return Override(**{name: value for name, value in chosen.items() if name in _FIELDS})

    def set(self, session_key: str, **chosen: Any) -> Override:
        """Choose: fields of :class:`Override`; the others stay."""
        override = replace(self.of(session_key), **chosen)
        if override == NONE:
            self.clear(session_key)
            return override
        written = json.dumps(asdict(override), ensure_ascii=False)
        self._database.write("INSERT OR REPLACE INTO overrides VALUES (?, ?)", session_key, written)
        self._database.forget_lately()
        return override

    def clear(self, session_key: str) -> None:
        """Back to what the agent's settings say."""
        self._database.write("DELETE FROM overrides WHERE session_key = ?", session_key)
        self._database.forget_lately()
