"""``claw tools call``: one tool call, through the rulings and the tool gate of a real turn."""

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import typer
from claw import ToolResult, UsageError
from claw.runtime import (
    App,
    AsJson,
    Scenario,
    TurnOptions,
    document,
    load_setup,
    probe_message,
    reserved_stdout,
    takes_scenario,
)


@takes_scenario("agent", "channel", "account", "group", "sender", "model")
def call(
    name: str,
    *,
    args: Annotated[str, typer.Option("--args", help="Arguments as a JSON object.")] = "{}",
    scenario: Scenario,
    as_json: AsJson = False,
) -> None:
    """Run the tool NAME as a turn does, with the same rules and checks. Exit code 1: it was refused or failed."""
    arguments = _arguments(args)
    options = TurnOptions(agent=scenario.agent, model=scenario.model, folder=Path.cwd())
    with reserved_stdout():
        result = asyncio.run(_call(name, arguments, scenario, options))
    text = "\n".join(getattr(block, "text", "[image]") for block in result.blocks)
    if as_json:
        body = {"tool": name, "isError": result.is_error, "text": text, "details": result.details}
        document("toolResult", body)
    else:
        typer.echo(text, err=result.is_error)
    raise typer.Exit(code=1 if result.is_error else 0)


async def _call(name: str, arguments: dict[str, Any], scenario: Scenario, options: TurnOptions) -> ToolResult:
    async with App(load_setup(), log=lambda line: typer.echo(f"claw: {line}", err=True)) as host_app:
        return await host_app.call_tool(name, arguments, probe_message(scenario), options)


def _arguments(text: str) -> dict[str, Any]:
    try:
        given = json.loads(text)
        why = type(given).__name__
    except ValueError as wrong:
        given, why = None, str(wrong)
    if not isinstance(given, dict):
        fix = """write --args '{{"key": "value"}}'"""
        raise UsageError("--args is not a JSON object: {why}", fix=fix, why=why)
    return given
