"""HTTP streaming of a model service, for provider plugins: decode events, turn failures into
``ProviderError``.

A provider plugin supplies the request (its SDK's transport and keys) and a ``AnswerBuilder`` that builds the answer
from events; ``converse`` does the rest: time limits, unexpected events, answers that are not a stream, broken
connections, closing. Format of a stream: WHATWG HTML, "Server-sent events", 9.2.6.
"""

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from copy import copy
from typing import Any, Protocol
from urllib.parse import urlsplit
from uuid import uuid4

import msgspec
from claw import Assistant, ConfigError, Finished, ModelEvent, ProviderError, UsageError
from claw.runtime import origin_of, without_nulls

from claw_provider_sdk.errors import error_from_exception, mask_secret, provider_error
from claw_provider_sdk.timeouts import StreamDeadline, StreamTimeouts

EVENT_BYTES = 16 * 1024 * 1024
ANSWER_CHARS = 4_000_000
"""Several times the longest answer of any model of today: a longer stream is treated as endless."""
STREAM_DONE = "[DONE]"
_JSON_BODY = frozenset({"application/json", "text/html"})
_WRONG_SHAPE = (KeyError, TypeError, AttributeError, IndexError, ValueError)
_DRAIN_SECONDS = 0.05
_STALE_RETRIES = 3
_BLOCK_ROWS = 128


class HttpAnswer(Protocol):
    """The part of an HTTP response with an unread body that we use (``httpx2.Response``)."""

    @property
    def headers(self) -> Mapping[str, str]: ...
    def aiter_bytes(self) -> AsyncIterator[bytes]: ...
    async def aclose(self) -> None: ...


class AnswerBuilder(Protocol):
    """Builder of one call's answer from its events.

    :param received: characters of the answer received so far; a tool call, a signature and the stop reason count
        as well. While it stays the same there was no output: an event without content is a keep-alive.
    :param whole: the answer is complete, though usage figures may still follow.
    :param done: nothing more is to come: stop reading, even if the service does not close.
    """

    @property
    def received(self) -> int: ...
    @property
    def whole(self) -> bool: ...
    @property
    def done(self) -> bool: ...
    def take(self, name: str, data: Any) -> Iterable[ModelEvent]:
        """Process one event: its name and its parsed data (``STREAM_DONE`` comes with None)."""
        ...

    def take_body(self, body: Any) -> Iterable[ModelEvent]:
        """Process the whole answer at once, from a service that does not stream."""
        ...

    def finish(self) -> Assistant:
        """Return the answer. :raises ProviderError: reason truncated, when it is incomplete."""
        ...


def base_url(name: str, written: str) -> str:
    """Return the address of a service in the form that its SDK expects: with a scheme, without a slash at the
    end.

    :param name: of the provider.
    :raises ConfigError: it is not the address of an HTTP service.
    """
    try:
        origin, written = origin_of(written), written.strip()
    except UsageError as wrong:
        key, advice = f"providers.{name}.baseUrl", wrong.fix
        raise ConfigError(key, "{why}", "{advice}", why=wrong.problem, advice=advice) from None
    return origin + urlsplit(written if "//" in written else f"//{written}").path.rstrip("/")


async def stream_answer(
    ask: Callable[[], Awaitable[HttpAnswer]],
    builder: AnswerBuilder,
    *,
    service: str,
    timeouts: StreamTimeouts,
    secret: str = "",
    prepare: Callable[[], Awaitable[object]] | None = None,
) -> AsyncIterator[ModelEvent]:
    """Send one request and yield the answer as it arrives; the last event is ``Finished``.

    :param ask: makes the one request, body unread.
    :param service: ``provider/model``, for errors.
    :param secret: the key in use; it is masked in errors.
    :param prepare: awaited before the time limits begin, such as the import of the vendor's SDK: it takes seconds on a
        slow machine, and the service does not cause them.
    :raises ProviderError: and nothing else, apart from cancellation.
    """
    watch = StreamDeadline(timeouts)
    try:
        if prepare:
            await prepare()
            watch.start()
        with watch.timeout():
            answer = await _send(ask)
        try:
            async with aclosing(_stream(answer, builder, service, watch)) as events:
                async for event in events:
                    yield event
        finally:
            await answer.aclose()
        message = _finished(builder, service)
    except ProviderError as error:
        error.where = error.where or service
        raise mask_secret(error, secret) from None
    except TimeoutError:
        raise watch.timeout_error(service) from None
    except Exception as error:  # noqa: BLE001  the vendor's SDK: what it raises carries the key's request
        raise mask_secret(
            _tls_error(error, service) or error_from_exception(error, service), secret
        ) from None
    finally:
        watch.close()
    yield Finished(message)


