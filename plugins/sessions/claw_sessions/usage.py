"""Token usage of a session, added up. Pure."""

from collections.abc import Iterable

import msgspec
from claw import Assistant, Usage
from claw.runtime import CompactionRecord, MemoryFlushRecord, MessageRecord, Record


class SessionUsage(msgspec.Struct, frozen=True):
    """The total usage of a session: sums over all calls, and the prompt of the newest one separately.

    The sums are the cost; they do not tell how full the context is (a cached prompt counts again in every
    call).
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total: int = 0
    last_input: int = 0
    last_cache_read: int = 0
    last_cache_write: int = 0

    @property
    def context_tokens(self) -> int:
        """Size of the context at the newest call."""
        return self.last_input + self.last_cache_read + self.last_cache_write

    def plus(self, usage: Usage | None, outside: bool = False) -> "SessionUsage":
        """Add a call; one without numbers, or with only zeros, changes nothing.

        :param outside: the call is outside the conversation (a summary, a memory flush): it costs, but is no part of
            the context.
        """
        if usage is None or not any(msgspec.structs.astuple(usage)):
            return self
        numbers = usage.input, usage.output, usage.cache_read, usage.cache_write
        fresh, out, read, write = (max(0, number or 0) for number in numbers)
        total = fresh + out + read + write if usage.total is None else max(0, usage.total)
        last = (
            (self.last_input, self.last_cache_read, self.last_cache_write)
            if outside
            else (fresh, read, write)
        )
        return SessionUsage(
            self.input + fresh,
            self.output + out,
            self.cache_read + read,
            self.cache_write + write,
            self.total + total,
            *last,
        )


def usage_of(entries: Iterable[Record]) -> SessionUsage:
    """Return the total usage of these records."""
    spent = SessionUsage()
    for entry in entries:
        if isinstance(entry, CompactionRecord | MemoryFlushRecord):
            spent = spent.plus(entry.usage, outside=True)
        elif isinstance(entry, MessageRecord) and isinstance(entry.message, Assistant):
            spent = spent.plus(entry.message.usage)
    return spent
