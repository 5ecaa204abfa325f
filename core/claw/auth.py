"""Named keys of a provider, and the order in which they are tried. A secret never prints.

First form: the order is what the operator wrote. Cooldowns, pins and stored profiles come with the issue on
models.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Credential:
    """A named key. Its ``repr`` never shows it.

    :param name: profile name, ``main``.
    :param secret: what goes on the wire; empty for a local service that needs none.
    """

    name: str
    secret: str = field(repr=False)


def in_order(keys: Sequence[Credential], order: Sequence[str] = ()) -> tuple[Credential, ...]:
    """The keys to try: those of ``order`` first and in that order, the rest behind, each name once."""
    by_name: dict[str, Credential] = {}
    for key in keys:
        by_name.setdefault(key.name, key)
    named = [by_name.pop(name) for name in dict.fromkeys(order) if name in by_name]
    return (*named, *by_name.values())
