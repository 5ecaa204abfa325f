"""Where keys may stand: the short forms that the file allows are moved to their one place, and remembered.

``telegram: {…}`` at the top is ``channels.telegram``; ``heartbeat: {…}`` at the top is ``agents.defaults.heartbeat``;
``agents.entries`` is ``agents.list``; ``mcpServers`` are settings of the plugin mcp. An error is told with the path as
the person wrote it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from claw.config.names import Path

AGENT_KEYS = {
    "workspace", "workspaceDir", "systemPrompt", "skills", "thinkingDefault", "toolChoice", "contextTokens",
    "maxTokens", "maxTurns", "compaction", "contextPruning", "subagents", "heartbeat", "memorySearch", "sandbox",
    "identity", "userTimezone", "model", "historyLimit", "bootstrapMaxChars", "bootstrapTotalMaxChars",
}  # fmt: skip
"""Keys of ``agents.defaults`` that may stand at the top level too."""

CHANNELS = frozenset({
    "terminal", "feishu", "telegram", "discord", "slack", "whatsapp", "signal", "matrix", "imessage", "teams",
    "line", "irc", "wechat", "dingtalk", "webchat",
})  # fmt: skip
_CHANNEL_KEYS = frozenset({"groups", "allowFrom", "dmPolicy", "groupPolicy", "botToken", "appId"})
_TOP = frozenset({
    "locale", "agents", "tools", "channels", "providers", "plugins", "owners", "prompt", "session", "gateway",
    "hooks", "cron", "logging", "messages", "bindings", "models",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Layout:
    """The tree in its one form, and which written path each moved part came from."""

    tree: dict[str, Any]
    moved: tuple[tuple[Path, Path], ...]

    def as_written(self, path: Path) -> Path:
        """The path a person wrote, of a path in ``tree``."""
        for place, written in self.moved:
            if path[: len(place)] == place:
                return written + path[len(place) :]
        return path


def camel(name: str) -> str:
    """``dm_policy`` → ``dmPolicy``; other spellings stay."""
    head, *rest = name.split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in rest) if head and all(rest) else name


def arrange(raw: Mapping[str, Any], channels: frozenset[str] = CHANNELS) -> Layout:
    """Move short forms to their one place. A key that stands in both places stays where it is, so it is refused.

    :param channels: names of channels that are known; any other top-level mapping that looks like one counts too.
    """
    tree: dict[str, Any] = dict(raw)
    moved: list[tuple[Path, Path]] = []
    for key in raw:
        target: Path | None = None
        if camel(key) in AGENT_KEYS:
            target = ("agents", "defaults", key)
        elif key in channels or (key not in _TOP and _looks_like_a_channel(raw[key])):
            target = ("channels", key)
        elif key == "mcpServers":  # where every MCP client looks for them
            target = ("plugins", "entries", "mcp", "config", "mcpServers")
        if target and _place(tree, target, raw[key]):
            del tree[key]
            moved.append((target, (key,)))
    moved += _entries_to_list(tree)
    return Layout(tree, tuple(moved))


def _looks_like_a_channel(value: Any) -> bool:
    return isinstance(value, Mapping) and any(camel(key) in _CHANNEL_KEYS for key in value)


def _place(tree: dict[str, Any], target: Path, value: Any) -> bool:
    """Put ``value`` at ``target``, copying what it touches; False when something stands there already."""
    holder = tree
    for step in target[:-1]:
        below = holder.get(str(step), {})
        if not isinstance(below, Mapping):
            return False
        holder[str(step)] = dict(below)
        holder = holder[str(step)]
    if str(target[-1]) in holder:
        return False
    holder[str(target[-1])] = value
    return True


def _entries_to_list(tree: dict[str, Any]) -> list[tuple[Path, Path]]:
    agents = tree.get("agents")
    entries = agents.get("entries") if isinstance(agents, Mapping) and "list" not in agents else None
    if not isinstance(agents, Mapping) or not isinstance(entries, Mapping | list):
        return []
    tree["agents"] = agents = {key: value for key, value in agents.items() if key != "entries"}
    if isinstance(entries, list):
        agents["list"] = entries
        return [(("agents", "list"), ("agents", "entries"))]
    agents["list"] = [
        {"id": id} | dict(entry) if isinstance(entry, Mapping) else entry for id, entry in entries.items()
    ]
    return [(("agents", "list", index), ("agents", "entries", id)) for index, id in enumerate(entries)]
