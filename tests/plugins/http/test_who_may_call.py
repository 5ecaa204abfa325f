"""Access to the API: the token always, known host names, known origins, paths in one spelling."""

import asyncio

import pytest
from claw import ConfigError
from claw.testing import plugin_config
from claw_channel_sdk import WebAnswer, WebRoute
from plugins.http.bench import TOKEN, listening


async def everything(request):
    return WebAnswer(200, b"{}")


DOOR = ("acme", WebRoute("/hooks/acme", everything))


@pytest.mark.parametrize("path", ["/v1/models", "/v1/chat/completions"])
@pytest.mark.parametrize(
    "given",
    [
        {"token": None},
        {"token": ""},
        {"token": TOKEN[:-1]},
        {"token": TOKEN + "x"},
        {"token": TOKEN.upper()},
        {"token": None, "authorization": TOKEN},
        {"token": None, "authorization": f"Basic {TOKEN}"},
        {"token": None, "x_api_key": TOKEN},
        {"token": None, "cookie": f"token={TOKEN}"},
        {
            "token": None,
            "x_forwarded_for": "127.0.0.1",
            "x_real_ip": "127.0.0.1",
            "forwarded": "for=127.0.0.1",
        },
    ],
    ids=str,
)
async def test_without_the_very_token_nothing_is_answered_not_even_on_this_machine(path, given):
    async with listening() as harness:
        method, body = ("POST", b"{}") if "chat" in path else ("GET", None)
        said = await harness.ask(method, path, body, **given)

        assert (said.status, said.code) == (401, "invalid_api_key")
        assert said.headers["www-authenticate"] == "Bearer"
        assert harness.inbox.received == []


async def test_a_token_that_appears_twice_or_in_the_address_is_none():
    async with listening() as harness:
        twice = f"authorization: Bearer {TOKEN}\r\n" * 2
        head = f"GET /v1/models HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{twice}\r\n"
        assert (await harness.raw(head.encode())).startswith(b"HTTP/1.1 401")
        assert (await harness.ask("GET", f"/v1/models?token={TOKEN}", token=None)).status == 401


@pytest.mark.parametrize(
    "gateway",
    [
        {"auth": {}},
        {"auth": {"mode": "none"}},
        {"auth": {"token": "${NOT_SET}"}},
        {"auth": {"token": {"file": "/nowhere/token"}}},
    ],
)
async def test_while_no_token_is_set_the_api_answers_nobody_and_says_how_to_set_one(gateway, caplog):
    async with listening(gateway=gateway) as harness:
        for token in (None, "", "guess"):
            said = await harness.ask("GET", "/v1/models", token=token)
            assert (said.status, said.code) == (503, "no_token_configured")
            assert "claw config set gateway.auth.token" in said.plain["error"]["message"]
        assert (await harness.ask("GET", "/health", token=None)).plain == {"status": "ok"}
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == ("nowhere" in str(gateway)), "once, whoever calls"


async def test_a_token_in_a_file_holds_from_the_moment_it_is_written(tmp_path):
    place = tmp_path / "token"
    place.write_text(TOKEN)
    async with listening(gateway={"auth": {"token": {"file": str(place)}}}) as harness:
        assert (await harness.ask("GET", "/v1/models")).status == 200
        place.write_text("another-token-of-16-characters")
        assert (await harness.ask("GET", "/v1/models")).status == 401
        assert (await harness.ask("GET", "/v1/models", token="another-token-of-16-characters")).status == 200
        place.unlink()
        assert (await harness.ask("GET", "/v1/models", token="another-token-of-16-characters")).status == 503


async def test_health_is_open_and_reports_more_to_who_has_the_token():
    async with listening() as harness:
        assert (await harness.ask("GET", "/health", token=None)).body == b'{"status":"ok"}'
        assert {"uptimeSeconds", "waiting"} <= (await harness.ask("GET", "/health")).plain.keys()
        assert (await harness.ask("GET", "/health", token="wrong")).status == 401
        assert (await harness.ask("HEAD", "/health", token=None)).status == 200


