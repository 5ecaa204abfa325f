"""Gemini as a provider: the vendor's SDK carries the request, the chunks are read raw.

Facts of the SDK (google-genai 3.4): it uses ``v1`` by default; reads keys, addresses and "use Vertex" from the
environment unless they are given; prefers aiohttp unless it is handed a client; and its typed calls cost 176 ms of CPU at
1,000 messages where its own transport below them takes 1.5. That transport has no public name.
"""

import re
from collections.abc import AsyncIterator, Callable
from functools import partial
from importlib import import_module
from typing import Any
from urllib.parse import quote

import msgspec
from claw import Credential, ModelEvent, Request
from claw_provider_sdk import (
    IncrementalCache,
    Price,
    VendorClients,
    VendorProvider,
    decoded_body,
    provider_error,
    stream_answer,
)

from claw_google import prices, thinking
from claw_google.answer import GeminiParser
from claw_google.config import GoogleConfig, GoogleModelConfig
from claw_google.refusal import refusal_error
from claw_google.request import GeminiTurns, answer_tokens, body

DEFAULT_URL = "https://generativelanguage.googleapis.com"
CONTEXT_TOKENS = 1_048_576
"""Context size of all current Gemini models (ai.google.dev, "Models"); for other models a smaller one is
assumed.
"""
OTHER_CONTEXT_TOKENS = 131_072
_VERSION = re.compile(r"/(v\d\w*)$")


class Google(VendorProvider):
    """One service that speaks ``generateContent``.

    :param base_url: may end with the version of the API; else ``v1``.
    :param http: makes the shared ``httpx2.AsyncClient`` for an address; asked at the first call.
    :param free: it runs on this machine.
    """

    vendor_url = DEFAULT_URL
    _config: GoogleConfig

    def __init__(
        self,
        name: str,
        config: GoogleConfig,
        base_url: str,
        keys: Callable[[], tuple[Credential, ...]],
        http: Callable[[str], Any],
        free: bool = False,
    ) -> None:
        version = _VERSION.search(base_url)
        super().__init__(name, config, _VERSION.sub("", base_url), keys, http, free)
        self._version = version[1] if version else "v1"
        self._clients = VendorClients("google.genai", "google-genai", "claw-google[sdk]", self._make)
        self._turns = IncrementalCache(partial(GeminiTurns, name))

    def context_tokens(self, model: str) -> int:
        """Return the configured size, else that of the model family."""
        family = CONTEXT_TOKENS if model.rpartition("/")[2].startswith("gemini-") else OTHER_CONTEXT_TOKENS
        return self._facts(model).context_tokens or family

    def model_names(self) -> tuple[str, ...]:
        """Return the models of the vendor's table."""
        return tuple(prices.table().models)

    def _vendor_price(self, model: str) -> Price | None:
        return prices.price(model)

    def answer_tokens(self, request: Request) -> int | None:
        """Return the requested limit, else the configured one, plus the thinking budget; else None: the
        service decides.
        """
        facts = self._facts(request.model)
        most = facts.max_tokens or self._config.max_tokens
        return answer_tokens(request, most, thinking.style(request.model, facts.thinking))

    def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        """Stream the answer to ``request``."""
        facts = self._facts(request.model)
        how = thinking.style(request.model, facts.thinking)
        most = facts.max_tokens or self._config.max_tokens

        async def ask() -> Any:
            raw = (await self._clients.get(request.credential))._api_client
            turns = self._turns.get(request.messages, request.model, how == "level")
            return await self._post(raw, request.model, msgspec.json.encode(body(request, turns, most, how)))

        return stream_answer(
            ask,
            GeminiParser(self.name, request.model, request.tools),
            service=f"{self.name}/{request.model}",
            timeouts=self._timeouts,
            secret=request.credential.secret if request.credential else "",
            prepare=lambda: self._clients.get(request.credential),
        )

    async def _post(self, raw: Any, model: str, content: bytes) -> Any:
        """Send one request through the SDK's own transport; return its response, the body unread."""
        import httpx2

        errors = import_module("google.genai.errors")
        path = quote(model if "/" in model else f"models/{model}")
        wire = raw._build_request("post", f"{path}:streamGenerateContent?alt=sse", {})
        wire.data = content
        wire.timeout = httpx2.Timeout(None, connect=self._config.connect_timeout_seconds)
        try:
            return (await raw._async_request_once(wire, stream=True)).response_stream
        except errors.APIError as error:
            answer = error.response
            raise refusal_error(
                f"{self.name}/{model}", decoded_body(answer.content), answer.status_code, answer.headers
            ) from None
        except UnicodeDecodeError:  # the SDK decodes the body of an error, whatever it is
            raise provider_error(f"{self.name}/{model}", reason="server") from None

    def _facts(self, model: str) -> GoogleModelConfig:
        return self._config.models.get(model) or GoogleModelConfig()

    def _make(self, sdk: Any, secret: str) -> Any:
        """Make a client on the shared connection; the clients that it would create itself and never use
        are placeholders.
        """
        import ssl

        import httpx2

        options = sdk.types.HttpOptions(
            base_url=self._base_url,
            api_version=self._version,
            headers={name: value.reveal() for name, value in self._config.headers.items()},
            httpx_async_client=self._http(self._base_url),
            httpx_client=httpx2.Client(transport=httpx2.BaseTransport(), trust_env=False),
            async_client_args={"ssl": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)},
        )
        return sdk.Client(api_key=secret or "none", vertexai=False, http_options=options)
