"""One SKILL.md: its content, and the check if it can be used on this machine. Pure."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from claw import t

_VENDORS = ("claw", "openclaw")  # whose key in ``metadata`` is read
_SYSTEMS = {"macos": "darwin", "mac": "darwin", "windows": "win32"}
_DESCRIPTION_CHARS = 1_024
_MOST_LEVELS = 20
_YAML_CHARS = 16_384
"""Longest front matter that is read as YAML: without libyaml 1 MB takes a minute."""


@dataclass(frozen=True, slots=True)
class Requirements:
    """The requirements of a skill.

    :param always: the other requirements do not count.
    :param systems: names of platforms as in ``sys.platform``; empty = every one.
    :param bins: programs that must all be on PATH; ``any_bins``: one of them.
    :param env: variables that must be set.
    :param config: dotted keys that must be set in the config file.
    """

    always: bool = False
    systems: tuple[str, ...] = ()
    bins: tuple[str, ...] = ()
    any_bins: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    config: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Skill:
    """A folder with a SKILL.md.

    :param key: its name in ``skills.entries``.
    :param listed: False when it says that a model must not choose it.
    :param location: the path that a model is given to read.
    :param file: path of SKILL.md, links resolved.
    :param source: the kind of location it was found in.
    """

    name: str
    description: str
    key: str = ""
    version: str = ""
    listed: bool = True
    gates: Requirements = Requirements()
    location: str = ""
    file: Path = Path()
    source: str = ""


@dataclass(frozen=True)
class Machine:
    """The lookups that requirements use.

    :param which: program → its path, None when it is not on PATH.
    :param is_set: dotted config key → whether it has a value.
    """

    system: str
    environ: Mapping[str, str]
    which: Callable[[str], str | None]
    is_set: Callable[[str], bool]


def parse_skill(text: str, folder: str) -> Skill:
    """Parse a SKILL.md.

    :param folder: name of its folder: the skill's name when the file gives none. The first paragraph is the
        description when the file gives none.
    """
    front, body = _split(text)
    metadata = _metadata(front.get("metadata"))
    requires = metadata.get("requires")
    needs = requires if isinstance(requires, Mapping) else {}
    name = _line(front.get("name")) or folder
    gates = Requirements(
        always=metadata.get("always") is True,
        systems=tuple(_SYSTEMS.get(name.lower(), name.lower()) for name in _names(metadata.get("os"))),
        bins=_names(needs.get("bins")),
        any_bins=_names(needs.get("anyBins")),
        env=_names(needs.get("env")),
        config=_names(needs.get("config")),
    )
    return Skill(
        name=name,
        description=(_line(front.get("description")) or _first_paragraph(body))[:_DESCRIPTION_CHARS],
        key=_line(metadata.get("skillKey")) or name,
        version=_line(front.get("version")),
        listed=not _true(front.get("disable-model-invocation")),
        gates=gates,
    )


def obstacle(skill: Skill, machine: Machine, entry: Mapping[str, Any]) -> str:
    """Return why this skill cannot be used here, in words; empty when it can.

    :param entry: ``skills.entries.NAME`` of the agent: ``enabled``, and variables it sets (``env``).
    """
    gates = skill.gates
    if entry.get("enabled") is False:
        return t("switched off by skills.entries.{key}.enabled", key=skill.key)
    if gates.always:
        return ""
    if gates.systems and machine.system not in gates.systems:
        return t("it is for {systems}", systems=[*gates.systems])
    if missing := [name for name in gates.bins if machine.which(name) is None]:
        return t("not on PATH: {names}", names=[*missing])
    if gates.any_bins and not any(machine.which(name) for name in gates.any_bins):
        return t("none of these is on PATH: {names}", names=[*gates.any_bins])
    if missing := [name for name in gates.env if not machine.environ.get(name)]:
        return t("not set in the environment: {names}", names=[*missing])
    if missing := [key for key in gates.config if not machine.is_set(key)]:
        return t("not set in the config file: {names}", names=[*missing])
    return ""


def _split(text: str) -> tuple[Mapping[str, Any], str]:
    """Return frontmatter and body. Invalid YAML (a colon in a sentence is enough) is read line by line."""
    found = re.match(r"\ufeff?---[ \t]*\r?\n(.*?)\r?\n?^---[ \t]*\r?$\n?", text, re.DOTALL | re.MULTILINE)
    if not found:
        return {}, text
    import yaml  # import takes 15 ms, and many setups have no skill

    try:
        if len(found[1]) > _YAML_CHARS or _is_dangerous(found[1]):
            raise ValueError("it is too long, has an alias, or too many levels")
        front = yaml.load(found[1], Loader=_loader())  # a safe loader
    except (yaml.YAMLError, ValueError, RecursionError):
        pairs = (line.split(":", 1) for line in found[1].splitlines() if re.match(r"[A-Za-z][\w-]*:", line))
        front = {key: value.strip().strip("\"'") for key, value in pairs}
    return front if isinstance(front, Mapping) else {}, text[found.end() :]


def _loader() -> Any:
    """Return the safe loader of libyaml, which is fast; the one in Python where PyYAML has no other."""
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _is_dangerous(text: str) -> bool:
    """Return true for YAML with an alias or deep nesting: by those a few hundred bytes become gigabytes."""
    import yaml

    depth = 0
    for event in yaml.parse(text, Loader=_loader()):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent) or depth > _MOST_LEVELS:
            return True
    return False


def _metadata(value: Any) -> Mapping[str, Any]:
    """Return claw's part of ``metadata``, which may be JSON in a string."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    if not isinstance(value, Mapping):
        return {}
    ours = next((value[vendor] for vendor in _VENDORS if vendor in value), value)
    return ours if isinstance(ours, Mapping) else {}


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(str(name) for name in value) if isinstance(value, list) else ()


def _line(value: Any) -> str:
    """Return a text or a number as one line; empty for anything else."""
    return (
        " ".join(str(value).split())
        if isinstance(value, str | int | float) and not isinstance(value, bool)
        else ""
    )


def _true(value: Any) -> bool:
    return value is True or str(value).lower() in ("true", "yes")


def _first_paragraph(body: str) -> str:
    """Return the first paragraph that is not a heading, as one line."""
    kept: list[str] = []
    for line in body.splitlines():
        if line.strip() and not line.startswith("#"):
            kept.append(line)
        elif kept:
            break
    return _line(" ".join(kept))
