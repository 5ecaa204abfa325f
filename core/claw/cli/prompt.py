"""``claw prompt``: what the system prompt of an agent is made of, who wrote each piece, and what it costs."""

import asyncio
import html
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from claw.cli.show import document, table
from claw.cli.stability import stability
from claw.prompt import Piece, price
from claw.words import say

if TYPE_CHECKING:
    from claw.stage import Stage
    from claw.tool import Tool

app = typer.Typer(add_completion=False, no_args_is_help=True, help="What the system prompt is made of.")
_SKILL = re.compile(r"<skill>\s*<name>(?P<name>[^<]*)</name>.*?</skill>", re.S)


@app.command()
def show(
    agent: Annotated[str, typer.Option(help="Which agent; default: the default one.")] = "",
    by: Annotated[
        Literal["section", "plugin", "skill", "tool"], typer.Option(help="Whose price to list.")
    ] = "section",
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
    elif by == "section":
        head = [say("section"), say("plugin"), say("bytes"), say("tokens, about"), say("half")]
        table(head, [*map(_row, body["sections"]), *_sums(body)])
    else:
        _price_list(by, body)


app.command()(stability)


def described(pieces: Sequence[Piece], tools: Iterable["Tool"]) -> dict[str, Any]:
    """The prompt as plain data: every piece, the sums, and what each plugin, skill and tool adds to a request.

    :returns: ``sections`` in order, ``stable``, ``volatile`` and ``tools`` (their schemas, as JSON), ``byPlugin``,
        ``bySkill`` and ``byTool`` (the dearest first), each with bytes and estimated tokens.
    """
    offered = list(tools)
    schemas = [
        {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
        for tool in offered
    ]
    written = _written(schemas) if schemas else ""
    by_tool = [
        {"tool": tool.name, "plugin": tool.plugin or "claw", **_cost(_written(schema))}
        for tool, schema in zip(offered, schemas, strict=True)
    ]
    sections = [_section(piece) for piece in pieces]
    return {
        "sections": sections,
        "stable": _cost("\n\n".join(piece.text for piece in pieces if piece.stable and piece.text)),
        "volatile": _cost("\n\n".join(piece.text for piece in pieces if not piece.stable and piece.text)),
        "tools": {"count": len(schemas), **_cost(written)},
        "byPlugin": _dearest(_by_plugin(sections, by_tool)),
        "bySkill": _dearest(_skills(pieces)),
        "byTool": _dearest(by_tool),
    }


def _written(schemas: Any) -> str:
    return json.dumps(schemas, ensure_ascii=False, separators=(",", ":"))


def _by_plugin(
    sections: Iterable[dict[str, Any]], tools: Iterable[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """What each plugin adds: its sections and its tools."""
    lines = [*sections, *tools]
    for plugin in dict.fromkeys(line["plugin"] for line in lines):
        mine = [line for line in lines if line["plugin"] == plugin]
        counts = {kind: sum(kind[:-1] in line for line in mine) for kind in ("sections", "tools")}
        sums = {unit: sum(line[unit] for line in mine) for unit in ("bytes", "tokens")}
        yield {"plugin": plugin, **counts, **sums}


def _skills(pieces: Iterable[Piece]) -> Iterator[dict[str, Any]]:
    """Each entry of a catalogue of skills, in the form that the plugin ``skills`` and others write."""
    for piece in pieces:
        for entry in _SKILL.finditer(piece.text):
            yield {
                "skill": html.unescape(entry["name"]),
                "plugin": piece.section.plugin or "claw",
                **_cost(entry[0]),
            }


def _dearest(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(lines, key=lambda line: -line["bytes"])


def _price_list(by: str, body: dict[str, Any]) -> None:
    lines = body[f"by{by.capitalize()}"]
    if not lines:
        typer.echo(
            say("no skill is in this prompt") if by == "skill" else say("no tool is in this request"),
            err=True,
        )
        return
    if by == "plugin":
        head = [say("plugin"), say("sections"), say("tools"), say("bytes"), say("tokens, about")]
        table(
            head,
            [
                [line["plugin"], *(str(line[k]) for k in ("sections", "tools", "bytes", "tokens"))]
                for line in lines
            ],
        )
        return
    head = [say("skill") if by == "skill" else say("tool"), say("plugin"), say("bytes"), say("tokens, about")]
    table(head, [[line[by], line["plugin"], str(line["bytes"]), str(line["tokens"])] for line in lines])


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
