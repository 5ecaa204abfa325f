"""The processes of servers end with their sessions, and their children with them."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from plugins.mcp.servers import fleet

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)

SERVER = """
import json, os, signal, subprocess, sys, time

folder, stubborn, hangs = sys.argv[1], "stubborn" in sys.argv, "hangs" in sys.argv
if stubborn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open(folder + "/pids", "a") as pids:
    pids.write(f"{os.getpid()} {child.pid} ")

for line in sys.stdin:
    asked = json.loads(line)
    about = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
    results = {"initialize": about, "tools/list": {"tools": [{"name": "a", "inputSchema": {"type": "object"}}]}}
    reply = {"jsonrpc": "2.0", "id": asked.get("id")}
    if asked["method"] in results and not hangs:
        print(json.dumps({**reply, "result": results[asked["method"]]}), flush=True)
    elif "id" in asked and not hangs:
        print(json.dumps({**reply, "error": {"code": -32601, "message": "no"}}), flush=True)
if stubborn:
    time.sleep(600)
"""


def server(tmp_path: Path, *how: str, **more: Any) -> dict[str, Any]:
    (tmp_path / "server.py").write_text(SERVER)
    return {"command": sys.executable, "args": [str(tmp_path / "server.py"), str(tmp_path), *how], **more}


def alive(tmp_path: Path) -> list[int]:
    """The processes that the server and its child are, and that still run."""
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(pids) >= 2
    return [pid for pid in pids if is_running(pid)]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(tmp_path: Path, seconds: float) -> bool:
    """End what is left, so that no test leaves it behind; return true if nothing was."""
    end = time.monotonic() + seconds
    while alive(tmp_path) and time.monotonic() < end:
        time.sleep(0.05)
    left = alive(tmp_path)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return not left


@pytest.mark.parametrize("how", [[], ["stubborn"]], ids=str)
async def test_a_server_ends_with_its_children_whether_it_obeys_or_not(
    how: list[str], tmp_path: Path
) -> None:
    async with fleet(tmp_path, {"it": server(tmp_path, *how)}) as ours:
        assert await ours.connect(["it"]) == {}
    assert gone(tmp_path, 0.5)


async def test_a_loop_that_ends_at_once_leaves_no_process(tmp_path: Path) -> None:
    async def hurried() -> None:
        async with fleet(tmp_path, {"it": server(tmp_path, "stubborn")}) as ours:
            assert await ours.connect(["it"]) == {}
            asyncio.get_running_loop().stop()
            await asyncio.sleep(60)

    def run() -> None:
        with contextlib.suppress(RuntimeError):  # it is stopped before hurried() is done
            asyncio.run(hurried())

    await asyncio.to_thread(run)
    assert gone(tmp_path, 0.5)


START = """
import json, sys
from pathlib import Path

import mcp
from claw.testing import plugin_config
from claw_mcp import start
from claw_mcp.plugin_servers import read_settings

tree, home = json.loads(sys.argv[1]), Path(sys.argv[2])
config = plugin_config(tree, home=home, plugin_id="mcp")
print(start.connect(config, read_settings(config), ["it"], 1.0))
"""


def test_a_start_that_does_not_wait_for_a_server_that_hangs_leaves_no_process(tmp_path: Path) -> None:
    tree = {"mcpServers": {"it": server(tmp_path, "stubborn", "hangs")}}
    command = [sys.executable, "-c", START, json.dumps(tree), str(tmp_path / "house")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert gone(tmp_path, 1)
