"""The journal: accepted inbound events, turns, and the outbox of replies, in ``state.db``.

An inbound event is on disk before its channel acknowledges it, and a redelivery is recognised by either of
its two ids. A turn and its replies end in one commit, so that a crash leaves a turn either to be resumed or
answered.
"""

import asyncio
from collections import deque
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from claw import AcceptedEvent, ClawError, ConfigError, Inbound, Outbound
from claw.runtime import SYSTEM_CLOCK, Clock, Database, Statement, to_json
from claw_channel_sdk import MessageFate
from claw_config_sdk import DailyTask

from claw_gateway.commit_sync import CommitSync
from claw_gateway.failed_replies import FailedReplies
from claw_gateway.fates import fate_of
from claw_gateway.journal_reports import JournalReports
from claw_gateway.lost_messages import LostMessages
from claw_gateway.process.failpoint import failpoint
from claw_gateway.tables import TABLES

if TYPE_CHECKING:
    from claw_gateway.chat_api import OutboxChat

KEPT_DAYS = 7  # the longest that a platform redelivers; after it an id may be forgotten
_DAY_MS = 24 * 3600 * 1000
_BODILESS = ("refused", "stranger")
_TURN_TABLES = ("effects", "causes", "interruptions", "watched", "turns")
_INSERT_REPLY = """INSERT OR IGNORE INTO owed (key, turn, channel, account, chat, body, state, owed_at_ms, repeated)
          VALUES (?, ?, ?, ?, ?, ?, 'owed', ?, ?)"""


@dataclass(frozen=True, slots=True)
class UnfinishedTurn:
    """A turn that the end of a process cut off.

    :param taken: the events it was answering, oldest first.
    :param crashes: how often the process ended by itself while it ran.
    :param kills: how often the process ended from outside while it ran, other than by a stop.
    """

    turn: str
    session_key: str
    taken: tuple[AcceptedEvent, ...]
    crashes: int = 0
    kills: int = 0
    began_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class PendingReply:
    """A reply that must still be delivered.

    :param sending: it was handed to its channel, and its arrival is unknown.
    :param repeated: how often it was handed over although a part of it may have arrived.
    """

    turn: str
    outbound: Outbound
    sending: bool
    owed_at_ms: int
    repeated: int = 0


