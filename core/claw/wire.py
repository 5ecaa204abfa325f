"""The wire of a model service, for provider plugins: events out of bytes, failures into ``ProviderError``.

A provider plugin says how to ask (its SDK's transport and keys) and how to fold events into an answer; ``converse``
does the rest: limits of time, odd pieces, answers that are not a stream, broken connections, closing.
Format of a stream: WHATWG HTML, "Server-sent events", 9.2.6.
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

from claw.arguments import without_nulls
from claw.errors import ConfigError, ProviderError, UsageError
from claw.failure import failed, hide, told
from claw.guard.fetch import STALE, origin_of
from claw.guard.handshake import causes, unsafe_of
from claw.patience import Patience, Watch
from claw.provider import Finished, ModelEvent
from claw.transcript import Assistant

EVENT_BYTES = 16 * 1024 * 1024
ANSWER_CHARS = 4_000_000
"""Several times what any model of today can say at once: a stream that says more has no end."""
DONE = "[DONE]"
_JSON_BODY = frozenset({"application/json", "text/html"})
_STRANGE = (KeyError, TypeError, AttributeError, IndexError, ValueError)
_LINGER_SECONDS = 0.05
_STALE_TIMES = 3
_ROWS_OF_A_BLOCK = 128


class Answer(Protocol):
    """What we need of an HTTP response whose body is still to be read (``httpx2.Response``)."""

    @property
    def headers(self) -> Mapping[str, str]: ...
    def aiter_bytes(self) -> AsyncIterator[bytes]: ...
    async def aclose(self) -> None: ...


class Fold(Protocol):
    """The answer of one call while it comes in.

    :param heard: how much of the answer is here, in characters; a call, a seal and the reason to stop count as well. As
        long as it stays the same nothing was said, whatever came: an event without words is a keep-alive.
    :param whole: the answer is complete, though figures may still follow.
    :param done: nothing more is to come: stop reading, whether or not the service closes.
    """

    @property
    def heard(self) -> int: ...
    @property
    def whole(self) -> bool: ...
    @property
    def done(self) -> bool: ...
    def take(self, name: str, data: Any) -> Iterable[ModelEvent]:
        """Hear one event: its name and its parsed data (``DONE`` comes with None)."""
        ...

    def take_body(self, body: Any) -> Iterable[ModelEvent]:
        """Hear the whole answer at once, from a service that does not stream."""
        ...

    def finish(self) -> Assistant:
        """The answer. :raises ProviderError: reason truncated, when it is not whole."""
        ...


def base_url(name: str, written: str) -> str:
    """The address of a service as its SDK wants it: with a scheme, without a slash at the end.

    :param name: of the provider.
    :raises ConfigError: it is no address of an HTTP service.
    """
    try:
        origin, written = origin_of(written), written.strip()
    except UsageError as wrong:
        raise ConfigError(f"providers.{name}.baseUrl", "{why}", why=str(wrong).rstrip(".")) from None
    return origin + urlsplit(written if "//" in written else f"//{written}").path.rstrip("/")


async def converse(
    ask: Callable[[], Awaitable[Answer]], fold: Fold, *, service: str, patience: Patience, secret: str = ""
) -> AsyncIterator[ModelEvent]:
    """Ask once and tell the answer as it comes; the last event is ``Finished``.

    :param ask: makes the one request, body unread.
    :param service: for errors, ``provider/model``.
    :param secret: the key in use, never to be seen in an error.
    :raises ProviderError: and nothing else, apart from cancellation.
    """
    watch = Watch(patience)
    try:
        with watch.waiting():
            answer = await _asked(ask)
        try:
            async with aclosing(_listen(answer, fold, service, watch)) as events:
                async for event in events:
                    yield event
        finally:
            await answer.aclose()
        message = _finished(fold, service)
    except ProviderError as error:
        error.where = error.where or service
        raise hide(error, secret) from None
    except TimeoutError:
        raise watch.late(service) from None
    except Exception as error:  # noqa: BLE001  the vendor's SDK: what it raises carries the key's request
        raise hide(_unsafe(error, service) or told(error, service), secret) from None
    finally:
        watch.close()
    yield Finished(message)


async def _asked(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """Ask; once more when only a connection from an earlier call was gone: services close those when they like.

    Whether the service has read the request then cannot be known: at worst a model thinks twice.
    """
    for _ in range(_STALE_TIMES):
        try:
            return await ask()
        except Exception as error:
            if not _is_stale(error):
                raise
    return await ask()


def _is_stale(error: BaseException) -> bool:
    return any(STALE in str(one) for one in causes(error))


def _unsafe(error: BaseException, service: str) -> ProviderError | None:
    """The error for a connection that cannot be secured, wherever the vendor's client has put it."""
    if (found := unsafe_of(error)) is None:
        return None
    problem, fix, values = found.parts
    texts: dict[str, Any] = dict(values)
    return ProviderError(problem, fix=fix, reason="tls", where=service, **texts)


