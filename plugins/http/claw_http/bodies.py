"""Reading a body within limits of bytes and time, and few of them at once while nobody knows who sends them.

Of more than ``AT_ONCE``, or more than ``TOGETHER_BYTES``, the one that has been read longest is given up: who sends
slowly makes room for who sends at once.
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
    """More bytes than the route takes."""


class TooSlow(Exception):
    """Not there in time, or given up for others."""


class Gone(Exception):
    """The caller left."""


class Incoming:
    """What a caller sends, and whether a part of it is still to come.

    :ivar unread: a body was announced, and its end was not seen.
    """

    def __init__(self, receive: Receive, has_body: bool) -> None:
        self._receive, self.unread = receive, has_body

    async def __call__(self) -> Mapping[str, Any]:
        message = await self._receive()
        if not message.get("more_body"):
            self.unread = False
        return message


class Bodies:
    """The bodies of strangers that are being read."""

    def __init__(self) -> None:
        self._reading: dict[asyncio.Timeout, int] = {}  # in order of arrival, with the bytes so far

    def __len__(self) -> int:
        return len(self._reading)

    async def read(self, receive: Receive, most_bytes: int, seconds: float) -> bytes:
        """One whole body.

        :raises TooLarge: it is larger than ``most_bytes``.
        :raises TooSlow: it took longer than ``seconds``, or others needed its place.
        :raises Gone: the caller left before its end.
        """
        if len(self._reading) >= AT_ONCE:
            self._give_up_oldest()
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                self._reading[limit] = 0
                return await _read(receive, most_bytes, lambda count: self._grew(limit, count))
        except TimeoutError:
            raise TooSlow from None
        finally:
            self._reading.pop(limit, None)

    def _grew(self, limit: asyncio.Timeout, count: int) -> None:
        if limit in self._reading:
            self._reading[limit] = count
        while len(self._reading) > 1 and sum(self._reading.values()) > TOGETHER_BYTES:
            self._give_up_oldest()

    def _give_up_oldest(self) -> None:
        oldest = next(iter(self._reading))
        del self._reading[oldest]
        with suppress(RuntimeError):  # its time is up already
            oldest.reschedule(asyncio.get_running_loop().time())


async def read(receive: Receive, most_bytes: int, seconds: float) -> bytes:
    """One whole body of somebody we know.

    :raises TooLarge: and the others, as :meth:`Bodies.read`.
    """
    try:
        async with asyncio.timeout(seconds):
            return await _read(receive, most_bytes, lambda count: None)
    except TimeoutError:
        raise TooSlow from None


async def drained(receive: Receive) -> None:
    """Take what a refused caller still sends, for a moment: a socket closed before that loses the refusal."""
    with suppress(TimeoutError, TooLarge, Gone):
        async with asyncio.timeout(_DRAINED_SECONDS):
            await _read(receive, _DRAINED_BYTES, lambda count: None, keep=False)


async def _read(
    receive: Receive, most_bytes: int, grew: Callable[[int], None], *, keep: bool = True
) -> bytes:
    body, count = bytearray(), 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Gone
        piece = message.get("body", b"")
        count += len(piece)
        if count > most_bytes:
            raise TooLarge
        if keep:
            body += piece
        grew(count)
        if not message.get("more_body"):
            return bytes(body)