class Journal(JournalReports, LostMessages, FailedReplies):
    """The state that a restart needs, the turn log of the gateway. Every call is one commit, about 20 µs.

    A commit survives a killed process when the call returns, and a power cut after ``durable``.
    """

    name = "journal"

    def __init__(self, database: Database, clock: Clock = SYSTEM_CLOCK) -> None:
        self._database, self._commits = database, CommitSync(database)
        self._clock = clock
        self._daily_sweep = DailyTask(clock)
        self._written = self._synced = 0
        self._no_output: set[str] = set()  # turns that began here, without output so far
        self._resumed: set[str] = set()  # turns that a crash cut off and that run here again
        self._syncing: asyncio.Task[None] | None = None
        self._unsynced: deque[tuple[int, asyncio.Future[None]]] = deque()
        database.tables("journal", *TABLES)

    # --- the inbox

    def accept(self, inbound: Inbound) -> AcceptedEvent | None:
        """Record an inbound event; return None for a redelivery, which is acknowledged and otherwise ignored.

        The same event id of one account, or (for messages) the same message id of one chat, is the same
        event. An inbound without ids, as from a terminal, is always new and has no row.
        """
        self._sweep()
        inbound, body = to_json(inbound)
        event_id, message_id = inbound.event_id.strip(), inbound.message_id.strip()
        if not event_id and not (message_id and inbound.kind == "message"):
            return AcceptedEvent(0, inbound)
        address = inbound.address
        number = self._database.insert(
            """INSERT OR IGNORE INTO inbox
            (channel, account, chat, kind, event_id, message_id, accepted_at_ms, body, state)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'new')""",
            *(address.channel, address.account, address.chat, inbound.kind, event_id, message_id),
            *(self._clock.now_ms(), body),
        )
        self._written += 1
        return None if number is None else AcceptedEvent(number, inbound)

    async def durable(self) -> None:
        """Wait until all that was accepted so far is synced to disk; concurrent callers share one sync.

        :raises ClawError: the disk refused.
        """
        if self._synced >= self._written:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._unsynced.append((self._written, waiter))
        if self._syncing is None or self._syncing.done():
            self._syncing = asyncio.ensure_future(self._sync())
        await waiter

    def close(self) -> None:
        """Close the descriptor of the database's log."""
        self._commits.close()

    async def _sync(self) -> None:
        """Sync until no caller waits. Those that one sync serves wake together; a lock would wake them one
        by one."""
        while self._unsynced:
            reached, refused = self._written, None
            try:
                await asyncio.to_thread(self._commits.sync)
                self._synced = reached
            except Exception as why:  # noqa: BLE001 - whatever it is, the waiting callers get it
                refused = why
            while self._unsynced and self._unsynced[0][0] <= reached:
                _, waiter = self._unsynced.popleft()
                if waiter.done():
                    continue
                if refused:
                    waiter.set_exception(refused)
                else:
                    waiter.set_result(None)

    def close_event(self, number: int, why: str, replies: Sequence[Outbound] = ()) -> None:
        """Close an inbound event that needs no turn; ``why`` is one word (refused, command, stopped …),
        ``replies`` the answers to send. Of people who were not admitted only the ids are kept, so that a crowd of
        them does not fill the disk."""
        body = ", body = x''" if why in _BODILESS else ""
        done = (f"UPDATE inbox SET state = ?{body} WHERE number = ?", (why, number))
        self._database.write_all(done, *self._reply_rows(f"in{number}", replies))

    def waiting_events(self) -> tuple[AcceptedEvent, ...]:
        """Return the accepted events that never became part of a turn, in order of arrival."""
        rows = self._database.read("SELECT number, body FROM inbox WHERE state = 'new' ORDER BY number")
        return tuple(_accepted(*row) for row in rows)

    # --- turns

    def began(self, turn: str, session_key: str, taken: Sequence[int] = (), again: bool = False) -> None:
        """Record the start of a turn; ``turn`` is its id, ``taken`` the numbers of the events it answers.

        :param again: it is resumed after a crash.
        """
        self._sweep()
        (self._resumed if again else self._no_output).add(turn)
        begin = (
            "INSERT OR IGNORE INTO turns VALUES (?, ?, ?, NULL, NULL)",
            (turn, session_key, self._clock.now_ms()),
        )
        if not taken:
            self._database.write(begin[0], *begin[1])
            return
        watch = (
            "INSERT INTO watched VALUES (?, 1, '[]', 0) ON CONFLICT (turn) DO UPDATE SET attempts = attempts + 1",
            (turn,),
        )
        self._database.write_all(begin, watch, *(_take_row(turn, number) for number in taken))
        failpoint("turn-began")

    def joined(self, turn: str, number: int) -> None:
        """Record that an event that came in while the turn ran is part of it now."""
        sql, values = _take_row(turn, number)
        self._database.write(sql, *values)

    def once(self, turn: str, call: str) -> bool:
        """Record the start of a call that must not run twice; return False when it was started before."""
        is_first = self._database.write("INSERT OR IGNORE INTO effects VALUES (?, ?)", turn, call) == 1
        failpoint("effect-marked")
        return is_first

    def not_begun(self, turn: str, call: str) -> None:
        """Delete the record of ``once``: the call waits for a person, so it may run after a crash."""
        self._database.write("DELETE FROM effects WHERE turn = ? AND call = ?", turn, call)

    def is_repeat(self, inbound: Inbound) -> bool:
        """Record a message whose sender waits here for the answer; return true if it was recorded before."""
        accepted = self.accept(inbound)
        if accepted is not None and accepted.number:
            self.close_event(accepted.number, "heard")  # whoever waits for the answer owns it
        return accepted is None

    def chat_api(self, key: str, inbound: Inbound, context: Any, runtime: Any) -> "OutboxChat":
        """Return the chat actions of one tool call; what it sends goes through the outbox."""
        from claw_gateway.chat_api import OutboxChat

        return OutboxChat(key, inbound, context, runtime, self.record_sent)

    def is_over(self, turn: str) -> bool:
        """Return true if that turn ended; false if it runs, was cut off by a crash, or never began here."""
        return bool(
            self._database.read("SELECT 1 FROM turns WHERE turn = ? AND ended_at_ms IS NOT NULL", turn)
        )

    def record_streamed(self, turn: str, message_ids: Sequence[str], expected: int = 1) -> None:
        """Record the messages that show a stream of this turn, and how many there may be by now."""
        self._no_output.discard(turn)
        self._database.write(
            "UPDATE watched SET shown = ?, streamed = ? WHERE turn = ?",
            msgspec.json.encode(message_ids),
            max(expected, len(message_ids)),
            turn,
        )

    def streamed(self, turn: str) -> tuple[tuple[str, ...], int]:
        """Return the messages that show a stream of this turn, and the number of further, unknown ones."""
        if turn in self._no_output:
            return (), 0
        rows = self._database.read("SELECT shown, streamed FROM watched WHERE turn = ?", turn)
        ids = tuple(msgspec.json.decode(rows[0][0], type=list[str])) if rows else ()
        return ids, max(0, rows[0][1] - len(ids)) if rows else 0

    def age_seconds(self, turn: str) -> float:
        """Return the seconds since a turn began; 0.0 for an unknown turn."""
        rows = self._database.read("SELECT began_at_ms FROM turns WHERE turn = ?", turn)
        return (self._clock.now_ms() - rows[0][0]) / 1000 if rows else 0.0

    def ended(
        self, turn: str, outcome: str, replies: Sequence[Outbound] = (), more: Sequence[Statement] = (), why: str = ""
    ) -> None:  # fmt: skip
        """Record the end of a turn, whatever its outcome, and its replies, in one commit.

        :param outcome: one word: delivered, silent, stopped, failed …
        :param more: further statements for this commit.
        :param why: the cause of a failure, or a note on the turn; without secrets.
        """
        repeated = self._perhaps_posted(turn, replies) if turn in self._resumed else ()
        self._no_output.discard(turn)
        over = (
            "UPDATE turns SET ended_at_ms = ?, outcome = ? WHERE turn = ?",
            (self._clock.now_ms(), outcome, turn),
        )
        cause = [("INSERT OR REPLACE INTO causes VALUES (?, ?)", (turn, why))] if why else []
        answered = ("UPDATE inbox SET state = 'answered' WHERE turn = ? AND state = 'taken'", (turn,))
        self._database.write_all(over, answered, *cause, *self._reply_rows(turn, replies, repeated), *more)
        self._resumed.discard(turn)
        failpoint("turn-ended")

    def _perhaps_posted(self, turn: str, replies: Sequence[Outbound]) -> tuple[str, ...]:
        """Return the keys of replies that a stream of the process before may have posted without a record."""
        shown, lost = self.streamed(turn)
        return tuple(one.key for one in replies[len(shown) :] if one.text) if lost or shown else ()

    def count_end(self, cause: str | None) -> None:
        """Count the end of the process before with each turn that it cut off.

        :param cause: empty = it ended from outside; None = it was stopped, which counts nothing.
        """
        self._database.write(
            """INSERT INTO interruptions SELECT turn, ?, ?, attempts
            FROM turns JOIN watched USING (turn) LEFT JOIN interruptions USING (turn)
            WHERE ended_at_ms IS NULL AND attempts > coalesce(counted, 0)
            ON CONFLICT (turn) DO UPDATE SET crashes = crashes + excluded.crashes,
            kills = kills + excluded.kills, counted = excluded.counted""",
            *(bool(cause), cause == ""),
        )

    def unfinished(self) -> tuple[UnfinishedTurn, ...]:
        """Return the turns that began and did not end, oldest first; at start, those that were cut off."""
        rows = self._database.read(
            """SELECT turn, session_key, coalesce(crashes, 0), coalesce(kills, 0), began_at_ms
            FROM turns LEFT JOIN interruptions USING (turn) WHERE ended_at_ms IS NULL ORDER BY began_at_ms, turn"""
        )
        return tuple(UnfinishedTurn(turn, key, self._taken(turn), *rest) for turn, key, *rest in rows)

    def answered_at_last(self, seconds: float) -> tuple[Inbound, ...]:
        """Return the messages of the turns that have not ended, or ended in the last seconds before the newest record."""
        rows = self._database.read(
            """SELECT body FROM inbox WHERE turn IN (SELECT turn FROM turns WHERE ended_at_ms IS NULL
            OR ended_at_ms >= (SELECT max(newest) FROM (SELECT max(ended_at_ms) AS newest FROM turns
                               UNION ALL SELECT max(accepted_at_ms) FROM inbox)) - ?)
            AND message_id != '' ORDER BY number""",
            int(seconds * 1000),
        )
        return tuple(msgspec.json.decode(body, type=Inbound) for (body,) in rows if body)

    def _taken(self, turn: str) -> tuple[AcceptedEvent, ...]:
        rows = self._database.read(
            "SELECT number, body FROM inbox WHERE turn = ? AND state = 'taken' ORDER BY number", turn
        )
        return tuple(_accepted(*row) for row in rows)

    # --- the outbox

    def add_reply(self, turn: str, outbound: Outbound) -> bool:
        """Add a reply to the outbox before the turn ends; return False when its key is known."""
        self._no_output.discard(turn)
        ((sql, values),) = self._reply_rows(turn, (outbound,))
        return self._database.write(sql, *values) == 1

    def mark_sending(self, key: str, repeated: bool = False) -> None:
        """Record that a reply is handed to its channel now.

        :param repeated: it may be in the chat already and is sent all the same; this is counted.
        """
        self._database.write(
            "UPDATE owed SET state = 'sending', repeated = repeated + ? WHERE key = ?", repeated, key
        )

    def mark_delivered(self, key: str, message_ids: Sequence[str], others: Sequence[str] = ()) -> None:
        """Record that a reply was delivered as these messages, and ``others`` together with it."""
        sql = "UPDATE owed SET state = 'paid', sent_at_ms = ?, message_ids = ? WHERE key = ?"
        now = self._clock.now_ms()
        rest = [(sql, (now, b"[]", other)) for other in others]
        self._database.write_all((sql, (now, msgspec.json.encode(message_ids), key)), *rest)

    def record_sent(self, turn: str, outbound: Outbound, message_ids: Sequence[str]) -> None:
        """Record a message that was sent beside the outbox, so that no search takes it for a lost one."""
        delivered = "UPDATE owed SET state = 'paid', sent_at_ms = ?, message_ids = ? WHERE key = ?"
        values = (self._clock.now_ms(), msgspec.json.encode(message_ids), outbound.key)
        self._database.write_all(*self._reply_rows(turn, (outbound,)), (delivered, values))

    def mark_pending(self, key: str) -> None:
        """Record that a reply was not sent and will be tried again."""
        self._database.write("UPDATE owed SET state = 'owed' WHERE key = ?", key)

    def mark_undeliverable(self, key: str, state: str, why: str) -> None:
        """Record that a reply will not be tried again: ``refused``, ``expired``, or arrival ``unknown``."""
        self._database.write("UPDATE owed SET state = ?, why = ? WHERE key = ?", state, why, key)

    def pending_replies(self) -> tuple[PendingReply, ...]:
        """Return all replies that must still be delivered, in order."""
        rows = self._database.read(
            """SELECT turn, body, state, owed_at_ms, repeated FROM owed WHERE state IN ('owed', 'sending')
            ORDER BY number"""
        )
        return tuple(
            PendingReply(
                turn, msgspec.json.decode(body, type=Outbound), state == "sending", owed_at_ms, repeated
            )
            for turn, body, state, owed_at_ms, repeated in rows
        )

    def turn_of(self, key: str) -> str:
        """Return the turn of a reply; the reply's own key when it is not in the outbox."""
        rows = self._database.read("SELECT turn FROM owed WHERE key = ?", key)
        return str(rows[0][0]) if rows else key

    def message_ids_of(self, key: str) -> tuple[str, ...]:
        """Return the ids of the messages that a reply became; empty if it was not delivered."""
        rows = self._database.read(
            "SELECT message_ids FROM owed WHERE key = ? AND message_ids IS NOT NULL", key
        )
        return tuple(msgspec.json.decode(rows[0][0])) if rows else ()

    def replies_of(self, turn: str) -> tuple[Outbound, ...]:
        """Return the replies of a turn so far, delivered or not."""
        if turn in self._no_output:
            return ()
        rows = self._database.read("SELECT body FROM owed WHERE turn = ? ORDER BY number", turn)
        return tuple(msgspec.json.decode(body, type=Outbound) for (body,) in rows)

    def fate(self, channel: str, account: str, event_pattern: str) -> MessageFate | None:
        """Return the fate of the newest message of a channel whose event id matches (``*`` = any text)."""
        return fate_of(self._database, channel, account, event_pattern)

    def _reply_rows(
        self, turn: str, replies: Sequence[Outbound], repeated: Collection[str] = ()
    ) -> list[tuple[str, tuple[Any, ...]]]:
        now = self._clock.now_ms()
        return [
            (
                _INSERT_REPLY,
                (
                    *(one.key, turn, one.address.channel, one.address.account, one.address.chat),
                    *(to_json(one)[1], now, one.key in repeated),
                ),
            )
            for one in replies
        ]

    def _sweep(self) -> None:
        """Delete once a day what is older than a redelivery can be. SQLite reuses the space."""
        if not self._daily_sweep.due():
            return
        oldest = self._clock.now_ms() - KEPT_DAYS * _DAY_MS
        gone = """SELECT turn FROM turns WHERE began_at_ms < ?
                  AND turn NOT IN (SELECT turn FROM inbox WHERE state = 'taken')"""  # those are resumed
        self._database.write_all(
            (  # the newest stays, so that no number is used twice: transcripts refer to them
                """DELETE FROM inbox WHERE accepted_at_ms < ? AND state NOT IN ('new', 'taken')
                AND number < (SELECT max(number) FROM inbox)""",
                (oldest,),
            ),
            ("DELETE FROM owed WHERE owed_at_ms < ? AND state NOT IN ('owed', 'sending')", (oldest,)),
            *((f"DELETE FROM {table} WHERE turn IN ({gone})", (oldest,)) for table in _TURN_TABLES),
        )


def _take_row(turn: str, number: int) -> tuple[str, tuple[Any, ...]]:
    return "UPDATE inbox SET state = 'taken', turn = ? WHERE number = ?", (turn, number)


def _accepted(number: int, body: bytes) -> AcceptedEvent:
    return AcceptedEvent(number, msgspec.json.decode(body, type=Inbound))


def journal_of(runtime: Any) -> Journal:
    """Return the turn log in force, as the inbox and outbox of the gateway.

    :param runtime: of a running claw.
    :raises ConfigError: it is one that keeps neither.
    """
    log = runtime.turn_log
    if isinstance(log, Journal) or hasattr(log, "accept"):
        return log  # type: ignore[no-any-return]
    raise ConfigError(
        "plugins.slots.turnLog",
        "the turn log {name} keeps neither an inbox nor an outbox, and channels need both",
        "Remove the key",
        name=log.name,
    )


def count_end(log: Any, cause: str | None) -> None:
    """Count the end of the process before, if the turn log can; a full disk must not prevent the start.

    :param cause: as of :meth:`Journal.count_end`.
    """
    if hasattr(log, "count_end"):
        with suppress(ClawError):
            log.count_end(cause)
