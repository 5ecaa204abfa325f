"""The check of ``agents.skills`` in the config file."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from claw import DiagnosticContext, Finding, nearest, t
from claw.runtime import Setup, split_key, value_at

from claw_skills.settings import SkillSettings
from claw_skills.skill_index import SkillIndex


class SkillDiagnostic:
    """The diagnostic of this plugin: it judges the file alone."""

    name = "skills"

    def __init__(self, index: SkillIndex) -> None:
        self._index = index

    def check(self, context: DiagnosticContext) -> Sequence[Finding]:
        """Return nothing: all that can be wrong is in the file."""
        return ()

    def check_config(self, setup: Setup) -> Iterator[Finding]:
        """Find names in lists of skills that no skill of an agent with that list has."""
        config = setup.config
        known: dict[str, set[str]] = {}
        allowed: dict[str, tuple[str, ...]] = {}
        for agent in map(config.agent, config.agent_ids):
            settings = agent.section("skills", SkillSettings)
            if settings.allow is None:
                continue
            key = agent.key_of("skills")
            is_list = isinstance(value_at(config.raw, split_key(key) or ()), list)
            place = key if is_list else f"{key}.allow"
            allowed[place] = settings.allow
            # An agent without a workspace of its own works in the folder in which claw was started.
            folders = {agent.workspace} if agent.has_configured_workspace else {agent.workspace, Path.cwd()}
            found = {one.skill.name for folder in folders for one in self._index.find(agent, folder)}
            known.setdefault(place, set()).update(found)
        for place, names in allowed.items():
            for index, name in enumerate(names):
                if name not in known[place]:
                    near = nearest(name, known[place])
                    fix = (
                        t("Did you mean {near}?", near=near)
                        if near
                        else t("claw skills list shows the skills")
                    )
                    why = t("no skill has the name {name}, so it has no effect", name=name)
                    yield Finding(f"{place}[{index}]", "skill", why, fix, grave=False)
