"""MCP servers that nobody here wrote, from the index: configured, called, broken and repaired by what claw prints."""

import json
import subprocess
from typing import Any

import pytest
from integration.test_packaging import Venv
from plugins.fresh_environment import built, flip_first_byte, module, obey, printed, remove

pytestmark = [pytest.mark.index, pytest.mark.timeout(600), pytest.mark.xdist_group("mcp of others")]
BESIDE = ("time", "git", "fetch")
"""In claw's own environment; the calculator is in one of its own, with an older SDK."""


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Venv:
    venv = Venv(tmp_path_factory.mktemp("calculator"))
    venv.install("mcp-server-calculator")
    return venv


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory, apart: Venv) -> Venv:
    """claw with the plugin, its SDK, and four servers, all configured."""
    folder = tmp_path_factory.mktemp("mcp")
    venv = Venv(folder)
    core, plugin = built(folder / "wheels", "mcp")
    venv.install(core, f"{plugin}[sdk]", *(f"mcp-server-{name}" for name in BESIDE))
    servers: dict[str, Any] = {
        name: {"command": f"mcp-server-{name}", "connectSeconds": 60} for name in BESIDE
    }
    servers["time"]["args"] = ["--local-timezone", "UTC"]
    servers["calculator"] = {
        "command": str(apart.folder / "bin" / "mcp-server-calculator"),
        "connectSeconds": 60,
    }
    (venv.home / ".claw").mkdir()
    (venv.home / ".claw" / "config.json").write_text(json.dumps({"mcpServers": servers}))
    first = venv.claw("mcp", "refresh")
    assert first.returncode == 0, first.stderr
    return venv


def call(venv: Venv, name: str, **arguments: Any) -> str:
    done = venv.claw("tools", "call", name, "--args", json.dumps(arguments))
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_their_tools_are_there_under_the_name_of_their_server(venv: Venv) -> None:
    tools = venv.tools()
    assert {"time__convert_time", "git__git_status", "calculator__calculate", "fetch__fetch"} <= tools


def test_each_does_its_work_through_the_gate_of_a_real_turn(venv: Venv) -> None:
    subprocess.run(["git", "init", "-q", "-b", "anvil", str(venv.home / "repo")], check=True)

    assert call(venv, "calculator__calculate", expression="6*7") == "42"
    moved = call(
        venv, "time__convert_time", source_timezone="UTC", time="12:00", target_timezone="Asia/Shanghai"
    )
    assert "T20:00:00+08:00" in moved
    assert "anvil" in call(venv, "git__git_status", repo_path=str(venv.home / "repo"))


def test_policy_takes_them_away_like_any_other_tool(venv: Venv) -> None:
    assert venv.claw("config", "set", "tools.deny", '["git__*", "calculator__calculate"]').returncode == 0
    try:
        left = {name.partition("__")[0] for name in venv.tools() if "__" in name}
        assert left == {"time", "fetch"}
        refused = venv.claw("tools", "call", "calculator__calculate", "--args", '{"expression": "1"}')
        assert refused.returncode == 1
        assert "tools.deny" in refused.stderr
    finally:
        venv.claw("config", "unset", "tools.deny")


def test_a_server_that_lost_a_dependency_is_fixed_by_what_is_printed(venv: Venv) -> None:
    remove(venv, "tzlocal")

    broken = venv.claw("mcp", "refresh", "time")
    assert broken.returncode == 1
    assert "No module named 'tzlocal'" in broken.stderr
    obey(venv, printed(broken.stderr))
    assert "day_of_week" in call(venv, "time__get_current_time", timezone="UTC")


def test_a_server_with_a_changed_byte_is_fixed_by_what_is_printed(venv: Venv, apart: Venv) -> None:
    flip_first_byte(module(apart, "mcp_server_calculator/calculator.py"))

    broken = venv.claw("mcp", "refresh", "calculator")
    assert broken.returncode == 1
    assert any("--force-reinstall" in command for command in printed(broken.stderr))
    obey(venv, printed(broken.stderr))
    assert call(venv, "calculator__calculate", expression="6*7") == "42"


def test_while_one_is_broken_the_others_work_and_its_calls_say_why(venv: Venv, apart: Venv) -> None:
    flip_first_byte(module(apart, "mcp_server_calculator/calculator.py"))
    try:
        failed = venv.claw("tools", "call", "calculator__calculate", "--args", '{"expression": "1"}')
        assert failed.returncode == 1
        assert "the MCP server calculator could not be reached" in failed.stderr
        assert "claw mcp refresh calculator" in failed.stderr
        assert "day_of_week" in call(venv, "time__get_current_time", timezone="UTC")
    finally:
        flip_first_byte(module(apart, "mcp_server_calculator/calculator.py"))
