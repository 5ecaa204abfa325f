"""Refusals that a caller can read: limits of our own paths, methods of routes, faults of ours, bodies in the way."""

import asyncio
import json
from pathlib import Path

import pytest
from claw_channel_sdk import WebAnswer, WebRoute
from claw_http import app, bodies, connection, token_rate_limit
from plugins.http.bench import TOKEN, listening, parsed


async def everything(request):
    return WebAnswer(200, b"{}")


HOOK = ("acme", WebRoute("/hooks/acme", everything))


def head(path="/v1/chat/completions", **lines):
    documented = {
        "host": "localhost", "connection": "close", "authorization": f"Bearer {TOKEN}",
        "content-type": "application/json", **lines,
    }  # fmt: skip
    rows = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in documented.items())
    return f"POST {path} HTTP/1.1\r\n{rows}\r\n".encode()


async def test_a_call_of_more_than_twenty_mebibytes_is_refused_before_a_byte_of_it_comes():
    async with listening() as harness:
        said = parsed(await harness.raw(head(content_length=str((20 << 20) + 1)), seconds=2))
        assert (said.status, said.code) == (413, "request_too_large")

        with pytest.raises(TimeoutError):  # what may come is waited for
            await harness.raw(head(content_length=str(20 << 20)), seconds=0.3)


async def test_a_call_without_a_length_is_cut_at_the_limit(monkeypatch):
    monkeypatch.setattr(app, "OWN_BODY_BYTES", 1000)
    async with listening() as harness:
        said = parsed(
            await harness.raw(head(transfer_encoding="chunked") + b"7d0\r\n" + b"x" * 2000 + b"\r\n")
        )
        assert (said.status, said.code) == (413, "request_too_large")
        assert harness.inbox.received == []


async def test_a_call_that_comes_slowly_is_given_up(monkeypatch):
    monkeypatch.setattr(app, "OWN_BODY_SECONDS", 0.1)
    async with listening() as harness:
        said = parsed(await harness.raw(head(content_length="100") + b'{"messages"', seconds=2))
        assert (said.status, said.code) == (408, "request_timeout")


async def test_who_sends_a_body_that_nobody_reads_still_reads_why():
    async with listening() as harness:
        body = b"x" * 200_000
        said = parsed(
            await harness.raw(head(authorization="Bearer wrong", content_length=str(len(body))) + body)
        )
        assert (said.status, said.code) == (401, "invalid_api_key")


async def test_a_connection_with_a_body_that_nobody_reads_says_that_it_ends():
    async with listening() as harness:
        half = head(authorization="Bearer wrong", content_length="100").replace(b"connection: close\r\n", b"")
        said = parsed(await harness.raw(half + b"half of it", seconds=3))
        assert (said.status, said.headers["connection"]) == (401, "close")


async def test_a_route_is_asked_by_its_methods_alone():
    asked = []

    async def answer(request):
        asked.append(request.method)
        return WebAnswer(200, b"{}")

    def admit(request):
        asked.append(request.method)

    route = WebRoute("/hooks/acme", answer, methods=frozenset({"POST", "PUT"}), admit=admit)
    async with listening(("acme", route)) as harness:
        said = await harness.ask("GET", "/hooks/acme")
        assert (said.status, said.headers["allow"], asked) == (405, "POST, PUT", [])


async def test_a_route_that_hangs_is_answered_for_it(monkeypatch, caplog):
    monkeypatch.setattr(app, "ROUTE_SECONDS", 0.1)

    async def hangs(request):
        await asyncio.Event().wait()

    async with listening(("acme", WebRoute("/hooks/acme", hangs))) as harness:
        said = await harness.ask("POST", "/hooks/acme", b"{}")
        assert (said.status, said.code) == (500, "internal_error")
    assert "plugin acme: its route /hooks/acme failed: TimeoutError" in caplog.text


@pytest.mark.parametrize("origin", ["http://evil.example", "http://evil.example:80"])
async def test_a_page_that_points_its_own_name_here_calls_no_webhook(origin):
    async with listening(HOOK) as harness:
        said = await harness.ask(
            "POST", "/hooks/acme", b"{}", host=origin.removeprefix("http://"), origin=origin
        )
        assert (said.status, said.code) == (403, "origin_not_allowed")
        assert (await harness.ask("POST", "/hooks/acme", b"{}", host="tunnel.example")).status == 200


async def test_an_internal_error_is_one_answer_without_details(caplog):
    async with listening() as harness:

        async def submit(inbound):
            raise RuntimeError("a secret detail")

        harness.inbox.submit = submit
        said = await harness.chat("hello")
        assert (said.status, said.plain["error"]["type"]) == (500, "server_error")
        assert b"secret detail" not in said.body
        assert (await harness.ask("GET", "/health", token=None)).status == 200
    assert "a secret detail" in caplog.text


