"""The Messages API as a provider: the vendor's SDK carries the request, the events are read raw.

Facts of the SDK (anthropic 2.12): the key goes out as ``Authorization: Bearer``; it reads keys and addresses from
the environment unless both are given.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
from claw import Credential, ModelEvent, Request, Tool
from claw_provider_sdk import (
    IncrementalCache,
    Price,
    ToolLimits,
    VendorClients,
    VendorProvider,
    stream_answer,
)

from claw_anthropic import prices
from claw_anthropic.answer import MessagesParser
from claw_anthropic.config import AnthropicConfig
from claw_anthropic.request import THINKING_TOKENS, MessagesTurns, body

DEFAULT_URL = "https://api.anthropic.com"
CONTEXT_TOKENS = 200_000


class Anthropic(VendorProvider):
    """One Anthropic service.

    :param http: makes the shared ``httpx2.AsyncClient`` for an address; asked at the first call.
    :param free: it runs on this machine.
    """

    vendor_url = DEFAULT_URL
    _config: AnthropicConfig

    def __init__(
        self,
        name: str,
        config: AnthropicConfig,
        base_url: str,
        keys: Callable[[], tuple[Credential, ...]],
        http: Callable[[str], Any],
        free: bool = False,
    ) -> None:
        super().__init__(name, config, base_url, keys, http, free)
        self._clients = VendorClients("anthropic", "anthropic", "claw-anthropic", self._make)
        self._turns = IncrementalCache(partial(MessagesTurns, name))
        self._limits = ToolLimits(name, checks_arguments=True)

    def context_tokens(self, model: str) -> int:
        """Return the configured size, else that of all current models of the vendor."""
        facts = self._config.models.get(model)
        return (facts and facts.context_tokens) or CONTEXT_TOKENS

    def model_names(self) -> tuple[str, ...]:
        """Return the models of the vendor's table."""
        return tuple(prices.table().models)

    def _vendor_price(self, model: str) -> Price | None:
        return prices.price(model)

    def answer_tokens(self, request: Request) -> int:
        """Return the requested limit, else the configured one; the thinking budget may be added."""
        most = request.max_tokens or self._longest_answer(request.model)
        return most + (THINKING_TOKENS.get(request.thinking, 0) if prices.can_think(request.model) else 0)

    def _longest_answer(self, model: str) -> int:
        facts = self._config.models.get(model)
        return (facts and facts.max_tokens) or self._config.max_tokens or prices.longest_answer(model)

    def tool_problem(self, tool: Tool) -> str:
        """Return why the service refuses a request with this tool; empty when it takes it."""
        return self._limits.problem(tool)

    def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        """Stream the answer to ``request``."""
        most = self._longest_answer(request.model)
        request = replace(request, tools=self._limits.fitting(request.tools, request.tool_choice))
        asked = request if prices.can_think(request.model) else replace(request, thinking="off")

        async def ask() -> Any:
            import httpx2

            client = await self._clients.get(request.credential)
            wire = body(asked, self._turns.get(request.messages, request.model), most)
            return await client.post(
                "/v1/messages",
                cast_to=httpx2.Response,
                content=msgspec.json.encode(wire),
                options={"headers": {"Content-Type": "application/json"}},
                stream=True,
            )

        return stream_answer(
            ask,
            MessagesParser(self.name, request.model, request.tools),
            service=f"{self.name}/{request.model}",
            timeouts=self._timeouts,
            secret=request.credential.secret if request.credential else "",
            prepare=lambda: self._clients.get(request.credential),
        )

    def _make(self, sdk: Any, secret: str) -> Any:
        import httpx2

        headers: dict[str, Any] = {name: value.reveal() for name, value in self._config.headers.items()}
        if self._config.key_header == "x-api-key":
            headers = {"x-api-key": secret, "Authorization": sdk.Omit(), **headers}
        return sdk.AsyncAnthropic(
            api_key=secret or "none",
            base_url=self._base_url,
            max_retries=0,
            timeout=httpx2.Timeout(None, connect=self._config.connect_timeout_seconds),
            default_headers=headers,
            http_client=self._http(self._base_url),
        )
