"""MCP servers for tests: started over HTTP, and used without a gateway round them."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from claw import HttpClients, ToolResult
from claw.testing import check_and_run, tool_context
from claw_mcp.fleet import Fleet
from claw_mcp.record import ServerRecords
from claw_mcp.sdk import SessionEnvironment
from claw_mcp.settings import McpSettings

THINGS, ASKING = (Path(__file__).with_name(name) for name in ("things.py", "asking.py"))


def text(result: ToolResult) -> str:
    return "\n".join(getattr(block, "text", "[image]") for block in result.blocks)


@contextlib.asynccontextmanager
async def fleet(tmp_path: Path, servers: dict[str, Any], **environ: str) -> AsyncIterator[Fleet]:
    """The servers without a gateway round them."""
    network = HttpClients()
    place = SessionEnvironment(tmp_path / "work", {"PATH": os.environ["PATH"], **environ}, network.client)
    ours = Fleet(
        McpSettings.model_validate({"mcpServers": servers}), ServerRecords(tmp_path / "state"), place
    )
    try:
        yield ours
    finally:
        await ours.close()
        await network.aclose()


async def call(ours: Fleet, name: str, tmp_path: Path, /, **arguments: Any) -> ToolResult:
    tool = next(tool for tool in ours.tools() if tool.name == name)
    return await check_and_run(tool, arguments, tool_context(tmp_path))


async def until(true: Any, seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


def free_port() -> int:
    """Below those that outgoing connections get: nobody takes it while the server is away."""
    for port in range(20_000 + os.getpid() % 10_000, 32_000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


@contextlib.contextmanager
def serving(folder: Path, port: int, *more: str, program: Path = THINGS) -> Iterator[None]:
    """A server over HTTP, as long as the block runs."""
    command = [sys.executable, str(program), str(folder), str(port), *more]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
                break
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(10)
