"""Webhook: verification of the platform's requests. Cheap tests first, then the signature over the raw bytes,
then parsing.

Facts from the open platform's "receive events" pages: an address check wants its challenge back within a second; an
event wants 200 within three, else it is pushed again after 15 s, 5 min, 1 h and 6 h.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from claw import t
from claw_channel_sdk import WebAnswer, WebRequest, WebRoute

from claw_feishu.crypto import Undecipherable, decrypt, same, signature
from claw_feishu.inbound import token_of

TIMESTAMP, NONCE, SIGNATURE = "x-lark-request-timestamp", "x-lark-request-nonce", "x-lark-signature"
ADDRESS_CHECK = "url_verification"
BODY_BYTES = 1 << 20
BODY_SECONDS = 10.0
CHECK_BYTES = 4096
"""Size limit of an address check, which may come unsigned (the vendor's own SDK does not verify it): it is
small and always encrypted."""

Receive = Callable[[dict[str, Any]], Awaitable["dict[str, Any] | None"]]
"""Function that handles an event; returns the answer for the service, or None when it was not accepted."""


class WebhookRefused(Exception):
    """The request is not the platform's, or not readable.

    :ivar status: of the HTTP answer.
    :ivar fix: advice for the operator when the request may be from the platform; empty when anyone can have sent it.
    """

    def __init__(self, status: int, why: str, fix: str = "") -> None:
        super().__init__(why)
        self.status, self.why, self.fix = status, why, fix


@dataclass(frozen=True, slots=True)
class WebhookCredentials:
    """The secrets that a caller must know. An empty one refuses every caller.

    :param skew_seconds: how far the time of a request may be from ours.
    """

    encrypt_key: str
    token: str
    skew_seconds: float = 300.0
    body_bytes: int = BODY_BYTES

    def admit(self, method: str, headers: Mapping[str, str], now: float) -> None:
        """Check the request head alone. ``headers``: names in lower case.

        :raises WebhookRefused: before a byte of the body is read.
        """
        if method != "POST":
            raise WebhookRefused(405, "only POST carries events")
        if not self.encrypt_key.strip() or not self.token.strip():
            raise WebhookRefused(403, "this account has no encrypt key or no verification token")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self.body_bytes:
            raise WebhookRefused(413, "the body is too large")
        if SIGNATURE not in headers and 0 < int(length) <= CHECK_BYTES:
            return
        if not headers.get(SIGNATURE) or not headers.get(NONCE):
            raise WebhookRefused(401, "the request is not signed")
        stamp = headers.get(TIMESTAMP, "")
        if not (stamp.isascii() and stamp.isdecimal() and len(stamp) < 16):
            raise WebhookRefused(401, "the request has no time")
        if abs(now - int(stamp)) > self.skew_seconds:
            raise WebhookRefused(401, "the request is too old, or from the future", _clock())

    def read(self, method: str, headers: Mapping[str, str], body: bytes, now: float) -> dict[str, Any]:
        """Return the event inside a request.

        :raises WebhookRefused: it is not the platform's, or no event.
        """
        self.admit(method, headers, now)
        if SIGNATURE in headers:
            if not same(self._signature(headers, body), headers[SIGNATURE]):
                raise WebhookRefused(401, "the signature is wrong", _other_key())
            return self._opened(body)
        # Every failure of an unsigned body gives the same 401: distinct errors would be a padding oracle.
        try:
            event = self._opened(body) if len(body) <= CHECK_BYTES else {}
        except WebhookRefused as why:
            raise WebhookRefused(401, "the request is not signed", why.fix) from why
        if event.get("type") != ADDRESS_CHECK:
            raise WebhookRefused(401, "the request is not signed")
        return event

    def _opened(self, body: bytes) -> dict[str, Any]:
        outer = _object(body)
        sealed = outer.get("encrypt")
        if not isinstance(sealed, str):
            raise WebhookRefused(
                400, "the body is not encrypted", _no_key() if self._knows_token(outer) else ""
            )
        try:
            event = _object(decrypt(self.encrypt_key, sealed))
        except Undecipherable as why:
            raise WebhookRefused(400, str(why), _other_key()) from why
        if not self._knows_token(event):
            raise WebhookRefused(403, "the verification token is wrong", _other_token())
        return event

    def _knows_token(self, event: Mapping[str, Any]) -> bool:
        token = token_of(event)
        return isinstance(token, str) and same(self.token, token)

    def _signature(self, headers: Mapping[str, str], body: bytes) -> str:
        return signature(headers[TIMESTAMP], headers[NONCE], self.encrypt_key, body)


def _object(text: str | bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as why:
        raise WebhookRefused(400, "this is not JSON") from why
    if not isinstance(value, dict):
        raise WebhookRefused(400, "this is no object")
    return value


def _clock() -> str:
    return t("a webhook was refused because of its timestamp: check the clock of this machine")


def _other_key() -> str:
    return t("a webhook was refused: compare encryptKey with the Encrypt Key in the developer console")


def _other_token() -> str:
    return t(
        "a webhook was refused: compare verificationToken with the Verification Token in the developer console"
    )


def _no_key() -> str:
    return t("a webhook was refused, it is not encrypted: set the Encrypt Key in the developer console too")


def route(
    path: str,
    lock: Callable[[], WebhookCredentials],
    receive: Receive,
    now: Callable[[], float],
    report: Callable[[str], None] = lambda fix: None,
) -> WebRoute:
    """Build the route that the platform calls.

    :param lock: returns the secrets, read again for each request, so that a change takes effect at once.
    :param receive: called with each verified event.
    :param report: called with the advice for the operator when a request is refused.
    """

    def refusal(why: WebhookRefused) -> WebAnswer:
        if why.fix:
            report(why.fix)
        return _json(why.status, {"msg": why.why})

    def admit(request: WebRequest) -> WebAnswer | None:
        try:
            lock().admit(request.method, request.headers, now())
        except WebhookRefused as why:
            return refusal(why)
        return None

    async def answer(request: WebRequest) -> WebAnswer:
        try:
            event = lock().read(request.method, request.headers, request.body, now())
        except WebhookRefused as why:
            return refusal(why)
        if event.get("type") == ADDRESS_CHECK:
            return _json(200, {"challenge": event.get("challenge")})
        result = await receive(event)
        return _json(503, {"msg": "try again later"}) if result is None else _json(200, result)

    return WebRoute(path, answer, admit, body_bytes=BODY_BYTES, body_seconds=BODY_SECONDS)


def _json(status: int, value: Mapping[str, Any]) -> WebAnswer:
    return WebAnswer(status, json.dumps(value, ensure_ascii=False).encode())
