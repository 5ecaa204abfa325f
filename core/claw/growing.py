"""What is made of a conversation, kept while it grows: a call then costs what came new, not the whole past."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, Protocol, TypeVar


class Grows(Protocol):
    """Takes the items of a sequence one by one.

    One that has ``fork()`` too, which answers with a copy that grows on its own, is not read anew when the end of a
    conversation changes: the newest message of a chat is sent once with what is known of its sender, and then without.
    """

    def add(self, item: Any, /) -> None: ...


T = TypeVar("T", bound=Grows)


class _Kept(Generic[T]):
    """One conversation: what was made of all of it, and of the part at its start that has outlived every change."""

    def __init__(self, begin: Callable[[], T]) -> None:
        self._begin = begin
        self._root: tuple[tuple[Any, ...], T] | None = None
        self._tip: tuple[tuple[Any, ...], T] = (), begin()

    def of(self, items: tuple[Any, ...]) -> T:
        known, made = self._tip
        if items[: len(known)] != known:
            known, made = self._branch(items, known)
        for item in items[len(known) :]:
            made.add(item)
        self._tip = items, made
        return made

    def _branch(self, items: tuple[Any, ...], known: tuple[Any, ...]) -> tuple[tuple[Any, ...], T]:
        settled, made = self._root or ((), self._begin())
        if items[: len(settled)] != settled:
            settled, made = (), self._begin()
        fork = getattr(made, "fork", None)
        if fork is None:
            return settled, made
        same = len(settled)
        for new, old in zip(items[same:], known[same:], strict=False):
            if new is not old:
                break
            made.add(new)
            same += 1
        self._root = items[:same], made
        return items[:same], fork()


MOST_KEPT = 256
"""Conversations: a house where more than these talk at once reads the whole past of some with each call."""
MOST_ITEMS = 8192
"""Of all of them together, some megabytes; a conversation that alone is longer is kept while it is the newest."""


class Growing(Generic[T]):
    """The newest conversations, each with what was made of it.

    A conversation is known by its first item and by ``about``. Its items are frozen, and the same ones come again with
    every call of a session: they are compared, which is quick for the same ones. What no longer fits is read anew.

    :param begin: makes the empty thing that the items are added to; it is given ``about``.
    :param most: how many conversations are kept; the one not asked for longest goes.
    :param most_items: how many items they may have together.
    """

    def __init__(self, begin: Callable[..., T], most: int = MOST_KEPT, most_items: int = MOST_ITEMS) -> None:
        self._begin, self._most, self._most_items = begin, most, most_items
        self._kept: dict[Hashable, tuple[Sequence[Any], _Kept[T]]] = {}
        self._items = 0

    def of(self, items: Sequence[Any], *about: Hashable) -> T:
        """What was made of ``items``, all of them. It is lent until the next call; do not change it.

        :param about: what else it depends on.
        """
        if not items:
            return self._begin(*about)
        key = (about, id(items[0]))  # nobody else gets this id while the item is kept
        known = self._kept.pop(key, None)
        self._items -= len(known[0]) if known else 0
        kept = known[1] if known else _Kept(lambda: self._begin(*about))
        whole = tuple(items)
        made = kept.of(whole)  # when an item cannot be read, the conversation is forgotten
        self._kept[key] = whole, kept
        self._items += len(whole)
        while len(self._kept) > 1 and (len(self._kept) > self._most or self._items > self._most_items):
            gone, _ = self._kept.pop(next(iter(self._kept)))
            self._items -= len(gone)
        return made
