"""OpenAI, and every endpoint that speaks its protocol, as a provider: the SDK carries the request, events are read raw.

Facts of the SDK (openai 3.54): an empty key raises, so that keyless servers get a placeholder; organisation and
project come from the environment unless headers say otherwise.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from importlib import import_module
from typing import Any

import msgspec
from claw import Credential, Growing, ModelEvent, Patience, Request, converse

from claw_openai import chat, responses
from claw_openai.config import OpenAIConfig

DEFAULT_URL = "https://api.openai.com/v1"
CONTEXT_TOKENS = 128_000
"""What the vendor's models read at least (platform.openai.com, "Models"); of others less is taken for granted."""
OTHER_CONTEXT_TOKENS = 32_768


class OpenAI:
    """One endpoint.

    :param http: makes the shared ``httpx2.AsyncClient`` for an address; asked at the first call.
    """

    def __init__(
        self,
        name: str,
        config: OpenAIConfig,
        base_url: str,
        keys: Callable[[], tuple[Credential, ...]],
        http: Callable[[str], Any],
    ) -> None:
        self.name = name
        self._config, self._base_url, self._keys, self._http = config, base_url, keys, http
        self._clients: dict[Credential | None, Any] = {}
        self._rows = Growing(partial(chat.Rows, name, config.quirks))
        self._items = Growing(partial(responses.Items, name))
        self._patience = Patience(
            config.timeout_seconds or config.begin_timeout_seconds, config.idle_timeout_seconds
        )

    def __repr__(self) -> str:
        return f"OpenAI({self.name!r}, {self._base_url!r})"

    def credentials(self) -> tuple[Credential, ...]:
        """The keys to try, in order; one with an empty secret for an endpoint that needs none."""
        return self._keys()

    def context_tokens(self, model: str) -> int:
        """As configured; else what is safe to take for granted."""
        facts = self._config.models.get(model)
        default = CONTEXT_TOKENS if self._base_url == DEFAULT_URL else OTHER_CONTEXT_TOKENS
        return (facts and facts.context_tokens) or self._config.context_tokens or default

    def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        """Answer ``request``, piece by piece."""
        facts = self._config.models.get(request.model)
        most = (facts and facts.max_tokens) or self._config.max_tokens
        talk = self._config.api == "responses"
        folding = responses.Folding if talk else chat.Folding

        async def ask() -> Any:
            import httpx2

            client = await self._client(request.credential)
            body = (
                responses.body(request, self._items.of(request.messages, request.model), most)
                if talk
                else chat.body(request, self._rows.of(request.messages), self.name, most, self._config.quirks)
            )
            return await client.post(
                "/responses" if talk else "/chat/completions",
                cast_to=httpx2.Response,
                content=msgspec.json.encode(body),
                options={"headers": {"Content-Type": "application/json"}},
                stream=True,
            )

        return converse(
            ask,
            folding(self.name, request.model, request.tools),
            service=f"{self.name}/{request.model}",
            patience=self._patience,
            secret=request.credential.secret if request.credential else "",
        )

    async def _client(self, key: Credential | None) -> Any:
        """The client of one key. The SDK is imported here, in a thread: it takes about a second."""
        if key not in self._clients:
            sdk = await asyncio.to_thread(import_module, "openai")
            if key not in self._clients:
                self._clients[key] = self._make(sdk, key.secret if key else "")
        return self._clients[key]

    def _make(self, sdk: Any, secret: str) -> Any:
        import httpx2

        return sdk.AsyncOpenAI(
            api_key=secret or "none",
            base_url=self._base_url,
            max_retries=0,
            timeout=httpx2.Timeout(None, connect=self._config.connect_timeout_seconds),
            default_headers={name: value.reveal() for name, value in self._config.headers.items()},
            http_client=self._http(self._base_url),
        )
