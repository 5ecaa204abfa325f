"""The options that a caller gave for one turn: kept in ``state.db`` until it has ended, also over a restart."""

import json
from dataclasses import asdict, dataclass

from claw.runtime import Database

from claw_http.messages import EarlierMessage

TABLES = (
    """CREATE TABLE IF NOT EXISTS http_calls
    (number INTEGER PRIMARY KEY, message_id TEXT NOT NULL UNIQUE, place TEXT NOT NULL, options TEXT NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS http_calls_place ON http_calls (place)",
)


@dataclass(frozen=True, slots=True)
class CallOptions:
    """The options of a turn.

    :param instructions: of the caller; ``earlier``: the messages that he sent before the new one.
    :param max_tokens: of each answer of a model.
    """

    instructions: str = ""
    earlier: tuple[EarlierMessage, ...] = ()
    max_tokens: int | None = None


class CallOptionsTable:
    """The options of the calls that wait or run, by message id.

    A conversation runs its calls one after another, so the oldest one of a conversation is the one that runs.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        database.tables("http-calls", *TABLES)

    def add(self, message_id: str, place: str, options: CallOptions) -> None:
        """Record the options of a call. :raises ClawError: they cannot be written."""
        sql = "INSERT OR REPLACE INTO http_calls (message_id, place, options) VALUES (?, ?, ?)"
        self._database.write(sql, message_id, place, json.dumps(asdict(options)))

    def of(self, place: str) -> CallOptions | None:
        """Return the options of the call that runs in a conversation; None when it has none."""
        sql = "SELECT options FROM http_calls WHERE place = ? ORDER BY number LIMIT 1"
        rows = self._database.read(sql, place)
        if not rows:
            return None
        found = json.loads(rows[0][0])
        earlier = tuple(EarlierMessage(**one) for one in found["earlier"])
        return CallOptions(found["instructions"], earlier, found["max_tokens"])

    def remove(self, message_id: str) -> None:
        """Delete the options of a call that has ended."""
        self._database.write("DELETE FROM http_calls WHERE message_id = ?", message_id)

    def calls(self) -> list[tuple[str, str]]:
        """Return message id and conversation of all calls."""
        rows = self._database.read("SELECT message_id, place FROM http_calls ORDER BY number")
        return [(message_id, place) for message_id, place in rows]
