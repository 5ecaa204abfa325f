"""``claw skills``: the skills of an agent, their sources, and why others are unavailable."""

import os
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from claw import t
from claw.runtime import document, escape_controls, load_setup

from claw_skills.plugin_skills import shipped_folders
from claw_skills.prompt_section import key_is_set, usable
from claw_skills.settings import SkillSettings
from claw_skills.skill_index import FoundSkill, SkillIndex

skills_app = typer.Typer(no_args_is_help=True, help="Show the skills of an agent, and why some are unused.")
AgentId = Annotated[str, typer.Option("--agent", help="Agent id; default: the default agent.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


@skills_app.command("list")
def list_(agent: AgentId = "", as_json: AsJson = False) -> None:
    """List the agent's skills: their source, and if each is in the prompt, or why not."""
    _show(_rows(agent), as_json, t("no skills"))


@skills_app.command()
def check(agent: AgentId = "", as_json: AsJson = False) -> None:
    """List only the skills that are not used. Exit code 1: there is one."""
    rows = [row for row in _rows(agent) if row["why"]]
    _show(rows, as_json, t("every skill can be used"))
    raise typer.Exit(1 if rows else 0)


def _rows(agent_id: str) -> list[dict[str, Any]]:
    setup = load_setup()
    config, of_plugins = setup.config, partial(shipped_folders, setup.plugin_states)
    agent = config.agent(agent_id)
    workspace = agent.workspace if agent.has_configured_workspace else Path.cwd()
    found = SkillIndex(os.environ, key_is_set(config.settings), of_plugins).find(agent, workspace)
    listed = {skill.name for skill in usable(found, agent.section("skills", SkillSettings))}
    return [_row(one, one.skill.name in listed, agent.section("skills", SkillSettings)) for one in found]


def _row(one: FoundSkill, listed: bool, settings: Any) -> dict[str, Any]:
    skill = one.skill
    return {
        "name": skill.name,
        "listed": listed,
        "why": one.why or ("" if listed else _exclusion_reason(one, settings)),
        "source": skill.source,
        "version": skill.version,
        "description": skill.description,
        "file": str(skill.file),
    }


def _exclusion_reason(one: FoundSkill, settings: Any) -> str:
    """Explain why a usable skill is not in the prompt."""
    if not one.skill.listed:
        return t("its file says disable-model-invocation")
    if settings.allow is not None and one.skill.name not in settings.allow:
        return t("not in the agent's list of skills")
    return t("more skills than skills.maxInPrompt")


def _show(rows: list[dict[str, Any]], as_json: bool, nothing: str) -> None:
    if as_json:
        document("skills", {"skills": rows})
        return
    for row in rows:
        mark = "+" if row["listed"] else "-"
        line = f"{mark} {row['name']}  ({row['source']})  {row['why'] or row['description']}"
        typer.echo(escape_controls(line))
        typer.echo(f"    {escape_controls(row['file'])}")
    if not rows:
        typer.echo(nothing)
