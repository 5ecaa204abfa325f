"""The journal: what came in, which turns began and ended, and what is owed to whom, in ``state.db``.

What came in is on disk before a channel acknowledges it, and a redelivery is known by either of its two ids. A turn and
the replies it owes end in one commit, so that a death leaves a turn either to be taken up again or answered.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from claw.clock import SYSTEM, Clock, Daily
from claw.errors import ClawError
from claw.message import Inbound, Outbound
from claw.store import Database
from claw.unicode import written

KEPT_DAYS = 7  # the longest that a platform redelivers; after it an id may be forgotten
_DAY_MS = 24 * 3600 * 1000
_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.25, 30.0
_TABLES = (
    "DROP TABLE IF EXISTS inbound",  # of a first form without bodies
    """CREATE TABLE IF NOT EXISTS inbox
    (number INTEGER PRIMARY KEY, channel TEXT NOT NULL, account TEXT NOT NULL, chat TEXT NOT NULL,
     kind TEXT NOT NULL, event_id TEXT NOT NULL, message_id TEXT NOT NULL, accepted_at_ms INTEGER NOT NULL,
     body BLOB NOT NULL, state TEXT NOT NULL, turn TEXT)""",
    "CREATE UNIQUE INDEX IF NOT EXISTS inbox_event ON inbox (channel, account, event_id) WHERE event_id != ''",
    """CREATE UNIQUE INDEX IF NOT EXISTS inbox_message
    ON inbox (channel, account, chat, message_id) WHERE kind = 'message' AND message_id != ''""",
    "DROP INDEX IF EXISTS inbox_open",  # of a form that SQLite used for none of our questions
    "CREATE INDEX IF NOT EXISTS inbox_new ON inbox (state) WHERE state = 'new'",
    "CREATE INDEX IF NOT EXISTS inbox_taken ON inbox (turn) WHERE state = 'taken'",
    """CREATE TABLE IF NOT EXISTS turns
    (turn TEXT PRIMARY KEY, session_key TEXT NOT NULL, began_at_ms INTEGER NOT NULL,
     ended_at_ms INTEGER, outcome TEXT) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS watched
    (turn TEXT PRIMARY KEY, attempts INTEGER NOT NULL, shown BLOB NOT NULL, streamed INTEGER NOT NULL)
    WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS effects
    (turn TEXT NOT NULL, call TEXT NOT NULL, PRIMARY KEY (turn, call)) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS owed
    (number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, turn TEXT NOT NULL, channel TEXT NOT NULL,
     account TEXT NOT NULL, chat TEXT NOT NULL, body BLOB NOT NULL, state TEXT NOT NULL, owed_at_ms INTEGER NOT NULL,
     sent_at_ms INTEGER, message_ids BLOB, repeated INTEGER NOT NULL DEFAULT 0, why TEXT NOT NULL DEFAULT '')""",
    "CREATE INDEX IF NOT EXISTS owed_open ON owed (state) WHERE state IN ('owed', 'sending')",
    "CREATE INDEX IF NOT EXISTS owed_turn ON owed (turn)",
)
_UNKEPT = ("refused", "stranger")
_OF_TURNS = ("effects", "watched", "turns")
_OWE = """INSERT OR IGNORE INTO owed (key, turn, channel, account, chat, body, state, owed_at_ms, repeated)
          VALUES (?, ?, ?, ?, ?, ?, 'owed', ?, ?)"""


@dataclass(frozen=True, slots=True)
class Accepted:
    """What came in, and its number in the journal (in order of arrival).

    :param number: 0 when it left no row, as from a terminal.
    """

    number: int
    inbound: Inbound


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A turn that a death cut off.

    :param taken: what it was answering, oldest first.
    :param attempts: how often it was begun.
    """

    turn: str
    session_key: str
    taken: tuple[Accepted, ...]
    attempts: int
    began_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class Owed:
    """A message that must still go out.

    :param sending: it was handed to its channel, and whether it arrived is unknown.
    :param repeated: how often it was handed over although a part of it may have stood there.
    """

    turn: str
    outbound: Outbound
    sending: bool
    owed_at_ms: int
    repeated: int = 0


