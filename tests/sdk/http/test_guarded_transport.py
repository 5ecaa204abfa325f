"""HTTP clients over each transport: refusals are not read for ever, TLS is explained."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from claw.contracts.errors import ProviderError
from claw.security.http_client import HttpClients
from claw_http_sdk import pooled, unpooled
from claw_http_sdk.guarded_transport import GuardedTransport, unpooled_transport
from claw_http_sdk.pooled_transport import PooledTransport
from core.secured import ANSWER, Authority, service
from http_server import Serve, listening, port_of
from models import answer, provider

Clients = Callable[..., httpx2.AsyncClient]
Transport = Callable[[ssl.SSLContext], httpx2.AsyncBaseTransport]


def plain_context() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture(params=["single", "pooled"])
def transport(request: pytest.FixtureRequest) -> Transport:
    """The transport with one connection for each request, and the one that keeps connections."""
    return PooledTransport if request.param == "pooled" else unpooled_transport


def shared(network: HttpClients, transport: Transport) -> Clients:
    """Clients of one network that send over ``transport``."""
    return (pooled if transport is PooledTransport else unpooled)(network.client)


def guarded(transport: httpx2.AsyncBaseTransport, seconds: float = 5.0) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        transport=GuardedTransport(transport, error_body_seconds=seconds), trust_env=False
    )


@asynccontextmanager
async def serving(serve: Serve, transport: Transport) -> AsyncIterator[tuple[httpx2.AsyncClient, int]]:
    """A client for what ``serve`` says to each connection, and its port."""
    network = HttpClients()
    async with listening(serve) as server:
        try:
            port = port_of(server)
            yield shared(network, transport)(f"http://127.0.0.1:{port}"), port
        finally:
            await network.aclose()


# --- refusals


@pytest.mark.parametrize("head", [b"content-length: 200000000\r\n\r\n", b"\r\n"], ids=["huge", "endless"])
@pytest.mark.parametrize("status", [302, 400, 503])
async def test_of_a_refusal_only_its_beginning_is_read(
    status: int, head: bytes, transport: Transport
) -> None:
    sent = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 %d Not now\r\nretry-after: 9\r\n%b" % (status, head) + b"why: ")
        while sent < 200_000_000:
            writer.write(b"x" * 65536)
            await writer.drain()
            sent += 65536

    async with serving(serve, transport) as (client, _):
        answer = await client.get("/")

    assert (answer.status_code, answer.headers["retry-after"]) == (status, "9")
    assert answer.text.startswith("why: xxx")
    assert len(answer.content) <= 65536
    assert sent < 30_000_000, "beyond what the system holds between the two"


async def test_a_refusal_that_drips_is_received_for_a_few_seconds(transport: Transport) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 500 Oh\r\ncontent-length: 9999\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)

    hasty = guarded(transport(plain_context()), 0.2)
    async with serving(serve, transport) as (client, _), hasty, asyncio.timeout(5):
        answer = await hasty.get(client.base_url)
    assert answer.status_code == 500
    assert 1 <= len(answer.text) < 100


async def test_a_short_refusal_is_whole_and_a_pooled_connection_used_again(transport: Transport) -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 404 No\r\ncontent-length: 7\r\n\r\nnothing")

    async with serving(serve, transport) as (client, _):
        assert [(await client.get("/")).text for _ in range(2)] == ["nothing", "nothing"]
    assert connections == (1 if transport is PooledTransport else 2)


async def test_without_a_pool_what_comes_behind_an_answer_has_no_next_answer() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ngood")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nlies")

    async with serving(serve, unpooled_transport) as (client, _):
        assert [(await client.get("/")).text for _ in range(3)] == ["good"] * 3


# --- TLS


async def refused(client: httpx2.AsyncClient, address: str) -> str:
    with pytest.raises(httpx2.ConnectError) as error:
        await client.get(address)
    return str(error.value)


@pytest.mark.parametrize(
    ("host", "days", "problem", "fix"),
    [
        ("other.example", (-1, 1), "is for another name", "Write the host"),
        ("localhost", (-3, -1), "has expired", "clock of this machine"),
        ("localhost", (1, 3), "is not valid yet", "clock of this machine"),
    ],
)
async def test_a_certificate_that_does_not_fit_is_reported_with_its_host(
    authority: Authority, transport: Transport, host: str, days: tuple[float, float], problem: str, fix: str
) -> None:
    client = guarded(transport(authority.trusting))
    async with service(authority.serving(host, days)) as port, client:
        said = await refused(client, f"https://localhost:{port}/")
    assert f"the certificate of localhost {problem}" in said
    assert fix in said


async def test_a_certificate_that_fits_is_taken(authority: Authority, transport: Transport) -> None:
    client = guarded(transport(authority.trusting))
    async with service(authority.serving("localhost")) as port, client:
        assert (await client.get(f"https://localhost:{port}/")).text == "ok"


async def test_https_where_plain_http_is_spoken_and_the_other_way_round(
    authority: Authority, transport: Transport
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(ANSWER)

    network = HttpClients()
    clients = shared(network, transport)
    async with serving(serve, transport) as (client, _), service(authority.serving("localhost")) as secured:
        address = f"https://localhost:{client.base_url.port}"
        problem = await refused(clients(address), address)
        assert "localhost uses plain HTTP, but the address says https" in problem
        address = f"http://localhost:{secured}"
        with pytest.raises(httpx2.TransportError):  # some say so, some only hang up
            await clients(address).get(address)
    await network.aclose()


@pytest.mark.parametrize(
    "answer",
    [
        b"\x15\x03\x01\x00\x02\x02\x46",
        b"HTTP/1.1 400 Bad Request\r\n\r\n<center>The plain HTTP request was sent to HTTPS port</center>",
        b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n",
    ],
    ids=["openssl", "nginx", "go"],
)
async def test_what_services_with_tls_say_to_plain_http_is_understood(
    answer: bytes, transport: Transport
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)

    async with serving(serve, transport) as (client, _):
        assert "127.0.0.1 uses https, but the address says http" in await refused(client, "/")


@pytest.mark.parametrize("plugin", ["anthropic", "openai", "google", "mistral"])
async def test_a_provider_reports_an_untrusted_certificate_and_asks_once(
    authority: Authority, plugin: str
) -> None:
    handshakes = 0

    def counted(sock: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        nonlocal handshakes
        handshakes += 1

    context = authority.serving("localhost")
    context.sni_callback = counted
    async with service(context) as port, provider(f"https://localhost:{port}", plugin) as model:
        with pytest.raises(ProviderError) as error:
            await answer(model)
    assert (error.value.reason, error.value.retryable) == ("tls", False)
    assert "the certificate of localhost is not signed by an authority that this machine trusts" in str(
        error.value
    )
    assert "update-ca-certificates" in str(error.value)
    assert handshakes == 1
