"""Warnings that need the config file alone: empty keys, variables that are not set, names that match nobody."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any

from claw import ConfigError, Secret
from claw.runtime import (
    PEOPLE,
    AgentSettings,
    Config,
    SubstitutedText,
    is_secret_name,
    substitute_all,
    values_at,
)
from pydantic import BaseModel

Path = tuple[str | int, ...]

UNREAD = (
    "agents.temperature", "agents.timeoutSeconds", "agents.identity.emoji", "agents.subagents.maxChildrenPerAgent",
    "agents.subagents.maxConcurrent", "agents.subagents.archiveAfterMinutes", "agents.subagents.model",
    "agents.subagents.thinking",
)  # fmt: skip
"""Keys of core that are accepted and that nothing reads yet."""


def file_warnings(config: Config) -> tuple[ConfigError, ...]:
    """Return warnings that need the file alone: empty keys, variables that are not set, jobs that cannot run."""
    return (
        *_unset_variables(config),
        *_foreign_references(config),
        *_invalidpeople_lists(config),
        *_invalid_ids(config),
        *_open_channels(config),
        *_repeated_fallbacks(config),
        *_repeated_bindings(config),
        *_unlisted_default(config),
        *_unread_keys(config),
        *_unnamed_models(config),
        *_absent_documentation(config),
        *_owners_warnings(config),
    )


def _unset_variables(config: Config) -> Iterator[ConfigError]:
    """Yield a warning for each text or secret whose environment variable is not set, and for each empty secret."""
    settings = config.settings.model_dump(by_alias=True, exclude_unset=True)
    secrets = ((path, leaf) for path, leaf in _leaves(settings) if isinstance(leaf, Secret))
    for path, leaf in (*_leaves(substitute_all(config.layout.tree, config.environ)), *secrets):
        if _is_off(config.layout.tree, path):
            continue
        if isinstance(leaf, Secret) and leaf.empty:
            yield config.sections.error(
                path, "the key is empty, so it is not used", "Write a value, or remove the key"
            )
        elif (isinstance(leaf, Secret) and leaf.is_reference) or isinstance(leaf, SubstitutedText):
            for name in leaf.missing[:1]:
                fix = "Set {name} before claw starts, or remove the key"
                yield config.sections.error(
                    path, "the environment variable {name} is not set", fix, name=name, grave=True
                )


def _is_off(tree: Any, path: Path) -> bool:
    """Return true if a section around the path is off (``enabled: false``), so that nothing needs what it says."""
    for step in path:
        if isinstance(tree, Mapping) and tree.get("enabled") is False:
            return True
        tree = tree.get(step) if isinstance(tree, Mapping) else tree[step]
    return False


_FOREIGN_REFERENCE = re.compile(
    r"\$\{(?![A-Za-z_][A-Za-z0-9_]*\})|\A\s*(?:\$[A-Za-z_]\w*|%[A-Za-z_]\w*%|\{\{.*\}\}|YOUR_\w+)\s*\Z"
)
"""A variable as shells, templates and other programs write it, or a placeholder."""


def _foreign_references(config: Config) -> Iterator[ConfigError]:
    """Yield a warning for each secret that is a variable in a form which claw does not substitute."""
    for path, leaf in _leaves(config.layout.tree):
        is_secret = is_secret_name(path[-1]) or path[-2:-1] in (("env",), ("headers",))
        if is_secret and isinstance(leaf, str) and _FOREIGN_REFERENCE.search(leaf):
            problem = "it looks like a variable or a placeholder, but the text itself is used as the key"
            fix = "Write the key, ${{NAME}}, {{env: NAME}} or {{file: path}}"
            yield config.sections.error(path, problem, fix, grave=True)


def _leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield everything in a tree that is neither mapping nor list, with its path."""
    if isinstance(value, Mapping | list | tuple):
        for key, part in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _leaves(part, (*path, key))
    else:
        yield path, value


def _invalidpeople_lists(config: Config) -> Iterator[ConfigError]:
    """Yield a warning for each entry of a list of owners or approvers that names no one."""
    for place, people in (*people_lists(config.settings), *people_lists(config.owned)):
        for index, person in enumerate(people):
            channel, _, id = person.partition(":")
            if not (person.startswith("+") or (channel.strip() and id.strip())):
                problem, fix = "{person} does not name a person", "Write channel:id, or a phone number with +"
                yield config.sections.error((*place, index), problem, fix, person=person)
            else:
                yield from _invalid_id(config, (*place, index), channel.strip().lower(), person)


