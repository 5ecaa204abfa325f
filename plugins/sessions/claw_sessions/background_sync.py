"""Background sync of session files: after the turns that wrote them, in one thread, batched."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from typing import Protocol

PAUSE_SECONDS = 0.05
"""Delay before a sync, to batch it with others: waking a thread for each turn costs more than the sync."""


class Syncable(Protocol):
    """A file that can be synced to the medium."""

    def sync(self) -> None:
        """Sync, in the thread. :raises OSError: the disk refused."""
        ...


OnError = Callable[[OSError], None]


class BackgroundSync:
    """The files that wait for their sync. One thread, so that no file is closed during its sync."""

    def __init__(self) -> None:
        self._pending: dict[Syncable, OnError] = {}
        self._busy: set[Syncable] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def schedule(self, thing: Syncable, refused: OnError) -> None:
        """Sync it after a short delay; ``refused`` is called in the loop's thread if the disk refuses."""
        loop = asyncio.get_running_loop()
        if not self._pending or loop is not self._loop:
            loop.call_later(PAUSE_SECONDS, self._submit)
        self._pending[thing], self._loop = refused, loop

    def sync_now(self, thing: Syncable) -> "Future[None]":
        """Sync it at once."""
        self._pending.pop(thing, None)
        return self._thread.submit(thing.sync)

    def finish(self, thing: Syncable) -> None:
        """Finish pending syncs of a file before it is closed."""
        waited = self._pending.pop(thing, None) is not None
        if waited or thing in self._busy:
            with suppress(OSError):
                self._thread.submit(thing.sync).result()

    def close(self) -> None:
        """Let the thread end after what it was given. A later sync starts another one."""
        if thread := self.__dict__.pop("_thread", None):
            thread.shutdown(wait=False)

    def _submit(self) -> None:
        due, self._pending = self._pending, {}
        if due:
            self._busy.update(due)
            self._thread.submit(self._sync_all, due, asyncio.get_running_loop())

    def _sync_all(self, due: dict[Syncable, OnError], loop: asyncio.AbstractEventLoop) -> None:
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
