"""The tool catalog: aliases, groups, profiles, patterns, and the names that are reserved for core tools.

Pure functions, and the tables of ``catalog.json``. Profiles, owner-only tools and sub-agent denials are those of the
seed documents; the group members are those that other hosts agree on, so that a list written for one of them means the
same here.
"""

import fnmatch
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from claw.config.summary import read_table

_TABLES = read_table("policy/catalog.json")

ALIASES: Mapping[str, str] = _TABLES["aliases"]
CORE_TOOLS: tuple[str, ...] = tuple(_TABLES["coreTools"])
"""Reserved names of core tools, in the order of a request: a plugin of the release train may provide them, and any plugin
to which ``tools.suppliers`` assigns one."""
PLUGINS_GROUP = "group:plugins"
TOOL_GROUPS = {f"group:{name}": frozenset(members) for name, members in _TABLES["groups"].items()}
TOOL_GROUPS["group:openclaw"] = frozenset().union(
    *(members for name, members in TOOL_GROUPS.items() if name not in ("group:fs", "group:runtime"))
)
"""Group → its core tools. ``group:plugins`` is not here: it depends on what is loaded."""
PROFILES = {profile: tuple(names) for profile, names in _TABLES["profiles"].items()}
"""Profile → the tools that it allows. Any other name, such as ``default``, restricts nothing."""
OWNER_ONLY = frozenset(_TABLES["ownerOnly"])
CHANNEL_DENY = {channel: frozenset(names) for channel, names in _TABLES["channelDeny"].items()}
"""Channel → exact names of tools that make no sense there."""
SANDBOX_ALLOW, SANDBOX_DENY = tuple(_TABLES["sandboxAllow"]), tuple(_TABLES["sandboxDeny"])
"""The lists of a sandbox without lists in the config; a tool named like a channel is denied there as well."""


def subagent_denials(depth: int) -> tuple[str, ...]:
    """Return the tools that a sub-agent never gets by default; ``depth`` 0 is the main agent, 1 its child."""
    denied = _TABLES["subagentDeny"] if depth > 0 else ()
    return (*denied, *(_TABLES["deepSubagentDeny"] if depth > 1 else ()))


@lru_cache(maxsize=4096)
def normalise_tool_name(name: str) -> str:
    """Normalise a name or list entry for comparison: no outer blanks, lower case, aliases resolved."""
    bare = name.strip().lower()
    return ALIASES.get(bare, bare)


def is_pattern(entry: str) -> bool:
    """Return true if a normalised list entry is a wildcard pattern; groups have none."""
    return "*" in entry and not entry.startswith("group:")


def matches_pattern(pattern: str, name: str) -> bool:
    """Return true if a pattern matches the whole name: ``*`` is any run of characters, everything else is literal."""
    return bool(names_matching(pattern, (name,)))


def names_matching(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """Return the names that a pattern matches. All normalised; linear in their length for every pattern."""
    return frozenset(fnmatch.filter(names, re.sub(r"[?[]", r"[\g<0>]", pattern)))
