"""The config file, read and validated: settings, agents, and the line of each key."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, RootModel

from claw.config import paths, source
from claw.config.agents import Agent, AgentEntry
from claw.config.channels import with_token_user
from claw.config.checks import reference_errors, workspace_errors
from claw.config.errors import ConfigSections, combine_errors, errors_in, known_keys
from claw.config.models import Settings
from claw.config.paths import Layout, Path as KeyPath, camel_case, format_key, normalise_agent_id, value_at
from claw.config.summary import DeclaredChannel, OwnedModels, PluginKeys, idle_keys
from claw.contracts.errors import ConfigError, UsageError, nearest

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class Config:
    """The config file, read and validated.

    :param raw: the tree as written; secrets in it are as written too.
    :param owned: path in the tree → value of each key that a plugin owns, as its model where that was checked.
    :param declared_channels: those of the installed plugins.
    """

    home: Path
    path: Path | None
    settings: Settings
    raw: Mapping[str, Any]
    environ: Mapping[str, str] = field(repr=False)
    sections: ConfigSections = field(repr=False)
    owned: Mapping[KeyPath, Any] = field(default_factory=dict, repr=False)
    declared_channels: Mapping[str, Sequence[DeclaredChannel]] = field(default_factory=dict, repr=False)

    @property
    def layout(self) -> Layout:
        """The tree with short forms moved to their full path."""
        return self.sections.layout

    @property
    def file(self) -> str:
        """Path of the file for messages; the default path when there is no file."""
        return self.sections.file

    def error(self, key: str, problem: str, fix: str, grave: bool = False) -> ConfigError:
        """Return an error about a dotted key with texts that are translated already."""
        values = {"grave": grave, "why": problem, "advice": fix}
        return self.sections.error(self._path_of(key), "{why}", fix and "{advice}", key, **values)

    def line(self, key: str) -> int | None:
        """Return the line of a dotted key, or of its nearest parent in the file; None when neither is there."""
        return self.sections.line(self._path_of(key))

    def _path_of(self, key: str) -> KeyPath:
        """Return the path of a dotted key, as far as each entry of a list that it names by id is there."""
        path: list[str | int] = []
        here: Any = self.layout.tree
        for step in paths.split_key(key) or ():
            if isinstance(step, paths.IdStep):
                ids = [*map(paths.id_of, here)] if isinstance(here, list) else []
                if not step.id or step.id not in ids:
                    break
                step = ids.index(step.id)  # noqa: PLW2901
            path.append(step)
            here = value_at(here, (step,))
        return tuple(path)

    def example_unless_id(self, channel: str, id: str, of_group: bool = False) -> str:
        """Return an example of a stable id of a channel if ``id`` cannot be one (it is a name, which anybody may choose).
        Empty when it can be one, or when no manifest declares ids of the channel.
        """
        examples = (one.example_unless_id(id, of_group) for one in self.declared_channels.get(channel, ()))
        return next(filter(None, examples), "")

    def section(self, key: str, model: type[M]) -> M:
        """Return the value of a key that a plugin owns, as ``model``; all defaults when the file does not have it.

        :param key: dotted, as in ``configKeys``.
        :raises ConfigError: a key in it is wrong, or a required one is missing.
        """
        return self._or_default(self._owned_at(tuple(key.split(".")), model), key, model)

    def agent_sections(self, key: str, model: type[M]) -> dict[str, M]:
        """Return agent id → the value of a key that a plugin owns as ``agents.KEY``, of each agent that has one.

        :raises ConfigError: a key in it is wrong, or a required one is missing.
        """
        found = ((id, self._agent_section(index, key, model)) for index, id in enumerate(self.agent_ids))
        return {id: value for id, value in found if value is not None}

    def _agent_section(self, index: int, key: str, model: type[M]) -> M | None:
        steps = tuple(key.split("."))
        written = value_at(self.layout.tree, ("agents", "list", index), {})
        is_own = steps[0] in map(camel_case, written)
        place: KeyPath = ("agents", "list", index) if is_own else ("agents", "defaults")
        return self._owned_at((*place, *steps), model)

    def _owned_at(self, wanted: KeyPath, model: type[M]) -> M | None:
        for path, value in self.owned.items():
            if tuple(camel_case(step) if isinstance(step, str) else step for step in path) == wanted:
                is_read = isinstance(value, model)
                return value if is_read else self.sections.read(model, value_at(self.layout.tree, path), path)
        return None

    def _or_default(self, found: M | None, key: str, model: type[M]) -> M:
        if found is None and issubclass(model, RootModel):
            return model()
        return self.sections.read(model, {}, tuple(key.split("."))) if found is None else found

    @cached_property
    def agent_ids(self) -> tuple[str, ...]:
        """Ids of all agents, in the order of the file; ``default`` alone when none is listed."""
        return tuple(normalise_agent_id(entry.id) for entry in self.settings.agents.list) or ("default",)

    @cached_property
    def default_agent_id(self) -> str:
        """Id of the agent marked ``default: true``, else of the first one, else ``default``."""
        marked = [entry.id for entry in self.settings.agents.list if entry.default]
        return normalise_agent_id(marked[0]) if marked else self.agent_ids[0]

    def agent(self, agent_id: str = "") -> Agent:
        """Return the agent of that id. An empty id, or ``main`` when no agent has that id, means the default agent.

        :raises UsageError: there is no such agent.
        """
        wanted = normalise_agent_id(agent_id, self.default_agent_id)
        if wanted == "main" and wanted not in self.agent_ids:
            wanted = self.default_agent_id
        if wanted not in self.agent_ids:
            near = nearest(wanted, self.agent_ids)
            fix = "Did you mean {near}? Agents: {names}" if near else "Agents: {names}"
            names = [*self.agent_ids]
            raise UsageError("there is no agent {id}", fix=fix, id=agent_id, near=near, names=names)
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
        moved = ((place[-1], written) for place, written in self.layout.moved if len(place) == 3)
        short = {camel_case(str(name)): format_key(written) for name, written in moved}
        return Agent(
            id=id,
            name=(entry.name if entry else None) or id,
            dir=self.home / "agents" / id,
            workspace=self._resolve_folder(named) if named else self.home / f"workspace-{id}",
            has_configured_workspace=bool(named),
            settings=settings,
            key=format_key(self.layout.as_written(("agents", "list", index))) if entry else "agents.defaults",
            overridden=frozenset(map(camel_case, value_at(self.layout.tree, ("agents", "list", index), {}))),
            short_keys=short,
            read=partial(self._read_of_agent, index),
        )

    def _read_of_agent(self, index: int, key: str, model: type[M]) -> M:
        return self._or_default(self._agent_section(index, key, model), key, model)

    def _resolve_folder(self, written: str) -> Path:
        """Resolve a folder: ``~`` is the user's home, a relative path starts in ``CLAW_HOME``."""
        if written == "~" or written.startswith("~/"):
            user = self.environ.get("HOME") or str(Path.home())
            written = user + written[1:]
        return self.home / written


