"""Split a text into chunks of whole lines for the index. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

CHARS_A_TOKEN = 4
_LEAST_CHARS = 32


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole lines of a file, or a part of a line that is longer than a chunk.

    :param start: its first line, counted from 1; ``end``: its last one, inclusive.
    """

    start: int
    end: int
    text: str


def cut(text: str, chunk_tokens: int, overlap_tokens: int = 0) -> tuple[Chunk, ...]:
    """Split the text into chunks of at most ``chunk_tokens`` (four characters each), in order. An empty text
    is one chunk.

    :param overlap_tokens: a chunk begins with the last lines of the previous one, up to this size.
    """
    most, overlap = max(_LEAST_CHARS, chunk_tokens * CHARS_A_TOKEN), max(0, overlap_tokens * CHARS_A_TOKEN)
    pieces: list[Chunk] = []
    held: list[tuple[int, str]] = []
    size = 0
    for number, part in _parts(text, most):
        if held and size + _cost(part) > most:
            pieces.append(_piece(held))
            held = _tail(held, overlap)
            size = sum(_cost(kept) for _, kept in held)
        held.append((number, part))
        size += _cost(part)
    return (*pieces, _piece(held))


def _parts(text: str, most: int) -> Iterator[tuple[int, str]]:
    """Yield every line with its number; split a line that is longer than ``most``."""
    for number, line in enumerate(text.split("\n"), 1):
        for at in range(0, max(len(line), 1), most):
            yield number, line[at : at + most]


def _tail(held: list[tuple[int, str]], overlap: int) -> list[tuple[int, str]]:
    size, at = 0, len(held)
    while at > 0 and size < overlap:
        at -= 1
        size += _cost(held[at][1])
    return held[at:]


def _cost(part: str) -> int:
    return len(part) + 1


def _piece(held: list[tuple[int, str]]) -> Chunk:
    return Chunk(held[0][0], held[-1][0], "\n".join(part for _, part in held))
