"""``claw mcp prompts``: the prompts of a server, and one of them with its arguments filled in."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from claw import PluginConfig, Text, ToolResult, UsageError
from claw.runtime import printable

from claw_mcp import start
from claw_mcp.connection import pages
from claw_mcp.offers import format_prompt, format_prompts
from claw_mcp.settings import McpSettings

Prompt = Annotated[str, typer.Argument(help="The prompt to print; default: list them.")]
Arguments = Annotated[list[str] | None, typer.Argument(help="NAME=value, for each argument of the prompt.")]


def prompt_arguments(words: Sequence[str]) -> dict[str, str]:
    """Return the arguments of a prompt.

    :raises UsageError: a word has no ``=``.
    """
    for word in words:
        if not word.partition("=")[1]:
            raise UsageError("{word} has no value", fix="write NAME=value", word=word)
    return dict(word.split("=", 1) for word in words)


def prompt_text(
    config: PluginConfig, settings: McpSettings, server: str, prompt: str, words: Sequence[str]
) -> str:
    """Return the prompts of a server, or one of them as a model would read it. No control character is in it."""
    arguments = prompt_arguments(words)

    async def ask(client: Any) -> str:
        if not prompt:
            return format_prompts(await pages(client.list_prompts, "prompts"))
        return _text(format_prompt(await client.get_prompt(prompt, arguments)))

    async def asked() -> str:
        async with start.short_fleet(config, settings) as fleet:
            return await fleet.ask(server, ask)

    return "\n".join(map(printable, asyncio.run(asked()).splitlines()))


def _text(result: ToolResult) -> str:
    return "\n".join(one.text if isinstance(one, Text) else f"[{one.mime}]" for one in result.blocks)
