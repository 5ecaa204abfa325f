"""The most tools of one plugin, shared among the sources from which it takes them. Pure."""

from collections.abc import Hashable, Mapping
from typing import TypeVar

Source = TypeVar("Source", bound=Hashable)

MOST_TOOLS = 500
"""Of one plugin: claw sets a plugin with more aside (``claw.host.registry``)."""


def tool_shares(counts: Mapping[Source, int], most: int = MOST_TOOLS) -> dict[Source, int]:
    """Return how many tools each source may bring: all of a small one, and an equal share of the rest for each large one.

    :param counts: name of the source → the number of its tools.
    """
    shares = dict[Source, int]()
    for name, count in sorted(counts.items(), key=lambda one: one[1]):
        shares[name] = min(count, (most - sum(shares.values())) // (len(counts) - len(shares)))
    return shares
