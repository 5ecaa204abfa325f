"""Figures of a session that the engine needs for each request, updated record by record."""

from collections.abc import Sequence

from claw import Assistant, Message
from claw.runtime import BaseSession, CompactionRecord, MemoryFlushRecord, MessageRecord, Record

_NAME = "compaction"


class SessionFigures:
    """Figures of the records of one session, and what the engine decided since its load.

    :ivar summary: the compaction in force; ``compactions`` counts all of them, ``memory_flush`` is the newest one.
    :ivar last_measured: the newest answer since that compaction with usage figures, and the tokens of its prompt
        and answer.
    :ivar sent_whole: False when the newest request left out messages that no summary covers: the figures of its answer
        do not measure the history.
    :ivar pruned: tool results that are sent in a shorter form: id → (the result, the short form).
    :ivar last_refusal: the last refusal that concerned the messages, and how often in a row it came.
    """

    def __init__(self) -> None:
        self.summary: CompactionRecord | None = None
        self.compactions = 0
        self.memory_flush: MemoryFlushRecord | None = None
        self.last_measured: tuple[Message, int] | None = None
        self.sent_whole = True
        self.pruned: dict[int, tuple[Message, Message]] = {}
        self.last_refusal = "", 0
        self._seen = 0

    def update(self, entries: Sequence[Record]) -> None:
        """Take the records into account that were added since the last update."""
        for entry in entries[self._seen :]:
            self._add(entry)
        self._seen = len(entries)

    def _add(self, entry: Record) -> None:
        if isinstance(entry, CompactionRecord):
            self.summary, self.last_measured = entry, None  # earlier figures no longer describe what is sent
            self.compactions += 1
            self.pruned.clear()
        elif isinstance(entry, MemoryFlushRecord):
            self.memory_flush = entry
        elif isinstance(entry, MessageRecord) and isinstance(entry.message, Assistant):
            usage = entry.message.usage
            if read := usage.prompt_tokens:
                self.last_measured = entry.message, read + (usage.output or 0)


def figures_of(session: BaseSession) -> SessionFigures:
    """Return the figures of a session as it is now; they are kept with it until its next load."""
    figures: SessionFigures = session.kept.setdefault(_NAME, SessionFigures())
    figures.update(session.entries)
    return figures
