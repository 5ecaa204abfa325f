"""Cost of a call of an MCP tool through claw, beside the MCP SDK's own client: one JSON document on stdout.

    python bench/mcp_calls.py [--runs 7] [--calls 400]

``process``: ``claw tools call`` from start to end, and a script that does the same with ``mcp.Client``; the server's
process is counted in both. ``warm``: one more call in a turn, with an open session: through the gate of the turn, which
checks, asks the reviewers, and bounds the result. CPU in ms, the least of all runs, which alternate: other work can
only add to it. Exit code 1: the process costs more than its budget.
"""

import argparse
import asyncio
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from typing import Any

SCHEMA = {"type": "object", "properties": {"x": {"type": "string"}}}
TOOL = {"name": "weigh", "description": "Weigh.", "inputSchema": SCHEMA}
MOST = 1.3
"""The budget: so many times the cost of the SDK's own client."""


def serve() -> None:
    """Be a server of one tool, without a library, so that it costs next to nothing."""
    about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "bench", "version": "1"}}
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        answer: dict[str, Any] = {"error": {"code": -32601, "message": "no such method"}}
        if asked["method"] == "initialize":
            answer = {"result": {**about, "protocolVersion": asked["params"]["protocolVersion"]}}
        elif asked["method"] == "tools/list":
            answer = {"result": {"tools": [TOOL]}}
        elif asked["method"] == "tools/call":
            answer = {"result": {"content": [{"type": "text", "text": "5 kg"}]}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)


def sdk_client() -> Any:
    """Return the SDK's own client of the server, not open."""
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    server = StdioServerParameters(command=sys.executable, args=[__file__, "serve"])
    return Client(stdio_client(server))


async def direct() -> None:
    """Call the tool once, as a script does it."""
    async with sdk_client() as client:
        answer = await client.call_tool("weigh", {"x": "anvil"})
        print(answer.content[0].text)


def process_cost(words: list[str], environ: dict[str, str]) -> float:
    """Return the CPU of a process and its children, in ms."""
    before = os.times()
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=True)
    after = os.times()
    assert "5 kg" in done.stdout, done
    return 1000 * sum(now - then for now, then in zip(after[2:4], before[2:4], strict=True))


async def warm_cost(call: Callable[[], Awaitable[str]], calls: int) -> float:
    """Return the CPU of one call in this process, in ms."""
    assert "5 kg" in (said := await call()), said
    began = time.process_time()
    for _ in range(calls):
        await call()
    return 1000 * (time.process_time() - began) / calls


async def warm(runs: int, calls: int, environ: dict[str, str]) -> dict[str, float]:
    """Return the CPU of a call by each way."""
    from claw.agent.routing import terminal_message
    from claw.agent.tool_gate import ToolGate
    from claw.agent.turn_context import TurnOptions
    from claw.app import App, load_setup
    from claw.contracts.events import ignore_event
    from claw.contracts.tool import ToolResult
    from claw.contracts.transcript import ToolCall

    found: dict[str, list[float]] = {"claw": [], "sdk": []}
    async with App(load_setup(environ), log=print) as app, sdk_client() as client:
        turn = await app.resolve_turn(terminal_message("x"), TurnOptions())
        gate, numbers = ToolGate("call", turn, ignore_event), itertools.count()

        async def ours() -> str:
            arguments = {
                "x": f"anvil {next(numbers)}"
            }  # no two calls alike: the loop guard would refuse them
            ready = await gate.prepare(ToolCall("call", "bench__weigh", arguments))
            return str((ready if isinstance(ready, ToolResult) else await ready.run()).blocks)

        async def plain() -> str:
            return str((await client.call_tool("weigh", {"x": f"anvil {next(numbers)}"})).content)

        for _ in range(runs):
            found["claw"].append(await warm_cost(ours, calls))
            found["sdk"].append(await warm_cost(plain, calls))
    return {name: min(costs) for name, costs in found.items()}


def main() -> None:
    """Measure, print, and exit with 1 when a budget is exceeded."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--calls", type=int, default=400)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": folder,
            "CLAW_HOME": f"{folder}/.claw",
            "LANG": "C.UTF-8",
        }
        claw = [sys.executable, "-m", "claw"]
        command = ["mcp", "add", "bench", "--", sys.executable, __file__, "serve"]
        subprocess.run([*claw, *command], env=environ, check=True, stdout=subprocess.DEVNULL)
        ways = {
            "claw": [*claw, "tools", "call", "bench__weigh", "--args", '{"x": "anvil"}'],
            "sdk": [sys.executable, __file__, "direct"],
        }
        costs: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(asked.runs):
            for name, words in ways.items():
                costs[name].append(process_cost(words, environ))
        process = {name: min(found) for name, found in costs.items()}
        report = {"process": process, "warm": asyncio.run(warm(asked.runs, asked.calls, environ))}
    for figures in report.values():
        figures["ratio"] = figures["claw"] / figures["sdk"]
    print(json.dumps(report, indent=2))
    sys.exit(report["process"]["ratio"] > MOST)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    elif sys.argv[1:] == ["direct"]:
        asyncio.run(direct())
    else:
        main()