async def test_wrong_tokens_are_held_back_after_ten_and_the_right_one_enters():
    async with listening() as harness:
        codes = [(await harness.ask("GET", "/v1/models", token=f"guess-{n}")).status for n in range(12)]
        assert codes == [401] * 10 + [429] * 2
        late = await harness.ask("GET", "/v1/models", token="guess")
        assert (late.code, late.headers["x-should-retry"]) == ("too_many_attempts", "false")
        assert 0 < int(late.headers["retry-after"]) <= 60
        assert (await harness.ask("GET", "/v1/models")).status == 200
        assert (await harness.ask("GET", "/health", token=None)).status == 200


async def guess(harness, forwarded):
    return (await harness.ask("GET", "/v1/models", token="guess", x_forwarded_for=forwarded)).status


async def test_behind_a_trusted_proxy_wrong_tokens_delay_the_caller_that_it_names():
    async with listening(gateway={"trustedProxies": ["127.0.0.1"]}) as harness:
        # what stands before the proxy's entry is the caller's own invention
        assert [await guess(harness, f"10.1.1.{n}, 192.0.2.1") for n in range(11)] == [401] * 10 + [429]
        assert await guess(harness, "192.0.2.2") == 401
    async with listening() as harness:  # nobody is trusted
        assert [await guess(harness, f"192.0.2.{n}") for n in range(11)] == [401] * 10 + [429]


def test_a_proxy_that_is_no_address_is_refused():
    with pytest.raises(ConfigError, match="trustedProxies"):
        plugin_config({"gateway": {"trustedProxies": ["proxy.example"]}}, "http")


@pytest.mark.parametrize(
    ("host", "gateway", "http", "fits"),
    [
        ("localhost:18789", {}, {}, True),
        ("LOCALHOST", {}, {}, True),
        ("127.0.0.1:1", {}, {}, True),
        ("127.8.8.8", {}, {}, True),
        ("[::1]:18789", {}, {}, True),
        ("evil.example", {}, {}, False),
        ("localhost.evil.example", {}, {}, False),
        ("localhost@evil.example", {}, {}, False),
        ("127.0.0.1.evil.example", {}, {}, False),
        ("192.168.1.7", {}, {}, False),
        ("0x7f000001", {}, {}, False),
        ("", {}, {}, False),
        ("claw.example:443", {}, {"hosts": ["claw.example"]}, True),
        ("other.example", {}, {"hosts": ["claw.example"]}, False),
        ("desk.example", {"allowOrigins": ["https://desk.example"]}, {}, True),
        ("192.168.1.7:18789", {"bind": "0.0.0.0"}, {}, True),
        ("evil.example", {"bind": "0.0.0.0"}, {}, False),
    ],
)
async def test_the_api_is_reached_by_known_names_only(host, gateway, http, fits):
    async with listening(gateway=gateway, http=http) as harness:
        harness.host = "127.0.0.1"
        assert (await harness.ask("GET", "/v1/models", host=host)).status == (200 if fits else 403)
        assert (await harness.ask("GET", "/health", token=None, host=host)).status == (200 if fits else 403)


@pytest.mark.parametrize(
    ("origin", "listed", "fits"),
    [
        ("https://evil.example", [], False),
        ("null", [], False),
        ("null", ["*"], False),
        ("http://localhost:3000", [], False),
        ("https://desk.example", ["https://desk.example"], True),
        ("https://DESK.example", ["https://desk.example/"], True),
        ("http://desk.example", ["https://desk.example"], False),
        ("https://desk.example:444", ["https://desk.example"], False),
        ("https://desk.example.evil", ["https://desk.example"], False),
        ("https://any.example", ["*"], True),
    ],
)
async def test_a_web_page_may_call_when_its_origin_is_listed(origin, listed, fits):
    async with listening(DOOR, gateway={"allowOrigins": listed}) as harness:
        for path, method in (("/v1/models", "GET"), ("/hooks/acme", "POST")):
            said = await harness.ask(method, path, b"" if method == "POST" else None, origin=origin)
            assert said.status == (200 if fits else 403)
        shown = (await harness.ask("GET", "/v1/models", origin=origin)).headers
        assert shown.get("access-control-allow-origin") == (origin if fits else None)


