"""Client of Feishu's API: token management, safe retries, and the meaning of the answers.

Codes from the open platform's lists of server errors; the channel, the doctor and the tools use ``Tenant.call``.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any

from claw import DeliveryError

if TYPE_CHECKING:
    import httpx2

TOKEN_PATH = "/open-apis/auth/v3/tenant_access_token/internal"
TOKEN_STALE = frozenset({99991663, 99991664, 99991668})
RATE_LIMITED, CHAT_RATE_LIMITED = 99991400, 230020
SCOPE_MISSING = 99991672
NOT_IN_CHAT = 230002
RECALLED = 230011
CARD_REFUSED = 230099
SEQUENCE_BEHIND = 300317
STREAM_CLOSED = frozenset({200850, 300309})
"""Codes of a card whose streaming has ended: the service ends it by itself after ten minutes."""

EARLY_SECONDS = 300
"""Time before its expiry at which a token is renewed."""
CHAT_PAUSE_SECONDS = 1.0
"""Pause after the rate limit of one chat (about five messages a second); the answer names no time."""
MOST_SECONDS = 300.0
TIMEOUT_SECONDS = 15
CONNECT_SECONDS = 5
MEDIA_SECONDS = 120

_PATH = re.compile(r"(?:/(?!\.{1,2}(?:/|\Z))[\w.:=@~-]+)+", re.ASCII)
"""Path without segments that would change it, such as ``..``: ids in it come from events and from models."""

_FIXES = {
    SCOPE_MISSING: "Add one of these scopes to the app in the developer console and publish a version: {scopes}",
    NOT_IN_CHAT: "Add the bot to the chat",
}


class FeishuError(DeliveryError):
    """A refusal by the service.

    :ivar code: the service's code; 0 when the answer had none.
    :ivar log_id: id that the service's support asks for.
    :ivar scopes: scopes of which one is missing.
    :ivar is_page: the answer was none of the platform's API, such as the page of a proxy.
    """

    def __init__(self, problem: str, /, *, code: int = 0, log_id: str = "", **more: Any) -> None:
        super().__init__(problem, code=code, log_id=log_id, **more)
        self.code, self.log_id = code, log_id
        self.is_page = not code and "status" in more
        self.scopes = scopes_in(str(more.get("said", ""))) if code == SCOPE_MISSING else ()

    @property
    def is_credentials(self) -> bool:
        """True if the app id or secret is wrong: no request of this account can work."""
        return self.where == TOKEN_PATH and self.permanent and not self.is_page

    @property
    def is_about_form(self) -> bool:
        """True if the service refuses the form of a message; another form may be accepted."""
        elsewhere = self.code in (0, NOT_IN_CHAT) or (
            self.code == SCOPE_MISSING and "/cardkit/" not in self.where
        )
        return self.permanent and not elsewhere and not self.is_credentials


def scopes_in(said: str) -> tuple[str, ...]:
    """Return the scopes that an answer of code 99991672 lists."""
    listed = re.search(r"\[([^\]]+)\]", said)
    return tuple(re.findall(r"[\w.:-]+", listed[1])) if listed else ()


def judge(status: int, headers: Mapping[str, str], body: Any, where: str) -> FeishuError | None:
    """Return the error that an answer means; None for success.

    :param headers: names in any case.
    :param body: parsed JSON, or anything else when it was none.
    """
    known = body if isinstance(body, Mapping) else {}
    code = known.get("code") if isinstance(known.get("code"), int) else None
    if code == 0 and status < 400:
        return None
    number, said = code or 0, str(known.get("msg") or "")
    inner = known.get("error")
    log_id = str(
        (inner.get("log_id") if isinstance(inner, Mapping) else "") or headers.get("x-tt-logid") or ""
    )
    facts: dict[str, Any] = {"code": number, "log_id": log_id, "where": where, "said": said}
    template = "Feishu refused it: {said} (code {code}, log id {log_id})"
    if not log_id:
        template = "Feishu refused it: {said} (code {code})"
    if number == CHAT_RATE_LIMITED:
        return FeishuError(template, retry_after_seconds=CHAT_PAUSE_SECONDS, **facts)
    if number == RATE_LIMITED or status == 429:
        return FeishuError(template, retry_after_seconds=_reset_seconds(headers), **facts)
    if status >= 500 or code is None:
        template = "Feishu answered with HTTP {status} (log id {log_id})"
        if not log_id:
            template = "Feishu answered with HTTP {status}"
        kind = next((value for name, value in headers.items() if name.lower() == "content-type"), "")
        # The web page of a proxy says nothing of the call.
        is_final = 400 <= status < 500 and "html" not in kind
        return FeishuError(template, status=status, permanent=is_final, **facts)
    scopes = [*scopes_in(said)]
    return FeishuError(
        template, permanent=number not in TOKEN_STALE, fix=_FIXES.get(number, ""), scopes=scopes, **facts
    )


def _reset_seconds(headers: Mapping[str, str]) -> float:
    named = {name.lower(): value for name, value in headers.items()}
    try:
        seconds = float(named.get("x-ogw-ratelimit-reset") or named.get("retry-after") or 1)
    except ValueError:
        seconds = 1.0
    return min(max(seconds, 0.0), MOST_SECONDS)


class Tenant:
    """One app at the open platform.

    :param http: returns the HTTP client for the platform's address; called for each request.
    :param app_secret: returns the secret; called when a token is fetched.
    :param monotonic: clock in seconds, for the age of the token.
    """

    def __init__(
        self,
        http: "Callable[[], httpx2.AsyncClient]",
        app_id: str,
        app_secret: Callable[[], str],
        monotonic: Callable[[], float],
    ) -> None:
        self._http, self.app_id, self._secret, self._monotonic = http, app_id, app_secret, monotonic
        self._token, self._until = "", 0.0
        self._lock = asyncio.Lock()

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        form: Mapping[str, str] | None = None,
        files: Mapping[str, Any] | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> dict[str, Any]:
        """Make one request with a token; retry once with a new token when the service reports a stale one.

        :param body: sent as JSON; with ``files``, ``form`` goes beside them as multipart.
        :returns: the whole answer: most results are under ``data``.
        :raises FeishuError: refused; its fields say if and when a retry may help.
        """
        options = {"params": query, "json": body, "data": form, "files": files}
        options = {key: value for key, value in options.items() if value is not None}
        for last in (False, True):
            token = await self.token()
            answer = await self._once(method, path, token, timeout_seconds, options)
            fault = judge(answer.status_code, answer.headers, _parsed(answer), path)
            if fault is None:
                return dict(_parsed(answer))
            if last or fault.code not in TOKEN_STALE:
                raise fault
            self.forget(token)
        raise AssertionError("unreachable")

    async def download(self, path: str, *, query: Mapping[str, Any], most_bytes: int) -> AsyncIterator[bytes]:
        """Yield the bytes of a file in pieces.

        :raises FeishuError: refused, or it is larger than ``most_bytes``.
        """
        import httpx2

        _check_path(path)
        for last in (False, True):
            token = await self.token()
            ask = self._http().stream(
                "GET", path, params=dict(query), headers=_bearer(token), timeout=_timeout(MEDIA_SECONDS)
            )
            try:
                async with ask as answer:
                    _check_size(answer.headers, most_bytes, path)
                    if not _may_be_refusal(answer):
                        async for piece in answer.aiter_bytes():
                            yield piece
                        return
                    whole = await answer.aread()
                    fault = _refused(answer, path)
            except httpx2.TransportError as why:
                raise unreachable(why, path) from why
            if fault is None:
                yield whole
                return
            if last or fault.code not in TOKEN_STALE:
                raise fault
            self.forget(token)

    async def token(self) -> str:
        """Return the token of the app; fetched by one caller at a time, and cached until shortly before its end.

        :raises FeishuError: the credentials are wrong (``is_credentials``), or the service cannot be reached.
        """
        if self._token and self._monotonic() < self._until:
            return self._token
        async with self._lock:
            if self._token and self._monotonic() < self._until:
                return self._token
            body = {"app_id": self.app_id, "app_secret": self._secret()}
            answer = await self._once("POST", TOKEN_PATH, "", TIMEOUT_SECONDS, {"json": body}, safe=True)
            known = _parsed(answer)
            fault = judge(answer.status_code, answer.headers, known, TOKEN_PATH)
            if fault is not None:
                raise fault
            seconds = float(known.get("expire") or 0)
            self._token = str(known.get("tenant_access_token") or "")
            self._until = self._monotonic() + max(seconds - EARLY_SECONDS, seconds / 2)
            return self._token

    async def post_openly(self, path: str, body: Any) -> Any:
        """Make one POST without a token; return its parsed answer, also an error.

        :raises FeishuError: the service cannot be reached, or does not answer JSON.
        """
        answer = await self._once(
            "POST", path, "", TIMEOUT_SECONDS, {"json": body, "headers": {"locale": "zh"}}, safe=True
        )
        known = _parsed(answer)
        if not isinstance(known, Mapping) or answer.status_code >= 500:
            raise judge(answer.status_code, answer.headers, known, path) or AssertionError
        return known

    @property
    def seconds_left(self) -> float:
        """Remaining time of use of the cached token."""
        return self._until - self._monotonic() if self._token else 0.0

    @property
    def secret(self) -> str:
        """The app secret, read now."""
        return self._secret()

    def forget(self, token: str) -> None:
        """Drop a token that the service reported stale."""
        if token == self._token:  # another caller may have renewed it already
            self._token = ""

    async def _once(
        self,
        method: str,
        path: str,
        token: str,
        seconds: float,
        options: Mapping[str, Any],
        *,
        safe: bool = False,
    ) -> "httpx2.Response":
        """Make one attempt. ``safe``: repeating it does no harm even when it arrived."""
        import httpx2

        _check_path(path)
        headers = {**options.get("headers", {}), **(_bearer(token) if token else {})}
        try:
            return await self._http().request(
                method, path, **{**options, "headers": headers, "timeout": _timeout(seconds)}
            )
        except httpx2.TransportError as why:
            raise unreachable(why, path, safe=safe or method == "GET") from why


def _check_path(path: str) -> None:
    if not _PATH.fullmatch(path):
        raise FeishuError(
            "{id} is not a Feishu id", id=path.rpartition("/v1/")[2], permanent=True, where=path
        )


def unreachable(why: Exception, path: str, *, safe: bool = True) -> FeishuError:
    """Build the error for a failed or broken connection."""
    import httpx2

    out = isinstance(why, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)
    problem = "Feishu cannot be reached ({why})" if out else "the connection to Feishu broke ({why})"
    kind = type(why).__name__ + (f": {why}" if isinstance(why, httpx2.ConnectError) and str(why) else "")
    return FeishuError(problem, why=kind, where=path, outcome_unknown=not (out or safe))


def _timeout(seconds: float) -> "httpx2.Timeout":
    import httpx2

    return httpx2.Timeout(seconds, connect=CONNECT_SECONDS)


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _parsed(answer: "httpx2.Response") -> Any:
    try:
        return answer.json()
    except ValueError:
        return None


def _may_be_refusal(answer: "httpx2.Response") -> bool:
    """Return true if an answer may be a refusal: that can have status 200, while a file has a file name."""
    kind, named = answer.headers.get("content-type", ""), answer.headers.get("content-disposition")
    return bool(answer.is_error or (kind.startswith("application/json") and not named))


def _refused(answer: "httpx2.Response", path: str) -> FeishuError | None:
    """Return the refusal in the place of a file; None when it is a JSON file after all."""
    fault = judge(answer.status_code, answer.headers, _parsed(answer), path)
    return fault if fault and (answer.is_error or fault.code) else None


def _check_size(headers: Mapping[str, str], most_bytes: int, path: str) -> None:
    size = headers.get("content-length", "")
    if size.isdigit() and int(size) > most_bytes:
        raise FeishuError(
            "the file has {size} bytes; at most {most} are fetched",
            size=size,
            most=most_bytes,
            where=path,
            permanent=True,
        )
