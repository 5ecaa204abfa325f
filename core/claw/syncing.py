"""Files are synced behind the turns that wrote them, in a thread of their own: those of one moment together."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from typing import Protocol

PAUSE_SECONDS = 0.05
"""How long what was written waits for company: waking a thread for each turn costs more than the sync."""


class Synced(Protocol):
    """What can be brought onto the medium."""

    def sync(self) -> None:
        """In the thread. :raises OSError: the disk refused."""
        ...


Refused = Callable[[OSError], None]


class Syncing:
    """What waits for its sync. One thread, so that nothing is closed under a sync of its own."""

    def __init__(self) -> None:
        self._due: dict[Synced, Refused] = {}
        self._busy: set[Synced] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def soon(self, thing: Synced, refused: Refused) -> None:
        """Sync it in a moment; ``refused`` is told in the loop's thread."""
        loop = asyncio.get_running_loop()
        if not self._due or loop is not self._loop:
            loop.call_later(PAUSE_SECONDS, self._submit)
        self._due[thing], self._loop = refused, loop

    def now(self, thing: Synced) -> "Future[None]":
        """Sync it at once."""
        self._due.pop(thing, None)
        return self._thread.submit(thing.sync)

    def done(self, thing: Synced) -> None:
        """It is about to be closed: whatever of it waits is synced before this returns."""
        waited = self._due.pop(thing, None) is not None
        if waited or thing in self._busy:
            with suppress(OSError):
                self._thread.submit(thing.sync).result()

    def _submit(self) -> None:
        due, self._due = self._due, {}
        if due:
            self._busy.update(due)
            self._thread.submit(self._all, due, asyncio.get_running_loop())

    def _all(self, due: dict[Synced, Refused], loop: asyncio.AbstractEventLoop) -> None:
        for thing, refused in due.items():
            try:
                thing.sync()
            except OSError as why:
                with suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(refused, why)
            finally:
                self._busy.discard(thing)

    @cached_property
    def _thread(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1, "claw-sync")
