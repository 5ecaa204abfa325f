"""``claw prompt``: what the system prompt of an agent is made of, who wrote each piece, and what it costs."""

import asyncio
import html
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from claw.cli import tools as of
from claw.cli.options import AsJson
from claw.cli.show import document, table
from claw.cli.stability import stability
from claw.message import Inbound
from claw.prompt import ContextFile, Piece, price
from claw.route import TERMINAL
from claw.scenario import Scenario
from claw.words import say

if TYPE_CHECKING:
    from claw.stage import Stage
    from claw.tool import Tool

app = typer.Typer(add_completion=False, no_args_is_help=True, help="What the system prompt is made of.")
_SKILL = re.compile(r"<skill>\s*<name>(?P<name>[^<]*)</name>.*?</skill>", re.S)


@app.command()
def show(
    *,
    agent: of.Agent = "",
    by: Annotated[
        Literal["section", "plugin", "skill", "tool", "file"], typer.Option(help="Whose price to list.")
    ] = "section",
    mode: Annotated[
        Literal["", "full", "minimal", "none"],
        typer.Option(help="full, minimal (a sub-agent's) or none; default: as the conversation asks."),
    ] = "",
    channel: of.Channel = TERMINAL, account: of.Account = "default", group: of.Group = "", sender: of.Person = "",
    text: Annotated[bool, typer.Option("--text", help="Print the prompt itself.")] = False,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Show each section of the prompt that a message (by default from here) would meet: owner, size, stable or not."""
    asked = Scenario(agent=agent, channel=channel, account=account, group=group, sender=sender)
    stage = asyncio.run(_stage(of.inbound_of(asked), agent, mode))
    if text and not as_json:
        typer.echo(stage.system.whole)
        return
    body = described(stage.pieces, stage.tools.values(), stage.files)
    if as_json:
        extra = {"text": {"stable": stage.system.stable, "volatile": stage.system.volatile}} if text else {}
        document("prompt", {"agent": stage.agent.id, **body, **extra})
    elif by == "section":
        head = [say("section"), say("plugin"), say("bytes"), say("tokens, about"), say("half")]
        table(head, [*map(_row, body["sections"]), *_sums(body)])
    else:
        _price_list(by, body)


app.command()(stability)


def described(
    pieces: Sequence[Piece], tools: Iterable["Tool"], files: Sequence[ContextFile] = ()
) -> dict[str, Any]:
    """The prompt as plain data: every piece, the sums, and what each plugin, skill, tool and file adds to a request.

    :param files: the context files, within budget.
    :returns: ``sections`` in order, ``stable``, ``volatile`` and ``tools`` (their schemas, as JSON), ``byPlugin``,
        ``bySkill``, ``byTool`` and ``byFile`` (the dearest first), each with bytes and estimated tokens.
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
        "byFile": _dearest(_files(pieces, files)),
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


def _files(pieces: Iterable[Piece], files: Iterable[ContextFile]) -> Iterator[dict[str, Any]]:
    """Each of the agent's own files that stands in the prompt, and whether it is cut."""
    told = "".join(piece.text for piece in pieces)
    for file in files:
        if file.text and file.text in told:
            yield {"file": file.path, "state": file.state, **_cost(file.text)}


def _dearest(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(lines, key=lambda line: -line["bytes"])


def _price_list(by: str, body: dict[str, Any]) -> None:
    lines = body[f"by{by.capitalize()}"]
    if not lines:
        none = {
            "skill": say("no skill is in this prompt"),
            "tool": say("no tool is in this request"),
            "file": say("no file of the agent's own is in this prompt"),
        }
        typer.echo(none[by], err=True)
        return
    heads = {
        "plugin": {"plugin": say("plugin"), "sections": say("sections"), "tools": say("tools")},
        "skill": {"skill": say("skill"), "plugin": say("plugin")},
        "tool": {"tool": say("tool"), "plugin": say("plugin")},
        "file": {"file": say("file"), "state": say("state")},
    }[by] | {"bytes": say("bytes"), "tokens": say("tokens, about")}
    states = {"whole": say("whole"), "cut": say("cut"), "missing": say("missing")} if by == "file" else {}
    rows = [[states.get(str(line[key]), str(line[key])) for key in heads] for line in lines]
    table([*heads.values()], rows)


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


async def _stage(message: Inbound, agent: str, mode: str) -> "Stage":
    from claw.app import App, look_round
    from claw.stage import Wish

    async with App(look_round(), complain=lambda line: typer.echo(f"claw: {line}", err=True)) as house:
        return await house.stage(message, Wish(agent=agent, folder=Path.cwd(), mode=mode))
