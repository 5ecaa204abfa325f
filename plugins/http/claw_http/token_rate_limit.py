"""A rate limit for wrong tokens, per address and for all addresses, against guessing. Pure.

The right token is never limited: wrong ones delay only those who send them.
"""

from collections import OrderedDict, deque
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Network = IPv4Network | IPv6Network

WINDOW_SECONDS = 60.0
PER_ADDRESS = 10
ALTOGETHER = 100
"""Maximum of wrong tokens per minute (spec, P35); a page of typing errors stays far below."""
_KEPT = 4096  # maximum number of remembered addresses


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


def caller_address(peer: str, forwarded: str, proxies: Sequence[Network]) -> str:
    """Return the address of a caller: the last one in ``X-Forwarded-For`` that no trusted proxy has.

    :param peer: address of the socket.
    :param forwarded: the header, its values joined by commas; believed only if a trusted proxy sent it.
    """
    for name in reversed([one.strip() for one in forwarded.split(",") if one.strip()]):
        if not is_proxy(peer, proxies):
            break
        try:
            ip_address(name)
        except ValueError:  # with a port, or no address at all: the proxy's own is certain
            break
        peer = name
    return peer


def is_proxy(peer: str, proxies: Sequence[Network]) -> bool:
    """Return true if a trusted proxy has this address."""
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return False
    plain = getattr(address, "ipv4_mapped", None) or address
    return any(plain in network for network in proxies)


class Attempts:
    """The wrong tokens of the last minute. Times are seconds of any one clock."""

    def __init__(self) -> None:
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()
        self._all: deque[float] = deque(maxlen=ALTOGETHER)

    def wait_seconds(self, peer: str, now: float) -> float:
        """Return how long a caller with a wrong token is delayed; 0 = not at all."""
        own = _left(self._wrong.get(canonical(peer), deque()), PER_ADDRESS, now)
        return max(own, _left(self._all, ALTOGETHER, now))

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


def _left(times: deque[float], most: int, now: float) -> float:
    """Return the time until fewer than ``most`` of ``times`` are in the window."""
    return max(0.0, times[0] + WINDOW_SECONDS - now) if len(times) == most else 0.0
