"""The providers as turns ask them: behind the middleware of plugins and, outside of it, the guards of core.

The guards need no plugin: what a provider raises becomes an error that names it, known secrets are masked in every
answer, and a model with a small context window is given no tools.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import cache, partial
from typing import Any

from msgspec.structs import replace

from claw.config.models import ModelsSettings
from claw.contracts.errors import ClawError, ProviderError
from claw.contracts.extensions import ProviderMiddleware
from claw.contracts.provider import (
    Credential,
    Finished,
    ModelEvent,
    Provider,
    Request,
    TextDelta,
    ThinkingDelta,
    tool_mode_of,
)
from claw.contracts.transcript import Assistant, Text, Thinking
from claw.host.isolation import DEFAULT_TIMEOUTS, describe_exception, run_bounded
from claw.host.registry import Contribution, check_wrapped
from claw.host.worker import is_own_exit
from claw.i18n import t
from claw.security.redaction import KnownSecretMask, Redactor

Log = Callable[[str], None]


def apply_middleware(
    providers: Mapping[str, Contribution[Provider]],
    middleware: Sequence[Contribution[ProviderMiddleware]],
    failed: Callable[[str, BaseException], None],
    seconds: float,
) -> dict[str, Contribution[Provider]]:
    """Wrap every provider in the middleware, the first one outermost.

    :param failed: given the plugin whose middleware cannot wrap a provider; that middleware is left out.
    :param seconds: how long one middleware may take for all providers.
    """
    wrapped = dict(providers)
    for one in reversed(middleware):
        try:
            wrapped = run_bounded(partial(_wrap_all, one.value, wrapped), seconds)
        except BaseException as why:
            if isinstance(why, KeyboardInterrupt):
                raise
            failed(one.plugin, why)
    return wrapped


def _wrap_all(
    middleware: ProviderMiddleware, providers: Mapping[str, Contribution[Provider]]
) -> dict[str, Contribution[Provider]]:
    wrapped = {}
    for name, one in providers.items():
        check_wrapped(value := middleware.wrap(one.value))
        wrapped[name] = Contribution(one.plugin, value)
    return wrapped


class GuardedProvider:
    """A provider whose code cannot harm a turn: what it raises becomes a ``ProviderError`` that names it. Its answers
    hold no known secret, and it gives no tools to a model with a small context window.

    All other attributes are those of the provider.

    :param silence_seconds: a stream that sends nothing for this long is given up.
    """

    def __init__(
        self,
        provider: Provider,
        settings: ModelsSettings,
        redactor: Redactor,
        log: Log,
        silence_seconds: float = DEFAULT_TIMEOUTS.silence_seconds,
    ) -> None:
        self.name = provider.name
        self._provider, self._redactor, self._log = provider, redactor, log
        self._silence_seconds = silence_seconds
        self._least_context, self._small_context = settings.least_context, settings.small_context
        self._tool_mode = cache(lambda model: self._ask(partial(tool_mode_of, provider, model), "native"))
        self._small_models: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    async def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        """Answer ``request`` with the secrets masked.

        :raises ProviderError: the call failed, or the model reads too little for tools.
        """
        if request.tools and self._tool_mode(request.model) != "none":
            self._check_window(request.model)
        mask = self._redactor.answer_mask
        held_back: dict[type[TextDelta | ThinkingDelta], str] = {ThinkingDelta: "", TextDelta: ""}
        async with aclosing(_checked_stream(self._provider, request, self._silence_seconds)) as stream:
            async for event in stream:
                if isinstance(event, TextDelta | ThinkingDelta):
                    kind = TextDelta if isinstance(event, TextDelta) else ThinkingDelta
                    shown, held_back[kind] = mask.certain(held_back[kind] + event.text)
                    if shown:
                        yield kind(shown)
                elif isinstance(event, Finished):
                    for kind, rest in held_back.items():
                        if rest:
                            yield kind(mask.masked(rest))
                    yield Finished(_without_secrets(event.message, mask))

    def credentials(self) -> tuple[Credential, ...]:
        """Return the provider's keys.

        :raises ClawError: they cannot be read.
        """
        try:
            return tuple(self._provider.credentials())
        except ClawError:
            raise
        except Exception as why:
            raise _plugin_error(self.name, why) from why

    def context_tokens(self, model: str) -> int:
        """Return how many tokens a model reads, 0 when that is unknown; one that is small for tools is logged once."""
        window = self._ask(partial(self._provider.context_tokens, model), 0)
        window = max(window, 0) if isinstance(window, int) else 0
        if self._least_context <= window < self._small_context and model not in self._small_models:
            self._small_models.add(model)
            small = "{model} has a context window of {window} tokens, which is small for tools and longer conversations"
            self._log(t(small, model=f"{self.name}/{model}", window=f"{window:,}"))
        return window

    def _check_window(self, model: str) -> None:
        """Check that a model may be given tools.

        :raises ProviderError: its context window is too small; the next model may have a larger one.
        """
        window = self.context_tokens(model)
        if 0 < window < self._least_context:
            raise ProviderError(
                "its context window is {window} tokens, and an agent with tools needs at least {least}",
                fix="choose another model (claw models use PROVIDER/MODEL), set its real window "
                "(providers.{name}.models.MODEL.contextTokens), or lower models.leastContext",
                reason="bad_request",
                where=f"{self.name}/{model}",
                name=self.name,
                window=f"{window:,}",
                least=f"{self._least_context:,}",
            )

    def _ask(self, ask: Callable[[], Any], otherwise: Any) -> Any:
        try:
            return ask()
        except Exception as why:  # noqa: BLE001 - third-party code
            self._log(t("provider {name} failed: {why}", name=self.name, why=describe_exception(why)))
            return otherwise


async def _checked_stream(
    provider: Provider, request: Request, silence_seconds: float
) -> AsyncGenerator[ModelEvent, None]:
    """Yield the provider's stream; an exception of its code becomes a ``ProviderError`` that names it."""
    stream: AsyncIterator[ModelEvent] | None = None
    silence = asyncio.timeout(None)
    try:
        stream = aiter(provider.stream(request))
        while True:
            async with asyncio.timeout(silence_seconds) as silence:
                event = await anext(stream, None)
            if event is None:
                return
            is_text = isinstance(event, TextDelta | ThinkingDelta) and isinstance(event.text, str)
            if not is_text and not (isinstance(event, Finished) and isinstance(event.message, Assistant)):
                raise TypeError(f"its stream holds {event!r:.100}, which is no model event")
            yield event
    except ClawError:
        raise
    except BaseException as why:
        if is_own_exit(why):
            raise
        is_late = silence.expired() and isinstance(why, TimeoutError)
        error = TimeoutError(f"it said nothing for {silence_seconds:g} s") if is_late else why
        raise _plugin_error(provider.name, error) from why
    finally:
        if close := getattr(stream, "aclose", None):
            await close()


def _plugin_error(name: str, why: BaseException) -> ProviderError:
    return ProviderError(
        "provider {name} failed: {why}",
        fix="update the plugin that provides it (claw plugins list), or choose another model",
        name=name,
        why=describe_exception(why) or type(why).__name__,
    )


def _without_secrets(message: Assistant, mask: KnownSecretMask) -> Assistant:
    """Mask secrets in text and thinking; calls and signed thinking stay unchanged."""
    content = tuple(
        replace(block, text=masked)
        if (isinstance(block, Text) or (isinstance(block, Thinking) and not block.signature))
        and (masked := mask.masked(block.text)) != block.text
        else block
        for block in message.content
    )
    return message if content == message.content else replace(message, content=content)
