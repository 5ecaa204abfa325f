"""The Bot API: a method and its parameters in, its result or a typed error out. The token is in no error and no log.

https://core.telegram.org/bots/api#making-requests
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from claw import DeliveryError, say

if TYPE_CHECKING:
    import httpx2

CALL_SECONDS = 30.0
MEDIA_SECONDS = 300.0
_GATEWAYS = (502, 504)  # something between us and the service: what became of the request is unknown


class Refused(DeliveryError):
    """The Bot API said no.

    :param status: ``error_code``: 400 wrong, 401 bad token, 403 not allowed there, 409 somebody else polls, 429 too fast.
    :param description: its own words, English.
    :param moved_to: the new id of a group that became a supergroup.
    """

    def __init__(self, method: str, status: int, description: str, parameters: Mapping[str, Any]) -> None:
        wait = parameters.get("retry_after")
        super().__init__(
            "Telegram refused {method}: {description} ({status})",
            permanent=status not in (409, 429) and status < 500,
            retry_after_seconds=float(wait) if wait is not None else None,
            outcome_unknown=status in _GATEWAYS and _makes_something(method),
            method=method, description=description, status=status,
        )  # fmt: skip
        self.status, self.description = status, description
        self.moved_to = parameters.get("migrate_to_chat_id")

    def says(self, *words: str) -> bool:
        """Whether its description holds one of these words, in lower case."""
        return any(word in self.description.lower() for word in words)


class Api:
    """One bot's calls over one client.

    :param base: address of the server, with a path when it stands behind one.
    """

    def __init__(self, client: "httpx2.AsyncClient", token: str, base: str) -> None:
        self._client, self._token = client, token
        self._prefix = urlsplit(base if "//" in base else f"//{base}").path.rstrip("/")
        self._places: dict[str, httpx2.URL] = {}

    def goes_over(self, client: "httpx2.AsyncClient") -> bool:
        """Whether its calls take this client: another is made once the house has closed the first."""
        return self._client is client

    async def call(
        self, method: str, params: Mapping[str, Any] | None = None, *, seconds: float = CALL_SECONDS
    ) -> Any:
        """Call a method once; parameters that are None are left out.

        :param seconds: for the whole call.
        :raises DeliveryError: :class:`Refused` when the service answered.
        """
        given = {name: value for name, value in (params or {}).items() if value is not None}
        return await self._ask(method, seconds, json=given)

    async def upload(
        self, method: str, params: Mapping[str, Any], field: str, name: str, data: Any, mime: str
    ) -> Any:
        """Call a method with one file.

        :param data: bytes, or an open file.
        :raises DeliveryError: as for ``call``.
        """
        given = {name: _form(value) for name, value in params.items() if value is not None}
        files = {field: (name, data, mime or "application/octet-stream")}
        return await self._ask(method, MEDIA_SECONDS, data=given, files=files)

    async def download(self, file_path: str) -> AsyncIterator[bytes]:
        """The bytes of a file that ``getFile`` named.

        :raises DeliveryError: it cannot be had.
        """
        import httpx2

        url = f"{self._prefix}/file/bot{self._token}/{quote(file_path)}"
        try:
            async with self._client.stream("GET", url) as answer:
                if answer.status_code != 200:
                    raise Refused("download", answer.status_code, answer.reason_phrase, {})
                async for piece in answer.aiter_bytes():
                    yield piece
        except httpx2.HTTPError as broken:
            raise _broken("download", broken) from None

    async def aclose(self) -> None:
        """Close the client; for one that nobody else uses."""
        await self._client.aclose()

    async def _ask(self, method: str, seconds: float, **sent: Any) -> Any:
        import httpx2

        timeout = httpx2.Timeout(seconds, connect=min(seconds, 10))
        try:
            async with asyncio.timeout(seconds):
                answer = await self._client.post(self._place(method), timeout=timeout, **sent)
        except TimeoutError:
            raise DeliveryError(
                "Telegram did not answer {method} within {seconds} s",
                outcome_unknown=_makes_something(method),
                method=method,
                seconds=f"{seconds:g}",
            ) from None
        except httpx2.HTTPError as broken:
            raise _broken(method, broken) from None
        return _result(method, answer)

    def _place(self, method: str) -> "httpx2.URL":
        """Where a method is asked; read once, as the client reads an address letter by letter."""
        if method not in self._places:
            self._places[method] = self._client.base_url.join(f"{self._prefix}/bot{self._token}/{method}")
        return self._places[method]


class QuietLog(logging.Filter):
    """Takes bot tokens out of what the HTTP library logs: its lines name whole URLs."""

    def __init__(self) -> None:
        super().__init__()
        self._tokens: set[str] = set()

    def hide(self, token: str) -> None:
        """From now on, in this process."""
        self._tokens.add(token)
        for name in ("httpx2", "httpcore2"):
            logging.getLogger(name).addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Every record passes, without the tokens."""
        told = record.getMessage()
        if any(token in told for token in self._tokens):
            for token in self._tokens:
                told = told.replace(token, "******")
            record.msg, record.args = told, ()
        return True


QUIET = QuietLog()


def _makes_something(method: str) -> bool:
    """Whether a second call shows in the chat: an edit or a question may be repeated."""
    return method.startswith("send")


def _result(method: str, answer: "httpx2.Response") -> Any:
    try:
        body = answer.json()
    except ValueError:
        body = None
    if isinstance(body, dict) and body.get("ok") is True:
        return body.get("result")
    if not isinstance(body, dict):  # a page of something in between
        body = {}
    status = body.get("error_code")
    description = str(body.get("description") or answer.reason_phrase)
    parameters = body.get("parameters")
    raise Refused(
        method,
        status if isinstance(status, int) else max(answer.status_code, 400),
        description,
        parameters if isinstance(parameters, dict) else {},
    )


def _broken(method: str, why: "httpx2.HTTPError") -> DeliveryError:
    """A failed connection; the library's own text may hold the URL, so only its kind is told.

    Of one that could not even be made the text says why: no such name, nobody listens, a wrong certificate.
    """
    import httpx2

    before = isinstance(why, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)
    kind = type(why).__name__ + (f": {why}" if isinstance(why, httpx2.ConnectError) and str(why) else "")
    problem = say("Telegram cannot be reached") if before else say("the connection to Telegram broke")
    return DeliveryError(
        "{problem} ({kind}, {method})",
        outcome_unknown=not before and _makes_something(method),
        problem=problem,
        kind=kind,
        method=method,
    )


def _form(value: Any) -> str:
    """A parameter as a form field: text as it is, everything else as JSON."""
    import json

    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
