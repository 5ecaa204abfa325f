"""``claw prompt``: what the system prompt of an agent is made of, who wrote each piece, and what it costs."""

import asyncio
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from claw.cli.show import document, table
from claw.prompt import Piece, price
from claw.words import say

if TYPE_CHECKING:
    from claw.stage import Stage
    from claw.tool import Tool

app = typer.Typer(add_completion=False, no_args_is_help=True, help="What the system prompt is made of.")


@app.callback()
def _noun() -> None:
    """Keep ``show`` a sub-command while it is the only one."""


@app.command()
def show(
    agent: Annotated[str, typer.Option(help="Which agent; default: the default one.")] = "",
    text: Annotated[bool, typer.Option("--text", help="Print the prompt itself.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Show each section of the prompt that a message from this terminal would meet: owner, size, stable or not."""
    stage = asyncio.run(_stage(agent))
    if text and not as_json:
        typer.echo(stage.system.whole)
        return
    body = described(stage.pieces, stage.tools.values())
    if as_json:
        extra = {"text": {"stable": stage.system.stable, "volatile": stage.system.volatile}} if text else {}
        document("prompt", {"agent": stage.agent.id, **body, **extra})
        return
    head = [say("section"), say("plugin"), say("bytes"), say("tokens, about"), say("half")]
    table(head, [*map(_row, body["sections"]), *_sums(body)])


def described(pieces: Sequence[Piece], tools: Iterable["Tool"]) -> dict[str, Any]:
    """The prompt as plain data: every piece, and the sums.

    :returns: ``sections`` in order, ``stable``, ``volatile`` and ``tools`` (their schemas, as JSON), each with bytes
        and estimated tokens.
    """
    schemas = [
        {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
        for tool in tools
    ]
    written = json.dumps(schemas, ensure_ascii=False, separators=(",", ":")) if schemas else ""
    return {
        "sections": [_section(piece) for piece in pieces],
        "stable": _cost("\n\n".join(piece.text for piece in pieces if piece.stable and piece.text)),
        "volatile": _cost("\n\n".join(piece.text for piece in pieces if not piece.stable and piece.text)),
        "tools": {"count": len(schemas), **_cost(written)},
    }


def _section(piece: Piece) -> dict[str, Any]:
    section = piece.section
    head = {"section": section.name, "plugin": section.plugin or "claw"}
    body = {**head, **_cost(piece.text), "stable": piece.stable}
    return body | {"fault": piece.fault} if piece.fault else body


def _cost(text: str) -> dict[str, int]:
    cost = price(text)
    return {"bytes": cost.bytes, "tokens": cost.tokens}


def _row(line: dict[str, Any]) -> list[str]:
    half = say("stable") if line["stable"] else say("changes")
    return [
        line["section"],
        line["plugin"],
        str(line["bytes"]),
        str(line["tokens"]),
        line.get("fault") or half,
    ]


def _sums(body: dict[str, Any]) -> list[list[str]]:
    names = {"stable": say("all stable"), "volatile": say("all that changes"), "tools": say("tool schemas")}
    return [[name, "", str(body[key]["bytes"]), str(body[key]["tokens"]), ""] for key, name in names.items()]


async def _stage(agent: str) -> "Stage":
    from claw.app import App, from_terminal, look_round
    from claw.stage import Wish

    house = App(look_round())
    try:
        return await house.stage(from_terminal(""), Wish(agent=agent, folder=Path.cwd()))
    finally:
        await house.close()
