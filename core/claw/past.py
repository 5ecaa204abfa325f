"""The past of a session in memory: kept up to date record by record, so that a turn costs what it adds."""

from dataclasses import dataclass

from claw.record import Compaction, Entry, MessageRecord, Record, context, shown
from claw.transcript import Assistant, Message, ToolResult, User, sendable
from claw.usage import Ledger


@dataclass
class Past:
    """The records of one session, and what follows from them. One session owns it and adds to it.

    :param messages: the path to the newest record, not yet paired; ``settled`` of them need no second look, because a
        user spoke after them and no later result can belong to them: ``settled_sent`` is what is sent of those.
    """

    entries: list[Entry]
    messages: list[Message]
    usage: Ledger
    ids: set[str]
    settled: int = 0
    settled_sent: tuple[Message, ...] = ()
    sent: tuple[Message, ...] | None = None

    @classmethod
    def of(cls, entries: list[Entry]) -> "Past":
        usage = Ledger()
        for entry in entries:
            if isinstance(entry, MessageRecord) and isinstance(entry.message, Assistant):
                usage = usage.plus(entry.message.usage)
        return cls(entries, list(context(entries).messages), usage, {entry.id for entry in entries})

    def add(self, entry: Record) -> None:
        self.entries.append(entry)  # type: ignore[arg-type]
        self.ids.add(entry.id)
        if isinstance(entry, Compaction):
            self.messages = list(context(self.entries).messages)
            self._unsettle()
        elif message := shown(entry):  # type: ignore[arg-type]
            self._settle(message)
            self.messages.append(message)
            self.sent = None
        if isinstance(entry, MessageRecord) and isinstance(entry.message, Assistant):
            self.usage = self.usage.plus(entry.message.usage)

    def sendable(self) -> tuple[Message, ...]:
        """The messages, paired. Only what came since the newest word of a user is looked at again."""
        if self.sent is None:
            self.sent = self.settled_sent + sendable(self.messages[self.settled :])
        return self.sent

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
