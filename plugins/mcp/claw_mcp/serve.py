"""``claw mcp serve``: chosen tools of claw for an MCP client, through the rules and the gate of a turn."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from claw import Image, Text, Tool, ToolResult, UsageError, __version__, t
from claw.runtime import (
    App,
    TurnOptions,
    load_setup,
    matches_pattern,
    normalise_tool_name,
    reserved_stdout,
    terminal_message,
)

from claw_mcp import sdk


def serve(
    tools: Annotated[list[str], typer.Argument(help="Names of tools, or patterns with *.")],
    agent: Annotated[str, typer.Option(help="Agent id; default: the default agent.")] = "",
) -> None:
    """Serve chosen tools to an MCP client, over stdin and stdout.

    A call is judged as one of the person at this terminal, with nobody to ask: what needs an approval is refused. A
    pattern chooses no tool that is for owners alone; its name does.
    """
    with reserved_stdout() as out:
        asyncio.run(_serve(tools, agent, out))


async def _serve(words: Sequence[str], agent: str, out: TextIO) -> None:
    await sdk.load()
    import anyio
    from mcp.server.stdio import stdio_server

    async with App(load_setup(), log=lambda line: typer.echo(f"claw: {line}", err=True)) as app:
        server = await server_of(app, words, agent)
        async with stdio_server(stdout=anyio.wrap_file(out)) as (read, write):
            await server.run(read, write, server.create_initialization_options())


async def server_of(app: App, words: Sequence[str], agent: str = "") -> Any:
    """Return a server (``mcp.server.lowlevel.Server``) of the chosen tools: judged once for the list, and at each call.

    :raises UsageError: a word chooses no tool that such a run has.
    """
    from mcp import types
    from mcp.server.lowlevel import Server

    inbound, options = terminal_message(""), TurnOptions(agent=agent, folder=Path.cwd())
    chosen = chosen_tools((await app.resolve_turn(inbound, options)).tools, words)

    async def list_tools(context: Any, asked: Any) -> Any:
        listed = [
            types.Tool(name=one.name, description=one.description, input_schema=dict(one.parameters))
            for one in chosen.values()
        ]
        return types.ListToolsResult(tools=listed)

    async def call_tool(context: Any, asked: Any) -> Any:
        if asked.name not in chosen:
            said = t("there is no tool {name}", name=asked.name)
            return types.CallToolResult(content=[types.TextContent(text=said)], is_error=True)
        result = await app.call_tool(asked.name, dict(asked.arguments or {}), inbound, options)
        return types.CallToolResult(content=_content(result, types), is_error=result.is_error)

    return Server("claw", version=__version__, on_list_tools=list_tools, on_call_tool=call_tool)


def chosen_tools(tools: Mapping[str, Tool], words: Sequence[str]) -> dict[str, Tool]:
    """Return the tools that the words choose, by name.

    :raises UsageError: a word chooses none.
    """
    chosen: dict[str, Tool] = {}
    for word in words:
        pattern = normalise_tool_name(word)
        found = [
            one
            for one in tools.values()
            if matches_pattern(pattern, normalise_tool_name(one.name))
            and not ("*" in word and one.owner_only)
        ]
        if not found:
            problem, fix = "no tool of this run is called {word}", "claw tools explain {word} says why"
            raise UsageError(problem, fix=fix, word=word)
        chosen |= {one.name: one for one in found}
    return chosen


def _content(result: ToolResult, types: Any) -> list[Any]:
    content: list[Any] = []
    for block in result.blocks:
        if isinstance(block, Text):
            content.append(types.TextContent(text=block.text))
        elif isinstance(block, Image):
            content.append(types.ImageContent(data=block.data, mime_type=block.mime))
    return content