async def _send(ask: Callable[[], Awaitable[HttpAnswer]]) -> HttpAnswer:
    """Send the request; retry if only a kept-alive connection was closed: services close those at any time.

    The service may have read the request then: at worst the model answers twice.
    """
    for _ in range(_STALE_RETRIES):
        try:
            return await ask()
        except Exception as error:
            if not _is_stale(error):
                raise
    return await ask()


def _is_stale(error: BaseException) -> bool:
    from claw_http_sdk import STALE_CONNECTION, error_chain  # not needed by a provider without HTTP

    return any(STALE_CONNECTION in str(one) for one in error_chain(error))


def _tls_error(error: BaseException, service: str) -> ProviderError | None:
    """Return the error for a connection that cannot be secured, however deep the vendor's client wraps it."""
    from claw_http_sdk import TlsError, error_chain

    found = next((one for one in error_chain(error) if isinstance(one, TlsError)), None)
    if found is None:
        return None
    problem, fix, values = found.parts
    return ProviderError(problem, fix=fix, reason="tls", where=service, **dict[str, Any](values))


def _finished(builder: AnswerBuilder, service: str) -> Assistant:
    try:
        return builder.finish()
    except _WRONG_SHAPE as why:
        raise _malformed(why, service) from None


async def _stream(
    answer: HttpAnswer, builder: AnswerBuilder, service: str, watch: StreamDeadline
) -> AsyncGenerator[ModelEvent, None]:
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    async with aclosing(answer.aiter_bytes()) as chunks:  # type: ignore[type-var]
        if kind in _JSON_BODY:
            with watch.timeout():
                body = _parse(await _read_body(chunks), service)
            try:
                for event in builder.take_body(body):
                    yield event
            except _WRONG_SHAPE as why:
                raise _malformed(why, service) from None
            return
        try:
            async with aclosing(_events(chunks, builder, service, watch)) as events:
                async for name, data in events:
                    before = builder.received
                    try:
                        for event in builder.take(name, data):
                            yield event
                    except _WRONG_SHAPE as why:
                        raise _malformed(why, service) from None
                    if builder.done:
                        break
                    if builder.received > ANSWER_CHARS:
                        raise _too_long(service)
                    if builder.received != before:
                        watch.output_received()
        except Exception:
            if not builder.whole:  # an error after the whole answer does not matter
                raise
            return
        if builder.done:
            await _drain(chunks)


def _malformed(why: Exception, service: str) -> ProviderError:
    """Return the error for an event whose form the builder does not know."""
    return ProviderError(
        "the service sent an unexpected response ({kind})",
        fix="check that providers.{name} uses this protocol", reason="server", retryable=True, where=service,
        name=service.partition("/")[0], kind=type(why).__name__,
    )  # fmt: skip


async def _read_body(chunks: AsyncIterator[bytes]) -> bytes:
    parts, size = [], 0
    async for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size > EVENT_BYTES:
            raise _too_long()
    return b"".join(parts)


def _too_long(service: str = "") -> ProviderError:
    return ProviderError(
        "the service sent an answer that is too large", reason="server", retryable=True, where=service
    )


async def _events(
    chunks: AsyncIterator[bytes], builder: AnswerBuilder, service: str, watch: StreamDeadline
) -> AsyncGenerator[tuple[str, Any], None]:
    decoder = SseDecoder()
    while True:
        try:
            with watch.timeout(whole=builder.whole):
                found = decoder.feed(await anext(chunks))
        except StopAsyncIteration:
            found = []
        else:
            if not found:
                continue
        last = not found
        for name, data in decoder.end() if last else found:
            if name != "ping" and data.strip():
                yield (
                    (STREAM_DONE, None)
                    if data.strip() == b"[DONE]"
                    else (name, _parse(data, service, cut=last))
                )
        if last:
            return


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Read the end of the body when it is already here, so that the connection can be reused."""
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for _ in chunks:
                pass
    except Exception:  # noqa: BLE001  the answer is complete: an error at the end of its connection does not matter
        pass


def _parse(data: bytes, service: str, *, cut: bool = False) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        if cut:
            raise provider_error(service, reason="truncated") from None
    if data.lstrip()[:1] == b"<":
        raise ProviderError(
            "the address answered with a web page, not with a model's answer",
            fix="check providers.{name}.baseUrl",
            reason="bad_request",
            where=service,
            name=service.partition("/")[0],
        )
    raise ProviderError(
        "the service sent something that is not JSON", reason="server", retryable=True, where=service
    )


class SseDecoder:
    """Decoder of server-sent events from bytes that may be cut anywhere. Linear in their length."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._size = 0
        self._after_cr = False
        self._name = ""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[tuple[str, bytes]]:
        """Add the next bytes; return the events they complete, as (name, data)."""
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            self._after_cr = False
        if chunk:
            self._after_cr = chunk.endswith(b"\r")
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        self._size += len(chunk)
        if self._size > EVENT_BYTES:
            raise ProviderError(
                "the service sent an event that is too large", reason="server", retryable=True
            )
        if b"\n" not in chunk:
            self._rest.append(chunk)
            return []
        *lines, rest = b"".join([*self._rest, chunk]).split(b"\n")
        self._rest = [rest]
        return self._events(lines)

    def end(self) -> list[tuple[str, bytes]]:
        """End the stream; return the last event if no empty line follows it."""
        rest, self._rest = b"".join(self._rest), []
        return self._events([rest, b""])

    def _events(self, lines: list[bytes]) -> list[tuple[str, bytes]]:
        found = []
        for line in lines:
            if not line:
                if self._data:
                    found.append((self._name, b"\n".join(self._data)))
                self._name, self._data, self._size = "", [], 0
                continue
            field, _, value = line.removeprefix(b"\xef\xbb\xbf").partition(b":")
            if field == b"data":
                self._data.append(value.removeprefix(b" "))
            elif field == b"event":
                self._name = value.removeprefix(b" ").decode(errors="replace")
        return found


