"""The turns whose response reached no caller, in ``state.db``: a retry reads it after any number of restarts."""

import logging

from claw import ClawError, t
from claw.runtime import Clock, Database

from claw_http.repeats import RETRY_SECONDS

TABLE = "CREATE TABLE IF NOT EXISTS http_lost (event_id TEXT PRIMARY KEY, lost_at_ms INTEGER NOT NULL) WITHOUT ROWID"
_log = logging.getLogger(__name__)


class LostResponsesTable:
    """The event ids of the last minutes whose response is lost."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock
        database.tables("http-lost", TABLE)

    def recent(self) -> list[tuple[str, float]]:
        """Return event ids, and since how many seconds their response is lost, the oldest first; forget older ones."""
        now = self._clock.now_ms()
        self._write("DELETE FROM http_lost WHERE lost_at_ms < ?", now - int(RETRY_SECONDS * 1000))
        rows = self._database.read("SELECT event_id, lost_at_ms FROM http_lost ORDER BY lost_at_ms")
        return [(event_id, (now - at) / 1000) for event_id, at in rows]

    def add(self, event_id: str) -> None:
        """Record that the response of this message is lost."""
        self._write("INSERT OR REPLACE INTO http_lost VALUES (?, ?)", event_id, self._clock.now_ms())

    def remove(self, event_id: str) -> None:
        """Record that a caller got it."""
        self._write("DELETE FROM http_lost WHERE event_id = ?", event_id)

    def _write(self, sql: str, *values: object) -> None:
        try:
            self._database.write(sql, *values)
        except ClawError as refused:  # a full disk
            _log.warning(t("lost responses of API calls cannot be recorded: {why}", why=refused))
