"""Error messages for failed TLS handshakes, each with a fix. Pure.

Verification error codes of certificates: OpenSSL, ``x509_vfy.h``.
"""

import ssl

from claw_http_sdk.errors import TlsError, error_chain

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
_NOT_HTTP = (
    "illegal request line"  # h11, when the first byte of a response is a control character, as in a TLS alert
)
_TLS_REQUIRED = (b"plain http request was sent to https port", b"sent an http request to an https server")


def connection_error(host: str, why: BaseException, *, is_plain: bool) -> TlsError | None:
    """Return the error for a request that failed because of TLS; None when it failed otherwise.

    :param why: error of the HTTP library, with its chain of causes.
    :param is_plain: the address says http.
    """
    if is_plain:
        return _tls_required(host) if _NOT_HTTP in str(why) else None
    failed = next((one for one in error_chain(why) if isinstance(one, ssl.SSLError)), None)
    if failed is None or isinstance(failed, _DISCONNECTED):  # the connection was only lost
        return None
    if isinstance(failed, ssl.SSLCertVerificationError):
        problem, fix = _CERTIFICATE_ERRORS.get(failed.verify_code, _FAILED)
        return TlsError(problem, fix=fix, host=host, why=failed.verify_message)
    reason = str(failed.reason or "")
    problem, fix = _HTTP_ON_TLS_PORT if any(one in reason for one in _NOT_TLS) else _FAILED
    return TlsError(problem, fix=fix, host=host, why=reason.lower().replace("_", " ") or str(failed))


def tls_required_error(host: str, answer: bytes) -> TlsError | None:
    """Return the error for the page with which an https service refuses plain HTTP; None when it is another page."""
    return _tls_required(host) if any(words in answer.lower() for words in _TLS_REQUIRED) else None


def _tls_required(host: str) -> TlsError:
    return TlsError(_TLS_ON_HTTP_PORT[0], fix=_TLS_ON_HTTP_PORT[1], host=host)
