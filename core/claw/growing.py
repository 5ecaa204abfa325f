"""What is made of a conversation, kept while it grows: a call then costs what came new, not the whole past."""

from collections.abc import Callable, Hashable, Sequence
from operator import is_
from typing import Any, Generic, Protocol, TypeVar


class Grows(Protocol):
    """Takes the items of a sequence one by one."""

    def add(self, item: Any, /) -> None: ...


T = TypeVar("T", bound=Grows)


class Growing(Generic[T]):
    """The newest few conversations, each with what was made of it.

    A conversation is known by its first item and by ``about``. Items are compared by identity: they are frozen, and
    the same ones come again with every call of a session. When a past is not the one known, it is read from its start.

    :param begin: makes the empty thing that the items are added to; it is given ``about``.
    :param most: how many conversations are kept; the one not asked for longest goes.
    """

    def __init__(self, begin: Callable[..., T], most: int = 16) -> None:
        self._begin, self._most = begin, most
        self._kept: dict[Hashable, tuple[tuple[Any, ...], T]] = {}

    def of(self, items: Sequence[Any], *about: Hashable) -> T:
        """What was made of ``items``, all of them. It is lent until the next call; do not change it.

        :param about: what else it depends on.
        """
        if not items:
            return self._begin(*about)
        key = (about, id(items[0]))  # nobody else gets this id while the item is kept
        kept = self._kept.pop(key, None)
        if kept is None or len(kept[0]) > len(items) or not all(map(is_, kept[0], items)):
            kept = (), self._begin(*about)
        read, made = kept
        for item in items[len(read) :]:
            made.add(item)
        self._kept[key] = tuple(items), made
        if len(self._kept) > self._most:
            del self._kept[next(iter(self._kept))]
        return made
