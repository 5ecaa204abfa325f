"""Token usage of a session, added up. Pure."""

import msgspec

from claw.contracts.transcript import Usage


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

    def plus_outside(self, usage: Usage | None) -> "SessionUsage":
        """Add a call outside the conversation (a summary, a memory flush): it costs, but is no part of the
        context.
        """
        total = self.plus(usage)
        return msgspec.structs.replace(
            total,
            last_input=self.last_input,
            last_cache_read=self.last_cache_read,
            last_cache_write=self.last_cache_write,
        )

    def plus(self, usage: Usage | None) -> "SessionUsage":
        """Add a call; one without numbers, or with only zeros, changes nothing."""
        if usage is None or not any(msgspec.structs.astuple(usage)):
            return self
        fresh, out = max(0, usage.input or 0), max(0, usage.output or 0)
        read, write = max(0, usage.cache_read or 0), max(0, usage.cache_write or 0)
        total = fresh + out + read + write if usage.total is None else max(0, usage.total)
        return SessionUsage(
            input=self.input + fresh,
            output=self.output + out,
            cache_read=self.cache_read + read,
            cache_write=self.cache_write + write,
            total=self.total + total,
            last_input=fresh,
            last_cache_read=read,
            last_cache_write=write,
        )
