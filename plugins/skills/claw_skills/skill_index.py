"""The locations of skills, and the skills of each agent.

A search of unchanged folders opens no file: it only reads the modification times of known folders and files.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from claw_skills.settings import SkillSettings
from claw_skills.skill import Machine, Skill, obstacle, parse_skill

MOST_OF_A_SOURCE = 200
WORKSPACE = "workspace"
"""The name of a folder of skills in an agent's workspace."""
_READ_BYTES = 262_144
_SETTLED_SECONDS = (
    0.05  # file systems have millisecond timestamps: a file changed just now may change again unseen
)

_Stat = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class SkillFolder:
    """A folder of skill folders.

    :param name: the kind of location, as lists show it.
    :param inside: the workspace or the plugin's package that it belongs to, which no link may leave; None for a folder of
        the operator's.
    :param names: the skill folders that count; None = all.
    """

    name: str
    folder: Path
    inside: Path | None = None
    names: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class FoundSkill:
    """A skill as one agent finds it. ``why`` says why it cannot be used; empty when it can."""

    skill: Skill
    why: str


def skill_folders(agent: Any, workspace: Path | None, environ: Mapping[str, str]) -> tuple[SkillFolder, ...]:
    """Return the folders of an agent's skills, highest precedence first.

    :param workspace: None leaves the workspace's own folders out.
    """
    home, people = agent.dir.parent.parent, environ.get("HOME", "")
    places = [SkillFolder("agent", agent.dir / "agent" / "skills")]
    if people:
        places.append(SkillFolder("personal", Path(people) / ".agents" / "skills"))
    places.append(SkillFolder("managed", home / "skills"))
    for extra in agent.section("skills", SkillSettings).extra_dirs:
        spread = os.path.join(people, extra[2:]) if extra.startswith("~/") and people else extra
        places.append(SkillFolder("extra", home / spread))
    if workspace is not None:
        own = [SkillFolder(WORKSPACE, workspace / name, workspace) for name in ("skills", ".agents/skills")]
        places = own + places
    return tuple(places)


class SkillSource:
    """The skills of one folder, read again when a folder or a SKILL.md in it changed."""

    def __init__(self, place: SkillFolder) -> None:
        self._place = place
        self._children: tuple[str, ...] = ()
        self._seen: tuple[_Stat, ...] | None = None
        self._settled = False
        self._skills: tuple[Skill, ...] = ()

    def find(self) -> tuple[Skill, ...]:
        """Return every skill of the folder, by folder name."""
        root = _stat(self._place.folder)
        now = (root, *map(_stat, self._files())) if root else (None,)
        if now != self._seen or not self._settled:
            self._read(root)
        return self._skills

    def _files(self) -> list[Path]:
        return [self._place.folder / child / "SKILL.md" for child in self._children]

    def _read(self, root: _Stat) -> None:
        """Read all skills. Take the times first, so that a change while reading is noticed at the next call."""
        names = self._place.names
        children = _folders(self._place.folder) if root else ()
        self._children = tuple(child for child in children if names is None or child in names)
        stats = tuple(map(_stat, self._files()))
        newest = max((stat[0] for stat in (root, *stats) if stat), default=0)
        self._settled = time.time() - newest / 1e9 > _SETTLED_SECONDS
        self._seen = (root, *stats)
        there = [file for file, stat in zip(self._files(), stats, strict=True) if stat]
        skills = (self._skill(file) for file in there[:MOST_OF_A_SOURCE])
        self._skills = tuple(skill for skill in skills if skill)

    def _skill(self, file: Path) -> Skill | None:
        """Read a skill; None when it is unreadable, or a link that leads out of the place it belongs to."""
        inside = self._place.inside
        try:
            real = file.resolve(strict=True)
            if inside is not None and not real.is_relative_to(inside.resolve()):
                return None
            with real.open("rb") as opened:
                text = opened.read(_READ_BYTES).decode("utf-8", "replace")
        except OSError:
            return None
        is_own = inside is not None and self._place.name == WORKSPACE
        shown = f"./{file.relative_to(inside).as_posix()}" if inside and is_own else str(real)
        try:
            skill = parse_skill(text, file.parent.name)
        except Exception:  # noqa: BLE001 - whatever anybody wrote there, the other skills stay
            return None
        return replace(skill, location=shown, file=real, source=self._place.name)


class SkillIndex:
    """The skills of all agents.

    :param is_set: dotted config key → whether it has a value.
    :param of_plugins: returns the folders that plugins ship; called once, when skills are first looked for.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        is_set: Callable[[str], bool],
        of_plugins: Callable[[], Sequence[SkillFolder]] = tuple,
    ) -> None:
        self._of_plugins = of_plugins
        self._environ = environ
        self._sources: dict[SkillFolder, SkillSource] = {}
        self._known: dict[Any, tuple[Any, tuple[FoundSkill, ...]]] = {}
        path = environ.get("PATH", "")
        self._programs = tuple(Path(folder) for folder in path.split(os.pathsep) if folder)
        self._machine = Machine(sys.platform, environ, lambda name: shutil.which(name, path=path), is_set)

    def find(self, agent: Any, workspace: Path | None) -> tuple[FoundSkill, ...]:
        """Return the agent's skills, each name once, by name. The same object as before when nothing
        changed.
        """
        places = (*skill_folders(agent, workspace, self._environ), *self._shipped)
        found = tuple(self._sources.setdefault(place, SkillSource(place)).find() for place in places)
        asks_for_programs = any(
            skill.gates.bins or skill.gates.any_bins for source in found for skill in source
        )
        programs = tuple(map(_stat, self._programs)) if asks_for_programs else ()
        key, state = (agent.id, workspace), (found, programs, agent.section("skills", SkillSettings))
        known = self._known.get(key)
        if known is None or known[0] != state:
            known = state, self._unique_skills(found, agent.section("skills", SkillSettings))
            self._known[key] = known
        return known[1]

    @cached_property
    def _shipped(self) -> tuple[SkillFolder, ...]:
        return tuple(self._of_plugins())

    def _unique_skills(self, found: tuple[tuple[Skill, ...], ...], settings: Any) -> tuple[FoundSkill, ...]:
        by_name: dict[str, Skill] = {}
        for skill in (skill for source in found for skill in source):
            by_name.setdefault(skill.name, skill)
        return tuple(
            FoundSkill(skill, obstacle(skill, self._machine, settings.entries.get(skill.key, {})))
            for _, skill in sorted(by_name.items())
        )


def _folders(root: Path) -> tuple[str, ...]:
    try:
        with os.scandir(root) as entries:
            return tuple(
                sorted(entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir())
            )
    except OSError:
        return ()


def _stat(path: Path) -> _Stat:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