@pytest.mark.parametrize("name", ["user", "model"])
async def test_a_name_of_more_than_512_characters_is_none(name):
    async with listening() as harness:
        assert (await harness.chat("hello", **{name: "x" * 512})).status == (200 if name == "user" else 404)
        said = await harness.chat("hello", **{name: "x" * 513})
        assert (said.status, said.plain["error"]["param"]) == (400, name)


async def test_every_refusal_has_the_one_shape_and_is_kept_by_nobody():
    async with listening(HOOK) as harness:
        said = [
            await harness.ask("GET", "/nothing"),
            await harness.ask("GET", "/v1/models", token=None),
            await harness.ask("PUT", "/v1/models"),
            await harness.ask("GET", "/v1/models", host="evil.example"),
            await harness.ask("POST", "/v1/chat/completions", b"{"),
            await harness.ask("POST", "/v1/chat/completions", b"{}", content_type="text/plain"),
            await harness.chat("hello", n=3),
        ]
    assert [one.status for one in said] == [404, 401, 405, 403, 400, 415, 400]
    for one in said:
        assert set(json.loads(one.body)["error"]) == {"message", "type", "param", "code"}
        assert one.headers["content-type"] == "application/json"
        assert one.headers["cache-control"] == "no-store"
        assert one.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(("count", "status"), [(16, 200), (17, 400)])
async def test_a_message_has_sixteen_images_at_most(count, status):
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,eA=="}}
    async with listening() as harness:
        body = {"messages": [{"role": "user", "content": [image] * count}]}
        said = await harness.ask("POST", "/v1/chat/completions", json.dumps(body).encode())
        assert said.status == status
        assert len(harness.inbox.received) == (1 if status == 200 else 0)


async def test_a_caller_who_leaves_while_his_message_is_taken_in_does_not_tear_that():
    async with listening() as harness:
        begun, go_on, taken = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def submit(inbound):
            begun.set()
            await go_on.wait()
            taken.set()
            return True

        harness.inbox.submit = submit
        caller = asyncio.ensure_future(harness.chat("hello"))
        await begun.wait()
        caller.cancel()
        await asyncio.gather(caller, return_exceptions=True)
        async with asyncio.timeout(20):
            while (await harness.ask("GET", "/health")).plain["waiting"]:
                await asyncio.sleep(0.01)
        go_on.set()
        await asyncio.wait_for(taken.wait(), 20)


def test_the_manual_names_the_limits_that_are():
    manual = " ".join((Path(__file__).parents[3] / "docs" / "http.md").read_text(encoding="utf-8").split())
    for documented in (
        f"A body may have up to `body_bytes` ({WebRoute('/', everything).body_bytes >> 20} MiB)",
        f"take `body_seconds` ({WebRoute('/', everything).body_seconds:g})",
        f"At most {bodies.AT_ONCE} unauthenticated bodies ({bodies.TOGETHER_BYTES >> 20} MiB together)",
        f"A handler has {app.ROUTE_SECONDS:g} seconds.",
        f"within {connection.HEAD_SECONDS:g} seconds, at most {connection.HEAD_BYTES >> 10} KiB",
        f"Of more than {connection.IDLE_CONNECTIONS} connections without a request",
        f"A request body of the API may have {app.OWN_BODY_BYTES >> 20} MiB",
        f"pictures included, and take {app.OWN_BODY_SECONDS:g} seconds",
        "After ten wrong tokens a minute from one address, or a hundred from all",
    ):
        assert documented in manual, documented
    assert (token_rate_limit.PER_ADDRESS, token_rate_limit.ALTOGETHER, token_rate_limit.WINDOW_SECONDS) == (
        10,
        100,
        60.0,
    )


@pytest.mark.parametrize(
    ("sent", "status", "words"),
    [
        (head(x_long="a" * 100_000, content_length="2") + b"{}", 431, "16384 bytes at most"),
        (b"NO HTTP AT ALL\r\n\r\n", 400, "Invalid HTTP request"),
        (head(content_length="x"), 400, "Invalid HTTP request"),
    ],
    ids=["long_head", "no_http", "bad_length"],
)
async def test_a_request_that_is_no_http_is_refused_in_the_form_of_all_errors(sent, status, words):
    async with listening() as harness:
        said = parsed(await harness.raw(sent, seconds=2))
        assert (said.status, said.code) == (status, "invalid_http")
        assert words in said.plain["error"]["message"] and said.headers["x-request-id"].startswith("req_")
        assert harness.inbox.received == []


async def test_a_body_that_is_too_large_is_refused_with_the_limit():
    async with listening() as harness:
        said = parsed(await harness.raw(head(content_length=str(99 << 20)), seconds=2))
        assert said.plain["error"]["message"] == f"the body is too large: {20 << 20} bytes at most"
