"""The checks of every request, in this order: path, host and origin, method, authentication, and only then
the body.

Plain ASGI: a path is compared as it was sent, so it has one spelling and no router decodes it
first.
"""

import asyncio
import hmac
import logging
import re
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from claw import ConfigError, PluginConfig, t
from claw_channel_sdk import WebAnswer, WebRequest, WebRoute

from claw_http import bodies
from claw_http.bodies import Incoming, Receive
from claw_http.failures import BadRequest, encoded
from claw_http.origins import host_fits, names, origin_fits
from claw_http.settings import GatewaySettings, HttpSettings
from claw_http.token_rate_limit import Attempts, caller_address, canonical, is_proxy

OWN_BODY_BYTES, OWN_BODY_SECONDS = 20 << 20, 30.0
MODEL_HEAD = "/v1/models/"
ROUTE_SECONDS = 60.0
"""Time limit for a plugin's route."""
START_SECONDS = 5.0
"""For so long after a start or a change of the settings, a route that answers 503 is asked again: its channel starts."""
_START_LOOK_SECONDS = 0.05
SET_A_TOKEN = (
    "no token is set. Set one: claw config set gateway.auth.token TOKEN (16 random characters or more)"
)
_BAD_HEADER = re.compile(r"[\r\n\0]")
_log = logging.getLogger(__name__)

T = TypeVar("T")
Send = Callable[[dict[str, Any]], Awaitable[None]]
AskRoute = Callable[[WebRoute], Awaitable[Any]]


@dataclass(frozen=True)
class StreamedAnswer:
    """A response in pieces."""

    pieces: AsyncIterator[bytes]
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "text/event-stream; charset=utf-8"


@dataclass(frozen=True)
class OwnRoute:
    """One of claw's own routes.

    :param answer: called with the whole request; None in place of the caller means that no token was sent.
    :param open: true if it may be called without a token.
    """

    methods: frozenset[str]
    answer: Callable[[WebRequest, bool], Awaitable[WebAnswer | StreamedAnswer]]
    open: bool = False