def validate_source(
    read: source.ConfigSource,
    home: Path,
    environ: Mapping[str, str],
    keys: PluginKeys = PluginKeys(),  # noqa: B008
) -> Config:
    """Validate a config file that was read; the keys that plugins own by the models of their owners.

    Pure, except that secret files are read when a secret is revealed, and that a model of ``keys`` may be imported.

    :param keys: of plugins; a key without an owner is not known.
    :raises ConfigError: a key in it is wrong (``ConfigErrors`` when several are).
    """
    models, channels, short_forms = keys
    layout = paths.normalise_layout(read.tree, short_forms)
    tree, file = layout.tree, str(read.path or home / source.CONFIG_FILE_NAMES[0])
    sections = ConfigSections(layout, read.lines, file, home=home, environ=environ, owned=models)
    owned, errors = _read_owned(models, sections)
    try:
        rest = paths.without_values(tree, (*owned, *idle_keys(tree, is_described)))
        settings = sections.read(Settings, rest)
    except ConfigError as wrong:
        errors += errors_in(wrong)
    if errors:
        raise combine_errors(sorted(errors, key=lambda error: error.line or 0))
    own = {name: with_token_user(one, channels.get(name, ())) for name, one in settings.channels.items()}
    settings = settings.model_copy(update={"channels": own})
    config = Config(home, read.path, settings, read.tree, environ, sections, owned, channels)
    errors = reference_errors(settings, sections, config.agent_ids)
    if errors := errors or [*workspace_errors(map(config.agent, config.agent_ids), sections)]:
        raise combine_errors(errors)
    return config


@cache
def is_described(key: str) -> bool:
    """Return true if core's own models have this key of ``configKeys``: core checks it then, whoever gives it effect."""
    first, *rest = key.split(".")
    steps = (first, "defaults", *rest) if first == "agents" else (first, *rest)
    return all(step == "*" or step in known_keys(Settings, steps[:at]) for at, step in enumerate(steps))


def _read_owned(
    models: OwnedModels, sections: ConfigSections
) -> tuple[dict[KeyPath, Any], list[ConfigError]]:
    """Return the values of the keys that plugins own, and what is wrong with them."""
    owned: dict[KeyPath, Any] = {}
    errors: list[ConfigError] = []
    tree = sections.layout.tree
    for key, model_of in models.items():
        for path, value in () if is_described(key) else paths.values_at(tree, key):
            owned[path] = value
            if model_of is None:
                continue
            try:
                owned[path] = sections.read(model_of(), value, path, beside=value_at(tree, path[:-1]))
            except ConfigError as wrong:
                # The error of a model that cannot be imported has no place in the file.
                values = {"why": wrong.problem, "advice": wrong.fix}
                placed = wrong if wrong.file else sections.error(path, "{why}", "{advice}", **values)
                errors += errors_in(placed)
    return owned, errors
