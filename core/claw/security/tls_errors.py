"""Error messages for failed TLS handshakes, each with a fix. Pure.

Verification error codes of certificates: OpenSSL, ``x509_vfy.h``.
"""

import ssl
from collections.abc import Iterator

from claw.contracts.errors import ClawError

STALE_CONNECTION = "a connection kept from an earlier request was closed before an answer"
"""Error text for a failure that may only mean that the service closed an idle kept-alive connection."""


class TlsError(ClawError):
    """A TLS connection to a host failed, and a retry cannot help."""


_WRONG_HOST = (
    "the certificate of {host} is for another name",
    "Write the host name as in the service's documentation; an IP address rarely has a certificate",
)
_UNTRUSTED = (
    "the certificate of {host} is not signed by an authority that this machine trusts ({why})",
    "If the service is yours, add its authority to this machine (update-ca-certificates, or the "
    "keychain); otherwise the connection may be intercepted: do not send a key",
)
_EXPIRED = (
    "the certificate of {host} has expired",
    "The operator of the service must renew it; also check the clock of this machine",
)
_NOT_YET = ("the certificate of {host} is not valid yet", "Check the clock of this machine")
_HTTP_ON_TLS_PORT = (
    "{host} uses plain HTTP, but the address says https",
    "Write the address with http:// if the service is yours and on your own network, or with the port of its https",
)
_TLS_ON_HTTP_PORT = ("{host} uses https, but the address says http", "Write the address with https://")
_FAILED = ("no secure connection to {host} could be established ({why})", "Check the address, and its port")
_CERTIFICATE_ERRORS = {
    9: _NOT_YET,
    10: _EXPIRED,
    **dict.fromkeys((18, 19, 20, 21), _UNTRUSTED),
    **dict.fromkeys((62, 64), _WRONG_HOST),
}
_NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER", "PACKET_LENGTH", "UNKNOWN_PROTOCOL")
_DISCONNECTED = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
_ALERT = b"\x15\x03"
_TLS_REQUIRED = (b"plain http request was sent to https port", b"sent an http request to an https server")


def tls_error(host: str, why: ssl.SSLError) -> TlsError | None:
    """Return the error for a failed handshake; None when the connection was only lost during it."""
    if isinstance(why, ssl.SSLCertVerificationError):
        problem, fix = _CERTIFICATE_ERRORS.get(why.verify_code, _FAILED)
        return TlsError(problem, fix=fix, host=host, why=why.verify_message)
    if isinstance(why, _DISCONNECTED):
        return None
    reason = str(why.reason or "")
    problem, fix = _HTTP_ON_TLS_PORT if any(one in reason for one in _NOT_TLS) else _FAILED
    return TlsError(problem, fix=fix, host=host, why=reason.lower().replace("_", " ") or str(why))


def tls_required_error(host: str, answer: bytes) -> TlsError | None:
    """Return the error for the response of an https service to plain HTTP: a TLS alert, or a page that says so."""
    asks = answer.startswith(_ALERT) or any(words in answer.lower() for words in _TLS_REQUIRED)
    return TlsError(_TLS_ON_HTTP_PORT[0], fix=_TLS_ON_HTTP_PORT[1], host=host) if asks else None


def find_tls_error(error: BaseException) -> TlsError | None:
    """Return the ``TlsError`` that a library's error carries in its chain of causes; None when there is none."""
    behind = (getattr(one, "unsafe", one) for one in error_chain(error))
    return next((one for one in behind if isinstance(one, TlsError)), None)


def error_chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its chain of causes."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
