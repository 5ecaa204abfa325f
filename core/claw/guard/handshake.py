"""Why a connection could not be secured: what TLS said of it, in words with a way out. Pure.

Numbers of what can be wrong with a certificate: OpenSSL, ``x509_vfy.h``.
"""

import ssl
from collections.abc import Iterator

from claw.errors import ClawError


class Unsafe(ClawError):
    """There is no secure connection to a host, and another try changes nothing."""


_OTHER_NAME = (
    "the certificate of {host} is for another name",
    "Write the host as the service's own page does; an address in place of a name has rarely a certificate",
)
_UNKNOWN = (
    "the certificate of {host} is signed by nobody whom this machine trusts ({why})",
    "If the service is yours, add its authority to the ones of this machine (update-ca-certificates, or the keychain); "
    "else somebody may stand between: send it no key",
)
_EXPIRED = (
    "the certificate of {host} has expired",
    "Whoever runs the service renews it; look also at the clock of this machine",
)
_NOT_YET = ("the certificate of {host} is not valid yet", "Look at the clock of this machine")
_PLAIN = (
    "{host} speaks plain HTTP where https is written",
    "Write the address with http:// if the service is yours and on your own network, or with the port of its https",
)
_SECURED = ("{host} speaks https where plain http is written", "Write the address with https://")
_REFUSED = ("no secure connection to {host} could be agreed on ({why})", "Check the address, and its port")
_OF_CERTIFICATES = {
    9: _NOT_YET, 10: _EXPIRED, 18: _UNKNOWN, 19: _UNKNOWN, 20: _UNKNOWN, 21: _UNKNOWN, 62: _OTHER_NAME, 64: _OTHER_NAME,
}  # fmt: skip
_OF_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER", "PACKET_LENGTH", "UNKNOWN_PROTOCOL")
_BROKEN_OFF = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
_ALERT = b"\x15\x03"
_ASKS_FOR_TLS = (b"plain http request was sent to https port", b"sent an http request to an https server")


def unsafe(host: str, why: ssl.SSLError) -> Unsafe | None:
    """The error for a handshake that failed; None when the connection only broke off in it."""
    if isinstance(why, ssl.SSLCertVerificationError):
        problem, fix = _OF_CERTIFICATES.get(why.verify_code, _REFUSED)
        return Unsafe(problem, fix=fix, host=host, why=why.verify_message)
    if isinstance(why, _BROKEN_OFF):
        return None
    reason = str(why.reason or "")
    problem, fix = _PLAIN if any(one in reason for one in _OF_NO_TLS) else _REFUSED
    return Unsafe(problem, fix=fix, host=host, why=reason.lower().replace("_", " ") or str(why))


def wants_tls(host: str, answer: bytes) -> Unsafe | None:
    """The error for what a service says to plain HTTP when it speaks https: an alert, or a page that says so."""
    asks = answer.startswith(_ALERT) or any(words in answer.lower() for words in _ASKS_FOR_TLS)
    return Unsafe(_SECURED[0], fix=_SECURED[1], host=host) if asks else None


def unsafe_of(error: BaseException) -> Unsafe | None:
    """The ``Unsafe`` behind an error of a library that was told of it."""
    behind = (getattr(one, "unsafe", one) for one in causes(error))
    return next((one for one in behind if isinstance(one, Unsafe)), None)


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and what it was raised from, and so on."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
