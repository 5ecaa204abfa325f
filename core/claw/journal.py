"""The journal: what came in, and which turns began and ended, in ``state.db``. First form: no outbox yet.

What came in is on disk before a channel acknowledges it, and a redelivery is known by either of its two ids.
"""

from claw.clock import SYSTEM, Clock
from claw.message import Inbound
from claw.store import Database

KEPT_DAYS = 7  # the longest that a platform redelivers; after it an id may be forgotten
_TABLES = (
    """CREATE TABLE IF NOT EXISTS inbound
    (channel TEXT NOT NULL, account TEXT NOT NULL, chat TEXT NOT NULL, kind TEXT NOT NULL,
     event_id TEXT NOT NULL, message_id TEXT NOT NULL, accepted_at_ms INTEGER NOT NULL)""",
    """CREATE UNIQUE INDEX IF NOT EXISTS inbound_event
    ON inbound (channel, account, event_id) WHERE event_id != ''""",
    """CREATE UNIQUE INDEX IF NOT EXISTS inbound_message
    ON inbound (channel, account, chat, message_id) WHERE kind = 'message' AND message_id != ''""",
    """CREATE TABLE IF NOT EXISTS turns
    (turn TEXT PRIMARY KEY, session_key TEXT NOT NULL, began_at_ms INTEGER NOT NULL,
     ended_at_ms INTEGER, outcome TEXT) WITHOUT ROWID""",
)


class Journal:
    """What a restart must know. Every call is one commit, about 20 µs: it survives a killed process when it returns."""

    def __init__(self, database: Database, clock: Clock = SYSTEM) -> None:
        self._database = database
        self._clock = clock
        self._swept = False
        database.tables("journal", *_TABLES)

    def accept(self, inbound: Inbound) -> bool:
        """Note that this came in; False when it came before: then it is acknowledged and nothing else.

        The same event id of one account, or (for messages) the same message id of one chat, is the same thing. An
        inbound without ids, as from a terminal, is always new and leaves no row.
        """
        self._sweep()
        event_id, message_id = inbound.event_id.strip(), inbound.message_id.strip()
        if not event_id and not (message_id and inbound.kind == "message"):
            return True
        place = inbound.address
        added = self._database.write(
            "INSERT OR IGNORE INTO inbound VALUES (?, ?, ?, ?, ?, ?, ?)",
            *(
                place.channel,
                place.account,
                place.chat,
                inbound.kind,
                event_id,
                message_id,
                self._clock.now_ms(),
            ),
        )
        return added == 1

    def began(self, turn: str, session_key: str) -> None:
        """A turn starts; ``turn`` is its id, never used before."""
        self._sweep()
        now = self._clock.now_ms()
        self._database.write("INSERT INTO turns VALUES (?, ?, ?, NULL, NULL)", turn, session_key, now)

    def ended(self, turn: str, outcome: str) -> None:
        """A turn is over, however it ended: ``outcome`` is one word (done, aborted, failed …)."""
        now = self._clock.now_ms()
        self._database.write(
            "UPDATE turns SET ended_at_ms = ?, outcome = ? WHERE turn = ?", now, outcome, turn
        )

    def unfinished(self) -> tuple[str, ...]:
        """The turns that began and did not end, oldest first: at start, those that a death cut off."""
        rows = self._database.read(
            "SELECT turn FROM turns WHERE ended_at_ms IS NULL ORDER BY began_at_ms, turn"
        )
        return tuple(turn for (turn,) in rows)

    def _sweep(self) -> None:
        """Once in each process: drop what is older than a redelivery can be."""
        if self._swept:
            return
        self._swept = True
        oldest = self._clock.now_ms() - KEPT_DAYS * 24 * 3600 * 1000
        self._database.write("DELETE FROM inbound WHERE accepted_at_ms < ?", oldest)
        self._database.write("DELETE FROM turns WHERE began_at_ms < ?", oldest)
