"""The section ``Skills`` of the prompt: which skills an agent may open, and where they are."""

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from claw import PromptFacts, PromptSection

from claw_skills.settings import SkillSettings
from claw_skills.skill import Skill
from claw_skills.skill_index import WORKSPACE, FoundSkill, SkillFolder, SkillIndex


class SkillCatalogue:
    """The section ``Skills``, rendered again only when a skill or the agent's settings changed."""

    def __init__(self, index: SkillIndex) -> None:
        self._index = index
        self._texts: dict[Any, tuple[Any, str]] = {}
        self._found: dict[str, tuple[Skill, ...]] = {}

    def render(self, facts: PromptFacts) -> str:
        """Render the section; empty without skills, or without the tool that opens them."""
        if not any(tool.name == "read" for tool in facts.tools):
            return ""
        settings = facts.agent.section("skills", SkillSettings)
        found = self._index.find(facts.agent, facts.workspace)
        self._found[facts.agent.id] = usable(found, settings)
        key = facts.agent.id, facts.workspace
        known = self._texts.get(key)
        if known is None or known[0][0] is not found or known[0][1] != settings:
            known = (found, settings), catalogue(self._found[facts.agent.id], settings.max_prompt_chars)
            self._texts[key] = known
        return known[1]

    def readable(self, agent: Any) -> tuple[Path, ...]:
        """Return the folders of the agent's skills outside of its workspace. A turn renders first, so the
        cache is fresh.
        """
        skills = self._found.pop(agent.id, None)
        if skills is None:
            skills = usable(self._index.find(agent, None), agent.section("skills", SkillSettings))
        return tuple(skill.file.parent for skill in skills if skill.source != WORKSPACE)


def usable(found: Sequence[FoundSkill], settings: Any) -> tuple[Skill, ...]:
    """Return the skills that an agent's prompt lists, by name.

    :param settings: ``skills`` of the agent; an empty ``allow`` lists none.
    """
    allowed = settings.allow
    kept = (
        one.skill
        for one in found
        if not one.why and one.skill.listed and (allowed is None or one.skill.name in allowed)
    )
    return tuple(kept)[: settings.max_in_prompt]


def catalogue(skills: Sequence[Skill], most_chars: int) -> str:
    """Return the section's text; drop skills from the end of a list that is longer than ``most_chars``."""
    entries, rest = list[str](), most_chars
    for skill in skills:
        entry = _entry(skill)
        if len(entry) + 1 > rest:
            break
        entries.append(entry)
        rest -= len(entry) + 1
    if not entries:
        return ""
    return "\n".join(
        [
            "## Skills",
            "Before you answer, look through <available_skills>. If one clearly fits, open its <location> with `read` "
            "and do as it says; of several the most specific; none fits: open none.",
            "Open one at a time, only locations listed here, and again when its <version> is another than before. "
            "Relative paths in a skill start at its own folder.",
            "<available_skills>",
            *entries,
            "</available_skills>",
        ]
    )


def skills_section(
    environ: Mapping[str, str],
    settings: Any = None,
    of_plugins: Callable[[], Sequence[SkillFolder]] = tuple,
) -> PromptSection:
    """Return the prompt section.

    :param settings: the whole config, for skills that require a key.
    :param of_plugins: returns the folders of skills that plugins ship.
    """
    section = SkillCatalogue(SkillIndex(environ, key_is_set(settings), of_plugins))
    return PromptSection("Skills", 70, section.render, readable=section.readable)


def key_is_set(settings: Any) -> Callable[[str], bool]:
    """Return a function that tells if a dotted key of the config has a truthy value."""

    def is_set(key: str) -> bool:
        here: Any = settings.model_dump(by_alias=True) if settings is not None else {}
        for step in key.split("."):
            here = here.get(step) if isinstance(here, Mapping) else None
        return bool(here)

    return is_set


_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def _entry(skill: Skill) -> str:
    version = f"<version>{_safe(skill.version)}</version>\n" if skill.version else ""
    return (
        f"<skill>\n<name>{_safe(skill.name)}</name>\n<description>{_safe(skill.description)}</description>\n"
        f"<location>{_safe(skill.location)}</location>\n{version}</skill>"
    )


def _safe(text: str) -> str:
    """Escape for XML, and remove control characters, so that no name ends an element or starts a line."""
    clean = "".join(char for char in text if unicodedata.category(char) not in ("Cc", "Cf", "Zl", "Zp"))
    return clean.translate(_ESCAPED)