class HttpApp:
    """The ASGI application of the listener.

    :param now: seconds of a monotonic clock.
    :param before: the application that this one replaces, whose requests may still run.
    """

    def __init__(
        self,
        config: PluginConfig,
        settings: HttpSettings,
        own: Mapping[str, OwnRoute],
        seen: Callable[[], None],
        now: Callable[[], float] = time.monotonic,
        before: "HttpApp | None" = None,
    ) -> None:
        self._config, self._settings, self._own = config, settings, own
        self._gateway = config.section("gateway", GatewaySettings)
        self._proxies = self._gateway.proxies
        self._touch, self._now = seen, now
        self._attempts, self._bodies, self._unread = Attempts(), bodies.BodyReader(), ""
        self._began, self._after = now(), list[HttpApp]()
        if before:
            self._attempts, self._bodies = before._attempts, before._bodies
            before._after.append(self)
        self._routes: dict[str, tuple[str, WebRoute]] = {}
        self._answers: tuple[tuple[str, WebRoute], ...] = ()
        self._find_routes()

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Handle one request."""
        self._touch()
        began = self._now()
        head, has_body = _head(scope)
        if is_proxy(head.peer, self._proxies):  # its connection is not one caller's
            forwarded = head.headers.get("x-forwarded-for", "")
            head = replace(head, peer=caller_address(head.peer, forwarded, self._proxies), connection="")
        incoming = Incoming(receive, has_body)
        line = _ResponseWriter(send, incoming)
        line.headers["x-request-id"] = f"req_{uuid.uuid4().hex}"
        try:
            await self._dispatch(head, incoming, line)
        except BadRequest as refused:
            await line.send(WebAnswer(refused.status, refused.body, headers=refused.headers))
        except bodies.Disconnected:
            pass
        finally:
            took = round((self._now() - began) * 1000)
            path = head.path if len(head.path) <= 200 else f"{head.path[:200]}…"
            facts = head.peer, head.method, path, line.status or "left", took, line.headers["x-request-id"]
            _log.debug("%s %s %s: %s in %d ms (%s)", *facts)

    async def _dispatch(self, head: WebRequest, incoming: Incoming, line: "_ResponseWriter") -> None:
        if {
            "content-length",
            "transfer-encoding",
        } <= head.headers.keys():  # a proxy may read the other one
            raise BadRequest(
                400, "the body has a length and comes in chunks: one of them", code="two_lengths"
            )
        own = self._own.get(head.path)
        found = None if own else self._routes.get(head.path) or self._find_routes().get(head.path)
        if own is None and found is None:
            if head.path.startswith(MODEL_HEAD):
                problem = "there is no such model: a model here is an agent, and GET /v1/models lists them"
                raise BadRequest(404, problem, code="model_not_found")
            raise BadRequest(404, "there is nothing here", code="not_found")
        self._judge_names(head, own is not None)
        if found is not None:
            await self._ask_route(found, head, incoming, line)
        elif own is not None:
            await self._ask_own(own, head, incoming, line)

    def _judge_names(self, head: WebRequest, is_own: bool) -> None:
        """Check ``Host`` and ``Origin``. A webhook may use any name: its caller authenticates otherwise."""
        gateway = self._gateway
        host, origin = head.headers.get("host"), head.headers.get("origin")
        ours = host_fits(host, gateway.bind, names(self._settings.hosts, gateway.allow_origins))
        if is_own and not ours:
            problem = "this name is not known here. List it in channels.http.hosts"
            raise BadRequest(403, problem, "permission_error", code="host_not_allowed")
        if not origin_fits(origin, host, ours, gateway.allow_origins):
            problem = "pages of this origin may not call. List it in gateway.allowOrigins"
            raise BadRequest(403, problem, "permission_error", code="origin_not_allowed")

    async def _ask_route(
        self, found: tuple[str, WebRoute], head: WebRequest, incoming: Incoming, line: "_ResponseWriter"
    ) -> None:
        route = found[1]
        _judge_method(head, route.methods)
        _judge_length(head, route.body_bytes)
        answer = await self._ask_started(found, head, lambda one: _now(one.admit, head), may_be_none=True)
        if answer is None:
            reading = self._bodies.read(incoming, route.body_bytes, route.body_seconds)
            whole = replace(head, body=await _body(reading, route.body_bytes))
            answer = await self._ask_started(found, head, lambda one: one.answer(whole))
        await line.send(answer)

    async def _ask_started(
        self, found: tuple[str, WebRoute], head: WebRequest, step: AskRoute, may_be_none: bool = False
    ) -> Any:
        """Call a route; while channels start, ask again after a 503, with the route of the newest settings."""
        while True:
            answer = await self._call_plugin(found[0], head, partial(step, found[1]), may_be_none)
            newest = self
            while newest._after:
                newest = newest._after[-1]
            if answer is None or answer.status != 503 or self._now() - newest._began > START_SECONDS:
                return answer
            await asyncio.sleep(_START_LOOK_SECONDS)
            found = newest._find_routes().get(head.path, found)

    async def _call_plugin(
        self, plugin: str, head: WebRequest, step: Callable[[], Awaitable[Any]], may_be_none: bool = False
    ) -> Any:
        """Call code of a plugin; log what it raises, without details for the caller."""
        try:
            async with asyncio.timeout(ROUTE_SECONDS):
                answer = await step()
            if answer is not None or not may_be_none:
                _check(answer)
        except BaseException as why:
            task = asyncio.current_task()
            if isinstance(why, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            _log.error(
                "plugin %s: its route %s failed: %s: %s",
                plugin,
                head.path,
                type(why).__name__,
                why,
                exc_info=why,
            )
            raise BadRequest(500, "this route failed", "server_error", code="internal_error") from None
        return answer

    async def _ask_own(
        self, own: OwnRoute, head: WebRequest, incoming: Incoming, line: "_ResponseWriter"
    ) -> None:
        page = _page_headers(head, own, self._gateway.allow_origins)
        line.headers |= page
        if head.method == "OPTIONS" and page and "access-control-request-method" in head.headers:
            await line.send(WebAnswer(204))
            return
        _judge_method(head, own.methods)
        known = self._authenticate(head, own.open)
        body = b""
        if head.method == "POST":
            if head.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                raise BadRequest(
                    415, "send JSON: Content-Type: application/json", code="unsupported_media_type"
                )
            _judge_length(head, OWN_BODY_BYTES)
            reading = bodies.read(incoming, OWN_BODY_BYTES, OWN_BODY_SECONDS)
            body = await _body(reading, OWN_BODY_BYTES)
        answer = await attended(self._answer_own(own, replace(head, body=body), known), incoming)
        if isinstance(answer, StreamedAnswer):
            await attended(line.stream(answer), incoming)
        elif answer is not None:
            await line.send(answer)

    async def _answer_own(
        self, own: OwnRoute, request: WebRequest, known: bool
    ) -> WebAnswer | StreamedAnswer:
        try:
            return await own.answer(request, known)
        except BadRequest:
            raise
        except Exception:  # noqa: BLE001 - one request, not the listener
            _log.exception("%s failed", request.path)
            raise BadRequest(500, "something broke inside claw; its log says what", "server_error") from None

    def _authenticate(self, head: WebRequest, open_: bool) -> bool:
        """Check the token; return False only if none is required and none was sent."""
        shown = head.headers.get("authorization")
        if shown is None and open_:
            return False
        try:
            secret = self._gateway.auth.token
            token, self._unread = secret.reveal() if secret else "", ""
        except ConfigError as why:
            if str(why) != self._unread:  # once, not per request
                _log.error("gateway.auth.token: %s", why)
            token, self._unread = "", str(why)
        if not token.strip():
            raise BadRequest(503, SET_A_TOKEN, "authentication_error", code="no_token_configured")
        if shown is None:
            raise _unauthorized("say who you are: Authorization: Bearer TOKEN")
        scheme, _, given = shown.partition(" ")
        right = hmac.compare_digest(given.strip().encode("utf-8", "replace"), token.encode())
        if right and scheme.lower() == "bearer":
            return True
        now = self._now()
        if wait := self._attempts.wait_seconds(head.peer, now):
            headers = {"retry-after": str(int(wait) + 1), "x-should-retry": "false"}
            problem = "too many wrong tokens: wait before the next try"
            raise BadRequest(429, problem, "rate_limit_error", code="too_many_attempts", headers=headers)
        if self._attempts.wrong(head.peer, now):
            template = "many wrong tokens, the last from {address}: delayed for a minute"
            _log.warning(t(template, address=canonical(head.peer)))
        raise _unauthorized("the token is wrong")

    def _find_routes(self) -> dict[str, tuple[str, WebRoute]]:
        """Return the routes of plugins by path; collect them again when a plugin was loaded meanwhile."""
        answers = self._config.contributions("register_routes")
        if len(answers) != len(self._answers):
            self._answers = answers
            found: dict[str, tuple[str, WebRoute]] = {}
            for plugin, route in answers:
                if problem := _route_problem(route, self._own, found):
                    _log.warning("plugin %s: a route is skipped: %s", plugin, problem)
                else:
                    found[route.path] = (plugin, route)
            self._routes = found
        return self._routes


def _route_problem(route: Any, own: Mapping[str, OwnRoute], found: Mapping[str, tuple[str, WebRoute]]) -> str:
    if not isinstance(route, WebRoute):
        return f"it answered with {type(route).__name__}, not WebRoute"
    if not re.fullmatch(r"/[!-~]*", route.path) or "?" in route.path or "#" in route.path:
        return f"{route.path!r} is no path: it begins with / and is written as in a URL"
    if route.path in own or route.path.startswith("/v1/"):
        return f"{route.path} is the gateway's own"
    if route.path in found:
        return f"plugin {found[route.path][0]} has {route.path} already"
    return ""


def _head(scope: Mapping[str, Any]) -> tuple[WebRequest, bool]:
    """Return the head of a request, and whether a body follows. A repeated ``Authorization`` is ignored."""
    headers: dict[str, str] = {}
    for raw_name, raw in scope["headers"]:
        name, value = raw_name.decode("latin-1"), raw.decode("latin-1")
        if name in headers:
            value = "" if name in ("authorization", "origin") else f"{headers[name]}, {value}"
        headers[name] = value
    has_body = "transfer-encoding" in headers or headers.get("content-length", "0").strip() not in ("0", "")
    host, port = scope.get("client") or ("", "")
    path, query = scope["raw_path"].decode("latin-1"), scope["query_string"].decode("latin-1")
    connection = f"{host} {port}".strip()
    return WebRequest(scope["method"], path, query, headers, peer=host, connection=connection), has_body


def _judge_method(head: WebRequest, methods: frozenset[str]) -> None:
    if head.method not in methods:
        headers = {"allow": ", ".join(sorted(methods))}
        raise BadRequest(405, f"{head.method} is not for here", code="method_not_allowed", headers=headers)


def _judge_length(head: WebRequest, most_bytes: int) -> None:
    length = head.headers.get("content-length", "0")
    if length.isdigit() and int(length) > most_bytes:
        raise _too_large(most_bytes)


async def _body(reading: Awaitable[bytes], most_bytes: int) -> bytes:
    try:
        return await reading
    except bodies.TooLarge:
        raise _too_large(most_bytes) from None
    except bodies.TooSlow:
        raise BadRequest(408, "the body took too long", code="request_timeout") from None


def _too_large(most_bytes: int) -> BadRequest:
    return BadRequest(413, f"the body is too large: {most_bytes} bytes at most", code="request_too_large")


def _unauthorized(problem: str) -> BadRequest:
    headers = {"www-authenticate": "Bearer"}
    return BadRequest(401, problem, "authentication_error", code="invalid_api_key", headers=headers)


def _check(answer: Any) -> None:
    """Check that the answer of a route can be sent.

    :raises TypeError: it is no answer.
    :raises ValueError: it cannot be sent.
    """
    if not isinstance(answer, WebAnswer) or not isinstance(answer.body, bytes):
        raise TypeError(f"it answered with {type(answer).__name__}, not WebAnswer of bytes")
    if not 200 <= answer.status <= 599:
        raise ValueError(f"{answer.status} is no status")
    for name, value in {**answer.headers, "content-type": answer.content_type}.items():
        if not re.fullmatch(r"[A-Za-z0-9-]+", name) or _BAD_HEADER.search(value):
            raise ValueError(f"the header {name} cannot be sent")
        value.encode("latin-1")


async def _now(step: Callable[[WebRequest], Any], head: WebRequest) -> Any:
    return step(head)


def _page_headers(head: WebRequest, own: OwnRoute, allowed: tuple[str, ...]) -> dict[str, str]:
    """Return the CORS headers for a listed page (https://fetch.spec.whatwg.org, CORS)."""
    origin = head.headers.get("origin")
    if not origin or not allowed:
        return {}
    return {
        "access-control-allow-origin": origin,
        "access-control-allow-methods": ", ".join(sorted(own.methods)),
        "access-control-allow-headers": "authorization, content-type, idempotency-key",
        "access-control-max-age": "600",
        "vary": "origin",
    }


async def attended(work: Coroutine[Any, Any, T], receive: Receive) -> T | None:
    """Run ``work`` until it ends or the caller disconnects; then return None."""
    here, is_gone = asyncio.current_task(), False
    assert here is not None

    async def until_gone() -> None:
        nonlocal is_gone
        while (await receive())["type"] != "http.disconnect":
            pass
        is_gone = True
        here.cancel()

    watch = asyncio.ensure_future(until_gone())
    try:
        return await work
    except asyncio.CancelledError:
        if is_gone and here.uncancel() == 0:
            return None
        raise
    finally:
        watch.cancel()


class _ResponseWriter:
    """The response channel to one caller.

    :ivar headers: sent with every response.
    """

    def __init__(self, send: Send, incoming: Incoming) -> None:
        self._send, self._incoming = send, incoming
        self.status = 0
        self.headers: dict[str, str] = {}

    async def send(self, answer: WebAnswer) -> None:
        """Send a whole response. If a part of the request body is unread, close the connection."""
        unread = self._incoming.unread
        body = b"" if answer.status in (204, 304) else answer.body
        headers = {"content-type": answer.content_type, "cache-control": "no-store", **self.headers}
        headers |= {name.lower(): value for name, value in answer.headers.items()}
        headers |= {"content-length": str(len(body))} if answer.status not in (204, 304) else {}
        if unread:
            headers["connection"] = "close"
        await self._start(answer.status, headers)
        await self._send({"type": "http.response.body", "body": body, "more_body": unread})
        if unread:
            await bodies.drained(self._incoming)
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def stream(self, answer: StreamedAnswer) -> None:
        """Send a response in pieces, each as soon as it is available."""
        headers = {"content-type": answer.content_type, "cache-control": "no-store", **self.headers}
        await self._start(200, headers | dict(answer.headers))
        try:
            async for piece in answer.pieces:
                await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        finally:
            with suppress(AttributeError):
                await answer.pieces.aclose()  # type: ignore[attr-defined]
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _start(self, status: int, headers: Mapping[str, str]) -> None:
        self.status = status
        raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        raw.append((b"x-content-type-options", b"nosniff"))
        await self._send({"type": "http.response.start", "status": status, "headers": raw})


def as_json(plain: Any, headers: Mapping[str, str] | None = None) -> WebAnswer:
    """Return a JSON response."""
    return WebAnswer(200, encoded(plain), headers=dict(headers or {}))