async def test_a_page_of_our_own_may_call_and_a_listed_one_is_reported_before():
    async with listening(gateway={"allowOrigins": ["https://desk.example"]}) as harness:
        own = f"http://127.0.0.1:{harness.port}"
        assert (await harness.ask("GET", "/v1/models", origin=own)).status == 200
        said = await harness.ask(
            "OPTIONS", "/v1/chat/completions", token=None, origin="https://desk.example",
            access_control_request_method="POST",
        )  # fmt: skip
        assert (said.status, said.body) == (204, b"")
        assert "POST" in said.headers["access-control-allow-methods"]
        assert "authorization" in said.headers["access-control-allow-headers"]


SPELLINGS = [
    "/V1/models", "/v1/Models", "//v1/models", "/v1//models", "/v1/models/", "/v1/./models", "/v1/../v1/models",
    "/v1/%6dodels", "/v1%2fmodels", "/v1%2Fmodels", "/v1/models%00", "/v1/models;a", "/v1\\models", "v1/models",
    "/v1/models#", "http://evil.example/v1/models", "/%76%31/models", "/v1/models%20", "/", "*", "/.well-known/x",
    "/HOOKS/acme", "//hooks/acme", "/hooks//acme", "/hooks/acme/", "/hooks%2facme", "/hooks/%61cme",
    "/hooks/../hooks/acme",
    "/x/../hooks/acme", "/hooks/acme%3f", "/hooks/acme;x",
]  # fmt: skip


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_path_has_one_spelling_and_no_other_reaches_anybody(method):
    reached = []

    async def answer(request):
        reached.append(request.path)
        return WebAnswer(200)

    methods = frozenset({"GET", "POST"})
    async with listening(("acme", WebRoute("/hooks/acme", answer, methods=methods))) as harness:
        for path in SPELLINGS:
            said = await harness.ask(method, path, b"{}" if method == "POST" else None)
            assert said.status in (400, 404), path
        assert (reached, harness.inbox.received) == ([], [])
        assert (await harness.ask(method, "/hooks/acme?x=1", b"{}")).status == 200
        assert reached == ["/hooks/acme"]


@pytest.mark.parametrize(
    ("method", "path"),
    [("DELETE", "/v1/models"), ("POST", "/v1/models"), ("GET", "/v1/chat/completions"), ("PUT", "/health")],
)
async def test_a_method_that_is_not_for_a_path_is_refused(method, path):
    async with listening() as harness:
        said = await harness.ask(method, path)
        assert (said.status, said.code) == (405, "method_not_allowed")
        assert said.headers["allow"]


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
async def test_what_changes_something_must_be_json(kind):
    async with listening() as harness:
        said = await harness.ask("POST", "/v1/chat/completions", b"{}", content_type=kind)
        assert (said.status, said.code) == (415, "unsupported_media_type")


async def test_the_token_appears_in_no_log(caplog):
    caplog.set_level("DEBUG")
    async with listening() as harness:
        await harness.chat("hello")
        await harness.ask("GET", f"/v1/models?token={TOKEN}", token=f"{TOKEN}x")
    assert "/v1/chat/completions: 200" in caplog.text
    assert TOKEN not in caplog.text


async def test_claw_stops_within_two_seconds_and_reports_who_waits():
    async with listening(answer=None) as harness:
        waits = asyncio.ensure_future(harness.chat("hello"))
        streams = asyncio.ensure_future(harness.chat("hello", stream=True))
        slow = asyncio.ensure_future(harness.raw(b"GET /health HT"))
        while len(harness.inbox.received) < 2:
            await asyncio.sleep(0.01)
        began = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - began < 2
    assert ((await waits).status, (await waits).code) == (503, "stopping")
    assert b"claw is stopping" in (await streams).body
    assert await slow == b""
