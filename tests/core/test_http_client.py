"""The way out to addresses that the operator wrote."""

from collections.abc import AsyncIterator

import httpx2
import pytest
from claw.contracts.errors import FenceError, UsageError
from claw.security.http_client import HttpClients, origin_of
from claw_http_sdk import unpooled


def answer(request: httpx2.Request) -> httpx2.Response:
    if request.url.path == "/moved":
        return httpx2.Response(302, headers={"location": "https://elsewhere.example/"})
    return httpx2.Response(200, text=str(request.url))


@pytest.fixture
async def network() -> AsyncIterator[HttpClients]:
    network = HttpClients(transport=httpx2.MockTransport(answer))
    yield network
    await network.aclose()


async def test_one_client_serves_all_paths_of_an_origin(network: HttpClients) -> None:
    client = network.client("https://api.example.com/v1")
    assert network.client("https://API.example.com:443/v2/") is client
    assert network.client("https://other.example.com") is not client
    assert (await client.get("/v1/models")).text == "https://api.example.com/v1/models"


async def test_each_transport_has_a_client_of_its_own() -> None:
    network = HttpClients()
    single, again = (unpooled(network.client)("http://127.0.0.1:1") for _ in range(2))
    assert single is again
    assert network.client("http://127.0.0.1:1") is not single
    await network.aclose()
    assert single.is_closed


async def test_a_client_does_not_leave_its_origin(network: HttpClients) -> None:
    client = network.client("https://api.example.com")
    with pytest.raises(FenceError, match=r"elsewhere\.example"):
        await client.get("https://elsewhere.example/")
    with pytest.raises(FenceError):
        await client.get("http://api.example.com/")
    assert (await client.get("/moved")).status_code == 302


async def test_all_clients_share_one_tls_context_which_plain_http_never_needs() -> None:
    network = HttpClients()
    network.client("http://127.0.0.1:11434")
    assert "_tls" not in vars(network)
    network.client("https://one.example")
    context = vars(network)["_tls"]
    network.client("https://two.example")
    assert vars(network)["_tls"] is context
    await network.aclose()


async def test_a_closed_network_makes_new_clients(network: HttpClients) -> None:
    client = network.client("https://api.example.com")
    await network.aclose()
    assert client.is_closed and not network.client("https://api.example.com").is_closed


async def test_a_client_apart_has_its_own_connections_and_is_closed_by_who_asked_for_it() -> None:
    network = HttpClients()
    shared, apart = (network.client("https://api.example.com", apart=way) for way in (False, True))
    assert apart is not shared
    await network.aclose()
    assert not apart.is_closed
    await apart.aclose()


@pytest.mark.parametrize(
    ("address", "origin"),
    [
        ("api.example.com", "https://api.example.com"),
        ("https://Api.Example.com:443/v1?x=1", "https://api.example.com"),
        ("http://10.0.0.5:8000/v1", "http://10.0.0.5:8000"),
        ("localhost:11434", "http://localhost:11434"),
        ("127.0.0.1:8080/v1", "http://127.0.0.1:8080"),
        ("https://localhost", "https://localhost"),
        ("[::1]:8080", "http://[::1]:8080"),
        ("http://example.com:80", "http://example.com"),
    ],
)
def test_an_address_means_https_unless_it_says_http_or_this_machine(address: str, origin: str) -> None:
    assert origin_of(address) == origin


@pytest.mark.parametrize(
    "address", ["", "  ", "ftp://example.com", "https://", "https://a:b@example.com", "https://exa mple.com", "https://x:port",
                "file:///etc/passwd", "https://a\\b"],
)  # fmt: skip
def test_what_is_no_address_of_a_service_is_refused_without_being_repeated(address: str) -> None:
    with pytest.raises(UsageError) as refused:
        origin_of(address)
    assert "a:b" not in str(refused.value)
