"""Building blocks of faults: pieces of a valid stream, repeated, cut, packed or changed."""

import asyncio
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from claw_testing import ServiceConnection

from pytest_claw.faults.record import Data

TICK_SECONDS = 0.01
TICKS = 2_000
BIG = 20 * 1024 * 1024


async def for_ever(line: ServiceConnection, pieces: Iterable[bytes]) -> None:
    for piece in pieces:
        await line.send(piece)
        await asyncio.sleep(TICK_SECONDS)


async def chunked(line: ServiceConnection, pieces: Iterable[bytes]) -> None:
    """Send the pieces as HTTP chunks with their head; an empty piece is the end."""
    await line.send_head(transfer_encoding="chunked")
    await line.send(*(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces))


def half(events: list[bytes]) -> list[bytes]:
    return events[: max(1, len(events) // 2)]


def middle(events: list[bytes]) -> int:
    return len(b"".join(half(events)))


def gzipped(data: bytes) -> bytes:
    packing = zlib.compressobj(1, wbits=31)
    return packing.compress(data) + packing.flush()


def twisted(events: Iterable[bytes], change: Callable[[Data], Data]) -> Iterator[bytes]:
    """Yield the events with ``change`` applied to every object in them."""
    for event in events:
        head, mark, data = event.partition(b"data: ")
        if data.startswith(b"{"):
            data = json.dumps(_each(json.loads(data), change), ensure_ascii=False).encode() + b"\n\n"
        yield head + mark + data


def _each(value: Any, change: Callable[[Data], Data]) -> Any:
    if isinstance(value, dict):
        return change({name: _each(inner, change) for name, inner in value.items()})
    return [_each(inner, change) for inner in value] if isinstance(value, list) else value


_WORDS = ("text", "content", "delta", "thinking", "reasoning_content")


def wordless(data: Data) -> Data:
    return {name: "" if name in _WORDS and isinstance(value, str) else value for name, value in data.items()}


def long(data: Data) -> Data:
    return {name: "x" * 65536 for name in _WORDS if isinstance(data.get(name), str) and data[name]}
