"""SKILL.md folders for claw agents: their catalogue in the prompt, and ``claw skills``.

A skill adds no tool: it is a text that the model opens with ``read`` when its description fits the task. Format:
https://agentskills.io (SKILL.md with YAML frontmatter: name, description).
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

from claw import Diagnostic, PluginConfig, PromptSection, hookimpl

from claw_skills.plugin_skills import installed_folders
from claw_skills.prompt_section import SkillCatalogue, catalogue, key_is_set, skills_section
from claw_skills.skill_index import SkillIndex

__all__ = ["SkillCatalogue", "catalogue", "key_is_set", "skills_section"]


@hookimpl
def register_prompt_sections(config: PluginConfig) -> Iterable[PromptSection]:
    """Register the catalogue."""
    return [skills_section(config.environ, config.settings, partial(installed_folders, config))]


@hookimpl
def register_diagnostics(config: PluginConfig) -> Iterable[Diagnostic]:
    """Register the check of ``skills.allow``."""
    from claw_skills.diagnostics import SkillDiagnostic

    of_plugins = partial(installed_folders, config)
    return [SkillDiagnostic(SkillIndex(config.environ, key_is_set(config.settings), of_plugins), of_plugins)]


@hookimpl
def register_commands(app: Any) -> None:
    """Register ``claw skills``."""
    from claw_skills.commands import skills_app

    app.add_typer(skills_app, name="skills")
