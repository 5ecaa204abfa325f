"""The contract of a route: a place on the gateway's listener that a plugin answers.

The HTTP plugin owns the listener and asks every plugin ``register_routes(config)``; this is what goes across. Before a
body is read, ``admit`` has seen the head; the body is cut at ``body_bytes`` and ``body_seconds``.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

BODY_BYTES = 1 << 20
BODY_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class WebRequest:
    """What came in.

    :param path: as it was routed; ``query`` behind it, undecoded.
    :param headers: names in lower case; the values of a name that came twice are joined by ``, ``: whoever compares one
        with a secret refuses both.
    :param body: raw bytes; empty while only the head is known.
    :param peer: address of the caller's socket.
    """

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    peer: str = ""


@dataclass(frozen=True, slots=True)
class WebAnswer:
    """What goes back."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WebRoute:
    """One path and who answers there.

    :param path: as it stands in a URL, ``/hooks/feishu/default``; matched exactly, case and all.
    :param answer: asked with the whole request, once ``admit`` let the head pass.
    :param admit: judges the head alone: None lets the body in, an answer refuses it unread. The route authenticates its
        callers here or in ``answer``: the gateway's token does not guard it.
    """

    path: str
    answer: Callable[[WebRequest], Awaitable[WebAnswer]]
    admit: Callable[[WebRequest], WebAnswer | None] = lambda request: None
    methods: frozenset[str] = frozenset({"POST"})
    body_bytes: int = BODY_BYTES
    body_seconds: float = BODY_SECONDS
