"""References inside the config file that must be valid; with an invalid one the file is refused. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from os.path import normpath, realpath
from pathlib import Path as FilePath

from claw.config.agents import Agent
from claw.config.errors import ConfigSections
from claw.config.models import Settings
from claw.config.paths import Path, normalise_agent_id, split_key
from claw.contracts.errors import ConfigError


def reference_errors(
    settings: Settings, sections: ConfigSections, agent_ids: Sequence[str]
) -> list[ConfigError]:
    """Return an error for each id of an agent that is there twice, and for each binding to an agent that is not there."""
    return [*_duplicate_agents(settings, sections), *_unknown_agents(settings, sections, agent_ids)]


def workspace_errors(agents: Iterable[Agent], sections: ConfigSections) -> Iterator[ConfigError]:
    """Yield an error for each workspace at or below a file, or among claw's own files, where tools would find keys."""
    home = realpath(sections.home)
    for agent in agents:
        resolve = realpath if agent.has_configured_workspace else normpath  # a link may lead to claw's files
        folder, problem, fix = FilePath(resolve(agent.workspace)), "", ""
        within = folder.relative_to(home).parts if folder.is_relative_to(home) else ("workspace",)
        above = folder.parents if agent.has_configured_workspace else ()
        if file := next(filter(FilePath.is_file, (folder, *above)), None):
            folder, problem, fix = file, "{folder} is a file, not a folder", "Name a folder"
        elif agent.has_configured_workspace and not (within and within[0].startswith("workspace")):
            problem = "{folder} is in claw's home, beside keys and conversations"
            fix = "Name a folder outside of {home}, or {home}/workspace-{id}"
            if within[:1] and within[0].startswith(("~", "${")):
                problem = "{part} cannot be resolved: there is no such user or environment variable"
                fix = "Write the folder in full"
        if problem:
            steps = split_key(agent.key_of("workspace")) or ()
            place = tuple(step for step in steps if isinstance(step, str | int))
            values = {"folder": folder, "home": home, "id": agent.id, "part": "".join(within[:1])}
            yield sections.error(place, problem, fix, **values)


def _duplicate_agents(settings: Settings, sections: ConfigSections) -> Iterator[ConfigError]:
    tell, seen = sections.error, dict[str, str]()
    for index, entry in enumerate(settings.agents.list):
        name = normalise_agent_id(entry.id)
        if first := seen.get(name):
            problem = "{id} duplicates {first}: case and punctuation are ignored in ids"
            if first == entry.id:
                problem = "duplicate agent id {id}"
            at: Path = ("agents", "list", index, "id")
            yield tell(at, problem, "Give each agent its own id", id=entry.id, first=first)
        seen.setdefault(name, entry.id)
    for index in [index for index, entry in enumerate(settings.agents.list) if entry.default][1:2]:
        yield tell(("agents", "list", index, "default"), "a second agent is marked as default", "Mark one")


def _unknown_agents(
    settings: Settings, sections: ConfigSections, agent_ids: Sequence[str]
) -> Iterator[ConfigError]:
    written = sections.layout.tree.get("bindings", ())
    for index, (binding, raw) in enumerate(zip(settings.bindings, written, strict=False)):
        if normalise_agent_id(binding.agent) not in (*agent_ids, "main"):
            path: Path = ("bindings", index, "agent" if "agent" in raw else "agentId")
            values = {"id": binding.agent, "names": [*agent_ids]}
            yield sections.error(path, "there is no agent {id}", "Agents: {names}", **values)