MAX_NESTING = 100
"""Limit of nesting levels in arguments: code that copies, compares or shows them recurses, and Python limits
recursion.
"""


def tool_arguments(text: str, parameters: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
    """Parse the arguments of a call; None when they are not a whole JSON object, or nested deeper than
    :data:`MAX_NESTING`. Empty text means no arguments.

    :param parameters: the tool's schema: a null sent for an optional argument that admits none is left out.
    """
    try:
        value = msgspec.json.decode(text.strip() or "{}")
        if isinstance(value, str):
            value = msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(value, dict) or (text.count("{") + text.count("[") > MAX_NESTING and _is_deep(value)):
        return None
    return without_nulls(value, parameters) if parameters else value


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_NESTING):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
    return any(isinstance(each, dict | list) for each in level)


def new_call_id() -> str:
    """Make an id for a call that came without one."""
    return f"call_{uuid4().hex[:24]}"


class JsonRows:
    """The elements of a JSON list, each encoded once. Older ones are joined into blocks, several rows in what
    looks like one element, so that a list of thousands is copied in few pieces.
    """

    def __init__(self) -> None:
        self._blocks: list[msgspec.Raw] = []
        self._rows: list[bytes] = []

    @property
    def rows(self) -> list[msgspec.Raw]:
        """All rows, for ``msgspec.json.encode``."""
        return [*self._blocks, *map(msgspec.Raw, self._rows)]

    def add(self, row: Any) -> None:
        """Append a row."""
        self._rows.append(msgspec.json.encode(row))
        if len(self._rows) == _BLOCK_ROWS:
            self._blocks.append(msgspec.Raw(b",".join(self._rows)))
            self._rows = []

    def fork(self) -> "JsonRows":
        """Return an independent copy."""
        other = JsonRows()
        other._blocks, other._rows = [*self._blocks], [*self._rows]
        return other


class CallIds:
    """Call ids as one request may contain them: unique in it, of a safe alphabet, short enough.

    An id that does not fit is replaced by a digest, the same one each time, so that cached prefixes hold.

    :param limit: characters. OpenAI takes 40, Anthropic 64.
    :param exact: exactly ``limit`` letters and digits; Mistral wants 9.
    """

    def __init__(self, limit: int = 40, *, exact: bool = False) -> None:
        self._exact = limit if exact else 0
        form = rf"[A-Za-z0-9]{{{limit}}}" if exact else rf"[A-Za-z0-9_-]{{1,{limit}}}"
        self._allowed = re.compile(form)
        self._used: dict[str, int] = {}
        self._open: dict[str, list[str]] = {}
        self._now: dict[str, str] = {}

    def fork(self) -> "CallIds":
        """Return an independent copy."""
        other = copy(self)
        other._used, other._now = {**self._used}, {**self._now}
        other._open = {call_id: [*waiting] for call_id, waiting in self._open.items() if waiting}
        return other

    def of_call(self, call_id: str) -> str:
        """Return the id to write for a call."""
        times = self._used[call_id] = self._used.get(call_id, 0) + 1
        written = call_id
        if times > 1 or not self._allowed.fullmatch(call_id):
            digest = hashlib.sha256(f"{times}:{call_id}".encode("utf-8", "surrogatepass")).hexdigest()
            written = digest[: self._exact] if self._exact else f"call_{digest[:24]}"
        self._open.setdefault(call_id, []).append(written)
        return written

    def of_result(self, call_id: str) -> str:
        """Return the id to write for the result of the oldest call of that id without one: one answer may use
        an id twice.
        """
        if waiting := self._open.get(call_id):
            self._now[call_id] = waiting.pop(0)
        return self._now.get(call_id, call_id)
