"""The contract of an HTTP route: a path on the gateway's listener that a plugin serves.

The HTTP plugin owns the listener and calls ``register_routes(config)`` of every plugin; these are the types
in between. Before a body is read, ``admit`` judges the head; the body is cut at ``body_bytes`` and
``body_seconds``.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

BODY_BYTES = 1 << 20
BODY_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class WebRequest:
    """An HTTP request.

    :param path: as it was routed; ``query`` behind it, undecoded.
    :param headers: names in lower case; a repeated name has its values joined by ``, ``, so that a comparison
        with a secret refuses both.
    :param body: raw bytes; empty while only the head is known.
    :param peer: address of the caller's socket.
    :param connection: equal for the requests that come over one connection, and for no others at the same time; empty
        when that is not known, and for those of a trusted proxy.
    """

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    peer: str = ""
    connection: str = ""


@dataclass(frozen=True, slots=True)
class WebAnswer:
    """An HTTP response."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WebRoute:
    """A path and its handler.

    :param path: as in a URL, ``/hooks/feishu/default``; matched exactly, case included.
    :param answer: called with the whole request, once ``admit`` let the head pass.
    :param admit: judges the head alone: None lets the body in, a response refuses it unread. The route
        authenticates its callers here or in ``answer``: the gateway's token does not protect it.
    """

    path: str
    answer: Callable[[WebRequest], Awaitable[WebAnswer]]
    admit: Callable[[WebRequest], WebAnswer | None] = lambda request: None
    methods: frozenset[str] = frozenset({"POST"})
    body_bytes: int = BODY_BYTES
    body_seconds: float = BODY_SECONDS
