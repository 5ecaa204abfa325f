"""A rate limit for wrong tokens, per address and for all addresses, against guessing. Pure.

An address that recently sent the right token is not affected by others.
"""

from collections import OrderedDict, deque
from ipaddress import IPv6Address, ip_address, ip_network

WINDOW_SECONDS = 60.0
PER_ADDRESS = 10
ALTOGETHER = 100
"""Maximum of wrong tokens per minute (spec, P35); a page of typing errors stays far below."""
_KEPT = 4096  # maximum number of remembered addresses
_TRUSTED_SECONDS = 3600.0


def canonical(peer: str) -> str:
    """Return one spelling per caller: IPv4 for IPv4 in IPv6, and for IPv6 the 64-bit network that one
    person gets.
    """
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped:
            return str(address.ipv4_mapped)
        if not address.is_loopback:
            return str(ip_network((address, 64), strict=False))
    return str(address)


class Attempts:
    """The wrong tokens of the last minute. Times are seconds of any one clock."""

    def __init__(self) -> None:
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()
        self._all: deque[float] = deque(maxlen=ALTOGETHER)
        self._right: OrderedDict[str, float] = OrderedDict()

    def wait_seconds(self, peer: str, now: float) -> float:
        """Return how long tokens of this caller are refused unchecked; 0 = not at all."""
        who = canonical(peer)
        own = _left(self._wrong.get(who, deque()), PER_ADDRESS, now)
        trusted = now - self._right.get(who, -_TRUSTED_SECONDS) < _TRUSTED_SECONDS
        return own if trusted else max(own, _left(self._all, ALTOGETHER, now))

    def wrong(self, peer: str, now: float) -> bool:
        """Record a wrong token; return True when it exceeds the limit."""
        who = canonical(peer)
        times = self._wrong.setdefault(who, deque(maxlen=PER_ADDRESS))
        self._wrong.move_to_end(who)
        times.append(now)
        self._all.append(now)
        while len(self._wrong) > _KEPT:
            self._wrong.popitem(last=False)
        return self.wait_seconds(peer, now) > 0

    def right(self, peer: str, now: float) -> None:
        """Record the right token."""
        who = canonical(peer)
        self._right[who] = now
        self._right.move_to_end(who)
        while len(self._right) > _KEPT:
            self._right.popitem(last=False)


def _left(times: deque[float], most: int, now: float) -> float:
    """Return the time until fewer than ``most`` of ``times`` are in the window."""
    return max(0.0, times[0] + WINDOW_SECONDS - now) if len(times) == most else 0.0
