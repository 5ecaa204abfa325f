"""MCP servers that a plugin ships: found without its code, started when the operator says so, gone with the plugin."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from claw.cli.main import app
from claw.runtime import plugin_states
from claw.testing import FakeProvider, Harness, calls, says
from claw_mcp.plugin_servers import with_shipped
from claw_mcp.settings import McpSettings
from plugins.mcp.servers import THINGS
from third_party import installed
from typer.testing import CliRunner, Result

NO_CODE = "raise SystemExit('imported to be inspected')"
SERVER = {
    "command": "${PYTHON}",
    "args": ["${PLUGIN_FOLDER}/server.py", "${PLUGIN_FOLDER}/data"],
    "connectSeconds": 60,
}


def claw(*words: str) -> Result:
    return CliRunner().invoke(app, [*words])


def rows() -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in json.loads(claw("mcp", "list", "--json").stdout)["servers"]}


def configure(home: Path, **config: Any) -> None:
    (home / "config.yaml").write_text(yaml.safe_dump({"locale": "en", **config}))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home beside which the plugin ``acme`` is installed, with the server ``stock``."""
    monkeypatch.setenv("CLAW_HOME", str(tmp_path / "claw"))
    (tmp_path / "claw").mkdir()
    return tmp_path / "claw"


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def install(**servers: Any) -> None:
        place = installed(
            tmp_path / "site",
            "acme",
            NO_CODE,
            {"kinds": ["mcp-server"], "mcpServers": servers or {"stock": SERVER}},
        )
        (place / "stranger_acme/data").mkdir()
        shutil.copy(THINGS, place / "stranger_acme/server.py")
        monkeypatch.syspath_prepend(str(place))

    return install


async def test_a_shipped_server_is_started_when_the_operator_says_so_and_each_tool_is_allowed(
    home: Path, acme: Any
) -> None:
    acme()
    started = home.parent / "site/stranger_acme/data/starts"
    assert (rows()["stock"]["plugin"], rows()["stock"]["state"]) == ("acme", "not reached yet")
    assert claw("mcp", "refresh").exit_code == 0 and not started.exists()

    refreshed = claw("mcp", "refresh", "stock")

    assert refreshed.exit_code == 0 and started.exists(), refreshed.output
    assert "name its tools in an allow list: claw config set 'tools.alsoAllow[]' stock__" in refreshed.stdout
    model = FakeProvider(calls("stock__weigh", thing="anvil"), says("5 kg."))
    config = {"tools": {"alsoAllow": ["stock__weigh"]}}
    async with Harness(model, config=config, installed=True, home=home) as harness:
        await harness.send("how heavy is it?")
    assert [name for name in model.requests[0].tool_names if name.startswith("stock")] == ["stock__weigh"]
    assert model.requests[1].tool_results[0].content[0].text == "anvil: 5 kg"


def test_no_start_reaches_a_shipped_server_and_its_tools_need_an_allow_list(home: Path, acme: Any) -> None:
    acme()
    configure(home, tools={"alsoAllow": ["mcp"]})

    assert claw("tools", "list").exit_code == 0

    assert not (home.parent / "site/stranger_acme/data/starts").exists()


def test_a_server_of_the_file_replaces_it_and_it_is_removed_with_its_plugin(home: Path, acme: Any) -> None:
    acme()
    refused = claw("mcp", "remove", "stock")
    assert "the plugin acme ships the MCP server stock" in str(refused.exception)

    assert claw("mcp", "add", "stock", "--no-connect", "--url", "https://stock.example/mcp").exit_code == 0
    assert (rows()["stock"]["plugin"], rows()["stock"]["where"]) == ("", "https://stock.example/mcp")

    configure(home, plugins={"entries": {"acme": {"enabled": False}}})
    assert rows() == {}


def test_a_malformed_one_is_named_and_the_others_stay(home: Path, acme: Any) -> None:
    acme(stock=SERVER, both={"command": "a", "url": "https://b.example"}, odd={"command": "a", "arg": []})

    listed = claw("mcp", "list").stdout

    assert "stock  not reached yet" in listed and ", of the plugin acme" in listed
    assert "its MCP server both is malformed: a server has either a command (and args) or a url" in listed
    assert "its MCP server odd is malformed: arg: Extra inputs are not permitted" in listed


def test_an_update_that_moves_the_package_does_not_make_it_another_server(home: Path, acme: Any) -> None:
    acme()
    [state] = [one for one in plugin_states() if one.id == "acme"]
    server = with_shipped(McpSettings(), [state])[0].mcp_servers["stock"]
    assert str(home.parent) not in json.dumps(server.identity)
    assert str(home.parent) in server.args[0] and server.env["PYTHONPATH"].reveal() == str(
        home.parent / "site"
    )
