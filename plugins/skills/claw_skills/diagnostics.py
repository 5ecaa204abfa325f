"""The check of ``agents.skills`` in the config file."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from claw import DiagnosticContext, Finding, nearest, t
from claw.runtime import Setup, split_key, value_at

from claw_skills.settings import SkillSettings
from claw_skills.skill_index import SkillFolder, SkillIndex, SkillSource, skill_folders


class SkillDiagnostic:
    """The diagnostic of this plugin.

    :param of_plugins: returns the folders of skills that plugins ship.
    """

    name = "skills"

    def __init__(self, index: SkillIndex, of_plugins: Callable[[], Sequence[SkillFolder]] = tuple) -> None:
        self._index, self._of_plugins = index, of_plugins

    def check(self, context: DiagnosticContext) -> Iterator[Finding]:
        """Find skills that the manifest of a plugin lists and that cannot be read in its package."""
        for place in self._of_plugins():
            there = {skill.file.parent.name for skill in SkillSource(place).find()}
            if missing := [name for name in place.names or () if name not in there]:
                why = t(
                    "its manifest lists skills that its package does not have: {names}",
                    names=[*missing],
                )
                fix = t("its author must add the folder skills to the package, or run claw plugins build")
                yield Finding(place.name.partition(":")[2], "skill", why, fix)

    def check_config(self, setup: Setup) -> Iterator[Finding]:
        """Find skills and folders that settings of an agent name and that are not there."""
        config = setup.config
        known: dict[str, set[str]] = {}
        named: dict[str, str] = {}
        folders: dict[str, str] = {}
        for agent in map(config.agent, config.agent_ids):
            settings = agent.section("skills", SkillSettings)
            key = agent.key_of("skills")
            is_list = isinstance(value_at(config.raw, split_key(key) or ()), list)
            place = key if is_list else f"{key}.allow"
            # An agent without a workspace of its own works in the folder in which claw was started.
            places = {agent.workspace} if agent.has_configured_workspace else {agent.workspace, Path.cwd()}
            skills = [one.skill for folder in places for one in self._index.find(agent, folder)]
            for index, name in enumerate(settings.allow or ()):
                named[f"{place}[{index}]"] = name
                known.setdefault(f"{place}[{index}]", set()).update(one.name for one in skills)
            for name in settings.entries:
                named[f"{key}.entries.{name}"] = name
                known.setdefault(f"{key}.entries.{name}", set()).update(one.key for one in skills)
            extra = (one.folder for one in skill_folders(agent, None, config.environ) if one.name == "extra")
            for index, folder in enumerate(extra):
                if not folder.is_dir():
                    folders[f"{key}.extraDirs[{index}]"] = str(folder)
        for place, name in named.items():
            if name not in known[place]:
                near = nearest(name, known[place])
                fix = t("Did you mean {near}?", near=near) if near else t("claw skills list shows the skills")
                why = t("no skill has the name {name}, so it has no effect", name=name)
                yield Finding(place, "skill", why, fix, grave=False)
        for place, path in folders.items():
            why = t("it has no effect: there is no folder {path}", path=path)
            yield Finding(place, "skill", why, t("Correct it, or remove it"), grave=False)
