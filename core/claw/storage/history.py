"""The history of a session in memory, updated record by record, so that a turn's cost depends on what it
adds.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from claw.contracts.transcript import Assistant, Message, ToolResultMessage, User, sendable
from claw.storage.records import (
    CompactionRecord,
    Entry,
    MemoryFlushRecord,
    MessageRecord,
    Omission,
    Record,
    active_compaction,
    build_context,
    message_of,
)
from claw.storage.usage import SessionUsage, prompt_tokens


@dataclass
class SessionHistory:
    """The records of one session and values derived from them. One session owns it and adds to it.

    :param messages: the path to the newest record, not yet paired. The first ``settled`` of them need no
        second look, because a user message follows them and no later result can belong to them;
        ``settled_sent`` is their sendable form.
    :param summary: the compaction in force; ``compactions`` counts all of them, ``flush`` is the newest
        memory flush.
    :param measured: the newest answer since that compaction with usage figures, and the tokens of its prompt
        and answer.
    :param pruned: tool results that are sent in a shorter form: id → (the result, the short form), until the
        next reload.
    :param refused: the last refusal that concerned the messages, and how often in a row it came, since the
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
            if read := prompt_tokens(usage):
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


def _add_cost(usage: SessionUsage, entry: Record) -> SessionUsage:
    """Return the ledger with the cost of this record."""
    if isinstance(entry, CompactionRecord | MemoryFlushRecord):
        return usage.plus_outside(entry.usage)
    if isinstance(entry, MessageRecord) and isinstance(entry.message, Assistant):
        return usage.plus(entry.message.usage)
    return usage
