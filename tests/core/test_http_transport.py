"""The connections of the HTTP client: refusals are not read for ever, left-overs are no answer, TLS is explained."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from claw.contracts.errors import ProviderError
from claw.security.http_client import HttpClients
from claw.security.http_transport import HttpTransport
from core.secured import ANSWER, Authority, service
from models import answer, provider

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def plain_context() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[tuple[httpx2.AsyncClient, asyncio.Server]]:
    """A client for what ``serve`` says to each connection."""
    network = HttpClients()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield network.client(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"), server
    finally:
        await network.aclose()
        server.close()
        await server.wait_closed()


# --- refusals


@pytest.mark.parametrize("head", [b"content-length: 200000000\r\n\r\n", b"\r\n"], ids=["huge", "endless"])
@pytest.mark.parametrize("status", [302, 400, 503])
async def test_of_a_refusal_only_its_beginning_is_read(status: int, head: bytes) -> None:
    sent = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 %d Not now\r\nretry-after: 9\r\n%b" % (status, head) + b"why: ")
        while sent < 200_000_000:
            writer.write(b"x" * 65536)
            await writer.drain()
            sent += 65536

    async with serving(serve) as (client, _):
        answer = await client.get("/")

    assert (answer.status_code, answer.headers["retry-after"]) == (status, "9")
    assert answer.text.startswith("why: xxx")
    assert len(answer.content) <= 65536
    assert sent < 30_000_000, "beyond what the system holds between the two"


async def test_a_refusal_that_drips_is_heard_for_a_few_seconds() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 500 Oh\r\ncontent-length: 9999\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)

    hasty = httpx2.AsyncClient(transport=HttpTransport(plain_context(), refusal_seconds=0.2), trust_env=False)
    async with serving(serve) as (client, _), hasty, asyncio.timeout(5):
        answer = await hasty.get(client.base_url)
    assert answer.status_code == 500
    assert 1 <= len(answer.text) < 100


async def test_a_short_refusal_is_whole_and_its_connection_used_again() -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 404 No\r\ncontent-length: 7\r\n\r\nnothing")

    async with serving(serve) as (client, _):
        assert [(await client.get("/")).text for _ in range(2)] == ["nothing", "nothing"]
    assert connections == 1


# --- what is left over


@pytest.mark.parametrize(
    "more", [b" and more", b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nlies"], ids=["words", "an answer"]
)
@pytest.mark.parametrize("later", [False, True], ids=["at once", "later"])
async def test_what_comes_behind_an_answer_is_never_taken_for_the_next_one(more: bytes, later: bool) -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ngood" + (b"" if later else more))
            if later:
                await asyncio.sleep(0.02)
                writer.write(more)

    async with serving(serve) as (client, _):
        for _ in range(3):
            assert (await client.get("/")).text == "good"
            await asyncio.sleep(0.05)
    assert connections == 3


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "more", "connections_used"),
    [
        (CHUNKED + b"2\r\ngo\r\n2;x=1\r\nod\r\n0\r\n\r\n", b"", 1),
        (CHUNKED + b"4\r\ngood\r\n0\r\nTrailer: x\r\n\r\n", b"", 1),
        (CHUNKED + b"4\r\ngood\r\n0\r\n\r\n", b"0\r\n\r\n", 3),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ngood", b"", 1),
    ],
    ids=["chunks", "trailers", "chunks and more", "a status before"],
)
@pytest.mark.parametrize("in_pieces", [False, True], ids=["whole", "in pieces"])
async def test_a_connection_is_used_again_only_when_its_answer_ended_with_its_last_byte(
    answer: bytes, more: bytes, connections_used: int, in_pieces: bool
) -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while await reader.readuntil(b"\r\n\r\n"):
            for piece in (answer[:-9], answer[-9:] + more) if in_pieces else (answer + more,):
                writer.write(piece)
                await asyncio.sleep(0.01)

    async with serving(serve) as (client, _):
        for _ in range(3):
            assert (await client.get("/")).text == "good"
            await asyncio.sleep(0.03)
    assert connections == connections_used


async def test_an_answer_without_a_body_leaves_its_connection_in_use() -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while (await reader.readuntil(b"\r\n\r\n")).startswith(b"HEAD"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n")
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    async with serving(serve) as (client, _):
        assert [(await client.head("/")).status_code for _ in range(2)] == [200, 200]
        assert (await client.get("/")).status_code == 204
    assert connections == 1


# --- TLS


async def refused(client: httpx2.AsyncClient, address: str) -> str:
    with pytest.raises(httpx2.ConnectError) as error:
        await client.get(address)
    return str(error.value)


@pytest.mark.parametrize(
    ("host", "days", "told", "fix"),
    [
        ("other.example", (-1, 1), "is for another name", "Write the host"),
        ("localhost", (-3, -1), "has expired", "clock of this machine"),
        ("localhost", (1, 3), "is not valid yet", "clock of this machine"),
    ],
)
async def test_a_certificate_that_does_not_fit_is_told_with_its_host(
    authority: Authority, host: str, days: tuple[float, float], told: str, fix: str
) -> None:
    client = httpx2.AsyncClient(transport=HttpTransport(authority.trusting), trust_env=False)
    async with service(authority.serving(host, days)) as port, client:
        said = await refused(client, f"https://localhost:{port}/")
    assert f"the certificate of localhost {told}" in said
    assert fix in said


async def test_a_certificate_that_fits_is_taken(authority: Authority) -> None:
    client = httpx2.AsyncClient(transport=HttpTransport(authority.trusting), trust_env=False)
    async with service(authority.serving("localhost")) as port, client:
        assert (await client.get(f"https://localhost:{port}/")).text == "ok"


async def test_https_where_plain_http_is_spoken_and_the_other_way_round(authority: Authority) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(ANSWER)

    network = HttpClients()
    async with serving(serve) as (client, _), service(authority.serving("localhost")) as secured:
        address = f"https://localhost:{client.base_url.port}"
        told = await refused(network.client(address), address)
        assert "localhost uses plain HTTP, but the address says https" in told
        address = f"http://localhost:{secured}"
        with pytest.raises(httpx2.TransportError):  # some say so, some only hang up
            await network.client(address).get(address)
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
async def test_what_services_with_tls_say_to_plain_http_is_understood(answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)

    async with serving(serve) as (client, _):
        assert "127.0.0.1 uses https, but the address says http" in await refused(client, "/")


@pytest.mark.parametrize("plugin", ["anthropic", "openai", "google", "mistral"])
async def test_a_provider_tells_of_an_untrusted_certificate_and_asks_once(
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