class Journal:
    """What a restart must know. Every call is one commit, about 20 µs: it survives a killed process when it returns.

    A power cut is survived from ``durable`` on.
    """

    def __init__(self, database: Database, clock: Clock = SYSTEM) -> None:
        self._database = database
        self._clock = clock
        self._sweeping = Daily(clock)
        self._written = self._synced = 0
        self._silent: set[str] = set()  # turns that began here and have nothing in the ledger yet
        self._syncing: asyncio.Task[None] | None = None
        self._unsynced: deque[tuple[int, asyncio.Future[None]]] = deque()
        database.tables("journal", *_TABLES)

    # --- what came in

    def accept(self, inbound: Inbound) -> Accepted | None:
        """Note that this came in; None when it came before: then it is acknowledged and nothing else.

        The same event id of one account, or (for messages) the same message id of one chat, is the same thing. An
        inbound without ids, as from a terminal, is always new and leaves no row.
        """
        self._sweep()
        inbound, body = written(inbound)
        event_id, message_id = inbound.event_id.strip(), inbound.message_id.strip()
        if not event_id and not (message_id and inbound.kind == "message"):
            return Accepted(0, inbound)
        place = inbound.address
        number = self._database.insert(
            """INSERT OR IGNORE INTO inbox
            (channel, account, chat, kind, event_id, message_id, accepted_at_ms, body, state)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'new')""",
            *(place.channel, place.account, place.chat, inbound.kind, event_id, message_id),
            *(self._clock.now_ms(), body),
        )
        self._written += 1
        return None if number is None else Accepted(number, inbound)

    async def durable(self) -> None:
        """Wait until all that was accepted so far is on the medium; callers that come together share one sync.

        :raises ClawError: the disk refused.
        """
        if self._synced >= self._written:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._unsynced.append((self._written, waiter))
        if self._syncing is None or self._syncing.done():
            self._syncing = asyncio.ensure_future(self._sync())
        await waiter

    async def _sync(self) -> None:
        """Sync until nobody waits. All whom one serves wake together, in their order: a lock would hand on one by one."""
        while self._unsynced:
            reached, refused = self._written, None
            try:
                await asyncio.to_thread(self._database.sync)
                self._synced = reached
            except Exception as why:  # noqa: BLE001 - whatever it is: who waits hears of it
                refused = why
            while self._unsynced and self._unsynced[0][0] <= reached:
                _, waiter = self._unsynced.popleft()
                if waiter.done():
                    continue
                if refused:
                    waiter.set_exception(refused)
                else:
                    waiter.set_result(None)

    def settle(self, number: int, why: str, owed: Sequence[Outbound] = ()) -> None:
        """What came in needs no turn (refused, a command, stopped …): ``why`` is one word; ``owed`` answers it. Of people
        whom nobody let in only the ids are kept, so that a crowd of them does not fill the disk.
        """
        body = ", body = x''" if why in _UNKEPT else ""
        done = (f"UPDATE inbox SET state = ?{body} WHERE number = ?", (why, number))
        self._database.write_all(done, *self._owing(f"in{number}", owed))

    def waiting(self) -> tuple[Accepted, ...]:
        """What was accepted and never became part of a turn, in order of arrival."""
        rows = self._database.read("SELECT number, body FROM inbox WHERE state = 'new' ORDER BY number")
        return tuple(_accepted(*row) for row in rows)

    # --- turns

    def began(self, turn: str, session_key: str, taken: Sequence[int] = (), again: bool = False) -> None:
        """A turn starts; ``turn`` is its id, ``taken`` the numbers of what it answers.

        :param again: it is taken up again after a death.
        """
        self._sweep()
        if not again:
            self._silent.add(turn)
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
        self._database.write_all(begin, watch, *(_taking(turn, number) for number in taken))

    async def insist(self, write: Callable[[], None], complain: Callable[[str], None] | None) -> None:
        """Write what a turn cannot go on without: again and again while there is no room for it, ever more seldom. One
        that gave up would be taken up by the next start only, which may be weeks away.

        :param complain: told of each refusal; None = it is raised, as somebody waits who can be told.
        """
        pause = _PAUSE_SECONDS
        while True:
            try:
                return write()
            except ClawError as refused:
                if complain is None:
                    raise
                complain(str(refused))
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def joined(self, turn: str, number: int) -> None:
        """Something that came in while the turn ran is part of it now."""
        sql, values = _taking(turn, number)
        self._database.write(sql, *values)

    def once(self, turn: str, call: str) -> bool:
        """A call whose effect must not be repeated is about to run; False when it was begun before."""
        return self._database.write("INSERT OR IGNORE INTO effects VALUES (?, ?)", turn, call) == 1

    def not_begun(self, turn: str, call: str) -> None:
        """That call waits for a person before it does anything: after a death it may be made anew."""
        self._database.write("DELETE FROM effects WHERE turn = ? AND call = ?", turn, call)

    def is_over(self, turn: str) -> bool:
        """Whether that turn ended; False for one that runs, that a death cut off, or that was never begun here."""
        return bool(
            self._database.read("SELECT 1 FROM turns WHERE turn = ? AND ended_at_ms IS NOT NULL", turn)
        )

    def shown(self, turn: str, message_ids: Sequence[str], expected: int = 1) -> None:
        """A stream of this turn shows its text in these messages, and in so many in all it may by now."""
        self._silent.discard(turn)
        self._database.write(
            "UPDATE watched SET shown = ?, streamed = ? WHERE turn = ?",
            msgspec.json.encode(message_ids),
            max(expected, len(message_ids)),
            turn,
        )

    def standing(self, turn: str) -> tuple[tuple[str, ...], int]:
        """Messages in which a stream of this turn shows a part, and how many there may be beside that we do not know."""
        if turn in self._silent:
            return (), 0
        rows = self._database.read("SELECT shown, streamed FROM watched WHERE turn = ?", turn)
        ids = tuple(msgspec.json.decode(rows[0][0], type=list[str])) if rows else ()
        return ids, max(0, rows[0][1] - len(ids)) if rows else 0

    def age_seconds(self, turn: str) -> float:
        """How long ago a turn began; 0.0 when nobody knows."""
        rows = self._database.read("SELECT began_at_ms FROM turns WHERE turn = ?", turn)
        return (self._clock.now_ms() - rows[0][0]) / 1000 if rows else 0.0

    def ended(
        self, turn: str, outcome: str, owed: Sequence[Outbound] = (), repeated: Collection[str] = (),
        also: Sequence[tuple[str, tuple[Any, ...]]] = (),
    ) -> None:  # fmt: skip
        """A turn is over, however it ended, and owes these messages: one commit.

        :param outcome: one word: delivered, silent, stopped, failed …
        :param repeated: keys of those of which a part may stand in the chat already.
        :param also: what others write in this commit.
        """
        self._silent.discard(turn)
        over = (
            "UPDATE turns SET ended_at_ms = ?, outcome = ? WHERE turn = ?",
            (self._clock.now_ms(), outcome, turn),
        )
        answered = ("UPDATE inbox SET state = 'answered' WHERE turn = ? AND state = 'taken'", (turn,))
        self._database.write_all(over, answered, *self._owing(turn, owed, repeated), *also)

    def unfinished(self) -> tuple[Unfinished, ...]:
        """The turns that began and did not end, oldest first: at start, those that a death cut off."""
        rows = self._database.read(
            """SELECT turn, session_key, coalesce(attempts, 0), began_at_ms FROM turns LEFT JOIN watched USING (turn)
            WHERE ended_at_ms IS NULL ORDER BY began_at_ms, turn"""
        )
        return tuple(
            Unfinished(turn, key, self._taken(turn), attempts, began) for turn, key, attempts, began in rows
        )

    def _taken(self, turn: str) -> tuple[Accepted, ...]:
        rows = self._database.read(
            "SELECT number, body FROM inbox WHERE turn = ? AND state = 'taken' ORDER BY number", turn
        )
        return tuple(_accepted(*row) for row in rows)

    # --- what is owed

    def owe(self, turn: str, outbound: Outbound) -> bool:
        """One more message must go out, beside those that a turn ends with; False when its key is known."""
        self._silent.discard(turn)
        ((sql, values),) = self._owing(turn, (outbound,))
        return self._database.write(sql, *values) == 1

    def sending(self, key: str, repeated: bool = False) -> None:
        """It is handed to its channel now.

        :param repeated: it may stand in the chat already, and is sent all the same: one mark more.
        """
        self._database.write(
            "UPDATE owed SET state = 'sending', repeated = repeated + ? WHERE key = ?", repeated, key
        )

    def paid(self, key: str, message_ids: Sequence[str], others: Sequence[str] = ()) -> None:
        """It stands in the chat, in these messages; so do ``others``, which went out together with it."""
        sql = "UPDATE owed SET state = 'paid', sent_at_ms = ?, message_ids = ? WHERE key = ?"
        now = self._clock.now_ms()
        rest = [(sql, (now, b"[]", other)) for other in others]
        self._database.write_all((sql, (now, msgspec.json.encode(message_ids), key)), *rest)

    def postponed(self, key: str) -> None:
        """It did not go out, and will be tried again."""
        self._database.write("UPDATE owed SET state = 'owed' WHERE key = ?", key)

    def failed(self, key: str, state: str, why: str) -> None:
        """It will not be tried again: ``refused`` by the service, ``expired``, or ``unknown`` whether it arrived."""
        self._database.write("UPDATE owed SET state = ?, why = ? WHERE key = ?", state, why, key)

    def owed(self) -> tuple[Owed, ...]:
        """All that must still go out, in the order in which it was owed."""
        rows = self._database.read(
            """SELECT turn, body, state, owed_at_ms, repeated FROM owed WHERE state IN ('owed', 'sending')
            ORDER BY number"""
        )
        return tuple(
            Owed(turn, msgspec.json.decode(body, type=Outbound), state == "sending", owed_at_ms, repeated)
            for turn, body, state, owed_at_ms, repeated in rows
        )

    def turn_of(self, key: str) -> str:
        """The turn that owes a message; the message's own key when it is not in the ledger."""
        rows = self._database.read("SELECT turn FROM owed WHERE key = ?", key)
        return str(rows[0][0]) if rows else key

    def said(self, turn: str) -> tuple[Outbound, ...]:
        """What a turn has said or owes so far."""
        if turn in self._silent:
            return ()
        rows = self._database.read("SELECT body FROM owed WHERE turn = ? ORDER BY number", turn)
        return tuple(msgspec.json.decode(body, type=Outbound) for (body,) in rows)

    # --- for people

    def turns(self, limit: int = 50, open_only: bool = False) -> list[dict[str, Any]]:
        """The newest turns: turn, session, when it began and ended, how, what it still owes or could not deliver.

        ``served``: of a channel, so that the next start takes it up; else somebody waited for it at a terminal.
        """
        rows = self._database.read(
            f"""SELECT turn, session_key, began_at_ms, ended_at_ms, outcome, coalesce(attempts, 1),
            (SELECT count(*) FROM owed WHERE owed.turn = turns.turn AND state IN ('owed', 'sending')),
            (SELECT group_concat(state || ': ' || why, '; ') FROM owed
             WHERE owed.turn = turns.turn AND state IN ('refused', 'expired', 'unknown')),
            (SELECT coalesce(sum(repeated), 0) FROM owed WHERE owed.turn = turns.turn), attempts IS NOT NULL
            FROM turns LEFT JOIN watched USING (turn)
            {"WHERE ended_at_ms IS NULL OR turn IN (SELECT turn FROM owed WHERE state != 'paid')" if open_only else ""}
            ORDER BY began_at_ms DESC LIMIT ?""",
            limit,
        )
        names = ("turn", "session", "beganAtMs", "endedAtMs", "outcome", "attempts", "owed", "undelivered")
        return [dict(zip((*names, "possiblyRepeated", "served"), row, strict=True)) for row in rows]

    def unanswered(self) -> list[dict[str, Any]]:
        """Chats in which messages wait that no turn has taken: how many, and since when."""
        rows = self._database.read(
            """SELECT channel, account, chat, count(*), min(accepted_at_ms) FROM inbox WHERE state = 'new'
            GROUP BY channel, account, chat ORDER BY min(number)"""
        )
        names = ("channel", "account", "chat", "messages", "sinceMs")
        return [dict(zip(names, row, strict=True)) for row in rows]

    def notices(self) -> list[dict[str, Any]]:
        """What is owed, or could not be delivered, without a turn: answers to commands, codes for strangers …"""
        rows = self._database.read(
            """SELECT channel, account, chat, owed_at_ms, state, why FROM owed
            WHERE state != 'paid' AND turn NOT IN (SELECT turn FROM turns) ORDER BY number"""
        )
        names = ("channel", "account", "chat", "owedAtMs", "state", "why")
        return [dict(zip(names, row, strict=True)) for row in rows]

    def counts(self) -> tuple[int, int]:
        """How many messages wait for a turn, and how many replies are owed."""
        ((waiting,),) = self._database.read("SELECT count(*) FROM inbox WHERE state = 'new'")
        ((owed,),) = self._database.read("SELECT count(*) FROM owed WHERE state IN ('owed', 'sending')")
        return waiting, owed

    def answered(self, channel: str) -> int:
        """How many messages of a channel became part of a turn that ended."""
        ((count,),) = self._database.read(
            "SELECT count(*) FROM inbox WHERE channel = ? AND state = 'answered'", channel
        )
        return int(count)

    def _owing(
        self, turn: str, owed: Sequence[Outbound], repeated: Collection[str] = ()
    ) -> list[tuple[str, tuple[Any, ...]]]:
        now = self._clock.now_ms()
        return [
            (
                _OWE,
                (
                    *(one.key, turn, one.address.channel, one.address.account, one.address.chat),
                    *(written(one)[1], now, one.key in repeated),
                ),
            )
            for one in owed
        ]

    def _sweep(self) -> None:
        """Once a day: drop what is older than a redelivery can be. SQLite fills the room again."""
        if not self._sweeping.due():
            return
        oldest = self._clock.now_ms() - KEPT_DAYS * _DAY_MS
        gone = """SELECT turn FROM turns WHERE began_at_ms < ?
                  AND turn NOT IN (SELECT turn FROM inbox WHERE state = 'taken')"""  # those are taken up again
        self._database.write_all(
            (  # the newest stays: no number is given twice, as transcripts name them
                """DELETE FROM inbox WHERE accepted_at_ms < ? AND state NOT IN ('new', 'taken')
                AND number < (SELECT max(number) FROM inbox)""",
                (oldest,),
            ),
            ("DELETE FROM owed WHERE owed_at_ms < ? AND state NOT IN ('owed', 'sending')", (oldest,)),
            *((f"DELETE FROM {table} WHERE turn IN ({gone})", (oldest,)) for table in _OF_TURNS),
        )


def _taking(turn: str, number: int) -> tuple[str, tuple[Any, ...]]:
    return "UPDATE inbox SET state = 'taken', turn = ? WHERE number = ?", (turn, number)


def _accepted(number: int, body: bytes) -> Accepted:
    return Accepted(number, msgspec.json.decode(body, type=Inbound))
