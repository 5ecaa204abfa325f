"""A model provider as claw makes it: its plugin asked with a config file, keys from an environment."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from claw.config.loader import validate_source
from claw.config.plugin_view import PluginConfig
from claw.config.source import ConfigSource
from claw.contracts.provider import (
    Credential,
    Finished,
    Provider,
    Request,
    SystemPrompt,
    TextDelta,
    ToolSpec,
)
from claw.contracts.transcript import Assistant, Message, Text, User
from claw.security.http_client import HttpClients
from config_files import keys_of_plugins

KEY = "sk-of-this-test-0123456789abcdef"
LS = ToolSpec(
    "ls", "List", {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
)


def registered(
    plugin: str, tree: Mapping[str, Any], network: HttpClients, environ: Mapping[str, str] | None = None
) -> dict[str, Provider]:
    """The providers that ``plugin`` answers with, by name; one with a wrong key as claw has it."""
    home = Path("/nowhere")
    read = ConfigSource(tree=dict(tree))
    config = validate_source(read, home, environ or {}, keys_of_plugins(home, read))
    seen = PluginConfig(config, plugin, network.client, home / plugin)
    return {one.name: one for one in import_module(f"claw_{plugin}").register_providers(seen)}


@asynccontextmanager
async def provider(
    url: str,
    plugin: str = "anthropic",
    *,
    name: str = "",
    environ: Mapping[str, str] | None = None,
    **section: Any,
) -> AsyncIterator[Provider]:
    """One provider at ``url``."""
    network = HttpClients()
    tree = {"providers": {name or plugin: {"baseUrl": url, **section}}}
    try:
        yield registered(plugin, tree, network, environ)[name or plugin]
    finally:
        await network.aclose()


def asks(*messages: Message, tools: tuple[ToolSpec, ...] = (), **fields: Any) -> Request:
    """A request with a key; without messages, one short question."""
    fields = {
        "model": "model-x",
        "system": SystemPrompt("You are claw."),
        "credential": Credential("main", KEY),
    } | fields
    return Request(messages=messages or (User((Text("hello"),)),), tools=tools, **fields)


async def answer(model: Provider, request: Request | None = None) -> tuple[str, Assistant]:
    """The words that were streamed, and the whole answer."""
    events, last = [], None
    async for event in model.stream(request or asks()):
        if isinstance(event, TextDelta):
            events.append(event.text)
        last = event
    assert isinstance(last, Finished)
    return "".join(events), last.message
