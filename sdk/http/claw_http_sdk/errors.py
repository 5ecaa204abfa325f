"""Errors of connections, without the HTTP library."""

from collections.abc import Iterator

from claw import ClawError

STALE_CONNECTION = "a connection kept from an earlier request was closed before an answer"
"""Error text for a failure that may only mean that the service closed an idle kept-alive connection."""


class TlsError(ClawError):
    """A TLS connection to a host failed, and a retry cannot help."""


def error_chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its chain of causes."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
