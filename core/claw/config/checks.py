"""References inside the config file that must be valid; with an invalid one the file is refused. Pure."""

from collections.abc import Iterator
from os.path import normpath, realpath
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from claw.config.paths import Path, normalise_agent_id, split_key
from claw.contracts.errors import ConfigError

if TYPE_CHECKING:
    from claw.config.loader import Config


def reference_errors(config: "Config") -> list[ConfigError]:
    """Return an error for each invalid reference inside the file; with any of them the file is refused."""
    errors = [*_duplicate_agents(config), *_unknown_agents(config)]
    return errors or [*_unusable_workspaces(config)]


def _unusable_workspaces(config: "Config") -> Iterator[ConfigError]:
    """Yield an error for each workspace at or below a file, or among claw's own files, where tools would find keys."""
    home = realpath(config.home)
    for agent in map(config.agent, config.agent_ids):
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
            yield config.sections.error(place, problem, fix, **values)


def _duplicate_agents(config: "Config") -> Iterator[ConfigError]:
    tell, seen = config.sections.error, dict[str, str]()
    for index, entry in enumerate(config.settings.agents.list):
        name = normalise_agent_id(entry.id)
        if first := seen.get(name):
            problem = "{id} duplicates {first}: case and punctuation are ignored in ids"
            if first == entry.id:
                problem = "duplicate agent id {id}"
            at: Path = ("agents", "list", index, "id")
            yield tell(at, problem, "Give each agent its own id", id=entry.id, first=first)
        seen.setdefault(name, entry.id)
    for index in [index for index, entry in enumerate(config.settings.agents.list) if entry.default][1:2]:
        yield tell(("agents", "list", index, "default"), "a second agent is marked as default", "Mark one")


def _unknown_agents(config: "Config") -> Iterator[ConfigError]:
    written = config.layout.tree.get("bindings", ())
    for index, (binding, raw) in enumerate(zip(config.settings.bindings, written, strict=False)):
        if normalise_agent_id(binding.agent) not in (*config.agent_ids, "main"):
            path: Path = ("bindings", index, "agent" if "agent" in raw else "agentId")
            names = ", ".join(config.agent_ids)
            yield config.sections.error(
                path, "there is no agent {id}", "Agents: {names}", id=binding.agent, names=names
            )
