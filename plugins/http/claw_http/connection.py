"""One connection of the listener: uvicorn's HTTP/1.1 protocol, with limits that uvicorn has not.

A connection must bring the head of a request in time; of those that do not, the oldest make room for new ones. Imported
when the first caller comes (:mod:`claw_http.listener`): uvicorn brings click and multiprocessing, 3 MB.
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
"""Taken from a socket at once: a caller's bytes lie in four places on their way (asyncio takes 256 KiB)."""
IDLE_CONNECTIONS = 256
"""Connections without a request, at most."""
TAKEN_SECONDS = 30.0
"""Who takes nothing of what waits for him for so long is let go; asyncio would keep the connection for ever."""
STOP_SECONDS = 1.0


_log = logging.getLogger(__name__)
_log.setLevel(logging.ERROR)
"""What uvicorn warns of, anybody can send, and as often as he likes: it would push all else out of the log."""


class Idle:
    """The connections that bring no request just now, those that began to wait first in front."""

    def __init__(self) -> None:
        self._since: dict[asyncio.BaseTransport, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._since)

    def began(self, transport: asyncio.BaseTransport) -> None:
        """It waits; the time that it has runs on if it waited before."""
        if transport in self._since or transport.is_closing():
            return
        while len(self._since) >= IDLE_CONNECTIONS:
            self._close(next(iter(self._since)))
        loop = asyncio.get_running_loop()
        self._since[transport] = loop.call_later(HEAD_SECONDS, self._close, transport)

    def ended(self, transport: asyncio.BaseTransport) -> None:
        """It has a request, or is gone."""
        if timer := self._since.pop(transport, None):
            timer.cancel()

    def _close(self, transport: asyncio.BaseTransport) -> None:
        self.ended(transport)
        transport.close()


class Joined:
    """A transport that sends what is written in one go of the loop as one: head and body of an answer are two writes."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._held: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Hold it until the loop comes round."""
        if not self._held:
            asyncio.get_running_loop().call_soon(self._send)
        self._held.append(data)

    def close(self) -> None:
        """Send what is held, and close; who does not take it is not waited for."""
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

    def __init__(self, idle: Idle, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._idle, self.logger = idle, _log
        self._stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """As uvicorn's; the head's time runs from here."""
        with suppress(AttributeError):  # of asyncio's own transport
            transport.max_size = READ_BYTES  # type: ignore[attr-defined]
        super().connection_made(Joined(transport))  # type: ignore[arg-type]
        self._idle.began(self.transport)

    def data_received(self, data: bytes) -> None:
        """As uvicorn's."""
        super().data_received(data)
        self._note()

    def on_response_complete(self) -> None:
        """As uvicorn's; what comes next is another head."""
        super().on_response_complete()
        self._note()

    def pause_writing(self) -> None:
        """As uvicorn's; the caller has a while to take what waits for him."""
        super().pause_writing()
        self._stalled = asyncio.get_running_loop().call_later(TAKEN_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """As uvicorn's."""
        self._goes_on()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """As uvicorn's."""
        self._goes_on()
        self._idle.ended(self.transport)
        super().connection_lost(exc)

    def _goes_on(self) -> None:
        if self._stalled:
            self._stalled.cancel()

    def _note(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self._idle.began(self.transport)
        else:
            self._idle.ended(self.transport)


class Connections:
    """All connections that hand their requests to ``app`` (ASGI); called for the protocol of a new one."""

    def __init__(self, app: Callable[..., Any]) -> None:
        self._config = Config(
            app, interface="asgi3", lifespan="off", ws="none", log_config=None, access_log=False,
            proxy_headers=False, server_header=False, date_header=False,
            h11_max_incomplete_event_size=HEAD_BYTES, timeout_keep_alive=5,
        )  # fmt: skip
        self._config.load()
        self._state, self._idle = ServerState(), Idle()

    def __call__(self) -> Protocol:
        """The protocol of one more."""
        return Protocol(self._idle, self._config, self._state, {})

    async def close(self) -> None:
        """Let the requests that run end for a moment, and close."""
        for connection in list(self._state.connections):
            with suppress(Exception):  # uvicorn's state machine may have ended by itself
                connection.shutdown()
        if tasks := set(self._state.tasks):
            await asyncio.wait(tasks, timeout=STOP_SECONDS)
        for connection in list(self._state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)
