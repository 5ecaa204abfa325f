"""The transports of a server at an address: streamable HTTP, and HTTP with SSE. The server is ``things.py``."""

import json
from pathlib import Path
from typing import Any

import pytest
from claw.cli.main import app
from plugins.mcp.servers import call, fleet, free_port, serving, text
from typer.testing import CliRunner

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.mark.parametrize("written", [{"type": "sse"}, {"transport": "sse"}, {}], ids=str)
async def test_a_server_of_http_with_sse_is_called_with_its_headers(
    written: dict[str, str], tmp_path: Path
) -> None:
    port = free_port()
    address = {"url": f"http://127.0.0.1:{port}/sse", "headers": {"X-Things": "k-1"}}
    with serving(tmp_path, port, "sse"):
        async with fleet(tmp_path, {"things": {**address, **written}}) as ours:
            assert await ours.connect(["things"]) == {}
            weighed = await call(ours, "things__weigh", tmp_path, thing="anvil")
            header = await call(ours, "things__header", tmp_path)

    assert (text(weighed), text(header)) == ("anvil: 5 kg", "k-1")


async def test_a_server_of_sse_that_was_restarted_is_reached_again(tmp_path: Path) -> None:
    port = free_port()
    servers = {"things": {"type": "sse", "url": f"http://127.0.0.1:{port}/sse"}}
    async with fleet(tmp_path, servers) as ours:
        with serving(tmp_path, port, "sse"):
            assert await ours.connect(["things"]) == {}
        with serving(tmp_path, port, "sse"):
            await call(ours, "things__weigh", tmp_path, thing="anvil")
            again = await call(ours, "things__environment", tmp_path)

    assert "PATH" in text(again)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({}, "the address answers a message with HTTP 404, and opens no stream of SSE"),
        ({"type": "sse"}, "404"),
        ({"type": "http"}, "Not Found"),
    ],
    ids=str,
)
async def test_a_wrong_path_is_named_with_what_the_address_answered(
    written: dict[str, str], said: str, tmp_path: Path
) -> None:
    port = free_port()
    servers = {"things": {"url": f"http://127.0.0.1:{port}/other", **written}}
    with serving(tmp_path, port):
        async with fleet(tmp_path, servers) as ours:
            failed = await ours.connect(["things"])

    assert said in str(failed["things"])


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (
            {"type": "websocket", "url": "http://x"},
            "things.type: is not one of the known words. Write one of: stdio, http",
        ),
        ({"transport": 3, "url": "http://x"}, "things.transport: is not one of the known words"),
        ({"type": "sse", "command": "x"}, "sse does not fit: the server has a command. Leave it out"),
        ({"type": "stdio", "url": "http://x"}, "stdio does not fit: the server has a url. Leave it out"),
    ],
    ids=str,
)
def test_a_type_that_does_not_fit_is_refused_with_the_fix(
    written: dict[str, Any], said: str, home: Path
) -> None:
    (home / "config.json").write_text(json.dumps({"mcpServers": {"things": written}}))
    done = CliRunner().invoke(app, ["config", "validate"])
    assert done.exit_code != 0
    assert said in done.output, done.output
