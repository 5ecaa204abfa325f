"""The wire of a model service: events out of bytes cut anywhere, limits of time, ids, arguments."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest
from claw.contracts.errors import ConfigError, ProviderError
from claw.contracts.provider import Finished, TextDelta
from claw.contracts.transcript import Assistant, Text
from claw_provider_sdk.stream import CallIds, SseDecoder, base_url, stream_answer, tool_arguments
from claw_provider_sdk.timeouts import StreamTimeouts
from hypothesis import given, strategies as st


def decoded(pieces: list[bytes]) -> list[tuple[str, bytes]]:
    decoder = SseDecoder()
    return [event for piece in pieces for event in decoder.feed(piece)] + decoder.end()


# --- server-sent events ---


def test_events_have_a_name_and_data():
    stream = b"event: ping\ndata: {}\n\n: keep-alive\n\ndata: 1\ndata: 2\n\nevent: nothing\n\n"

    assert decoded([stream]) == [("ping", b"{}"), ("", b"1\n2")]


def test_a_last_event_without_its_empty_line_is_parsed_at_the_end():
    assert decoded([b"data: 1\n\ndata: [DONE]"]) == [("", b"1"), ("", b"[DONE]")]


def test_a_byte_order_mark_is_no_part_of_the_first_field():
    assert decoded(["\ufeffdata: 1\n\n".encode()]) == [("", b"1")]


@given(
    st.lists(st.tuples(st.sampled_from(["", "a", "b"]), st.text("{}é🦀x: ", max_size=9)), max_size=5),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.integers(1, 9),
)
def test_line_ends_and_cuts_change_nothing(events, end, size):
    written = "".join(f"event: {name}{end}data: {data}{end}{end}" for name, data in events).encode()
    pieces = [written[start : start + size] for start in range(0, len(written), size)]

    assert decoded(pieces) == [(name, data.encode()) for name, data in events]


def test_an_event_without_end_is_refused_before_it_fills_the_memory():
    decoder = SseDecoder()
    for _ in range(16):
        decoder.feed(b"x" * (1 << 20))
    with pytest.raises(ProviderError, match="that is too large"):
        decoder.feed(b"x")


def test_decoding_is_linear_in_small_pieces():
    line = b"data: " + b"x" * 300_000
    begun = time.process_time()
    decoded([line[start : start + 1] for start in range(len(line))])

    assert time.process_time() - begun < 2


# --- a conversation ---


class Said:
    """A response whose body comes piece by piece; a number is a pause in seconds."""

    def __init__(self, *pieces: bytes | float, kind: str = "text/event-stream") -> None:
        self.headers, self.pieces, self.closed = {"content-type": kind}, pieces, False

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            if isinstance(piece, bytes):
                yield piece
            else:
                await asyncio.sleep(piece)

    async def aclose(self) -> None:
        self.closed = True


class Words:
    """Folds events whose data is a word; ``null`` is the end, ``true`` means that it is whole."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.done = self.whole = False

    @property
    def received(self) -> int:
        return sum(map(len, self.words)) + self.whole

    def take(self, name: str, data: Any) -> Iterator[TextDelta]:
        if data is None:
            self.done = True
        elif data is True:
            self.whole = True
        else:
            self.words.append(data)
            yield TextDelta(data)

    take_body = lambda self, body: self.take("", body)  # noqa: E731

    def finish(self) -> Assistant:
        return Assistant((Text(" ".join(self.words)),))


async def answer_of(said: Said, *, idle: float = 1.0, words: Words | None = None, **limits: float) -> str:
    async def ask() -> Said:
        return said

    fold = words or Words()
    timeouts = StreamTimeouts(**{"begin_seconds": 1.0, "idle_seconds": idle, **limits})
    try:
        events = [
            event
            async for event in stream_answer(ask, fold, service="acme/m", timeouts=timeouts, secret="sk-1")
        ]
    finally:
        assert said.closed
    assert isinstance(events[-1], Finished)
    return events[-1].message.text


async def test_reading_stops_at_the_end_mark_although_the_service_stays():
    begun = time.monotonic()

    assert await answer_of(Said(b'data: "a"\n\ndata: null\n\n', 60.0)) == "a"
    assert time.monotonic() - begun < 20


