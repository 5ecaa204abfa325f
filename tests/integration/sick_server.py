"""An MCP server that does one thing wrong: ``sick_server.py FAULT``. It needs no library, so that it starts at once."""

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

OBJECT = {"type": "object", "properties": {"x": {"type": "string"}}}


def tool(name: str = "do", description: str = "Do it.", schema: Any = OBJECT) -> dict[str, Any]:
    """A tool as a server lists it."""
    return {"name": name, "description": description, "inputSchema": schema}


TOOLS: dict[str, list[Any]] = {
    "one bad schema": [tool(), tool("bad", schema={"type": "array"})],
    "no schema": [tool(), {"name": "bare"}, tool("text", schema="a string"), tool("null", schema=None), 5],
    "huge description": [tool(), tool("huge", "Think. " * 50_000)],
    "huge schema": [tool(), tool("huge", schema={**OBJECT, "description": "x" * 300_000})],
    "thousands of tools": [tool(), *(tool(f"tool_{number}") for number in range(3_000))],
    "names of another script": [tool(), tool("工具"), tool("搜索")],
    "the same name twice": [tool(), tool(description="Do it otherwise.")],
    "a pattern without end": [tool(schema={"properties": {"x": {"pattern": "^(a+)+$"}}, "type": "object"})],
    "terminal escapes": [tool(description="Do\x1b[2J\x1b]0;owned\x07 it.")],
}  # fmt: skip


def text(said: str) -> dict[str, Any]:
    """The result of a call."""
    return {"content": [{"type": "text", "text": said}]}


def called(fault: str) -> dict[str, Any]:
    """Answer a call: ``result`` or ``error``."""
    match fault:
        case "dies in a call":
            os._exit(1)
        case "sleeps in a call":
            time.sleep(60)
        case "leaves a child":
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        case "huge result":
            return {"result": text("anvil " * 800_000)}
        case "unknown content":
            return {"result": {"content": [{"type": "hologram", "light": "x" * 3000}]}}
        case "no content":
            return {"result": {"content": None}}
        case "an error":
            return {"error": {"code": -32000, "message": "the forge is on fire"}}
        case "an error without form":
            return {"error": "the forge is on fire"}
        case "lone surrogates":
            return {"result": text("5 kg \ud800")}
    return {"result": text("5 kg")}


def answer(fault: str, asked: Any) -> dict[str, Any]:
    """Answer a request."""
    method, params = asked["method"], asked.get("params", {})
    if method == "initialize":
        if fault in ("never answers", "does not end"):
            time.sleep(60)
        claims = ("tools", "resources", "prompts") if fault == "claims lists that it has not" else ("tools",)
        about = {
            "capabilities": {name: {} for name in claims},
            "serverInfo": {"name": "sick", "version": "1"},
        }
        version = "1999-01-01" if fault == "wrong version" else params["protocolVersion"]
        return {"result": 5 if fault == "wrong handshake" else {**about, "protocolVersion": version}}
    if method == "tools/list":
        if fault == "pages without end":
            return {"result": {"tools": [tool()], "nextCursor": "more"}}
        return {"result": {"tools": TOOLS.get(fault, [tool()])}}
    return (
        called(fault) if method == "tools/call" else {"error": {"code": -32601, "message": "no such method"}}
    )


def main(fault: str) -> None:
    """Serve until stdin ends."""
    if fault == "dies at start":
        sys.exit("SickError: no luck today")
    if fault == "import error":
        import no_such_library  # noqa: F401
    if fault == "does not end":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if fault == "noise on stdout":
        print("Sick server 1.0 is starting ...\n{not json}\n\n", flush=True)
    if fault == "binary on stdout":
        os.write(1, bytes(range(256)) + b"\n")
    if fault == "floods stderr":
        print("x" * 5_000_000, file=sys.stderr, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked:
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer(fault, asked)}), flush=True)
            if fault == "says its name twice":
                print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {}}), flush=True)
    if fault == "does not end":
        time.sleep(60)


if __name__ == "__main__":
    main(sys.argv[1])
