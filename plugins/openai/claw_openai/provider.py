"""OpenAI, and every endpoint that speaks its protocol, as a provider: the SDK carries the request, events are read raw.

Facts of the SDK (openai 3.54): an empty key raises, so that keyless servers get a placeholder; organisation and
project come from the environment unless headers say otherwise.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
from claw import Credential, ModelEvent, Request
from claw_provider_sdk import (
    IncrementalCache,
    Price,
    StreamTimeouts,
    ToolLimits,
    VendorClients,
    stream_answer,
)
from pydantic.alias_generators import to_camel

from claw_openai import chat, responses
from claw_openai.config import OpenAIConfig, Quirks
from claw_openai.endpoints import Endpoint

CONTEXT_TOKENS = 32_768
"""Assumed context size of an unknown model."""
MOST_TOOLS = 128
"""In one request (its error "Invalid 'tools': array too long. Expected an array with maximum length 128")."""
DESCRIPTION_CHARS = 1024
"""Of a tool (its error "Invalid 'tools[0].function.description': string too long. Expected a string with maximum length
1024")."""


class OpenAI:
    """One endpoint.

    :param http: makes the shared ``httpx2.AsyncClient`` for an address; asked at the first call.
    :param known: its row in the table of endpoints, when there is one.
    :param free: it runs on this machine.
    """

    def __init__(
        self,
        name: str,
        config: OpenAIConfig,
        base_url: str,
        keys: Callable[[], tuple[Credential, ...]],
        http: Callable[[str], Any],
        known: Endpoint | None = None,
        free: bool = False,
    ) -> None:
        self.name = name
        self._config, self._base_url, self._keys, self._http = config, base_url, keys, http
        self._clients = VendorClients("openai", "openai", "claw-openai", self._make)
        self._known, self._free = known, free
        written = {
            to_camel(key): value for key, value in config.quirks.model_dump(exclude_unset=True).items()
        }
        self._quirks = Quirks.model_validate({**(known.quirks if known else {}), **written})
        self._rows = IncrementalCache(partial(chat.ChatMessages, name, self._quirks))
        self._items = IncrementalCache(partial(responses.ResponseItems, name))
        self._timeouts = StreamTimeouts.of(config)
        is_vendor = name in ("openai", "azure")
        self._limits = ToolLimits(
            name,
            MOST_TOOLS if is_vendor else None,
            description_chars=DESCRIPTION_CHARS if is_vendor else None,
        )

    def __repr__(self) -> str:
        return f"OpenAI({self.name!r}, {self._base_url!r})"

    def credentials(self) -> tuple[Credential, ...]:
        """Return the keys to try, in order; one with an empty secret for an endpoint that needs none."""
        return self._keys()

    def context_tokens(self, model: str) -> int:
        """Return the configured size, else that of the table, else a safe assumption."""
        facts, known = self._config.models.get(model), self._known
        figures = known.model(model) if known else None
        return (
            (facts and facts.context_tokens)
            or self._config.context_tokens
            or (figures and figures.context_tokens)
            or (known and known.context_tokens)
            or CONTEXT_TOKENS
        )

    def model_names(self) -> tuple[str, ...]:
        """Return the models of the table."""
        return tuple(self._known.models) if self._known else ()

    def price(self, model: str) -> Price | None:
        """Return the table's price if the table's address is called; zero on this machine."""
        if self._free:
            return Price(0.0, 0.0)
        known = self._known
        figures = known.model(model) if known and known.base_url == self._base_url else None
        return figures.price if figures else None

    def answer_tokens(self, request: Request) -> int | None:
        """Return the requested limit, else the configured one, else None: the service decides."""
        facts = self._config.models.get(request.model)
        return request.max_tokens or (facts and facts.max_tokens) or self._config.max_tokens

    def tool_limit(self, model: str) -> int | None:
        """Return the most tools in a request; None = no known limit."""
        return self._limits.most

    def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        """Stream the answer to ``request``."""
        request = replace(request, tools=self._limits.fitting(request.tools, request.tool_choice))
        most = self.answer_tokens(request)
        figures = self._known.model(request.model) if self._known else None
        thinks = figures.thinks if figures else ""
        talk = self._config.api == "responses"
        folding = responses.ResponsesParser if talk else chat.ChatParser

        async def ask() -> Any:
            import httpx2

            client = await self._clients.get(request.credential)
            body = (
                responses.body(request, self._items.get(request.messages, request.model), most, thinks)
                if talk
                else chat.body(request, self._rows.get(request.messages), most, self._quirks, thinks)
            )
            return await client.post(
                "/responses" if talk else "/chat/completions",
                cast_to=httpx2.Response,
                content=msgspec.json.encode(body),
                options={"headers": {"Content-Type": "application/json"}},
                stream=True,
            )

        return stream_answer(
            ask,
            folding(self.name, request.model, request.tools),
            service=f"{self.name}/{request.model}",
            timeouts=self._timeouts,
            secret=request.credential.secret if request.credential else "",
            prepare=lambda: self._clients.get(request.credential),
        )

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