def _finished(fold: Fold, service: str) -> Assistant:
    try:
        return fold.finish()
    except _STRANGE as why:
        raise _strange(why, service) from None


async def _listen(answer: Answer, fold: Fold, service: str, watch: Watch) -> AsyncGenerator[ModelEvent, None]:
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    async with aclosing(answer.aiter_bytes()) as chunks:  # type: ignore[type-var]
        if kind in _JSON_BODY:
            with watch.waiting():
                body = _parse(await _whole(chunks), service)
            try:
                for event in fold.take_body(body):
                    yield event
            except _STRANGE as why:
                raise _strange(why, service) from None
            return
        try:
            async with aclosing(_events(chunks, fold, service, watch)) as events:
                async for name, data in events:
                    before = fold.heard
                    try:
                        for event in fold.take(name, data):
                            yield event
                    except _STRANGE as why:
                        raise _strange(why, service) from None
                    if fold.done:
                        break
                    if fold.heard > ANSWER_CHARS:
                        raise _endless(service)
                    if fold.heard != before:
                        watch.heard()
        except Exception:
            if not fold.whole:  # what breaks behind a whole answer does not matter
                raise
            return
        if fold.done:
            await _linger(chunks)


def _strange(why: Exception, service: str) -> ProviderError:
    """The error for an event that is not of the form that a fold knows."""
    return ProviderError(
        "the service sent something that is no part of an answer ({kind})",
        fix="check that providers.{name} speaks this protocol", reason="server", retryable=True, where=service,
        name=service.partition("/")[0], kind=type(why).__name__,
    )  # fmt: skip


async def _whole(chunks: AsyncIterator[bytes]) -> bytes:
    parts, size = [], 0
    async for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size > EVENT_BYTES:
            raise _endless()
    return b"".join(parts)


def _endless(service: str = "") -> ProviderError:
    return ProviderError(
        "the service sent an answer without end", reason="server", retryable=True, where=service
    )


async def _events(
    chunks: AsyncIterator[bytes], fold: Fold, service: str, watch: Watch
) -> AsyncGenerator[tuple[str, Any], None]:
    decoder = Decoder()
    while True:
        try:
            with watch.waiting(whole=fold.whole):
                found = decoder.feed(await anext(chunks))
        except StopAsyncIteration:
            found = []
        else:
            if not found:
                continue
        last = not found
        for name, data in decoder.end() if last else found:
            if name != "ping" and data.strip():
                yield (DONE, None) if data.strip() == b"[DONE]" else (name, _parse(data, service, cut=last))
        if last:
            return


async def _linger(chunks: AsyncIterator[bytes]) -> None:
    """Read the end of the body when it is already here, so that the connection can be used again."""
    try:
        async with asyncio.timeout(_LINGER_SECONDS):
            async for _ in chunks:
                pass
    except Exception:  # noqa: BLE001  the answer is whole: how its connection ends does not matter
        pass


def _parse(data: bytes, service: str, *, cut: bool = False) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        if cut:
            raise failed(service, reason="truncated") from None
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


