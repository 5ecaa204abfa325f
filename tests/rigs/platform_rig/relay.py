"""A TCP relay between HTTP callers and the gateway that cuts connections, in both directions."""

import asyncio
from contextlib import suppress
from typing import Self

from rigs.platform_rig.faults import Fault, Faults


class Relay:
    """A relay to a port of loopback; ``async with``. Each connection draws one fault of method ``connection``.

    :ivar port: callers connect here.
    """

    def __init__(self, target: int, faults: Faults) -> None:
        self._target, self.faults = target, faults
        self.port = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, caller: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        fault = self.faults.next("connection")
        upstream: asyncio.StreamWriter | None = None
        try:
            first = await caller.read(65536)
            if not first or fault is Fault.CUT_BEFORE:
                return
            answers, upstream = await asyncio.open_connection("127.0.0.1", self._target)
            upstream.write(first)
            async with asyncio.TaskGroup() as both:
                both.create_task(_copy(caller, upstream))
                both.create_task(_copy(answers, back, cut=fault is Fault.CUT_AFTER))
        except* (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            for writer in (back, upstream):
                if writer is not None:
                    with suppress(Exception):
                        writer.transport.abort() if fault is not Fault.NONE else writer.close()


class _Ended(OSError):
    """One side has closed its connection."""


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, cut: bool = False) -> None:
    while data := await source.read(65536):
        if cut:
            raise _Ended
        sink.write(data)
        await sink.drain()
    sink.close()
    raise _Ended
