"""Client of the Bot API: one call returns a result or raises a typed error. Errors and logs never contain the token.

https://core.telegram.org/bots/api#making-requests
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from claw import DeliveryError, t

from claw_telegram.pacer import Pacer, kind_of

if TYPE_CHECKING:
    import httpx2

CALL_SECONDS = 30.0
MEDIA_SECONDS = 300.0
_GATEWAYS = (502, 504)  # a proxy answered, not the service: the outcome of the request is unknown
_TOO_LARGE = 413
_PAUSE_SECONDS = {401: 30.0, 429: 5.0}
"""Pause after a refusal that is about the bot and not about the message, when the response names none."""


class TelegramError(DeliveryError):
    """A refusal by the Bot API.

    :param status: ``error_code``: 400 bad request, 401 bad token, 403 forbidden, 409 another poller, 429 rate limit.
    :param description: the API's own text, in English.
    :param is_page: the body is not the API's JSON: a proxy answered in its place, so it says nothing of the message.
    :ivar moved_to: the new id of a group that became a supergroup.
    """

    def __init__(
        self,
        method: str,
        status: int,
        description: str,
        parameters: Mapping[str, Any],
        *,
        is_page: bool = False,
    ) -> None:
        passes = is_page or status in (409, 429) or status >= 500 or (status == 401 and kind_of(method))
        wait = parameters.get("retry_after") or (
            _PAUSE_SECONDS.get(status) if passes and not is_page else None
        )
        super().__init__(
            "Telegram refused {method}: {description} ({status})",
            permanent=not passes or status == _TOO_LARGE,
            retry_after_seconds=float(wait) if wait is not None else None,
            outcome_unknown=status in _GATEWAYS and _is_visible(method),
            method=method,
            description=description,
            status=status,
        )
        self.status, self.description, self.is_page = status, description, is_page
        self.moved_to = parameters.get("migrate_to_chat_id")

    def says(self, *words: str) -> bool:
        """Return true if the description contains one of these words (given in lower case)."""
        return any(word in self.description.lower() for word in words)


class BotApi:
    """The calls of one bot over one HTTP client.

    :param base: address of the server; may have a path.
    :param pacer: paces the calls that name a chat; None = no call waits.
    """

    def __init__(
        self, client: "httpx2.AsyncClient", token: str, base: str, pacer: Pacer | None = None
    ) -> None:
        self._client, self._token, self._pacer = client, token, pacer
        self._prefix = urlsplit(base if "//" in base else f"//{base}").path.rstrip("/")
        self._urls: dict[str, httpx2.URL] = {}

    def goes_over(self, client: "httpx2.AsyncClient") -> bool:
        """Return true if calls use this client; a new Api is needed once the host has closed the old client."""
        return self._client is client

    async def call(
        self, method: str, params: Mapping[str, Any] | None = None, *, seconds: float = CALL_SECONDS
    ) -> Any:
        """Call a method once; parameters that are None are left out.

        :param seconds: timeout of the whole call.
        :raises DeliveryError: :class:`TelegramError` when the service answered with an error.
        """
        given = {name: value for name, value in (params or {}).items() if value is not None}
        return await self._paced(method, given, seconds, json=given)

    async def upload(
        self, method: str, params: Mapping[str, Any], field: str, name: str, data: Any, mime: str
    ) -> Any:
        """Call a method with one file.

        :param data: bytes, or an open file.
        :raises DeliveryError: as for ``call``.
        """
        given = {name: _form_value(value) for name, value in params.items() if value is not None}
        files = {field: (name, data, mime or "application/octet-stream")}
        return await self._paced(method, params, MEDIA_SECONDS, data=given, files=files)

    async def download(self, file_path: str) -> AsyncIterator[bytes]:
        """Yield the bytes of a file that ``getFile`` named.

        :raises DeliveryError: the file cannot be downloaded.
        """
        import httpx2

        url = f"{self._prefix}/file/bot{self._token}/{quote(file_path)}"
        try:
            async with self._client.stream("GET", url) as answer:
                if answer.status_code != 200:
                    raise TelegramError("download", answer.status_code, answer.reason_phrase, {})
                async for piece in answer.aiter_bytes():
                    yield piece
        except httpx2.HTTPError as broken:
            raise _connection_error("download", broken) from None

    async def aclose(self) -> None:
        """Close the client; call it only for a client that is not shared."""
        await self._client.aclose()

    async def _paced(self, method: str, params: Mapping[str, Any], seconds: float, **sent: Any) -> Any:
        """Make a call when the limits allow it, and obey a 429."""
        if self._pacer is None:
            return await self._request(method, seconds, **sent)
        try:
            async with self._pacer.call(method, params):
                return await self._request(method, seconds, **sent)
        except TelegramError as why:
            if why.status == 429 and why.retry_after_seconds is not None:
                self._pacer.record_refusal(params, why.retry_after_seconds)
            raise

    async def _request(self, method: str, seconds: float, **sent: Any) -> Any:
        import httpx2

        timeout = httpx2.Timeout(seconds, connect=min(seconds, 10))
        try:
            async with asyncio.timeout(seconds):
                answer = await self._client.post(self._url(method), timeout=timeout, **sent)
        except TimeoutError:
            raise DeliveryError(
                "Telegram did not answer {method} within {seconds} s",
                outcome_unknown=_is_visible(method),
                method=method,
                seconds=f"{seconds:g}",
            ) from None
        except httpx2.HTTPError as broken:
            raise _connection_error(method, broken) from None
        return _result(method, answer)

    def _url(self, method: str) -> "httpx2.URL":
        """Return the URL of a method; cached, as httpx parses a URL character by character."""
        if method not in self._urls:
            self._urls[method] = self._client.base_url.join(f"{self._prefix}/bot{self._token}/{method}")
        return self._urls[method]


class QuietLog(logging.Filter):
    """Log filter that removes bot tokens from the HTTP library's records, which contain whole URLs."""

    def __init__(self) -> None:
        super().__init__()
        self._tokens: set[str] = set()

    def hide(self, token: str) -> None:
        """Hide this token from now on, in this process."""
        self._tokens.add(token)
        for name in ("httpx2", "httpcore2"):
            logging.getLogger(name).addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Pass every record, with the tokens masked."""
        text = record.getMessage()
        if any(token in text for token in self._tokens):
            for token in self._tokens:
                text = text.replace(token, "******")
            record.msg, record.args = text, ()
        return True


QUIET = QuietLog()


def _is_visible(method: str) -> bool:
    """Return true if repeating the method would show in the chat; edits and queries may be repeated."""
    return method.startswith("send")


def _result(method: str, answer: "httpx2.Response") -> Any:
    try:
        body = answer.json()
    except ValueError:
        body = None
    if isinstance(body, dict) and body.get("ok") is True:
        return body.get("result")
    if is_page := not isinstance(body, dict):
        body = {}
    status = body.get("error_code")
    description = str(body.get("description") or answer.reason_phrase)
    parameters = body.get("parameters")
    raise TelegramError(
        method,
        status if isinstance(status, int) else max(answer.status_code, 400),
        description,
        parameters if isinstance(parameters, dict) else {},
        is_page=is_page,
    )


def _connection_error(method: str, why: "httpx2.HTTPError") -> DeliveryError:
    """Build the error for a failed connection. The library's text may contain the URL, so only its kind is kept.

    A failed connect keeps its text, which says why: unknown host, connection refused, wrong certificate.
    """
    import httpx2

    before = isinstance(why, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)
    kind = str(why) if isinstance(why, httpx2.ConnectError) and str(why) else type(why).__name__
    problem = t("Telegram cannot be reached") if before else t("the connection to Telegram broke")
    return DeliveryError(
        "{problem} ({kind}, {method})",
        outcome_unknown=not before and _is_visible(method),
        problem=problem,
        kind=kind,
        method=method,
    )


def _form_value(value: Any) -> str:
    """Encode a parameter as a form field: text unchanged, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