class Decoder:
    """Server-sent events out of bytes that may be cut anywhere. Linear in their length."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._size = 0
        self._after_cr = False
        self._name = ""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[tuple[str, bytes]]:
        """Take the next bytes; answer with the events they complete, as (name, data)."""
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            self._after_cr = False
        if chunk:
            self._after_cr = chunk.endswith(b"\r")
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        self._size += len(chunk)
        if self._size > EVENT_BYTES:
            raise ProviderError("the service sent an event without end", reason="server", retryable=True)
        if b"\n" not in chunk:
            self._rest.append(chunk)
            return []
        *lines, rest = b"".join([*self._rest, chunk]).split(b"\n")
        self._rest = [rest]
        return self._events(lines)

    def end(self) -> list[tuple[str, bytes]]:
        """The stream is over: the event that has no empty line behind it, if there is one."""
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


MOST_NESTED = 100
"""Levels of arguments. Whoever copies, compares or shows them goes down level by level, Python not below some hundred."""


def tool_arguments(text: str, parameters: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
    """The arguments of a call; None when they are not a whole JSON object, or nested deeper than :data:`MOST_NESTED`. No
    text at all is no arguments.

    :param parameters: the tool's schema: a null sent for an optional argument that admits none is left out.
    """
    try:
        value = msgspec.json.decode(text.strip() or "{}")
        if isinstance(value, str):
            value = msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(value, dict) or (text.count("{") + text.count("[") > MOST_NESTED and _is_deep(value)):
        return None
    return without_nulls(value, parameters) if parameters else value


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MOST_NESTED):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
    return any(isinstance(each, dict | list) for each in level)


def mint_call_id() -> str:
    """An id for a call that came without one."""
    return f"call_{uuid4().hex[:24]}"


class JsonRows:
    """The elements of a JSON list, each written once. The older ones stand in blocks, several of them in what looks like
    one element, so that a list of thousands is copied in few pieces.
    """

    def __init__(self) -> None:
        self._blocks: list[msgspec.Raw] = []
        self._rows: list[bytes] = []

    @property
    def whole(self) -> list[msgspec.Raw]:
        """All of them, for ``msgspec.json.encode``."""
        return [*self._blocks, *map(msgspec.Raw, self._rows)]

    def add(self, row: Any) -> None:
        """One more."""
        self._rows.append(msgspec.json.encode(row))
        if len(self._rows) == _ROWS_OF_A_BLOCK:
            self._blocks.append(msgspec.Raw(b",".join(self._rows)))
            self._rows = []

    def fork(self) -> "JsonRows":
        """A copy that goes on by itself."""
        other = JsonRows()
        other._blocks, other._rows = [*self._blocks], [*self._rows]
        return other


class CallIds:
    """The ids of calls, as one request may show them: unique in it, of a safe alphabet, short enough.

    Ids of other makers are replaced by a digest, the same one each time, so that cached prefixes hold.

    :param limit: characters. OpenAI takes 40, Anthropic 64.
    :param exact: so many, letters and digits only; Mistral wants 9.
    """

    def __init__(self, limit: int = 40, *, exact: bool = False) -> None:
        self._exact = limit if exact else 0
        form = rf"[A-Za-z0-9]{{{limit}}}" if exact else rf"[A-Za-z0-9_-]{{1,{limit}}}"
        self._fits = re.compile(form)
        self._used: dict[str, int] = {}
        self._open: dict[str, list[str]] = {}
        self._now: dict[str, str] = {}

    def fork(self) -> "CallIds":
        """A copy that goes on by itself."""
        other = copy(self)
        other._used, other._now = {**self._used}, {**self._now}
        other._open = {call_id: [*waiting] for call_id, waiting in self._open.items() if waiting}
        return other

    def of_call(self, call_id: str) -> str:
        """The id to write for a call."""
        times = self._used[call_id] = self._used.get(call_id, 0) + 1
        written = call_id
        if times > 1 or not self._fits.fullmatch(call_id):
            digest = hashlib.sha256(f"{times}:{call_id}".encode("utf-8", "surrogatepass")).hexdigest()
            written = digest[: self._exact] if self._exact else f"call_{digest[:24]}"
        self._open.setdefault(call_id, []).append(written)
        return written

    def of_result(self, call_id: str) -> str:
        """The id to write for the result of the oldest call of that id that has none: one answer may use an id twice."""
        if waiting := self._open.get(call_id):
            self._now[call_id] = waiting.pop(0)
        return self._now.get(call_id, call_id)
