"""One connection of the listener: uvicorn's HTTP/1.1 protocol, with limits that uvicorn lacks.

A connection must send the head of a request in time; of many idle connections, the oldest are closed. Imported with
the first connection (:mod:`claw_http.listener`): uvicorn imports click and multiprocessing, 3 MB.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

HEAD_SECONDS = 10.0
HEAD_BYTES = 16 << 10
READ_BYTES = 32 << 10
"""Bytes per read of a socket: a caller's bytes are held in four copies (asyncio reads 256 KiB)."""
IDLE_CONNECTIONS = 256
"""Connections without a request beyond which the oldest are closed, once they had ``SETTLE_SECONDS`` for a head."""
YOUNG_CONNECTIONS = 1024
"""Connections without a request beyond which no more are accepted until some have a request or are closed."""
SETTLE_SECONDS = 3.0
CROWDED_SECONDS = 1.0
"""The same while no more connections are accepted."""
TAKEN_SECONDS = 30.0
"""A caller that reads nothing of a pending response for this time is disconnected; asyncio would wait for
ever.
"""
STOP_SECONDS = 1.0


_log = logging.getLogger(__name__)
_log.setLevel(logging.ERROR)
"""Callers can trigger uvicorn's warnings at will, which would flood the log."""


class IdleConnections:
    """The connections without a request, in order of the time they began to wait."""

    def __init__(self) -> None:
        self._since: dict[asyncio.BaseTransport, asyncio.TimerHandle] = {}
        self._trim: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._since)

    def began(self, transport: asyncio.BaseTransport) -> None:
        """Add a connection; keep its start time if it waited before."""
        if transport in self._since or transport.is_closing():
            return
        loop = asyncio.get_running_loop()
        self._since[transport] = loop.call_later(HEAD_SECONDS, self._close, transport)
        self._trim_oldest()

    def ended(self, transport: asyncio.BaseTransport) -> None:
        """Remove a connection that has a request or is closed."""
        if timer := self._since.pop(transport, None):
            timer.cancel()

    def close_oldest(self, settle_seconds: float) -> bool:
        """Close the oldest connection; return false if it had no time yet to send a head."""
        oldest = next(iter(self._since), None)
        if oldest is None:
            return False
        waited = HEAD_SECONDS + asyncio.get_running_loop().time() - self._since[oldest].when()
        if waited >= settle_seconds:
            self._close(oldest)
        return waited >= settle_seconds

    def _trim_oldest(self) -> None:
        """Close old connections beyond the limit, now and as soon as the next one is old."""
        while len(self._since) > IDLE_CONNECTIONS and self.close_oldest(SETTLE_SECONDS):
            pass
        if len(self._since) > IDLE_CONNECTIONS and self._trim is None:
            self._trim = asyncio.get_running_loop().call_later(SETTLE_SECONDS, self._trim_again)

    def _trim_again(self) -> None:
        self._trim = None
        self._trim_oldest()

    def _close(self, transport: asyncio.BaseTransport) -> None:
        self.ended(transport)
        transport.close()


class BufferedTransport:
    """A transport that joins the writes of one loop iteration: head and body of a response are two writes."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._held: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Buffer the data until the next loop iteration."""
        if not self._held:
            asyncio.get_running_loop().call_soon(self._send)
        self._held.append(data)

    def close(self) -> None:
        """Flush the buffer, and close without waiting for a caller that does not read."""
        self._send()
        self._transport.close()
        if self._transport.get_write_buffer_size():
            asyncio.get_running_loop().call_later(TAKEN_SECONDS, self._transport.abort)

    def _send(self) -> None:
        if self._held:
            data, self._held = b"".join(self._held), []
            self._transport.write(data)


class Protocol(H11Protocol):
    """One connection."""

    def __init__(self, idle: IdleConnections, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._idle, self.logger = idle, _log
        self._stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Extend uvicorn's method: start the timeout of the head."""
        with suppress(AttributeError):  # of asyncio's own transport
            transport.max_size = READ_BYTES  # type: ignore[attr-defined]
        super().connection_made(BufferedTransport(transport))  # type: ignore[arg-type]
        self._idle.began(self.transport)

    def data_received(self, data: bytes) -> None:
        """Extend uvicorn's method."""
        super().data_received(data)
        self._update_idle()

    def on_response_complete(self) -> None:
        """Extend uvicorn's method: another head follows."""
        super().on_response_complete()
        self._update_idle()

    def pause_writing(self) -> None:
        """Extend uvicorn's method: start the timeout for reading the response."""
        super().pause_writing()
        self._stalled = asyncio.get_running_loop().call_later(TAKEN_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Extend uvicorn's method."""
        self._cancel_stall_timer()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Extend uvicorn's method."""
        self._cancel_stall_timer()
        self._idle.ended(self.transport)
        super().connection_lost(exc)

    def _cancel_stall_timer(self) -> None:
        if self._stalled:
            self._stalled.cancel()

    def _update_idle(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self._idle.began(self.transport)
        else:
            self._idle.ended(self.transport)


class Connections:
    """All connections that pass their requests to ``app`` (ASGI); called for the protocol of a new one."""

    def __init__(self, app: Callable[..., Any]) -> None:
        self._config = Config(
            app,
            interface="asgi3",
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            h11_max_incomplete_event_size=HEAD_BYTES,
            timeout_keep_alive=5,
        )
        self._config.load()
        self._state, self._idle = ServerState(), IdleConnections()

    def __call__(self) -> Protocol:
        """Return a protocol for a new connection."""
        return Protocol(self._idle, self._config, self._state, {})

    @property
    def count(self) -> int:
        """The number of open connections."""
        return len(self._state.connections)

    @property
    def is_crowded(self) -> bool:
        """True if so many connections have sent no request that no more are accepted."""
        return len(self._idle) >= YOUNG_CONNECTIONS

    def close_idle(self) -> bool:
        """Close the oldest connection without a request; return false if there is none that may be closed."""
        return self._idle.close_oldest(CROWDED_SECONDS)

    async def finish(self) -> None:
        """Close each connection after its response, and those without a request at once."""
        for connection in list(self._state.connections):
            with suppress(Exception):  # uvicorn's state machine may have ended by itself
                connection.shutdown()
        if tasks := set(self._state.tasks):
            await asyncio.wait(tasks)

    async def close(self) -> None:
        """Give running requests a moment to end, and close."""
        for connection in list(self._state.connections):
            with suppress(Exception):  # uvicorn's state machine may have ended by itself
                connection.shutdown()
        if tasks := set(self._state.tasks):
            await asyncio.wait(tasks, timeout=STOP_SECONDS)
        for connection in list(self._state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)
