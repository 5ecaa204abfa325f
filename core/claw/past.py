"""The past of a session in memory: kept up to date record by record, so that a turn costs what it adds."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from claw.record import (
    Compaction,
    Entry,
    LeftOut,
    MemoryFlush,
    MessageRecord,
    Record,
    context,
    in_force,
    shown,
)
from claw.transcript import Assistant, Message, ToolResult, User, sendable
from claw.usage import Ledger, prompt_tokens


@dataclass
class Past:
    """The records of one session, and what follows from them. One session owns it and adds to it.

    :param messages: the path to the newest record, not yet paired; ``settled`` of them need no second look, because a
        user spoke after them and no later result can belong to them: ``settled_sent`` is what is sent of those.
    :param summary: the compaction in force; ``compactions`` how many there were, ``flush`` the newest saving before one.
    :param measured: the newest answer since then whose service said how large prompt and answer were, and that number.
    :param pruned: tool results that are sent in another form: id → (the result, what is sent), until it is read again.
    :param refused: what a service last said against the messages, and how often in a row, since it was read.
    """

    entries: list[Entry]
    messages: list[Message]
    usage: Ledger
    ids: set[str]
    settled: int = 0
    settled_sent: tuple[Message, ...] = ()
    sent: tuple[Message, ...] | None = None
    summary: Compaction | None = None
    compactions: int = 0
    flush: MemoryFlush | None = None
    measured: tuple[Message, int] | None = None
    pruned: dict[int, tuple[Message, Message]] = field(default_factory=dict)
    refused: tuple[str, int] = ("", 0)

    @classmethod
    def of(cls, entries: list[Entry]) -> "Past":
        usage = Ledger()
        for entry in entries:
            usage = _paid(usage, entry)
        past = cls(entries, list(context(entries).messages), usage, {entry.id for entry in entries})
        for entry in entries:
            past._note(entry)
        past.summary = in_force(entries)
        return past

    def add(self, entry: Record) -> None:
        self.entries.append(entry)  # type: ignore[arg-type]
        self.ids.add(entry.id)
        self._note(entry)
        if isinstance(entry, Compaction | LeftOut):
            self.messages = list(context(self.entries).messages)
            self._unsettle()
        elif message := shown(entry):  # type: ignore[arg-type]
            self._settle(message)
            self.messages.append(message)
            self.sent = None
        self.usage = _paid(self.usage, entry)

    def _note(self, entry: Record) -> None:
        """What compaction asks about, kept while the records come."""
        if isinstance(entry, Compaction):
            self.summary, self.measured = entry, None  # figures of before say nothing of what is sent now
            self.compactions += 1
            self.pruned.clear()
        elif isinstance(entry, MemoryFlush):
            self.flush = entry
        elif isinstance(entry, MessageRecord) and isinstance(entry.message, Assistant):
            usage = entry.message.usage
            if read := prompt_tokens(usage):
                self.measured = entry.message, read + (usage.output or 0)

    def sendable(self) -> tuple[Message, ...]:
        """The messages, paired. Only what came since the newest word of a user is looked at again."""
        if self.sent is None:
            self.sent = self.settled_sent + sendable(self.messages[self.settled :])
        return self.sent

    def newest(self, wanted: Callable[[Message], bool]) -> MessageRecord | None:
        """The newest record whose message is wanted."""
        said = (entry for entry in reversed(self.entries) if isinstance(entry, MessageRecord))
        return next((entry for entry in said if wanted(entry.message)), None)

    def moment_of(self, wanted: Callable[[Message], bool]) -> float | None:
        """When the newest message that is wanted was written down, seconds since 1970; None when there is none."""
        for entry in reversed(self.entries):
            if isinstance(entry, MessageRecord) and wanted(entry.message):
                with suppress(ValueError):
                    return datetime.fromisoformat(entry.timestamp).timestamp()
        return None

    def _settle(self, message: Message) -> None:
        """Before ``message`` is added: a user's word closes what was said; a result for an old call opens it again."""
        if isinstance(message, User):
            self.settled_sent, self.settled = self.sendable(), len(self.messages)
        elif isinstance(message, ToolResult):
            newer = self.messages[self.settled :]
            asked = sum(
                call.id == message.call_id for m in newer if isinstance(m, Assistant) for call in m.tool_calls
            )
            told = sum(m.call_id == message.call_id for m in newer if isinstance(m, ToolResult))
            if asked <= told:
                self._unsettle()

    def _unsettle(self) -> None:
        self.settled, self.settled_sent, self.sent = 0, (), None


def _paid(usage: Ledger, entry: Record) -> Ledger:
    """What the session has cost with this record."""
    if isinstance(entry, Compaction | MemoryFlush):
        return usage.beside(entry.usage)
    if isinstance(entry, MessageRecord) and isinstance(entry.message, Assistant):
        return usage.plus(entry.message.usage)
    return usage
