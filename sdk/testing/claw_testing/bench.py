"""Test kit for parts of a plugin, without a harness: its config, its contributions, the context of a tool.

``contributed(plugin, plugin_config({"channels": {"acme": {"token": "t"}}}))["register_channels"]`` is a list of channels.
"""

import inspect
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from claw import Address, HttpClients, PluginConfig, PromptFacts, ToolContext, ToolSpec
from claw.runtime import (
    HOOKS,
    AgentSettings,
    ConfigSource,
    WorkspaceFiles,
    plugin_keys,
    plugin_states,
    validate_source,
)

REGISTER_HOOKS = tuple(HOOKS)


def plugin_config(
    tree: Mapping[str, Any] | None = None,
    plugin_id: str = "acme",
    *,
    environ: Mapping[str, str] | None = None,
    network: HttpClients | None = None,
    home: Path = Path("/nowhere"),
) -> PluginConfig:
    """Build the config as a plugin sees it.

    :param tree: the config file as plain data.
    :param network: the source of the clients of ``config.http``; close it at the end of the test.
    :raises ConfigError: the config is invalid.
    """
    given = {**(environ or {}), "CLAW_HOME": str(home)}
    read = ConfigSource(tree=dict(tree or {}))
    config = validate_source(read, home, environ or {}, plugin_keys(plugin_states(given, read)))
    return PluginConfig(config, plugin_id, (network or HttpClients()).client, home / "plugins" / plugin_id)


def contributed(plugin: Any, config: PluginConfig) -> dict[str, list[Any]]:
    """Call every hook that a plugin (its module, or any object with hooks) implements; hook → its contributions.

    Exceptions are not caught: an error of a hook fails the test.
    """
    answers = {}
    for hook in REGISTER_HOOKS:
        function = getattr(plugin, hook, None)
        if function is None or not hasattr(function, "claw_impl"):
            continue
        takes = inspect.signature(function).parameters
        answers[hook] = list(function(**({"config": config} if "config" in takes else {})) or ())
    return answers


@asynccontextmanager
async def plugin_contributions(
    plugin: Any, tree: Mapping[str, Any] | None = None, plugin_id: str = "acme", **given: Any
) -> AsyncIterator[dict[str, list[Any]]]:
    """Yield :func:`contributed` of ``plugin`` with ``tree`` as the config file; its connections are closed at the end.

    :param given: ``environ`` and ``home`` of :func:`plugin_config`.
    """
    network = HttpClients()
    try:
        yield contributed(plugin, plugin_config(tree, plugin_id, network=network, **given))
    finally:
        await network.aclose()


class FakeChatApi:
    """The chats of a tool under test: records every act as (name, arguments).

    :ivar acts: in order; the arguments of a send are (text, paths, address, quoted message).
    """

    def __init__(self) -> None:
        self.acts: list[tuple[str, tuple[Any, ...]]] = []

    def resolve_address(self, target: str = "", channel: str = "", account: str = "") -> Address:
        """Return the address of the chat ``target``, else of the turn's chat; every chat is allowed."""
        return Address(channel or "fake", target or "chat-1", account or "default")

    def answered_message_id(self, where: Address | None = None) -> str:
        """Return ``message-1`` for the turn's chat, an empty string for another."""
        return "message-1" if where in (None, self.resolve_address()) else ""

    async def send(
        self,
        text: str,
        paths: Sequence[str] = (),
        where: Address | None = None,
        reply_to: str | None = None,
        voice: bool = False,
    ) -> tuple[str, ...]:
        """Record a message."""
        self.acts.append(("send", (text, tuple(paths), where or self.resolve_address(), reply_to)))
        return (f"m{len(self.acts)}",)

    async def poll(
        self, question: str, options: Sequence[str], where: Address | None = None
    ) -> tuple[str, ...]:
        """Record a poll."""
        self.acts.append(("poll", (question, tuple(options), where)))
        return (f"m{len(self.acts)}",)

    async def edit(self, message_id: str, text: str, where: Address | None = None) -> None:
        """Record an edit."""
        self.acts.append(("edit", (message_id, text, where)))

    async def delete(self, message_id: str, where: Address | None = None) -> None:
        """Record a deletion."""
        self.acts.append(("delete", (message_id, where)))

    async def react(
        self, emoji: str, message_id: str = "", remove: bool = False, where: Address | None = None
    ) -> None:
        """Record a reaction."""
        self.acts.append(("react", (emoji, message_id, remove, where)))


def tool_context(workspace: Path, **given: Any) -> ToolContext:
    """Build the context of a tool, with real file access limited to ``workspace``.

    :param given: fields of ``ToolContext`` to set: owner, agent, status, environment …
    """

    async def send(text: str, attachments: tuple[str, ...]) -> tuple[str, ...]:
        return ("message-1",)

    facts: dict[str, Any] = {
        "call_id": "call_1",
        "session_key": "agent:default:main",
        "agent": _agent(workspace),
        "owner": True,
        "files": WorkspaceFiles([], workspace),
        "state_dir": workspace,
        "progress": lambda text: None,
        "send": send,
        "talk": FakeChatApi(),
        "environment": {"PATH": "/usr/local/bin:/usr/bin:/bin"},
    }
    return ToolContext(**facts | given)


def prompt_facts(workspace: Path, **given: Any) -> PromptFacts:
    """Build the facts for a prompt section: a default agent in ``workspace`` with the tools read and exec.

    :param given: fields of ``PromptFacts`` to set.
    """
    tools = tuple(
        ToolSpec(name, f"{name} it", {"type": "object", "properties": {}}) for name in ("read", "exec")
    )
    facts = {"agent": _agent(workspace), "mode": "full", "tools": tools, "workspace": workspace}
    return PromptFacts(**{**facts, "channel": "terminal", **given})


def _agent(workspace: Path) -> SimpleNamespace:
    settings = AgentSettings.model_validate({})
    return SimpleNamespace(
        id="default",
        name="",
        dir=workspace / ".claw",
        workspace=workspace,
        settings=settings,
        section=lambda key, model: model(),
    )
