"""The provider under test: made by its plugin from a config file, with the address of a service on this
machine.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from claw import Credential, Message, Provider, Request, SystemPrompt, Text, ToolSpec, User
from claw.testing import plugin_contributions

from pytest_claw.faults import KEY
from pytest_claw.relay import LiveService


class ProviderSuiteBase:
    """The settings of both suites for providers.

    :cvar plugin: the module (or object) with ``register_providers``.
    :cvar name: of the provider under test.
    :cvar service: a service of ``claw_testing.services`` (``AnthropicService``, ``OpenAIService``, …), or a class
        like them: made with a list of ``Reply`` or a function of the request, an async context manager with
        ``url``, ``requests`` and ``left``; for faults also ``open``, ``refusals``, and replies that are played by
        hand.
    :cvar live: in place of ``service``, for ``ProviderSuite``: one that already runs.
    :cvar section: further keys of ``providers.NAME``.
    """

    plugin: Any = None
    name = ""
    service: Any = None
    live: LiveService | None = None
    section: Mapping[str, Any] = {}

    @asynccontextmanager
    async def provider(self, url: str, **section: Any) -> AsyncIterator[Provider]:
        """Yield the provider, its address at ``url``; close its connections at the end."""
        key = self.live.key if self.live else KEY
        tree = {"providers": {self.name: {"baseUrl": url, "apiKey": key, **self.section, **section}}}
        async with plugin_contributions(self.plugin, tree, self.name) as answers:
            named = {one.name: one for one in answers.get("register_providers", ())}
            assert self.name in named, f"the plugin has {sorted(named)}"
            yield named[self.name]

    @pytest.fixture(autouse=True)
    def _set_up(self, request: pytest.FixtureRequest) -> None:
        names = ["plugin", "name", *([] if self.live else ["service"])]
        missing = [name for name in names if not getattr(self, name)]
        if missing:
            pytest.fail(f"{type(self).__name__} does not set {', '.join(missing)}")
        test = getattr(request.node, "originalname", "")
        if self.live and (why := dict(self.live.cannot).get(test)):
            pytest.skip(why)


def asks(*messages: Message, tools: tuple[ToolSpec, ...] = (), **fields: Any) -> Request:
    """Return a request with a key; without messages, one short question."""
    past = messages or (User((Text("hello"),)),)
    usual = {
        "model": "model-x",
        "system": SystemPrompt("You are claw."),
        "credential": Credential("main", KEY),
    }
    return Request(messages=past, tools=tools, **{**usual, **fields})