def people_lists(value: Any, path: Path = ()) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Yield path and entries of every list of people (``claw.runtime.People``) in a model, and in those below it."""
    if isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            if name in value.model_fields_set:
                place, inner = (*path, field.alias or name), getattr(value, name)
                yield from [(place, inner)] if PEOPLE in field.metadata else people_lists(inner, place)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from people_lists(inner, (*path, *(key if isinstance(key, tuple) else (key,))))


def _invalid_ids(config: Config) -> Iterator[ConfigError]:
    """Yield a warning for each name in a list of people or groups where the service uses stable ids."""
    for name, section in config.settings.channels.items():
        for path, part in (((), section), *((("accounts", of), one) for of, one in section.accounts.items())):
            place: Path = ("channels", name, *path)
            lists: list[tuple[Path, tuple[str, ...]]]
            lists = [(("allowFrom",), part.allow_from), (("groupAllowFrom",), part.group_allow_from or ())]
            lists += [
                (("groups", id, "allowFrom"), group.allow_from or ()) for id, group in part.groups.items()
            ]
            for id in part.dms:
                yield from _invalid_id(config, (*place, "dms", id), name, id)
            for at, people in lists:
                for index, person in enumerate(people):
                    yield from _invalid_id(config, (*place, *at, index), name, person)
            for id in part.groups:
                if id != "*" and (like := config.example_unless_id(name, id, of_group=True)):
                    problem = (
                        "{id} is not a group id and admits no group: on {channel} a group "
                        "id looks like {like}"
                    )
                    fix = "Write the id of the group, or '*' for all of them"
                    yield config.sections.error(
                        (*place, "groups", id), problem, fix, id=id, channel=name, like=like
                    )


def _invalid_id(config: Config, path: Path, channel: str, person: str) -> Iterator[ConfigError]:
    """Yield a warning about an id that the service of its channel cannot have written."""
    written = person.strip()
    head, colon, rest = written.partition(":")
    id = rest.strip() if colon and head.strip().lower() == channel else written
    like = "" if id in ("", "*") or id.startswith("+") else config.example_unless_id(channel, id)
    if like:
        problem = "{id} is not a stable id and matches nobody: on {channel} an id looks like {like}"
        fix = "Let the person write to the bot; claw pairing list then shows the id"
        yield config.sections.error(path, problem, fix, id=id, channel=channel, like=like)


def _open_channels(config: Config) -> Iterator[ConfigError]:
    for name, channel in config.settings.channels.items():
        if channel.dm_policy == "open" and "*" not in channel.allow_from:
            problem = "dmPolicy is open, but allowFrom does not contain '*': the channel does not start"
            fix = "Write allowFrom: ['*'] to admit everyone, or use dmPolicy: pairing"
            yield config.sections.error(("channels", name, "allowFrom"), problem, fix, grave=True)


def _repeated_fallbacks(config: Config) -> Iterator[ConfigError]:
    aliases = config.settings.models.aliases
    for place, settings in agent_sections(config):
        choice = settings.model
        models = (
            [aliases.get(name or "", name) for name in (choice.primary, *choice.fallbacks)] if choice else []
        )
        for index, name in enumerate(models[1:]):
            if name in models[: index + 1]:
                problem, fix = (
                    "{model} was tried before, so it is no fallback",
                    "Name another model, or remove it",
                )
                yield config.sections.error((*place, "model", "fallbacks", index), problem, fix, model=name)


def _repeated_bindings(config: Config) -> Iterator[ConfigError]:
    """Yield a warning for each binding with the conditions of an earlier one, which takes every message of both."""
    conditions = [one.match for one in config.settings.bindings]
    for index, match in enumerate(conditions):
        if (first := conditions.index(match)) < index:
            problem, fix = "it has no effect: {first} has the same conditions", "Remove one of the two"
            yield config.sections.error(("bindings", index), problem, fix, first=f"bindings[{first}]")


def _unlisted_default(config: Config) -> Iterator[ConfigError]:
    """Yield a warning if the list of agents leaves out the agent ``default``, which has conversations."""
    folder = config.home / "agents" / "default"
    if "default" not in config.agent_ids and folder.is_dir():
        problem = (
            "the agent default is not in the list, so its conversations and notes in {folder} are not in use"
        )
        fix = "Add {{id: default, default: true}} to agents.list, or move the folder away"
        yield config.sections.error(("agents", "list"), problem, fix, folder=folder)


def _unread_keys(config: Config) -> Iterator[ConfigError]:
    for key in UNREAD:
        for path, _ in values_at(config.layout.tree, key):
            yield config.sections.error(path, "it has no effect: claw does not read it yet", "Remove it")


def _unnamed_models(config: Config) -> Iterator[ConfigError]:
    for name, section in config.settings.providers.items():
        for model in section.models:
            if not model.strip():
                problem, fix = (
                    "it has no effect: the name of the model is empty",
                    "Write its name, or remove it",
                )
                yield config.sections.error(("providers", name, "models", model), problem, fix)


def _absent_documentation(config: Config) -> Iterator[ConfigError]:
    """Yield a warning if the prompt names a folder of documentation that is not there: the model looks in vain."""
    written = config.settings.prompt.docs_path or ""
    folder = config.agent("").workspace / FilePath(written).expanduser()
    if written and "://" not in written and not folder.exists():
        fix = "Correct the path, write an address with https://, or remove the key"
        yield config.sections.error(("prompt", "docsPath"), "{folder} does not exist", fix, folder=folder)


def _owners_warnings(config: Config) -> Iterator[ConfigError]:
    """Yield what the models of plugins find odd: ``odd_keys(agent ids)`` yields path, problem, fix and values."""
    for place, value in config.owned.items():
        for path, problem, fix, values in getattr(value, "odd_keys", lambda agents: ())(config.agent_ids):
            yield config.sections.error((*place, *path), problem, fix, **values)


def agent_sections(config: Config) -> Iterator[tuple[Path, AgentSettings]]:
    """Yield the path and the settings of the defaults and of each agent in the list."""
    agents = config.settings.agents
    yield ("agents", "defaults"), agents.defaults
    yield from ((("agents", "list", index), one) for index, one in enumerate(agents.list))
