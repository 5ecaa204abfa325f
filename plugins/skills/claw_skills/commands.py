"""``claw skills``: which skills an agent has, where they come from, and what keeps the others out."""

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from claw import look_round, say

from claw_skills import key_is_set, usable
from claw_skills.shelf import Shelved, Shelves

skills_app = typer.Typer(no_args_is_help=True, help="Skills: which an agent has, and what keeps others out.")
AgentId = Annotated[str, typer.Option("--agent", help="Whose; the default agent's when left out.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


@skills_app.command("list")
def list_(agent: AgentId = "", as_json: AsJson = False) -> None:
    """List the agent's skills: in the prompt or not, from where, and why not."""
    _show(_rows(agent), as_json, say("no skills"))


@skills_app.command()
def check(agent: AgentId = "", as_json: AsJson = False) -> None:
    """List only skills that something keeps out of use; exit 1 when there are any."""
    rows = [row for row in _rows(agent) if row["why"]]
    _show(rows, as_json, say("every skill can be used"))
    raise typer.Exit(1 if rows else 0)


def _rows(agent_id: str) -> list[dict[str, Any]]:
    config = look_round().config
    agent = config.agent(agent_id)
    workspace = agent.workspace if agent.names_workspace else Path.cwd()
    shelved = Shelves(os.environ, key_is_set(config.settings)).look(agent, workspace)
    listed = {skill.name for skill in usable(shelved, agent.settings.skills)}
    return [_row(one, one.skill.name in listed, agent.settings.skills) for one in shelved]


def _row(one: Shelved, listed: bool, settings: Any) -> dict[str, Any]:
    skill = one.skill
    return {
        "name": skill.name,
        "listed": listed,
        "why": one.why or ("" if listed else _left_out(one, settings)),
        "source": skill.source,
        "version": skill.version,
        "description": skill.description,
        "file": str(skill.file),
    }


def _left_out(one: Shelved, settings: Any) -> str:
    """Why a skill that could be used is not in the prompt."""
    if not one.skill.listed:
        return say("its file says disable-model-invocation")
    if settings.allow is not None and one.skill.name not in settings.allow:
        return say("not in the agent's list of skills")
    return say("more skills than skills.maxInPrompt")


def _show(rows: list[dict[str, Any]], as_json: bool, nothing: str) -> None:
    if as_json:
        body = {"schemaVersion": 1, "kind": "skills", "skills": rows}
        typer.echo(json.dumps(body, ensure_ascii=False, indent=2))
        return
    for row in rows:
        mark = "+" if row["listed"] else "-"
        typer.echo(f"{mark} {row['name']}  ({row['source']})  {row['why'] or row['description']}")
        typer.echo(f"    {row['file']}")
    if not rows:
        typer.echo(nothing)
