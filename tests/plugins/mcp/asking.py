"""A small MCP server that asks the client while its tools run: ``asking.py FOLDER [PORT sse]``."""

import sys
from typing import Annotated

from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import Context, Elicit, ListRoots, MCPServer, Resolve, Sample
from mcp.shared.exceptions import UrlElicitationRequiredError
from mcp.types import (
    CreateMessageResult,
    ElicitRequestURLParams,
    ListRootsResult,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel

server = MCPServer("asking")


class Sure(BaseModel):
    sure: bool
    colour: str = "grey"


class Name(BaseModel):
    name: str


def ask_sure() -> Elicit[Sure]:
    return Elicit("Throw everything away?", Sure)


def ask_name() -> Elicit[Name]:
    return Elicit("Which name?", Name)


def ask_model() -> Sample:
    message = SamplingMessage(role="user", content=TextContent(text="Name a thing."))
    return Sample([message], max_tokens=20, system_prompt="Be short.")


def ask_roots() -> ListRoots:
    return ListRoots()


@server.tool()
def throw_away(sure: Annotated[ElicitationResult[Sure], Resolve(ask_sure)]) -> str:
    """Throw everything away."""
    return f"{sure.action} {getattr(sure, 'data', None)}"


@server.tool()
def christen(name: Annotated[ElicitationResult[Name], Resolve(ask_name)]) -> str:
    """Give the anvil a name."""
    return str(name.action)


@server.tool()
async def pay(context: Context) -> str:
    """Pay."""
    return str((await context.elicit_url("Pay here.", "https://pay.example/1", "e-1")).action)


@server.tool()
def pay_first() -> str:
    """Pay, before anything else."""
    raise UrlElicitationRequiredError(
        [ElicitRequestURLParams(message="Pay.", url="https://pay.example/2", elicitation_id="e-2")]
    )


@server.tool()
def ponder(answer: Annotated[CreateMessageResult, Resolve(ask_model)]) -> str:
    """Ask a model."""
    return f"{answer.content.text}!"


@server.tool()
async def ponder_long(context: Context) -> str:
    """Ask a model three times."""
    messages = [SamplingMessage(role="user", content=TextContent(text="Name a thing."))]
    return " ".join(
        [(await context.session.create_message(messages, max_tokens=9)).content.text for _ in "123"]
    )


@server.tool()
def places(roots: Annotated[ListRootsResult, Resolve(ask_roots)]) -> str:
    """Tell the roots."""
    return " ".join(str(root.uri) for root in roots.roots)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        server.run("sse", host="127.0.0.1", port=int(sys.argv[2]))
    else:
        server.run()
