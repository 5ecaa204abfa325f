"""One connection of the listener: uvicorn's HTTP/1.1 protocol, with limits that uvicorn lacks.

A connection must send the head of a request in time; of many idle connections, the oldest are closed. Imported with
the first connection (:mod:`claw_http.listener`): uvicorn imports click and multiprocessing, 3 MB.
"""

import asyncio
import logging
import select
import socket
import struct
import sys
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, h11
from uvicorn.server import ServerState

from claw_http.failures import BadRequest

HEAD_SECONDS = 10.0
HEAD_BYTES = 16 << 10
READ_BYTES = 32 << 10
"""Bytes per read of a socket: a caller's bytes are held in four copies (asyncio reads 256 KiB)."""
IDLE_CONNECTIONS = 256
"""Connections without a request beyond which the oldest are closed, once they had ``SETTLE_SECONDS`` for a head."""
YOUNG_CONNECTIONS = 1024
"""Connections without a request beyond which no more are accepted until some have a request or are closed."""
SETTLE_SECONDS = 3.0
TRIM_SECONDS = 1.0
CROWDED_SECONDS = 1.0
"""The same while no more connections are accepted."""
SILENT_SECONDS = 5.0 if sys.platform.startswith("linux") else 0.0
"""The least time for connections that have sent no byte: a program that begins a thousand calls at once is slow to send.

Where the system does not count the time in the backlog, each of them would hold its place for so long."""
TAKEN_SECONDS = 30.0
"""A caller that reads nothing of a pending response for this time is disconnected; asyncio would wait for
ever.
"""
STOP_SECONDS = 1.0
REFUSED_SECONDS = 0.5
"""A caller that sends no HTTP may send so long before its connection is closed."""


_log = logging.getLogger(__name__)
_log.setLevel(logging.ERROR)
"""Callers can trigger uvicorn's warnings at will, which would flood the log."""


@dataclass(slots=True)
class IdleConnection:
    """A connection without a request.

    :ivar since: when it began to wait, by the clock of the loop.
    :ivar is_silent: it has sent no byte yet.
    """

    timer: asyncio.TimerHandle
    since: float
    is_silent: bool

    def may_be_closed(self, now: float, settle_seconds: float) -> bool:
        """Return true if it had time to send a head."""
        return now - self.since >= (max(settle_seconds, SILENT_SECONDS) if self.is_silent else settle_seconds)


class IdleConnections:
    """The connections without a request, in order of the time they began to wait."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.BaseTransport, IdleConnection] = {}
        self._trim: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def began(self, transport: asyncio.BaseTransport, *, is_new: bool = False) -> None:
        """Add a connection; keep its start time if it waited before."""
        if transport in self._waiting or transport.is_closing():
            return
        loop = asyncio.get_running_loop()
        timer = loop.call_later(HEAD_SECONDS, self._close, transport)
        since = loop.time() - (silent_seconds(transport) if is_new else 0.0)
        self._waiting[transport] = IdleConnection(timer, since, is_new)
        self._trim_oldest()

    def spoke(self, transport: asyncio.BaseTransport) -> None:
        """Note that a connection has sent a part of a head."""
        if idle := self._waiting.get(transport):
            idle.is_silent = False

    def ended(self, transport: asyncio.BaseTransport) -> None:
        """Remove a connection that has a request or is closed."""
        if idle := self._waiting.pop(transport, None):
            idle.timer.cancel()

    def close_oldest(self, settle_seconds: float) -> bool:
        """Close the oldest connection that had time to send a head; return false if there is none."""
        now = asyncio.get_running_loop().time()
        found = (one for one, idle in self._waiting.items() if idle.may_be_closed(now, settle_seconds))
        oldest = next(found, None)
        if oldest is not None:
            self._close(oldest)
        return oldest is not None

    def _trim_oldest(self) -> None:
        """Close old connections beyond the limit, now and as soon as the next one is old."""
        if len(self._waiting) <= IDLE_CONNECTIONS or self._trim is not None:
            return
        while len(self._waiting) > IDLE_CONNECTIONS and self.close_oldest(SETTLE_SECONDS):
            pass
        if len(self._waiting) > IDLE_CONNECTIONS:
            self._trim = asyncio.get_running_loop().call_later(TRIM_SECONDS, self._trim_again)

    def _trim_again(self) -> None:
        self._trim = None
        self._trim_oldest()

    def _close(self, transport: asyncio.BaseTransport) -> None:
        self.ended(transport)
        transport.close()


def silent_seconds(transport: asyncio.BaseTransport) -> float:
    """Return for how long a new connection has been open without a byte, also in the backlog; 0 if bytes wait to be read,
    or the system does not count it (tcp(7), TCP_INFO; linux/tcp.h: tcpi_last_data_recv).
    """
    connection = transport.get_extra_info("socket")
    if not sys.platform.startswith("linux") or connection is None:
        return 0.0
    look = select.poll()
    try:
        look.register(connection, select.POLLIN)
        if look.poll(0):
            return 0.0
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 56)
        return float(struct.unpack_from("=I", info, 52)[0]) / 1000
    except (OSError, ValueError, struct.error):  # it is no TCP socket, or was closed
        return 0.0


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

    def finish(self) -> None:
        """Flush the buffer, and end the stream to the caller, who may still send."""
        self._send()
        with suppress(OSError, RuntimeError):  # the connection is lost
            self._transport.write_eof()

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
        self._is_refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Extend uvicorn's method: start the timeout of the head."""
        with suppress(AttributeError):  # of asyncio's own transport
            transport.max_size = READ_BYTES  # type: ignore[attr-defined]
        super().connection_made(BufferedTransport(transport))  # type: ignore[arg-type]
        self._idle.began(self.transport, is_new=True)

    def data_received(self, data: bytes) -> None:
        """Extend uvicorn's method."""
        if self._is_refused:
            return
        super().data_received(data)
        self._idle.spoke(self.transport)
        self._update_idle()

    def send_400_response(self, msg: str) -> None:
        """Replace uvicorn's method: the error has the form of the others, and says what is wrong."""
        status = int(getattr(sys.exception(), "error_status_hint", 400))  # 431: the head is too long
        problem = f"the head of a request has {HEAD_BYTES} bytes at most" if status == 431 else msg
        error = BadRequest(status, problem, code="invalid_http")
        headers = {"content-type": "application/json", "content-length": str(len(error.body))}
        headers |= {"connection": "close", "x-request-id": f"req_{uuid.uuid4().hex}"}
        events = h11.Response(status_code=status, headers=list(headers.items())), h11.Data(data=error.body)
        with suppress(h11.LocalProtocolError):  # another response has begun
            for event in (*events, h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self._is_refused = True
        # Who closes while the caller sends resets the connection, and the caller reads no error.
        self.transport.finish()  # type: ignore[attr-defined]
        asyncio.get_running_loop().call_later(REFUSED_SECONDS, self.transport.close)

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
            timeout_keep_alive=int(
                HEAD_SECONDS
            ),  # longer than callers do (httpx: 5 s), so that none is cut off as it calls
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