async def test_keep_alives_are_no_progress():
    pings = [piece for _ in range(100) for piece in (0.02, b"event: ping\ndata: {}\n\n: still here\n\n")]

    with pytest.raises(ProviderError) as error:
        await answer_of(Said(b'data: "a"\n\n', *pings), idle=0.2)

    assert (error.value.reason, error.value.retryable) == ("timeout", True)
    assert "no data for 0.2 s" in str(error.value)
    assert "providers.acme.idleTimeoutSeconds" in str(error.value)


@pytest.mark.parametrize("empty", [b'data: ""\n\n', b"event: ping\ndata: {}\n\n", b": here\n\n", b"\n", b"d"])
async def test_what_holds_no_word_is_no_beginning(empty):
    with pytest.raises(ProviderError, match=r"not start to answer within 0\.2 s.*acme\.beginTimeoutSeconds"):
        await answer_of(Said(*[piece for _ in range(100) for piece in (0.02, empty)]), begin_seconds=0.2)


async def test_an_answer_may_be_slow_to_begin_and_must_then_go_on():
    begun = Said(0.3, b'data: "a"\n\n', 0.1, b"data: null\n\n")

    assert await answer_of(begun, idle=0.2) == "a"


async def test_slow_progress_is_progress():
    pieces = [piece for _ in range(5) for piece in (0.05, b'data: "a"\n\n')]

    assert await answer_of(Said(*pieces, b"data: null\n\n"), idle=0.2) == "a a a a a"


async def test_a_call_as_a_whole_has_its_limit_too():
    endless = Said(*[piece for _ in range(100) for piece in (0.02, b'data: "a"\n\n')])

    with pytest.raises(ProviderError, match=r"not finish its answer within 0\.3 s.*acme\.timeoutSeconds"):
        await answer_of(endless, total_seconds=0.3)


async def test_an_answer_without_end_is_given_up_before_it_fills_the_memory():
    page = b'data: "%b"\n\n' % (b"x" * 100_000)

    with pytest.raises(ProviderError, match="that is too large"):
        await answer_of(Said(*[page] * 50))
    with pytest.raises(ProviderError, match="that is too large"):
        await answer_of(Said(*[b"x" * (1 << 20)] * 20, kind="application/json"))


@pytest.mark.parametrize("data", [b"5", b"{}", b"[1]", b'{"unknown": null}'])
async def test_what_is_no_part_of_an_answer_is_the_services_fault(data):
    class Picky(Words):
        def take(self, name: str, data: Any) -> Iterator[TextDelta]:
            yield TextDelta(data["text"])

    with pytest.raises(ProviderError, match="unexpected response") as error:
        await answer_of(Said(b"data: " + data + b"\n\n"), words=Picky())
    assert (error.value.reason, error.value.retryable) == ("server", True)


async def test_what_breaks_behind_a_whole_answer_does_not_matter():
    said = Said(b'data: "a"\n\ndata: true\n\n', 60.0)

    assert await answer_of(said, idle=0.1) == "a"
    assert await answer_of(Said(b'data: "a"\n\ndata: true\n\n', b"data: }nonsense{\n\n")) == "a"


async def test_a_web_page_is_reported_as_a_wrong_address():
    with pytest.raises(ProviderError, match=r"acme/m: .*web page.*providers\.acme\.baseUrl"):
        await answer_of(Said(b"<html><body>Sign in</body></html>", kind="text/html; charset=utf-8"))


async def test_what_an_sdk_raises_becomes_a_provider_error_without_the_key():
    async def ask() -> Said:
        raise OSError("no route with sk-1")

    with pytest.raises(ProviderError) as error:
        async for _ in stream_answer(
            ask, Words(), service="acme/m", timeouts=StreamTimeouts(), secret="sk-1"
        ):
            pass
    assert "sk-1" not in str(error.value)
    assert error.value.__suppress_context__


async def test_a_service_that_never_begins_is_given_up():
    async def ask() -> Said:
        await asyncio.sleep(60)
        raise AssertionError

    with pytest.raises(ProviderError) as error:
        async for _ in stream_answer(
            ask, Words(), service="acme/m", timeouts=StreamTimeouts(begin_seconds=0.05)
        ):
            pass
    assert error.value.reason == "timeout"


