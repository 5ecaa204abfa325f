"""Reading a body within limits of bytes and time, and few at once from unauthenticated callers.

With more than ``AT_ONCE`` bodies, or more than ``TOGETHER_BYTES``, the one that has been read longest is
dropped, so that
slow senders cannot block others.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

AT_ONCE = 64
TOGETHER_BYTES = 8 << 20
_DRAINED_BYTES, _DRAINED_SECONDS = 256 << 10, 0.5

Receive = Callable[[], Awaitable[Mapping[str, Any]]]


class TooLarge(Exception):
    """The body is larger than the route accepts."""


class TooSlow(Exception):
    """The body did not arrive in time, or was dropped in favour of others."""


class Disconnected(Exception):
    """The caller disconnected."""


class Incoming:
    """The body that a caller sends.

    :ivar unread: a body was announced, and its end was not read.
    """

    def __init__(self, receive: Receive, has_body: bool) -> None:
        self._receive, self.unread = receive, has_body

    async def __call__(self) -> Mapping[str, Any]:
        message = await self._receive()
        if not message.get("more_body"):
            self.unread = False
        return message


class BodyReader:
    """The bodies of unauthenticated callers that are being read."""

    def __init__(self) -> None:
        self._reading: dict[asyncio.Timeout, int] = {}  # in order of arrival, with the bytes so far

    def __len__(self) -> int:
        return len(self._reading)

    async def read(self, receive: Receive, most_bytes: int, seconds: float) -> bytes:
        """Read one whole body.

        :raises TooLarge: it is larger than ``most_bytes``.
        :raises TooSlow: it took longer than ``seconds``, or was dropped in favour of others.
        :raises Disconnected: the caller disconnected before its end.
        """
        if len(self._reading) >= AT_ONCE:
            self._give_up_oldest()
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                self._reading[limit] = 0
                return await _read(receive, most_bytes, lambda count: self._count_bytes(limit, count))
        except TimeoutError:
            raise TooSlow from None
        finally:
            self._reading.pop(limit, None)

    def _count_bytes(self, limit: asyncio.Timeout, count: int) -> None:
        if limit in self._reading:
            self._reading[limit] = count
        while len(self._reading) > 1 and sum(self._reading.values()) > TOGETHER_BYTES:
            self._give_up_oldest()

    def _give_up_oldest(self) -> None:
        oldest = next(iter(self._reading))
        del self._reading[oldest]
        with suppress(RuntimeError):  # its timeout has expired already
            oldest.reschedule(asyncio.get_running_loop().time())


async def read(receive: Receive, most_bytes: int, seconds: float) -> bytes:
    """Read one whole body of an authenticated caller.

    :raises TooLarge: and the others, as :meth:`BodyReader.read`.
    """
    try:
        async with asyncio.timeout(seconds):
            return await _read(receive, most_bytes, lambda count: None)
    except TimeoutError:
        raise TooSlow from None


async def drained(receive: Receive) -> None:
    """Read and discard what a refused caller still sends, briefly: a socket closed before that loses the
    response.
    """
    with suppress(TimeoutError, TooLarge, Disconnected):
        async with asyncio.timeout(_DRAINED_SECONDS):
            await _read(receive, _DRAINED_BYTES, lambda count: None, keep=False)


async def _read(
    receive: Receive, most_bytes: int, grew: Callable[[int], None], *, keep: bool = True
) -> bytes:
    body, count = bytearray(), 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        piece = message.get("body", b"")
        count += len(piece)
        if count > most_bytes:
            raise TooLarge
        if keep:
            body += piece
        grew(count)
        if not message.get("more_body"):
            return bytes(body)
