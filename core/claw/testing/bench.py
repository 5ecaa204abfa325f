"""A bench to try the parts of a plugin on, without a house: the config it would see, what it brings, what a tool gets.

``brought(plugin, plugin_config({"channels": {"acme": {"token": "t"}}}))["register_channels"]`` is a list of channels.
"""

import inspect
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from claw import hookspecs
from claw.config import judge
from claw.config.agents import AgentSettings
from claw.config.source import Source
from claw.config.view import PluginConfig
from claw.guard.fence import Fence
from claw.guard.fetch import Network
from claw.message import Address
from claw.prompt import PromptFacts
from claw.provider import ToolSpec
from claw.tool import ToolContext

HOOKS = tuple(
    name for name in vars(hookspecs) if name.startswith("register_") and name != "register_commands"
)


def plugin_config(
    tree: Mapping[str, Any] | None = None,
    plugin_id: str = "acme",
    *,
    environ: Mapping[str, str] | None = None,
    network: Network | None = None,
    home: Path = Path("/nowhere"),
) -> PluginConfig:
    """The config as a plugin sees it.

    :param tree: the file, as plain data.
    :param network: whose clients ``config.http`` hands out; close it at the end of the test.
    :raises ConfigError: the file is wrong.
    """
    config = judge(Source(tree=dict(tree or {})), home, environ or {})
    return PluginConfig(config, plugin_id, (network or Network()).client, home / "plugins" / plugin_id)


def brought(plugin: Any, config: PluginConfig) -> dict[str, list[Any]]:
    """What a plugin (its module, or any object with hooks) answers to every hook it implements, by hook.

    Nothing is caught: whatever a hook raises fails the test.
    """
    answers = {}
    for hook in HOOKS:
        function = getattr(plugin, hook, None)
        if function is None or not hasattr(function, "claw_impl"):
            continue
        takes = inspect.signature(function).parameters
        answers[hook] = list(function(**({"config": config} if "config" in takes else {})) or ())
    return answers


@asynccontextmanager
async def asked(
    plugin: Any, tree: Mapping[str, Any] | None = None, plugin_id: str = "acme", **given: Any
) -> AsyncIterator[dict[str, list[Any]]]:
    """What ``plugin`` brings (:func:`brought`) with ``tree`` as the file; its connections are closed at the end.

    :param given: ``environ`` and ``home`` of :func:`plugin_config`.
    """
    network = Network()
    try:
        yield brought(plugin, plugin_config(tree, plugin_id, network=network, **given))
    finally:
        await network.aclose()


class FakeTalk:
    """The chats of a tool under test: takes every act and writes it down as (what, its arguments).

    :ivar acts: in order; of a send (text, paths, place, quoted message).
    """

    def __init__(self) -> None:
        self.acts: list[tuple[str, tuple[Any, ...]]] = []

    def place(self, target: str = "", channel: str = "", account: str = "") -> Address:
        """A chat called ``target``, else the one that the turn came from; every one is allowed."""
        return Address(channel or "fake", target or "chat-1", account or "default")

    def answered(self, where: Address | None = None) -> str:
        """``message-1`` stands in the chat that the turn came from."""
        return "message-1" if where in (None, self.place()) else ""

    async def send(
        self, text: str, paths: Sequence[str] = (), where: Address | None = None, reply_to: str | None = None,
        voice: bool = False,
    ) -> tuple[str, ...]:  # fmt: skip
        """Say something."""
        self.acts.append(("send", (text, tuple(paths), where or self.place(), reply_to)))
        return (f"m{len(self.acts)}",)

    async def poll(
        self, question: str, options: Sequence[str], where: Address | None = None
    ) -> tuple[str, ...]:
        """Ask for votes."""
        self.acts.append(("poll", (question, tuple(options), where)))
        return (f"m{len(self.acts)}",)

    async def edit(self, message_id: str, text: str, where: Address | None = None) -> None:
        """Rewrite."""
        self.acts.append(("edit", (message_id, text, where)))

    async def delete(self, message_id: str, where: Address | None = None) -> None:
        """Take back."""
        self.acts.append(("delete", (message_id, where)))

    async def react(
        self, emoji: str, message_id: str = "", remove: bool = False, where: Address | None = None
    ) -> None:
        """React."""
        self.acts.append(("react", (emoji, message_id, remove, where)))


def tool_context(workspace: Path, **given: Any) -> ToolContext:
    """What a tool is given, behind a real fence round ``workspace``.

    :param given: fields of ``ToolContext`` to set: owner, agent, status, environment …
    """

    async def send(text: str, attachments: tuple[str, ...]) -> tuple[str, ...]:
        return ("message-1",)

    facts: dict[str, Any] = {
        "call_id": "call_1", "session_key": "agent:default:main", "agent": _agent(workspace), "owner": True,
        "files": Fence([], workspace), "fetch": None, "state_dir": workspace, "progress": lambda text: None,
        "send": send, "talk": FakeTalk(), "environment": {"PATH": "/usr/local/bin:/usr/bin:/bin"},
    }  # fmt: skip
    return ToolContext(**facts | given)


def prompt_facts(workspace: Path, **given: Any) -> PromptFacts:
    """What a section renders from: a default agent in ``workspace`` with the tools read and exec.

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
        id="default", name="", dir=workspace / ".claw", workspace=workspace, settings=settings
    )
