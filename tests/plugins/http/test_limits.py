"""Nothing costly before the caller is known: heads and bodies have limits of bytes, time and number."""

import asyncio
import contextlib
import logging
import resource
import socket
from collections.abc import Iterator

import pytest
from claw_channel_sdk import WebAnswer, WebRoute
from claw_http import bodies, connection
from claw_http.token_rate_limit import ALTOGETHER, PER_ADDRESS, Attempts, canonical
from hypothesis import given, strategies as st
from plugins.http.bench import TOKEN, listening, parsed


async def counts(request):
    return WebAnswer(200, b'{"bytes": %d}' % len(request.body))


def hook(**given):
    return ("acme", WebRoute("/hooks/acme", counts, **given))


@pytest.fixture
def enough_files() -> Iterator[None]:
    """Open files for both ends of a thousand connections, and for those that earlier tests left open."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[1], 4096), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def head(path="/hooks/acme", **lines):
    header_lines = {"host": "localhost", "connection": "close", **lines}
    return (
        f"POST {path} HTTP/1.1\r\n"
        + "".join(f"{n.replace('_', '-')}: {v}\r\n" for n, v in header_lines.items())
        + "\r\n"
    ).encode()


async def test_a_route_gets_the_bytes_as_they_came():
    seen = []

    async def answer(request):
        seen.append(request)
        return WebAnswer(202, b"taken", "text/plain", {"X-Bell": "1"})

    async with listening(("acme", WebRoute("/hooks/acme", answer))) as harness:
        said = await harness.ask("POST", "/hooks/acme?a=%41&b", b"\xff\x00{", token=None, x_signature="A")

    assert (said.status, said.body, said.headers["x-bell"]) == (202, b"taken", "1")
    (request,) = seen
    assert (request.body, request.query, request.headers["x-signature"]) == (b"\xff\x00{", "a=%41&b", "A")
    assert (request.method, request.path, request.peer) == ("POST", "/hooks/acme", "127.0.0.1")


async def test_a_head_that_is_refused_costs_no_body():
    answered = []

    async def answer(request):
        answered.append(request)
        return WebAnswer()

    def admit(request):
        return None if request.headers.get("x-bell") == "ding" else WebAnswer(401, b"{}")

    async with listening(("acme", WebRoute("/hooks/acme", answer, admit=admit))) as harness:
        # No byte of the body is ever sent: the answer does not wait for one.
        waits = await harness.raw(head(content_length="1000", x_bell="dong"), seconds=2)
        assert parsed(waits).status == 401
        assert answered == []
        assert (await harness.ask("POST", "/hooks/acme", b"{}", x_bell="ding")).status == 200


async def test_a_body_that_says_it_is_too_large_is_refused_before_it_comes():
    async with listening(hook()) as harness:
        said = parsed(await harness.raw(head(content_length=str(20 << 20)), seconds=2))
        assert (said.status, said.code) == (413, "request_too_large")
        assert said.headers["connection"] == "close"


async def test_a_body_without_a_length_is_cut_at_the_limit():
    async with listening(hook()) as harness:
        reader, writer = await asyncio.open_connection(harness.host, harness.port)
        writer.write(head(transfer_encoding="chunked"))
        with contextlib.suppress(ConnectionError):
            for _ in range(20 << 4):
                writer.write(b"10000\r\n" + b"x" * (64 << 10) + b"\r\n")
                await asyncio.wait_for(writer.drain(), 5)
        with contextlib.suppress(ConnectionError):
            assert b" 413 " in await asyncio.wait_for(reader.readline(), 5)
        writer.close()
        assert (await harness.ask("POST", "/hooks/acme", b"x" * (1 << 20))).plain == {"bytes": 1 << 20}


async def test_a_slow_body_is_given_up():
    async with listening(hook(body_seconds=0.1)) as harness:
        said = parsed(await harness.raw(head(content_length="10") + b"half", seconds=20))
        assert (said.status, said.code) == (408, "request_timeout")


async def test_of_many_slow_bodies_the_oldest_make_space_and_a_true_event_is_served():
    async with listening(hook()) as harness:
        slow = [await asyncio.open_connection(harness.host, harness.port) for _ in range(bodies.AT_ONCE + 40)]
        for _, writer in slow:
            writer.write(head(content_length="10") + b"half")
            await writer.drain()

        async with asyncio.timeout(5):
            assert (await harness.ask("POST", "/hooks/acme", b"true")).plain == {"bytes": 4}

        first_line = await asyncio.wait_for(slow[0][0].readline(), 5)
        assert b" 408 " in first_line
        for _, writer in slow:
            writer.close()


async def test_a_thousand_callers_without_a_head_stop_nobody(enough_files):
    async with listening(hook()) as harness, contextlib.AsyncExitStack() as opened:
        slow = []
        for _ in range(1000):
            reader, writer = await asyncio.open_connection(harness.host, harness.port)
            opened.callback(writer.close)
            writer.write(b"POST /hooks/acme HTTP/1.1\r\nhost: loc")
            slow.append(reader)

        async with asyncio.timeout(5):
            assert (await harness.ask("POST", "/hooks/acme", b"true")).plain == {"bytes": 4}

        assert await asyncio.wait_for(slow[0].read(), 5) == b""  # closed


async def test_a_head_that_does_not_end_is_closed(monkeypatch):
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.1)
    async with listening(hook()) as harness:
        assert await harness.raw(b"GET /health HTTP/1.1\r\nhost: x\r\n", seconds=2) == b""
        # The second head of a connection has no more time than the first.
        both = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\nGET /health HT"
        assert (await harness.raw(both, seconds=2)).count(b"HTTP/1.1 200") == 1


async def test_who_takes_nothing_of_his_answer_is_let_go(monkeypatch):
    monkeypatch.setattr(connection, "TAKEN_SECONDS", 0.1)
    loop, let_go = asyncio.get_running_loop(), asyncio.Event()

    async def answer(scope, receive, send):
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(16 << 20), "more_body": True})
        assert (await receive())["type"] == "http.disconnect"
        let_go.set()

    connections = connection.Connections(answer)
    server = await loop.create_server(connections, "127.0.0.1", 0)
    with socket.socket() as caller:
        caller.setblocking(False)
        await loop.sock_connect(caller, server.sockets[0].getsockname())
        await loop.sock_sendall(caller, b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await asyncio.wait_for(let_go.wait(), 10)
    server.close()
    await connections.close()


async def test_a_connection_that_is_closed_does_not_wait_for_who_takes_nothing(monkeypatch):
    monkeypatch.setattr(connection, "TAKEN_SECONDS", 0.1)
    lost = asyncio.Event()

    class Recorder(asyncio.Protocol):
        def connection_lost(self, exc):
            lost.set()

    ours, theirs = socket.socketpair()
    with theirs:
        transport, _ = await asyncio.get_running_loop().create_connection(Recorder, sock=ours)
        joined = connection.BufferedTransport(transport)
        joined.write(bytes(16 << 20))
        joined.close()
        await asyncio.wait_for(lost.wait(), 10)


async def test_a_head_that_is_too_long_is_refused():
    async with listening(hook()) as harness:
        long = b"GET /health HTTP/1.1\r\nhost: localhost\r\nx-a: " + b"a" * (20 << 10)
        assert (await harness.raw(long, seconds=2)).startswith(b"HTTP/1.1 431")


@pytest.mark.parametrize(
    "nonsense",
    [b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\r\n\r\n\x00\x00\r\n\r\n"],
)
async def test_what_is_no_request_is_no_trouble_and_no_news(nonsense, caplog):
    async with listening(hook()) as harness:
        assert (await harness.raw(nonsense + b"\r\n\r\n", seconds=2)).startswith(b"HTTP/1.1 400")
        upgrade = {"connection": "close, upgrade", "upgrade": "websocket"}
        assert (await harness.ask("GET", "/health", **upgrade)).status == 200
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("path", ["/hooks/acme", "/v1/chat/completions"])
async def test_a_body_of_two_lengths_is_refused_and_ends_the_connection(path):
    """Test request smuggling: a proxy that uses the length while we use the chunks would let a second request through."""
    smuggled = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
    lengths = {"content_length": "4", "transfer_encoding": "chunked", "content_type": "application/json"}
    async with listening(hook()) as harness:
        request = head(path, connection="keep-alive", authorization=f"Bearer {TOKEN}", **lengths)
        header_lines = await harness.raw(request + b"0\r\n\r\n" + smuggled)
        assert header_lines.startswith(b"HTTP/1.1 400") and header_lines.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize(
    "broken",
    [
        WebRoute("/hooks/acme", lambda request: 1 / 0),
        WebRoute("/hooks/acme", counts, admit=lambda request: 1 / 0),
        WebRoute("/hooks/acme", counts, admit=lambda request: True),
    ],
)
async def test_a_route_that_raises_is_answered_without_details_and_named_in_the_log(broken, caplog):
    async with listening(("acme", broken)) as harness:
        said = await harness.ask("POST", "/hooks/acme", b"{}")
        assert (said.status, said.code) == (500, "internal_error")
        assert b"division" not in said.body
        assert "plugin acme" in caplog.text
        assert (await harness.ask("GET", "/health")).status == 200


@pytest.mark.parametrize(
    "said",
    [
        None,
        "text",
        WebAnswer(99),
        WebAnswer(200, "text"),  # type: ignore[arg-type]
        WebAnswer(headers={"x": "a\r\nset-cookie: b"}),
        WebAnswer(content_type="text/plain\r\nx: y"),
        WebAnswer(headers={"x y": "a"}),
    ],
    ids=repr,
)
async def test_an_answer_that_cannot_be_sent_is_the_plugins_fault(said, caplog):
    async def answer(request):
        return said

    async with listening(("acme", WebRoute("/hooks/acme", answer))) as harness:
        assert (await harness.ask("POST", "/hooks/acme", b"{}")).status == 500
        assert "plugin acme" in caplog.text


async def test_a_route_that_would_end_the_process_does_not():
    async def answer(request):
        raise SystemExit(3)

    async def cancels(request):
        raise asyncio.CancelledError

    routes = [("a", WebRoute("/hooks/a", answer)), ("b", WebRoute("/hooks/b", cancels))]
    async with listening(*routes) as harness:
        assert (await harness.ask("POST", "/hooks/a", b"{}")).status == 500
        assert (await harness.ask("POST", "/hooks/b", b"{}")).status == 500


async def test_a_path_that_is_taken_or_ours_is_skipped_with_both_names(caplog):
    async def second(request):
        return WebAnswer(200, b"second")

    routes = [
        hook(),
        ("rival", WebRoute("/hooks/acme", second)),
        ("rival", WebRoute("/health", second)),
        ("rival", WebRoute("/v1/anything", second)),
        ("rival", WebRoute("no-slash", second)),
        ("rival", WebRoute("/with?query", second)),
        ("rival", object()),
    ]
    async with listening(*routes) as harness:
        assert (await harness.ask("POST", "/hooks/acme", b"{}")).plain == {"bytes": 2}
        assert (await harness.ask("GET", "/health")).plain["status"] == "ok"
        assert (await harness.ask("POST", "/v1/anything", b"{}")).status == 404
    assert caplog.text.count("plugin rival: a route is skipped") == 6
    assert "plugin acme has /hooks/acme already" in caplog.text


# --- wrong tokens, counted


def test_one_caller_has_one_name_however_it_is_spelled():
    assert canonical("::ffff:10.0.0.1") == canonical("10.0.0.1") == "10.0.0.1"
    assert canonical("2001:db8::1") == canonical("2001:0db8:0:0:ffff::9") == "2001:db8::/64"
    assert canonical("2001:db8::1") != canonical("2001:db8:0:1::1")
    assert canonical("fe80::1%eth0") == canonical("fe80::2%eth1")
    assert canonical("::1") == "::1"


def test_an_address_is_held_back_for_the_minute_after_its_tenth_wrong_token():
    attempts = Attempts()
    for second in range(PER_ADDRESS):
        assert attempts.wait_seconds("10.0.0.1", second) == 0
        attempts.wrong("10.0.0.1", second)

    assert attempts.wait_seconds("::ffff:10.0.0.1", PER_ADDRESS) == 60 - PER_ADDRESS
    assert attempts.wait_seconds("10.0.0.2", PER_ADDRESS) == 0
    assert attempts.wait_seconds("10.0.0.1", 60) == 0


def test_many_addresses_together_are_held_back():
    attempts = Attempts()
    for number in range(ALTOGETHER):
        attempts.wrong(f"10.0.{number}.1", number / 10)

    assert attempts.wait_seconds("10.8.8.8", 11) > 0


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 30)), max_size=60))
def test_nobody_tries_more_than_ten_in_a_minute(tries):
    attempts, looked_at, now = Attempts(), {}, 0.0
    for who, pause in tries:
        now += pause
        peer = f"10.0.0.{who}"
        if attempts.wait_seconds(peer, now) == 0:
            attempts.wrong(peer, now)
            looked_at.setdefault(peer, []).append(now)
    for times in looked_at.values():
        assert all(later - first >= 60 for first, later in zip(times, times[PER_ADDRESS:], strict=False))
