"""The config file, read and judged: settings, agents, and where each key stands."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from claw.config import source
from claw.config.agents import AgentEntry, AgentSettings
from claw.config.check import refusals, remarks
from claw.config.layout import Layout, arrange, camel
from claw.config.names import (
    ById,
    Path as KeyPath,
    dotted,
    id_of,
    nearest,
    normalise_agent_id,
    steps,
    value_at,
)
from claw.config.problems import ConfigErrors, Teller, joined
from claw.config.settings import Settings
from claw.config.variables import filled
from claw.errors import ConfigError, UsageError

__all__ = ["Agent", "Config", "ConfigErrors", "judge", "load", "validate"]

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent as it runs: its own settings over the defaults, a section at a time.

    :param dir: its folder in the home (sessions, keys, its own files).
    :param workspace: where its tools work.
    :param names_workspace: the file names that folder.
    :param key: where it stands in the file: ``agents.list[0]``, or ``agents.defaults`` when nothing lists it.
    """

    id: str
    name: str
    dir: Path
    workspace: Path
    names_workspace: bool
    settings: AgentSettings
    key: str
    own: frozenset[str] = frozenset()
    short: Mapping[str, str] = field(default_factory=dict)

    def key_of(self, section: str) -> str:
        """Where the ``section`` in force was written, or would be: ``agents.list[0].tools``, ``agents.defaults.tools``.

        A section of the defaults that stands at the top of the file is named as it stands there.
        """
        name = camel(section)
        return f"{self.key}.{name}" if name in self.own else self.short.get(name, f"agents.defaults.{name}")


@dataclass(frozen=True)
class Config:
    """The file, read and judged.

    :param raw: the tree as written; secrets in it are as written too.
    :param warnings: what is odd but no reason to refuse the file.
    """

    home: Path
    path: Path | None
    settings: Settings
    raw: Mapping[str, Any]
    environ: Mapping[str, str] = field(repr=False)
    teller: Teller = field(repr=False)
    layout: Layout = field(repr=False)
    warnings: tuple[ConfigError, ...] = ()

    @property
    def file(self) -> str:
        """The file as people know it."""
        return str(self.path or self.home / source.NAMES[0])

    def line(self, key: str) -> int | None:
        """The line of a dotted key, or of the nearest key above it in the file; None when none of it is there."""
        path: list[str | int] = []
        here: Any = self.layout.tree
        for step in steps(key) or ():
            if isinstance(step, ById):
                ids = [*map(id_of, here)] if isinstance(here, list) else []
                if not step.id or step.id not in ids:
                    break
                step = ids.index(step.id)  # noqa: PLW2901
            path.append(step)
            here = value_at(here, (step,))
        return self.teller.line(tuple(path))

    @cached_property
    def agent_ids(self) -> tuple[str, ...]:
        """Every agent, in the order of the file; ``default`` alone when none is listed."""
        return tuple(normalise_agent_id(entry.id) for entry in self.settings.agents.list) or ("default",)

    @cached_property
    def default_agent_id(self) -> str:
        """The agent marked ``default: true``, else the first one, else ``default``."""
        marked = [entry.id for entry in self.settings.agents.list if entry.default]
        return normalise_agent_id(marked[0]) if marked else self.agent_ids[0]

    def agent(self, agent_id: str = "") -> Agent:
        """The agent of that id; empty, or ``main`` where none is called so, is the default agent.

        :raises UsageError: there is no such agent.
        """
        wanted = normalise_agent_id(agent_id, self.default_agent_id)
        if wanted == "main" and wanted not in self.agent_ids:
            wanted = self.default_agent_id
        if wanted not in self.agent_ids:
            near = nearest(wanted, self.agent_ids)
            fix = "Did you mean {near}? Agents: {names}" if near else "Agents: {names}"
            names = ", ".join(self.agent_ids)
            raise UsageError("no agent is called {id}", fix=fix, id=agent_id, near=near, names=names)
        return self._agents[wanted]

    @cached_property
    def _agents(self) -> dict[str, Agent]:
        entries = self.settings.agents.list or (None,)
        return {id: self._resolve(id, index, entries[index]) for index, id in enumerate(self.agent_ids)}

    def _resolve(self, id: str, index: int, entry: AgentEntry | None) -> Agent:
        defaults = self.settings.agents.defaults
        own = entry.model_fields_set - {"id", "name", "default"} if entry else set()
        settings = defaults.model_copy(update={name: getattr(entry, name) for name in own})
        named = settings.workspace if "workspace" in own or id == self.default_agent_id else None
        short = {
            camel(str(place[-1])): dotted(as_was) for place, as_was in self.layout.moved if len(place) == 3
        }
        return Agent(
            id=id,
            name=(entry.name if entry else None) or id,
            dir=self.home / "agents" / id,
            workspace=self._folder(named) if named else self.home / f"workspace-{id}",
            names_workspace=bool(named),
            settings=settings,
            key=dotted(self.layout.as_written(("agents", "list", index))) if entry else "agents.defaults",
            own=frozenset(camel(name) for name in own),
            short=short,
        )

    def _folder(self, written: str) -> Path:
        """``~`` is the person's home, a relative path starts at ours."""
        if written == "~" or written.startswith("~/"):
            user = self.environ.get("HOME") or str(Path.home())
            written = user + written[1:]
        return self.home / written


def load(home: Path, environ: Mapping[str, str]) -> Config:
    """Read the config file of ``home``; without one, everything is at its default.

    :raises ConfigError: the file cannot be read, or a key in it is wrong (``ConfigErrors`` when several are).
    """
    path = source.find(home)
    read = source.read(path) if path else source.Source()
    return judge(read, home, environ)


def judge(read: source.Source, home: Path, environ: Mapping[str, str]) -> Config:
    """Make a config of a file that was read. Pure, but for secret files that are read when they are revealed."""
    layout = arrange(read.tree)
    file = str(read.path) if read.path else ""
    teller = Teller(layout.tree, read.lines, file, layout.as_written)
    settings = validate(Settings, layout.tree, teller, home=home, environ=environ)
    config = Config(home, read.path, settings, read.tree, environ, teller, layout)
    if errors := refusals(config):
        raise joined(errors)
    object.__setattr__(config, "warnings", remarks(config))
    return config


def validate(
    model: type[M], tree: Any, teller: Teller, *, home: Path, environ: Mapping[str, str], base: KeyPath = ()
) -> M:
    """``tree``, which stands at ``base``, as ``model``; its errors with their place.

    :raises ConfigError: one or several keys are wrong.
    """
    try:
        return model.model_validate(filled(tree, environ), context={"environ": environ, "home": home})
    except ValidationError as found:
        raise joined(teller.tell_all(found, model, base)) from None
