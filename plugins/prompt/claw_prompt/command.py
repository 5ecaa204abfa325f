"""``claw prompt``: the pieces of an agent's system prompt, who wrote each one, and what it costs."""

import asyncio
import html
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from claw import ContextFile, Inbound, t
from claw.runtime import CHARS_PER_TOKEN, AsJson, RenderedSection, document, table
from claw_config_sdk import Scenario, probe_message, takes_scenario

from claw_prompt.stability import stability

if TYPE_CHECKING:
    from claw import Tool
    from claw.runtime import TurnContext

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Show the sections of the system prompt, and their size."
)
_SKILL = re.compile(r"<skill>\s*<name>(?P<name>[^<]*)</name>.*?</skill>", re.S)


@app.command()
@takes_scenario("agent", "channel", "account", "group", "sender")
def show(
    *,
    scenario: Scenario,
    by: Annotated[
        Literal["section", "plugin", "skill", "tool", "file"], typer.Option(help="One line for each of these.")
    ] = "section",
    mode: Annotated[
        Literal["full", "minimal", "none"] | None,
        typer.Option(help="full, minimal (a sub-agent's) or none; default: as the conversation asks."),
    ] = None,
    text: Annotated[bool, typer.Option("--text", help="Print the prompt itself.")] = False,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Show each section of the prompt for a message (by default from here): plugin, size, stable or not."""
    context = asyncio.run(_turn_context(probe_message(scenario), scenario.agent, mode or ""))
    if text and not as_json:
        typer.echo(context.system.whole)
        return
    body = prompt_data(context.rendered_sections, context.tools.values(), context.files)
    if as_json:
        extra = (
            {"text": {"stable": context.system.stable, "volatile": context.system.volatile}} if text else {}
        )
        document("prompt", {"agent": context.agent.id, **body, **extra})
    elif by == "section":
        head = [t("section"), t("plugin"), t("bytes"), t("tokens, about"), t("half")]
        table(head, [*map(_row, body["sections"]), *_sums(body)])
    else:
        _print_costs(by, body)


app.command()(stability)


def prompt_data(
    pieces: Sequence[RenderedSection], tools: Iterable["Tool"], files: Sequence[ContextFile] = ()
) -> dict[str, Any]:
    """Return the prompt as plain data: every piece, the sums, and what each plugin, skill, tool and file adds
    to a request.

    :param files: the context files, cut to their budget.
    :returns: ``sections`` in order, ``stable``, ``volatile`` and ``tools`` (their schemas, as JSON), ``byPlugin``,
        ``bySkill``, ``byTool`` and ``byFile`` (the dearest first), each with bytes and estimated tokens.
    """
    tool_list = list(tools)
    schemas = [
        {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
        for tool in tool_list
    ]
    tools_json = _as_json(schemas) if schemas else ""
    by_tool = [
        {"tool": tool.name, "plugin": tool.plugin or "claw", **_cost(_as_json(schema))}
        for tool, schema in zip(tool_list, schemas, strict=True)
    ]
    sections = [_section_data(piece) for piece in pieces]
    return {
        "sections": sections,
        "stable": _cost("\n\n".join(piece.text for piece in pieces if piece.stable and piece.text)),
        "volatile": _cost("\n\n".join(piece.text for piece in pieces if not piece.stable and piece.text)),
        "tools": {"count": len(schemas), **_cost(tools_json)},
        "byPlugin": _largest_first(_by_plugin(sections, by_tool)),
        "bySkill": _largest_first(_skills(pieces)),
        "byTool": _largest_first(by_tool),
        "byFile": _largest_first(_files(pieces, files)),
    }


def _as_json(schemas: Any) -> str:
    return json.dumps(schemas, ensure_ascii=False, separators=(",", ":"))


def _by_plugin(
    sections: Iterable[dict[str, Any]], tools: Iterable[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield what each plugin adds: its sections and its tools."""
    lines = [*sections, *tools]
    for plugin in dict.fromkeys(line["plugin"] for line in lines):
        own = [line for line in lines if line["plugin"] == plugin]
        counts = {kind: sum(kind[:-1] in line for line in own) for kind in ("sections", "tools")}
        sums = {unit: sum(line[unit] for line in own) for unit in ("bytes", "tokens")}
        yield {"plugin": plugin, **counts, **sums}


def _skills(pieces: Iterable[RenderedSection]) -> Iterator[dict[str, Any]]:
    """Yield each entry of a skill catalogue, in the form that the plugin ``skills`` and others write."""
    for piece in pieces:
        for entry in _SKILL.finditer(piece.text):
            yield {
                "skill": html.unescape(entry["name"]),
                "plugin": piece.section.plugin or "claw",
                **_cost(entry[0]),
            }


def _files(pieces: Iterable[RenderedSection], files: Iterable[ContextFile]) -> Iterator[dict[str, Any]]:
    """Yield each of the agent's own files in the prompt, and true if it is cut."""
    prompt = "".join(piece.text for piece in pieces)
    for file in files:
        if file.text and file.text in prompt:
            yield {"file": file.path, "state": file.state, **_cost(file.text)}


def _largest_first(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(lines, key=lambda line: -line["bytes"])


def _print_costs(by: str, body: dict[str, Any]) -> None:
    lines = body[f"by{by.capitalize()}"]
    if not lines:
        none = {
            "skill": t("this prompt contains no skill"),
            "tool": t("this request contains no tool"),
            "file": t("this prompt contains no context file"),
        }
        typer.echo(none[by], err=True)
        return
    heads = {
        "plugin": {"plugin": t("plugin"), "sections": t("sections"), "tools": t("tools")},
        "skill": {"skill": t("skill"), "plugin": t("plugin")},
        "tool": {"tool": t("tool"), "plugin": t("plugin")},
        "file": {"file": t("file"), "state": t("state")},
    }[by] | {"bytes": t("bytes"), "tokens": t("tokens, about")}
    states = {"whole": t("whole"), "cut": t("cut"), "missing": t("missing")} if by == "file" else {}
    rows = [[states.get(str(line[key]), str(line[key])) for key in heads] for line in lines]
    table([*heads.values()], rows)


def _section_data(piece: RenderedSection) -> dict[str, Any]:
    section = piece.section
    head = {"section": section.name, "plugin": section.plugin or "claw"}
    body = {**head, **_cost(piece.text), "stable": piece.stable}
    return body | {"fault": piece.fault} if piece.fault else body


def _cost(text: str) -> dict[str, int]:
    return {"bytes": len(text.encode("utf-8", "surrogatepass")), "tokens": -(-len(text) // CHARS_PER_TOKEN)}


def _row(line: dict[str, Any]) -> list[str]:
    half = t("stable") if line["stable"] else t("changes")
    return [
        line["section"],
        line["plugin"],
        str(line["bytes"]),
        str(line["tokens"]),
        line.get("fault") or half,
    ]


def _sums(body: dict[str, Any]) -> list[list[str]]:
    names = {"stable": t("all stable"), "volatile": t("all that changes"), "tools": t("tool schemas")}
    return [[name, "", str(body[key]["bytes"]), str(body[key]["tokens"]), ""] for key, name in names.items()]


async def _turn_context(message: Inbound, agent: str, mode: str) -> "TurnContext":
    from claw.runtime import App, TurnOptions, load_setup

    async with App(load_setup(), log=lambda line: typer.echo(f"claw: {line}", err=True)) as host_app:
        return await host_app.resolve_turn(message, TurnOptions(agent=agent, folder=Path.cwd(), mode=mode))
