"""A small MCP server, written with the SDK: ``things.py FOLDER [PORT [sse]]`` speaks over its pipes, or HTTP on the port.

``FOLDER/starts`` gets a line for each start; ``FOLDER/words`` holds the description of ``weigh``; ``FOLDER/extra`` adds a
tool when it exists; ``FOLDER/broken`` makes it fail at once; ``FOLDER/cancelled`` is written when a slow call is stopped.
"""

import os
import sys
from pathlib import Path

import anyio
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.types import ToolAnnotations

FOLDER = Path(sys.argv[1])
with (FOLDER / "starts").open("a") as starts:
    starts.write(f"{os.getpid()}\n")
if (FOLDER / "broken").exists():
    print(f"token={os.environ.get('THINGS_TOKEN')}", file=sys.stderr)
    sys.exit("ThingsError: no things today")
print("things are up", file=sys.stderr, flush=True)
server = MCPServer("things")
words = FOLDER / "words"


@server.tool(description=words.read_text() if words.exists() else "Weigh a thing.")
def weigh(thing: str) -> str:
    return f"{thing}: {len(thing)} kg"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def environment() -> str:
    """Tell the names of the variables."""
    return " ".join(sorted(os.environ))


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def dot() -> Image:
    """Draw a dot."""
    return Image(data=b"\x89PNG", format="png")


@server.tool()
async def slow(context: Context) -> str:
    """Take a minute."""
    await context.report_progress(1, 2, "halfway")
    (FOLDER / "slow").touch()
    try:
        await anyio.sleep(60)
    except BaseException:
        (FOLDER / "cancelled").touch()
        raise
    return "done"


@server.tool()
def die() -> str:
    """End the server."""
    os._exit(1)


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("it is stuck")


@server.tool()
async def header(context: Context) -> str:
    """Tell the header that was sent."""
    return str(context.headers.get("x-things") if context.headers else None)


@server.resource("things://anvil", description="All about the anvil.")
def anvil() -> str:
    return "It is heavy."


@server.prompt(description="Ask for a thing.")
def ask(thing: str) -> str:
    return f"Bring me the {thing}."


if (FOLDER / "extra").exists():

    @server.tool()
    def extra() -> str:
        """New."""
        return "new"


if __name__ == "__main__":
    if len(sys.argv) > 2:
        transport = "sse" if sys.argv[3:] == ["sse"] else "streamable-http"
        server.run(transport, host="127.0.0.1", port=int(sys.argv[2]))
    else:
        server.run()
