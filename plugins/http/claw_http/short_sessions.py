"""The sessions of calls that nobody continues: recorded with the time of their end, and deleted by a service."""

import asyncio
import logging
from contextlib import suppress
from typing import Any

from claw import ClawError, FenceError, UsageError, t
from claw.runtime import Clock, Database, fence_of

KEPT_DAYS = 7
"""The days for which a session is kept that its call does not end: as long as the gateway answers a repeated request."""
_KEPT_MS = KEPT_DAYS * 86_400_000
_THREAD = ":thread:"
TABLES = (
    "CREATE TABLE IF NOT EXISTS http_sessions (place TEXT PRIMARY KEY, until_ms INTEGER NOT NULL) WITHOUT ROWID",
    """CREATE TABLE IF NOT EXISTS http_pictures
    (place TEXT NOT NULL, agent TEXT NOT NULL, message_id TEXT NOT NULL, PRIMARY KEY (place, message_id))
    WITHOUT ROWID""",
)
_ID_DIGITS = 32  # at the end of each message id, and so in the names of its files
_FILES = "incoming"
"""The folder of a workspace in which the gateway stores files of messages (docs: channel plugins, ``fetch``)."""
_log = logging.getLogger(__name__)


class ShortSessions:
    """The conversations of the API whose sessions are deleted, by name, each with the time when it is due."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock
        database.tables("http-sessions", *TABLES)

    def keep(self, place: str) -> None:
        """Record that a conversation has a new call. :raises ClawError: it cannot be written."""
        self._set(place, self._clock.now_ms() + _KEPT_MS)

    def add_pictures(self, place: str, agent: str, message_id: str) -> None:
        """Record that a message brings pictures into a workspace. :raises ClawError: it cannot be written."""
        self._database.write(
            "INSERT OR REPLACE INTO http_pictures VALUES (?, ?, ?)", place, agent, message_id
        )

    def pictures(self, place: str) -> list[tuple[str, str]]:
        """Return agent and message id of the messages with pictures of a conversation."""
        sql = "SELECT agent, message_id FROM http_pictures WHERE place = ?"
        return [(agent, message_id) for agent, message_id in self._database.read(sql, place)]

    def end(self, place: str) -> None:
        """Record that a conversation is over. :raises ClawError: it cannot be written."""
        self._set(place, self._clock.now_ms())

    def due(self) -> list[str]:
        """Return the conversations that are due."""
        now = self._clock.now_ms()
        return [
            place
            for (place,) in self._database.read("SELECT place FROM http_sessions WHERE until_ms <= ?", now)
        ]

    def forget(self, place: str) -> None:
        """Delete the records of a conversation."""
        self._database.write("DELETE FROM http_sessions WHERE place = ?", place)
        if self.pictures(place):
            self._database.write("DELETE FROM http_pictures WHERE place = ?", place)

    def _set(self, place: str, until_ms: int) -> None:
        self._database.write("INSERT OR REPLACE INTO http_sessions VALUES (?, ?)", place, until_ms)


class ShortSessionCleaner:
    """The background task that deletes the sessions that are due: file, lock, results, rows, pictures of messages.

    :param seconds: between two looks.
    """

    name = "http-short-sessions"

    def __init__(self, sessions: ShortSessions, seconds: float = 1.0) -> None:
        self._sessions, self._seconds = sessions, seconds
        self._problem = ""

    async def run(self, runtime: Any, stop: asyncio.Event) -> None:
        """Delete what is due until ``stop`` is set."""
        while not stop.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), self._seconds)
            try:
                await self.clean(runtime)
                self._problem = ""
            except (ClawError, OSError) as why:  # a full disk, or another process reads the session
                if str(why) != self._problem:  # once, not each second
                    self._problem = str(why)
                    _log.warning(t("sessions of finished API calls cannot be deleted: {why}", why=why))

    async def clean(self, app: Any) -> None:
        """Delete the sessions that are due now.

        :raises ClawError: one is in use, or cannot be deleted; the others after it wait for the next look.
        """
        due, sessions = self._sessions.due(), app.runtime.sessions
        if due and hasattr(sessions.store, "delete"):  # another store keeps what it keeps
            for key, _ in sessions.store.conversations():
                place = key.rpartition(_THREAD)[2]
                if place not in due:
                    continue
                async with app.runtime.session_queues.turn(key):  # no turn runs in it
                    if place in self._sessions.due():  # a call may have continued it meanwhile
                        await sessions.store.delete(key)
                        sessions.overrides.clear(key)
                        self._forget(app.runtime, place)
        for place in self._sessions.due():
            if place in due:  # it has no session: a chat command, or an error before the turn
                self._forget(app.runtime, place)

    def _forget(self, runtime: Any, place: str) -> None:
        for agent, message_id in self._sessions.pictures(place):
            with suppress(FenceError, UsageError):  # the folder leads elsewhere, the agent is gone
                fence = fence_of(agent, runtime)
                for entry in fence.entries(_FILES):
                    if message_id[-_ID_DIGITS:] in entry.name:
                        fence.remove(f"{_FILES}/{entry.name}")
        self._sessions.forget(place)