async def test_the_import_of_an_sdk_does_not_count_as_waiting_for_the_service():
    prepared = []

    async def prepare() -> None:
        await asyncio.sleep(0.3)
        prepared.append(True)

    async def ask() -> Said:
        return Said(b'data: "a"\n\ndata: true\n\n')

    timeouts = StreamTimeouts(begin_seconds=0.2)
    events = [
        event
        async for event in stream_answer(ask, Words(), service="acme/m", timeouts=timeouts, prepare=prepare)
    ]
    assert prepared and isinstance(events[-1], Finished)


async def test_an_sdk_that_cannot_be_imported_is_a_provider_error():
    async def prepare() -> None:
        raise ProviderError("the SDK is not installed", reason="unknown")

    async def ask() -> Said:
        raise AssertionError

    with pytest.raises(ProviderError, match="not installed"):
        async for _ in stream_answer(
            ask, Words(), service="acme/m", timeouts=StreamTimeouts(), prepare=prepare
        ):
            pass


# --- addresses, arguments, ids ---


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("https://api.acme.test/v1/", "https://api.acme.test/v1"),
        (" localhost:11434/v1 ", "http://localhost:11434/v1"),
        ("api.acme.test", "https://api.acme.test"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
    ],
)
def test_an_address_is_read_as_people_write_it(written, read):
    assert base_url("acme", written) == read


@pytest.mark.parametrize("written", ["", "not an address", "ftp://acme.test", "https://me:secret@acme.test"])
def test_what_is_no_address_names_its_key(written):
    with pytest.raises(ConfigError, match=r"^providers\.acme\.baseUrl: ") as error:
        base_url("acme", written)
    assert "secret" not in str(error.value)


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=4))
def test_arguments_are_read_also_when_they_are_written_twice(arguments):
    once = json.dumps(arguments)

    assert tool_arguments(once) == tool_arguments(json.dumps(once)) == arguments


@pytest.mark.parametrize("text", ['{"a": ', "[1]", "3", "nonsense", '"{"'])
def test_half_a_call_has_no_arguments(text):
    assert tool_arguments(text) is None


@pytest.mark.parametrize(("levels", "taken"), [(100, True), (101, False), (900, False), (100_000, False)])
@pytest.mark.parametrize(("opens", "closes"), [('{"v":', "}"), ("[", "]")])
def test_arguments_without_a_bottom_are_none(levels, taken, opens, closes):
    text = '{"v":' + opens * (levels - 1) + "1" + closes * (levels - 1) + "}"
    assert (tool_arguments(text) is not None) == taken
    assert tool_arguments(json.dumps({"v": text, "w": [[]] * 200})) == {"v": text, "w": [[]] * 200}


def test_a_null_is_dropped_where_the_schema_has_no_space_for_it():
    schema = {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "limit": {"type": "integer"},
            "mode": {"type": ["string", "null"]},
            "any": {},
            "either": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "edits": {
                "type": "array",
                "items": {"type": "object", "properties": {"all": {"type": "boolean"}}},
            },
        },
        "required": ["path"],
    }
    sent = {
        "path": None,
        "limit": None,
        "mode": None,
        "any": None,
        "either": None,
        "edits": [{"all": None}],
        "new": None,
    }

    read = tool_arguments(json.dumps(sent), schema)

    assert read == {"path": None, "mode": None, "any": None, "either": None, "edits": [{}], "new": None}


@pytest.mark.parametrize(
    ("table", "form"),
    [(partial(CallIds, 40), r"[A-Za-z0-9_-]{1,40}"), (partial(CallIds, 9, exact=True), r"[A-Za-z0-9]{9}")],
)
@given(ids=st.lists(st.text(max_size=50) | st.sampled_from(["call_1", "a" * 41, "abcdefgh1"]), max_size=20))
def test_ids_of_calls_are_short_plain_and_unique(table, form, ids):
    table, written = table(), []
    for call_id in ids:
        written.append(table.of_call(call_id))
        assert table.of_result(call_id) == written[-1]

    assert len(set(written)) == len(written)
    assert all(re.fullmatch(form, one) for one in written)


def test_an_id_that_fits_stays_and_another_is_the_same_each_time():
    def once() -> list[str]:
        table = CallIds(40)
        return [table.of_call(one) for one in ("call_1", "工具:1", "call_1")]

    assert once() == once()
    assert once()[0] == "call_1"
