"""A cache of values that grow with a conversation: what was computed for its beginning is not computed again."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, Protocol, TypeVar


class Accumulator(Protocol):
    """An accumulator that takes the items of a sequence one by one.

    One that also has ``fork()``, which returns an independent copy, is not rebuilt when the end of a
    conversation changes: the newest message of a chat is sent once with its sender's metadata, and later
    without.
    """

    def add(self, item: Any, /) -> None: ...


T = TypeVar("T", bound=Accumulator)


class _Entry(Generic[T]):
    """One conversation: the accumulators of all its items, and of the prefix that outlived every change."""

    def __init__(self, begin: Callable[[], T]) -> None:
        self._begin = begin
        self._prefix: tuple[tuple[Any, ...], T] | None = None
        self._latest: tuple[tuple[Any, ...], T] = (), begin()

    def of(self, items: tuple[Any, ...]) -> T:
        known, value = self._latest
        if items[: len(known)] != known:
            known, value = self._branch(items, known)
        for item in items[len(known) :]:
            value.add(item)
        self._latest = items, value
        return value

    def _branch(self, items: tuple[Any, ...], known: tuple[Any, ...]) -> tuple[tuple[Any, ...], T]:
        prefix, value = self._prefix or ((), self._begin())
        if items[: len(prefix)] != prefix:
            prefix, value = (), self._begin()
        fork = getattr(value, "fork", None)
        if fork is None:
            return prefix, value
        same = len(prefix)
        for new, old in zip(items[same:], known[same:], strict=False):
            if new is not old:
                break
            value.add(new)
            same += 1
        self._prefix = items[:same], value
        return items[:same], fork()


MAX_CONVERSATIONS = 256
"""Conversations. When more are active at once, the whole history of some is read again with each call."""
MAX_ITEMS = 8192
"""Items of all conversations, some megabytes; a longer single one is kept while it is the newest."""


class IncrementalCache(Generic[T]):
    """A cache of the newest conversations, each with its accumulator.

    A conversation is identified by its first item and by ``about``. Its items are frozen, and every call of a
    session passes the same objects: they compare fast. A conversation that no longer matches is read again.

    :param begin: makes an empty accumulator; it is given ``about``.
    :param most: how many conversations are kept; the least recently used one is dropped.
    :param most_items: how many items they may have together.
    """

    def __init__(
        self, begin: Callable[..., T], most: int = MAX_CONVERSATIONS, most_items: int = MAX_ITEMS
    ) -> None:
        self._begin, self._most, self._most_items = begin, most, most_items
        self._kept: dict[Hashable, tuple[Sequence[Any], _Entry[T]]] = {}
        self._items = 0

    def get(self, items: Sequence[Any], *about: Hashable) -> T:
        """Return the accumulator of all ``items``. It is valid until the next call; do not change it.

        :param about: what else it depends on.
        """
        if not items:
            return self._begin(*about)
        key = (about, id(items[0]))  # the id is unique while the item is kept
        known = self._kept.pop(key, None)
        self._items -= len(known[0]) if known else 0
        kept = known[1] if known else _Entry(lambda: self._begin(*about))
        whole = tuple(items)
        value = kept.of(whole)  # an item that raises drops the conversation
        self._kept[key] = whole, kept
        self._items += len(whole)
        while len(self._kept) > 1 and (len(self._kept) > self._most or self._items > self._most_items):
            dropped, _ = self._kept.pop(next(iter(self._kept)))
            self._items -= len(dropped)
        return value
