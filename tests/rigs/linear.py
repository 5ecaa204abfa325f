"""Is a log that many write a log? A model of its own, in plain data: appends have one order, and time agrees with it.

It uses no code of claw. The notes of the writers outside of the log, and the content of the log at the end, are a
history. Because the log tells the order, every operation has a rank: the n-th append 2n + 1, a read that saw n values
2n. It is linearisable when each append is in the log as often as it was confirmed, each read saw the beginning of the
log, and no operation that ended before another began ranks behind it.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf


@dataclass(frozen=True)
class Append:
    """A value was to be written.

    :param began: of one clock for all writers; ``ended`` is infinite when the write was not confirmed.
    """

    value: str
    began: float
    ended: float = inf


@dataclass(frozen=True)
class Read:
    """The log was read.

    :param count: how many values it had; ``digest`` is ``digest_of`` them.
    """

    count: int
    digest: str
    began: float
    ended: float


@dataclass(frozen=True)
class History:
    """The operations that were noted, and the content of the log once no writer runs."""

    appends: Sequence[Append]
    reads: Sequence[Read]
    log: Sequence[str]


def digest_of(values: Sequence[str]) -> str:
    """Return the digest that a read notes in place of all values."""
    return _short(hashlib.sha1("".join(f"{value}\n" for value in values).encode()))


def faults(history: History) -> list[str]:
    """Return every violation of a log's order; empty for a linearisable history."""
    return [*_membership(history), *_beginnings(history), *_order(history)]


def _membership(history: History) -> Iterator[str]:
    times, wanted = Counter(history.log), {append.value: append for append in history.appends}
    for value, count in times.items():
        if value not in wanted:
            yield f"invented: {value} was written by nobody"
        if count > 1:
            yield f"twice: {value} stands there {count} times"
    for append in history.appends:
        if append.ended < inf and append.value not in times:
            yield f"lost: {append.value} was acknowledged"


def _beginnings(history: History) -> Iterator[str]:
    digests, running = [_short(hashlib.sha1())], hashlib.sha1()
    for value in history.log:
        running.update(f"{value}\n".encode())
        digests.append(_short(running))
    for read in history.reads:
        if read.count >= len(digests) or digests[read.count] != read.digest:
            yield f"no beginning: a read at {read.began} saw {read.count} values that the log does not begin with"


def _order(history: History) -> Iterator[str]:
    places = {value: place for place, value in enumerate(history.log)}
    ranked = [
        (append.began, append.ended, 2 * places[append.value] + 1, append.value)
        for append in history.appends
        if append.value in places
    ]
    ranked += [(read.began, read.ended, 2 * read.count, f"a read of {read.count}") for read in history.reads]
    ends = sorted((ended, rank, name) for _, ended, rank, name in ranked)
    at, highest, before = 0, -1, ""
    for began, _, rank, name in sorted(ranked):
        while at < len(ends) and ends[at][0] < began:
            if ends[at][1] > highest:
                _, highest, before = ends[at]
            at += 1
        if highest > rank:
            yield f"back in time: {name} began when {before} had ended, and ranks before it"


def _short(made: "hashlib._Hash") -> str:
    return made.hexdigest()[:16]
