"""The history of a session in memory, updated record by record, so that a turn's cost depends on what it adds."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec

from claw.contracts.errors import ClawError
from claw.contracts.transcript import Assistant, Message, ToolResultMessage, User, sendable
from claw.storage.clock import SYSTEM_CLOCK, Clock, iso_time
from claw.storage.records import (
    CompactionRecord,
    MessageRecord,
    Omission,
    Record,
    encode_record,
    shown_messages,
)


class SessionHistory:
    """The records of one session and values derived from them.

    :ivar entries: all records, in the order in which they were written.
    :ivar unpaired_messages: the path to the newest record: calls may lack results.
    :ivar kept: values that a context engine keeps about the session, by its name; empty after each load.
    """

    def __init__(self, entries: Sequence[Record] = ()) -> None:
        self.load(entries)

    def load(self, entries: Sequence[Record]) -> None:
        """Take these records in the place of those that it has."""
        self.entries = list(entries)
        self.unpaired_messages = shown_messages(entries)
        self.kept: dict[str, Any] = {}
        self._ids = {entry.id for entry in entries}
        self._unsettle()

    def _unsettle(self) -> None:
        self._settled = 0
        self._settled_sent: tuple[Message, ...] = ()
        self._sent: tuple[Message, ...] | None = None

    def add(self, entry: Record) -> None:
        """Add a record behind the newest one; it is not written."""
        self.entries.append(entry)
        self._ids.add(entry.id)
        if isinstance(entry, CompactionRecord | Omission):
            self.unpaired_messages = shown_messages(self.entries)
            self._unsettle()
        elif message := entry.shown():
            self._settle(message)
            self.unpaired_messages.append(message)
            self._sent = None

    @property
    def messages(self) -> tuple[Message, ...]:
        """The history as a model may be sent it: the path to the newest record, every call with its result.

        Only the messages since the newest user message are examined again.
        """
        if self._sent is None:
            self._sent = self._settled_sent + sendable(self.unpaired_messages[self._settled :])
        return self._sent

    @property
    def context_tokens(self) -> int:
        """Return how many tokens the newest model call read; 0 when it is unknown."""
        said = (entry.message for entry in reversed(self.entries) if isinstance(entry, MessageRecord))
        read = (message.usage.prompt_tokens for message in said if isinstance(message, Assistant))
        return next(filter(None, read), 0)

    def time_of(self, wanted: Callable[[Message], bool]) -> float | None:
        """Return the time of the newest message that satisfies ``wanted``, seconds since 1970; None without one."""
        for entry in reversed(self.entries):
            if isinstance(entry, MessageRecord) and wanted(entry.message):
                with suppress(ValueError):
                    return datetime.fromisoformat(entry.timestamp).timestamp()
        return None

    def id_of(self, message: Message) -> str:
        """Return the id of the record that holds this very message; empty when none does."""
        said = (entry for entry in reversed(self.entries) if isinstance(entry, MessageRecord))
        return next((entry.id for entry in said if entry.message is message), "")

    def _settle(self, message: Message) -> None:
        """Update the settled messages, which need no second look, before ``message`` is added.

        A user message settles all before it, as no later result can belong to them; a result for an older call undoes
        that.
        """
        if isinstance(message, User):
            self._settled_sent, self._settled = self.messages, len(self.unpaired_messages)
        elif isinstance(message, ToolResultMessage):
            newer = self.unpaired_messages[self._settled :]
            calls = [call.id for one in newer if isinstance(one, Assistant) for call in one.tool_calls]
            results = [one.call_id for one in newer if isinstance(one, ToolResultMessage)]
            if calls.count(message.call_id) <= results.count(message.call_id):
                self._unsettle()


class BaseSession(SessionHistory):
    """The history of one conversation for turns; a session store of a plugin derives its sessions from it.

    A subclass overrides :meth:`write` and :meth:`reset`; :meth:`flush` and :meth:`release` as far as its store needs it.
    Within a process a store returns the same object for a key until it was released.

    :param entries: the records that the store has, in the order in which they were written.
    :ivar notices: lines for the person about what was wrong with the stored session.
    """

    def __init__(
        self, key: str, agent_id: str, id: str, entries: Sequence[Record] = (), clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.key, self.agent_id, self.id = key, agent_id, id
        self.notices: tuple[str, ...] = ()
        self._clock = clock
        super().__init__(entries)
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

    def start_over(self, id: str, entries: Sequence[Record] = ()) -> None:
        """Take another id and other records, for :meth:`reset`."""
        self.id = id
        self.load(entries)

    @property
    def now(self) -> float:
        """The time, by the clock that stamps its records."""
        return self._clock.now()

    @property
    def size_bytes(self) -> int:
        """Size of what is stored, as far as it is known."""
        return 0

    def append(self, message: Message) -> str:
        """Write a message behind the newest record, at once; return the record's id.

        :raises ClawError: it cannot be stored; nothing was changed.
        """
        return self.append_entry(MessageRecord(message=message))

    def append_entry(self, entry: Record) -> str:
        """Append a record of any kind; its id, parent and time are filled in here."""
        self._next_id = (self._next_id + 1) & 0xFFFFFFFF
        while (name := f"{self._next_id:08x}") in self._ids:
            self._next_id = (self._next_id + 1) & 0xFFFFFFFF
        parent = self.entries[-1].id if self.entries else None
        entry, line = encode_record(
            msgspec.structs.replace(entry, id=name, parent_id=parent, timestamp=iso_time(self.now))
        )
        self.write(entry, line)
        self.add(entry)
        return name
