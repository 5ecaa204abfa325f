"""What tool names mean: aliases, groups, profiles, patterns, and the names that are kept for core tools.

Pure tables and pure functions. Profiles, owner-only tools and sub-agent denials are those of the seed documents; the
group members are the ones on which the hosts in the field agree, so that a list written for one reads the same here.
"""

from collections.abc import Iterable
from functools import lru_cache

ALIASES = {"bash": "exec", "apply-patch": "apply_patch"}

_SUPPLIED = (
    ("tools-std", "read write edit apply_patch ls grep find exec process web_search web_fetch"),
    ("memory", "memory_search memory_get"),
    ("agents", "sessions_list sessions_history sessions_send sessions_spawn subagents"),
    ("tools-std", "session_status message"),
    ("clock", "cron"),
    ("http", "gateway"),
    ("", "nodes browser canvas agents_list image tts"),
)
CORE_TOOLS = {name: plugin for plugin, names in _SUPPLIED for name in names.split()}
"""Name kept for a core tool → the first-party plugin that supplies it (empty: nobody yet), in the order of a request."""

_MEMBERS = {
    "fs": "read write edit apply_patch",
    "runtime": "exec process",
    "web": "web_search web_fetch",
    "memory": "memory_search memory_get",
    "sessions": "sessions_list sessions_history sessions_send sessions_spawn subagents session_status",
    "ui": "browser canvas",
    "messaging": "message",
    "automation": "cron gateway",
    "nodes": "nodes",
    "agents": "agents_list",
    "media": "image tts",
}
PLUGINS_GROUP = "group:plugins"
GROUPS = {f"group:{name}": frozenset(members.split()) for name, members in _MEMBERS.items()}
GROUPS["group:openclaw"] = frozenset().union(
    *(members for name, members in GROUPS.items() if name not in ("group:fs", "group:runtime"))
)
"""Group → its core tools. ``group:plugins`` is not here: it depends on what is loaded."""

_HELD = {
    "minimal": "read write edit grep find ls",
    "coding": "read write edit apply_patch grep find ls exec process web_search web_fetch",
    "messaging": "read write message sessions_list sessions_send cron web_search",
    "full": "*",
}
PROFILES = {profile: tuple(names.split()) for profile, names in _HELD.items()}
"""Profile → what its list allows. Any other name, ``default`` among them, restricts nothing."""

OWNER_ONLY = frozenset({"gateway", "cron", "nodes"})
UNFIT = {"voice": frozenset({"tts"})}
"""Channel → tools that make no sense there, named exactly."""

SANDBOX_ALLOW = (
    *("exec", "process", "read", "write", "edit", "apply_patch"),
    *("sessions_list", "sessions_history", "sessions_send", "sessions_spawn", "subagents", "session_status"),
)
SANDBOX_DENY = ("browser", "canvas", "nodes", "cron", "gateway")
"""The lists of a sandbox when the file gives none; a tool named like a channel is denied there as well."""

_SUBAGENT_DENY = ("gateway", "sessions_spawn")
_DEEP_SUBAGENT_DENY = (*_SUBAGENT_DENY, "cron", "message")


def subagent_denials(depth: int) -> tuple[str, ...]:
    """What a sub-agent never gets by default; ``depth`` 0 is the agent a person talks to, 1 its child."""
    if depth <= 0:
        return ()
    return _SUBAGENT_DENY if depth == 1 else _DEEP_SUBAGENT_DENY


@lru_cache(maxsize=4096)
def normalise(name: str) -> str:
    """The form in which names and list entries are compared: no outer blanks, lower case, aliases resolved."""
    bare = name.strip().lower()
    return ALIASES.get(bare, bare)


def is_pattern(entry: str) -> bool:
    """Whether a normalised list entry is a wildcard pattern; groups know none."""
    return "*" in entry and not entry.startswith("group:")


def matches(pattern: str, name: str) -> bool:
    """Whether a pattern covers the whole name: ``*`` is any run of characters, everything else stands for itself."""
    return bool(matching(pattern, (name,)))


def matching(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """The names that a pattern covers. All normalised; linear in their length, whatever the pattern."""
    first, *rest = pattern.split("*")
    if not rest:
        return frozenset(name for name in names if name == pattern)
    *middle, last = rest
    least = len(first) + len(last)
    ends = [n for n in names if n.startswith(first) and n.endswith(last) and len(n) >= least]
    if not any(middle):
        return frozenset(ends)
    return frozenset(name for name in ends if _in_order(middle, name, len(first), len(name) - len(last)))


def _in_order(pieces: Iterable[str], name: str, at: int, end: int) -> bool:
    """Whether the pieces follow each other in ``name[at:end]``; the earliest place of each leaves most room."""
    for piece in pieces:
        found = name.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True
