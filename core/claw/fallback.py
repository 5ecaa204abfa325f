"""Which model and key to try next (pure), and a stream that does.

First form: in the order written, within one turn. Cooldowns and classified waits come with the issue on models.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

import msgspec

from claw.auth import Credential, in_order
from claw.errors import ClawError, ProviderError
from claw.provider import Ask, Finished, ModelEvent, Provider, Request
from claw.transcript import Assistant, Message
from claw.wall import USUAL, is_ours, name_of
from claw.words import say


@dataclass(frozen=True, slots=True)
class ModelRef:
    """A model by its provider and the provider's own name for it."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"


def candidates(
    requested: str, primary: str, fallbacks: Sequence[str] = (), aliases: Mapping[str, str] | None = None
) -> tuple[ModelRef, ...]:
    """The models to try, in order, each once.

    :param requested: for this turn; empty = the primary. When one is requested, it is tried alone: who names a
        model wants that one.
    :param primary: ``provider/model``; a spare without a provider gets the primary's. Blank entries are skipped.
    :param aliases: short name → ``provider/model``.
    """
    named = aliases or {}
    wanted = [requested] if requested.strip() else [primary, *fallbacks]
    home = named.get(primary.strip(), primary.strip()).partition("/")[0]
    found: dict[ModelRef, None] = {}
    for text in wanted:
        full = named.get(text.strip(), text.strip())
        if full:
            provider, slash, model = full.partition("/")
            found[ModelRef(provider, model) if slash else ModelRef(home, full)] = None
    return tuple(found)


def with_fallback(
    models: Sequence[ModelRef],
    providers: Mapping[str, Provider],
    request: Request,
    notice: Callable[[str], Awaitable[None]],
    order: Mapping[str, Sequence[str]] | None = None,
    silence_seconds: float = USUAL.silence_seconds,
) -> Ask:
    """A way to ask that goes on to the next key and the next model when one fails before it said anything.

    A model that answered once in a turn is asked first for the rest of it, and the person is told of the switch once.
    An overflow is raised at once: another model does not cure it, a shorter past does.

    :param request: what does not change between steps; model, messages, choice and credential are filled in.
    :param order: provider → names of its keys in the order to try.
    :param silence_seconds: a provider that says nothing for so long is given up.
    """
    start = 0

    async def ask(messages: Sequence[Message], tool_choice: str) -> AsyncIterator[ModelEvent]:
        nonlocal start
        failures: list[tuple[ModelRef, ProviderError]] = []
        for index in range(start, len(models)):
            ref = models[index]
            for attempt in _attempts(ref, providers, order or {}):
                if isinstance(attempt, ProviderError):
                    failures.append((ref, attempt))
                    continue
                provider, credential = attempt
                full = replace(request, model=ref.model, messages=tuple(messages))
                full = replace(full, tool_choice=tool_choice, credential=credential)
                spoke = False
                try:
                    async with aclosing(_walled(provider, full, silence_seconds)) as stream:
                        async for event in stream:
                            if not spoke and failures:
                                await notice(_switched(failures, ref))
                            spoke, start = True, index
                            yield _signed(event, ref)
                    if spoke:
                        return
                    raise ProviderError("the model's answer was empty", reason="truncated", where=str(ref))
                except ProviderError as failed:
                    if spoke or failed.reason == "context_overflow":
                        raise
                    failures.append((ref, failed))
        raise _all_failed(failures)

    return ask


async def _walled(
    provider: Provider, request: Request, silence_seconds: float
) -> AsyncGenerator[ModelEvent, None]:
    """The provider's stream; whatever a stranger does that is none of ours is told with the stranger's name."""
    stream: AsyncIterator[ModelEvent] | None = None
    try:
        stream = aiter(provider.stream(request))
        while True:
            event = await _next(stream, silence_seconds)
            if event is None:
                return
            if not isinstance(event, ModelEvent) or not (
                isinstance(event.message, Assistant)
                if isinstance(event, Finished)
                else isinstance(event.text, str)
            ):
                raise TypeError(f"its stream holds {event!r:.100}, which is no model event")
            yield event
    except ClawError:
        raise
    except BaseException as why:
        if is_ours(why):
            raise
        raise _broken(provider.name, why) from why
    finally:
        if close := getattr(stream, "aclose", None):
            await close()


async def _next(stream: AsyncIterator[ModelEvent], silence_seconds: float) -> ModelEvent | None:
    try:
        async with asyncio.timeout(silence_seconds) as limit:
            return await anext(stream, None)
    except TimeoutError:
        if limit.expired():
            raise TimeoutError(f"it said nothing for {silence_seconds:g} s") from None
        raise


def _broken(name: str, why: BaseException) -> ProviderError:
    return ProviderError(
        "provider {name} failed: {why}",
        fix="update the plugin that brings it (claw plugins list), or choose another model",
        name=name,
        why=name_of(why) or type(why).__name__,
    )


def _attempts(
    ref: ModelRef, providers: Mapping[str, Provider], order: Mapping[str, Sequence[str]]
) -> list[ProviderError | tuple[Provider, Credential]]:
    provider = providers.get(ref.provider)
    if provider is None:
        missing = ProviderError(
            "no provider named {provider} is there", reason="model_not_found", where=str(ref), provider=ref.provider,
            fix="install one that brings it (claw plugins list) or choose another model (claw config set "
            "agents.defaults.model.primary PROVIDER/MODEL)",
        )  # fmt: skip
        return [missing]
    try:
        keys = in_order(provider.credentials(), order.get(ref.provider, ()))
    except ClawError:
        raise
    except Exception as why:  # noqa: BLE001 - a stranger's code
        return [_broken(ref.provider, why)]
    if not keys:
        locked = ProviderError(
            "{provider} has no key", reason="auth", where=str(ref), provider=ref.provider,
            fix="run claw init, or set its key in the environment or under providers.{provider}",
        )  # fmt: skip
        return [locked]
    return [(provider, key) for key in keys]


def _signed(event: ModelEvent, ref: ModelRef) -> ModelEvent:
    """The answer under the name of the model that was asked, as claw writes it."""
    if isinstance(event, Finished):
        return Finished(msgspec.structs.replace(event.message, model=str(ref)))
    return event


def _switched(failures: Sequence[tuple[ModelRef, ProviderError]], now: ModelRef) -> str:
    first, why = failures[0]
    return say("{first} failed: {why}. Switched to {now}.", first=first, why=why.problem, now=now)


def _all_failed(failures: Sequence[tuple[ModelRef, ProviderError]]) -> ProviderError:
    if len(failures) == 1:
        return failures[0][1]
    told = "; ".join(f"{ref}: {error.problem} ({error.reason})" for ref, error in failures)
    return ProviderError(
        "no model answered ({count} attempts): {told}",
        reason=failures[-1][1].reason if failures else "unknown",
        retryable=any(error.retryable for _, error in failures),
        fix=next((error.fix.replace("{", "{{").replace("}", "}}") for _, error in failures if error.fix), ""),
        count=len(failures),
        told=told,
    )
