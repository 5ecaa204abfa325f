"""The history of a session in memory, updated record by record, so that a turn's cost depends on what it adds."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from claw.contracts.errors import ClawError
from claw.contracts.transcript import Assistant, Message, ToolResultMessage, User, sendable
from claw.storage.clock import SYSTEM_CLOCK, Clock, iso_time
from claw.storage.records import (
    CompactionRecord,
    Entry,
    MemoryFlushRecord,
    MessageRecord,
    Omission,
    Record,
    active_compaction,
    build_context,
    encode_record,
    message_of,
)
from claw.storage.usage import SessionUsage


@dataclass
class SessionHistory:
    """The records of one session and values derived from them. One session owns it and adds to it.

    :param messages: the path to the newest record, not yet paired. The first ``settled`` of them need no
        second look, because a user message follows them and no later result can belong to them;
        ``settled_sent`` is their sendable form.
    :param summary: the compaction in force; ``compactions`` counts all of them, ``flush`` is the newest
        memory flush.
    :param last_measured: the newest answer since that compaction with usage figures, and the tokens of its prompt
        and answer.
    :param sent_whole: False when the newest request left out messages that no summary covers: the figures of its answer
        do not measure the history.
    :param pruned: tool results that are sent in a shorter form: id → (the result, the short form), until the
        next reload.
    :param last_refusal: the last refusal that concerned the messages, and how often in a row it came, since the
        file was loaded.
    """

    entries: list[Entry]
    messages: list[Message]
    usage: SessionUsage
    ids: set[str]
    settled: int = 0
    settled_sent: tuple[Message, ...] = ()
    sent: tuple[Message, ...] | None = None
    summary: CompactionRecord | None = None
    compactions: int = 0
    flush: MemoryFlushRecord | None = None
    last_measured: tuple[Message, int] | None = None
    sent_whole: bool = True
    pruned: dict[int, tuple[Message, Message]] = field(default_factory=dict)
    last_refusal: tuple[str, int] = ("", 0)

    @classmethod
    def of(cls, entries: list[Entry]) -> "SessionHistory":
        usage = SessionUsage()
        for entry in entries:
            usage = _add_cost(usage, entry)
        past = cls(entries, list(build_context(entries).messages), usage, {entry.id for entry in entries})
        for entry in entries:
            past._track(entry)
        past.summary = active_compaction(entries)
        return past

    def add(self, entry: Record) -> None:
        self.entries.append(entry)  # type: ignore[arg-type]
        self.ids.add(entry.id)
        self._track(entry)
        if isinstance(entry, CompactionRecord | Omission):
            self.messages = list(build_context(self.entries).messages)
            self._unsettle()
        elif message := message_of(entry):  # type: ignore[arg-type]
            self._settle(message)
            self.messages.append(message)
            self.sent = None
        self.usage = _add_cost(self.usage, entry)

    def _track(self, entry: Record) -> None:
        """Update the values that compaction uses."""
        if isinstance(entry, CompactionRecord):
            self.summary, self.last_measured = entry, None  # earlier figures no longer describe what is sent
            self.compactions += 1
            self.pruned.clear()
        elif isinstance(entry, MemoryFlushRecord):
            self.flush = entry
        elif isinstance(entry, MessageRecord) and isinstance(entry.message, Assistant):
            usage = entry.message.usage
            if read := usage.prompt_tokens:
                self.last_measured = entry.message, read + (usage.output or 0)

    def sendable(self) -> tuple[Message, ...]:
        """Return the messages, paired. Only those since the newest user message are examined again."""
        if self.sent is None:
            self.sent = self.settled_sent + sendable(self.messages[self.settled :])
        return self.sent

    def newest(self, wanted: Callable[[Message], bool]) -> MessageRecord | None:
        """Return the newest record whose message satisfies ``wanted``."""
        said = (entry for entry in reversed(self.entries) if isinstance(entry, MessageRecord))
        return next((entry for entry in said if wanted(entry.message)), None)

    def time_of(self, wanted: Callable[[Message], bool]) -> float | None:
        """Return the time of the newest message that satisfies ``wanted``, seconds since 1970; None when
        there is none.
        """
        for entry in reversed(self.entries):
            if isinstance(entry, MessageRecord) and wanted(entry.message):
                with suppress(ValueError):
                    return datetime.fromisoformat(entry.timestamp).timestamp()
        return None

    def _settle(self, message: Message) -> None:
        """Update ``settled`` before ``message`` is added: a user message settles all before it, a result for
        an older call undoes that.
        """
        if isinstance(message, User):
            self.settled_sent, self.settled = self.sendable(), len(self.messages)
        elif isinstance(message, ToolResultMessage):
            newer = self.messages[self.settled :]
            call_count = sum(
                call.id == message.call_id for m in newer if isinstance(m, Assistant) for call in m.tool_calls
            )
            result_count = sum(
                m.call_id == message.call_id for m in newer if isinstance(m, ToolResultMessage)
            )
            if call_count <= result_count:
                self._unsettle()

    def _unsettle(self) -> None:
        self.settled, self.settled_sent, self.sent = 0, (), None


class BaseSession:
    """The history of one conversation for turns; a session store of a plugin derives its sessions from it.

    A subclass overrides :meth:`write` and :meth:`reset`; :meth:`flush` and :meth:`release` as far as its store needs it.
    Within a process a store returns the same object for a key until it was released.

    :param entries: the records that the store has, in the order in which they were written.
    :ivar notices: lines for the person about what was wrong with the stored session.
    """

    def __init__(
        self, key: str, agent_id: str, id: str, entries: Sequence[Entry] = (), clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.key, self.agent_id, self.id = key, agent_id, id
        self.notices: tuple[str, ...] = ()
        self._clock = clock
        self._past = SessionHistory.of(list(entries))
        self._next_id = int.from_bytes(os.urandom(4), "big")

    def write(self, entry: Record, line: bytes) -> None:
        """Store a record behind the newest one, before this returns.

        :param line: the record as one line of JSON; ``claw.runtime.decode_record`` reads it.
        :raises ClawError: it cannot be stored.
        """
        raise NotImplementedError

    async def reset(self) -> None:
        """Start an empty session under the same key, with a new ``id``; the old one is kept elsewhere."""
        raise NotImplementedError

    async def flush(self) -> None:
        """Wait until what was written survives a power cut."""

    def flush_soon(self, refused: Callable[[ClawError], None] = lambda why: None) -> None:
        """Have what was written survive a power cut shortly after the turn."""

    def release(self) -> None:
        """End the use by one turn."""

    def start_over(self, id: str, entries: Sequence[Entry] = ()) -> None:
        """Take another id and other records, for :meth:`reset`."""
        self.id, self._past = id, SessionHistory.of(list(entries))

    @property
    def messages(self) -> tuple[Message, ...]:
        """The history as a model may be sent it: the path to the newest record, every call with its result."""
        return self._past.sendable()

    @property
    def unpaired_messages(self) -> Sequence[Message]:
        """The path to the newest record, unpaired: calls may lack results."""
        return self._past.messages

    def messages_before(self, at: int) -> tuple[Message, ...]:
        """Return what a model may be sent of the first ``at`` messages of ``unpaired_messages``."""
        return sendable(self._past.messages[:at])

    @property
    def last_user_at(self) -> float | None:
        """Time of the newest message of a person, seconds since 1970; None when there is none."""
        return self._past.time_of(lambda said: isinstance(said, User) and not said.kind)

    @property
    def last_answer_at(self) -> float | None:
        """Time of the newest answer of a model, seconds since 1970; None when there is none."""
        return self._past.time_of(lambda said: isinstance(said, Assistant))

    @property
    def now(self) -> float:
        """The time, by the clock that stamps its records."""
        return self._clock.now()

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All records, in the order in which they were written."""
        return tuple(self._past.entries)

    @property
    def usage(self) -> SessionUsage:
        """Total cost of the session, and the size of its newest prompt."""
        return self._past.usage

    @property
    def history(self) -> SessionHistory:
        """The history with the values that compaction uses. Read it; only ``append`` adds to it."""
        return self._past

    @property
    def size_bytes(self) -> int:
        """Size of what is stored, as far as it is known."""
        return 0

    def id_of(self, message: Message) -> str:
        """Return the id of the record that holds this very message; empty when none does."""
        record = self._past.newest(lambda said: said is message)
        return record.id if record else ""

    def append(self, message: Message) -> str:
        """Write a message behind the newest record, at once; return the record's id.

        :raises ClawError: it cannot be stored; nothing was changed.
        """
        return self.append_entry(MessageRecord(message=message))

    def append_entry(self, entry: Record) -> str:
        """Append a record of any kind; its id, parent and time are filled in here."""
        past = self._past
        self._next_id = (self._next_id + 1) & 0xFFFFFFFF
        while (name := f"{self._next_id:08x}") in past.ids:
            self._next_id = (self._next_id + 1) & 0xFFFFFFFF
        parent = past.entries[-1].id if past.entries else None
        entry, line = encode_record(
            msgspec.structs.replace(entry, id=name, parent_id=parent, timestamp=iso_time(self.now))
        )
        self.write(entry, line)
        past.add(entry)
        return name


def _add_cost(usage: SessionUsage, entry: Record) -> SessionUsage:
    """Return the ledger with the cost of this record."""
    if isinstance(entry, CompactionRecord | MemoryFlushRecord):
        return usage.plus(entry.usage, outside=True)
    if isinstance(entry, MessageRecord) and isinstance(entry.message, Assistant):
        return usage.plus(entry.message.usage)
    return usage
