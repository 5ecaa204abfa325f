"""Mistral as a provider: the vendor's SDK carries the request, the chunks are read raw.

Facts of the SDK (mistralai 3.7): ``mistralai`` itself is empty, ``mistralai.client`` holds it; without a key it reads
one from the environment; its typed calls cost 214 ms of CPU at 1,000 messages where ``do_request_async`` below them takes
1.5; its tracing stays off unless the operator turns it on by ``MISTRAL_SDK_TELEMETRY``.
"""

from collections.abc import AsyncIterator, Callable
from functools import partial
from importlib import import_module
from typing import Any

import msgspec
from claw import Credential, ModelEvent, Request
from claw_provider_sdk import (
    IncrementalCache,
    Price,
    VendorClients,
    VendorProvider,
    decoded_body,
    stream_answer,
)

from claw_mistral import models, prices
from claw_mistral.answer import MistralParser
from claw_mistral.config import MistralConfig, MistralModelConfig
from claw_mistral.refusal import refusal_error
from claw_mistral.request import MistralMessages, body

DEFAULT_URL = "https://api.mistral.ai"
_PATH = "/v1/chat/completions"


class Mistral(VendorProvider):
    """One service that speaks Mistral's chat completions.

    :param http: makes the shared ``httpx2.AsyncClient`` for an address; asked at the first call.
    :param free: it runs on this machine.
    """

    vendor_url = DEFAULT_URL
    _config: MistralConfig

    def __init__(
        self,
        name: str,
        config: MistralConfig,
        base_url: str,
        keys: Callable[[], tuple[Credential, ...]],
        http: Callable[[str], Any],
        free: bool = False,
    ) -> None:
        super().__init__(name, config, base_url, keys, http, free)
        self._clients = VendorClients("mistralai.client", "mistralai", "claw-mistral[sdk]", self._make)
        self._rows = IncrementalCache(partial(MistralMessages, name))

    def context_tokens(self, model: str) -> int:
        """Return the configured size, else that of the model family."""
        return self._facts(model).context_tokens or models.context_tokens(model)

    def model_names(self) -> tuple[str, ...]:
        """Return the models of the vendor's table."""
        return tuple(prices.table().models)

    def _vendor_price(self, model: str) -> Price | None:
        return prices.price(model)

    def answer_tokens(self, request: Request) -> int | None:
        """Return the requested limit, else the configured one, thoughts included; else None: the service
        decides.
        """
        return request.max_tokens or self._facts(request.model).max_tokens or self._config.max_tokens

    def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        """Stream the answer to ``request``."""
        facts = self._facts(request.model)
        how = models.style(request.model, facts.thinking)
        most = facts.max_tokens or self._config.max_tokens

        async def ask() -> Any:
            client = await self._clients.get(request.credential)
            rows = self._rows.get(request.messages, request.model)
            content = msgspec.json.encode(body(request, rows, most, how))
            answer = await self._post(client, request.credential, content)
            if answer.status_code != 200:
                said = decoded_body(await answer.aread())
                raise refusal_error(f"{self.name}/{request.model}", said, answer.status_code, answer.headers)
            return answer

        return stream_answer(
            ask,
            MistralParser(self.name, request.model, request.tools),
            service=f"{self.name}/{request.model}",
            timeouts=self._timeouts,
            secret=request.credential.secret if request.credential else "",
            prepare=lambda: self._clients.get(request.credential),
        )

    async def _post(self, client: Any, key: Credential | None, content: bytes) -> Any:
        """Send one request through the SDK and its hooks; return any response, the body unread."""
        import httpx2

        settings = client.sdk_configuration
        headers = {
            "Authorization": f"Bearer {(key and key.secret) or 'none'}",
            "Accept": "text/event-stream",
            "Content-Type": "application/json",
            "User-Agent": settings.user_agent,
            **{name: value.reveal() for name, value in self._config.headers.items()},
        }
        request = settings.async_client.build_request(
            "POST",
            self._base_url + _PATH,
            content=content,
            headers=headers,
            timeout=httpx2.Timeout(None, connect=self._config.connect_timeout_seconds),
        )
        context = import_module("mistralai.client._hooks").HookContext(
            settings, self._base_url, "stream_chat", None, settings.security, ["chat"], None
        )
        return await client.do_request_async(context, request, lambda status: status >= 400, stream=True)

    def _facts(self, model: str) -> MistralModelConfig:
        return self._config.models.get(model) or MistralModelConfig()

    def _make(self, sdk: Any, secret: str) -> Any:
        """Make a client on the shared connection; the blocking client, never used, is a placeholder."""
        import httpx2

        return sdk.Mistral(
            api_key=secret or "none",
            server_url=self._base_url,
            async_client=self._http(self._base_url),
            client=httpx2.Client(transport=httpx2.BaseTransport(), trust_env=False),
        )
