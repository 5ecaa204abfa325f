"""Which model and key to try next (pure), and a stream that does.

What becomes of each class of failure: spec/channels.md 5.6. How long a key rests is known by ``keys``.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path

import msgspec

from claw.auth import Credential, no_key
from claw.errors import ClawError, ConfigError, ProviderError
from claw.event import AttemptFailed, Event, Retrying
from claw.failure import all_failed, failed as failed_call
from claw.keys import Keys
from claw.patience import Alarm
from claw.provider import Ask, BrokenOff, Finished, ModelEvent, Provider, Request, TextDelta, ThinkingDelta
from claw.transcript import Assistant, Message, sendable
from claw.wall import USUAL, is_ours, name_of
from claw.words import say

_RAISED = frozenset({"context_overflow", "request_too_large"})
"""No other model cures these; a shorter past does."""
_ONCE_MORE = frozenset({"server", "network", "truncated", "empty"})
_OF_THE_REQUEST = frozenset({"bad_request", "model_not_found", "empty"})
"""Another key of this model would meet the same."""
_PAUSE_SECONDS = (0.5, 1.5)
_TELL_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class ModelRef:
    """A model by its provider and the provider's own name for it."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"


def candidates(
    requested: str,
    primary: str,
    fallbacks: Sequence[str] = (),
    aliases: Mapping[str, str] | None = None,
    override: Sequence[str] | None = None,
) -> tuple[ModelRef, ...]:
    """The models to try, in order, each once: the one asked for, the spares, and the primary.

    :param requested: for this turn; empty = the primary.
    :param primary: ``provider/model``; a model without a provider gets the primary's. Blank entries are skipped.
    :param aliases: short name → ``provider/model``.
    :param override: spares in the place of ``fallbacks`` and of the primary as the last one; empty = none at all.
    """
    named = aliases or {}
    spares = [*fallbacks, primary] if override is None else override
    home = named.get(primary.strip(), primary.strip()).partition("/")[0]
    found: dict[ModelRef, None] = {}
    for text in (requested if requested.strip() else primary, *spares):
        full = named.get(text.strip(), text.strip())
        if full:
            provider, slash, model = full.partition("/")
            found[ModelRef(provider, model) if slash else ModelRef(home, full)] = None
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Bunch:
    """Whose keys are used, and for how long a call may wait for one.

    :param folder: of the agent, for its own keys. ``session``: whose conversation it is.
    :param wait_seconds: for a model that is to be had again; 0 = nothing is waited for, nothing asked twice.
    :param chosen: provider → the key that a person wants used first.
    """

    keys: Keys = field(default_factory=Keys)
    folder: Path | None = None
    session: str = ""
    wait_seconds: float = 0.0
    chosen: Mapping[str, str] = field(default_factory=dict)


def with_fallback(
    models: Sequence[ModelRef],
    providers: Mapping[str, Provider],
    request: Request,
    notice: Callable[[str], Awaitable[None]],
    bunch: Bunch | None = None,
    silence_seconds: float = USUAL.silence_seconds,
    emit: Callable[[Event], Awaitable[None]] | None = None,
    may_say_nothing: Callable[[Sequence[Message]], bool] = lambda messages: True,
) -> Ask:
    """A way to ask that goes on to the next key and the next model when one fails.

    A model that answered once in a turn is asked first for the rest of it. Of a switch the person is told once in a
    conversation, until the first model answers again. An answer that breaks off after it was shown is followed by
    ``BrokenOff`` and another one, unless that begins with the same words: then it is simply gone on with. An overflow is
    raised at once, and so is what a person cancels.

    :param request: what does not change between steps; model, messages, choice and credential are filled in.
    :param notice: told in words what the person should know.
    :param silence_seconds: a provider that says nothing for so long is given up.
    :param emit: told ``AttemptFailed`` of each key and model that is given up, ``Retrying`` before each wait.
    :param may_say_nothing: whether an answer to these messages may be empty: no word, no call. Else it is a failure.
    """
    asking = _Asking(models, providers, request, notice, bunch or Bunch(), silence_seconds, emit)
    asking.may_say_nothing = may_say_nothing
    return asking.ask


@dataclass
class _Call:
    """One call of a model, over all its attempts.

    :param failures: what was met, by model; ``shown`` the words that stand before the person.
    :param doors: providers that may open again, with the keys that were tried and the model.
    """

    request: Request
    until: float
    failures: list[tuple[ModelRef, ProviderError]] = field(default_factory=list)
    shown: str = ""
    why: str = ""
    doors: dict[ModelRef, tuple[Credential, ...]] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    again: set[tuple[ModelRef, str]] = field(default_factory=set)
    told_wait: bool = False

    def met(self, ref: ModelRef, why: ProviderError) -> None:
        self.failures = [one for one in self.failures if (one[0], one[1].parts) != (ref, why.parts)]
        self.failures.append((ref, why))


class _Asking:
    def __init__(
        self,
        models: Sequence[ModelRef],
        providers: Mapping[str, Provider],
        request: Request,
        notice: Callable[[str], Awaitable[None]],
        bunch: Bunch,
        silence_seconds: float,
        emit: Callable[[Event], Awaitable[None]] | None,
    ) -> None:
        self._models, self._providers, self._request = models, providers, request
        self._notice, self._emit = notice, emit
        self._keys, self._bunch, self._silence = bunch.keys, bunch, silence_seconds
        self._first = 0
        self.may_say_nothing: Callable[[Sequence[Message]], bool] = lambda messages: True

    async def ask(self, messages: Sequence[Message], tool_choice: str) -> AsyncIterator[ModelEvent]:
        """One model call, whoever answers it."""
        clock = self._keys.clock
        full = replace(self._request, messages=tuple(messages), tool_choice=tool_choice)
        call = _Call(full, clock.monotonic() + self._bunch.wait_seconds)
        while True:
            for ref, provider, key in self._attempts(call):
                while True:
                    try:
                        async with aclosing(self._attempt(call, ref, provider, key)) as events:
                            async for event in events:
                                yield event
                        return
                    except ProviderError as failed:
                        again = self._asks_again(call, ref, key, failed)
                        self._keys.left(ref.provider, key)
                        if not again:
                            await self._gives_up(call, ref, key, failed)
                            break
                        await self._pause(ref, failed)
            await self._wait(call)

    # --- which one is next

    def _attempts(self, call: _Call) -> Iterator[tuple[ModelRef, Provider, Credential]]:
        """The models and keys that may be asked now, one after the other; what becomes of one decides who is next."""
        call.doors.clear()
        call.failed.clear()
        later: list[tuple[ModelRef, Provider, Credential]] = []
        for ref in (*self._models[self._first :], *self._models[: self._first]):
            provider = self._providers.get(ref.provider)
            try:
                keys = self._keys_of(provider, ref)
            except ProviderError as why:
                call.met(ref, why)
                continue
            assert provider is not None
            call.doors[ref] = keys
            for key in keys:
                met = call.failures[-1][1].reason if call.failures and call.failures[-1][0] == ref else ""
                if met in _OF_THE_REQUEST:
                    break
                if met == "overloaded":  # the next model is asked first
                    later.append((ref, provider, key))
                elif not self._rests(call, ref, key, keys):
                    yield ref, provider, key
        for ref, provider, key in later:
            if not self._rests(call, ref, key, call.doors[ref]):
                yield ref, provider, key

    def _rests(self, call: _Call, ref: ModelRef, key: Credential, keys: Sequence[Credential]) -> bool:
        """Whether this key is not to be used now. What failed in this very round is not tried again in it."""
        again = ref.provider in call.failed and self._keys.rests(ref.provider, keys, ref.model)
        if not again and self._keys.admit(ref.provider, keys, key, ref.model):
            return False
        if not any(seen == ref for seen, _ in call.failures):
            call.met(ref, self._keys.why(ref.provider, key, ref.model))
        return True

    def _keys_of(self, provider: Provider | None, ref: ModelRef) -> tuple[Credential, ...]:
        if provider is None:
            raise ProviderError(
                "no provider named {provider} is there", reason="model_not_found", where=str(ref), provider=ref.provider,
                fix="install one that brings it (claw plugins list) or choose another model (claw models use "
                "PROVIDER/MODEL)",
            )  # fmt: skip
        try:
            chosen = self._bunch.chosen.get(ref.provider, "")
            keys = self._keys.of(provider, self._bunch.folder, self._bunch.session, ref.model, chosen)
        except ClawError as why:
            if isinstance(why, ConfigError) and len(self._models) > 1:  # another one may have no part in it
                raise ProviderError("{why}", reason="auth", why=why) from why
            raise
        except Exception as why:
            raise _broken(ref.provider, why) from why
        if not keys:
            raise no_key(ref.provider, self._keys.variables(ref.provider) or (), str(ref))
        return keys

    # --- one attempt

    async def _attempt(
        self, call: _Call, ref: ModelRef, provider: Provider, key: Credential
    ) -> AsyncGenerator[ModelEvent, None]:
        spoke = False
        try:
            if key.expires_at is not None:
                key = await self._keys.logins.renewed(provider, key, self._bunch.folder)
            request = replace(call.request, model=ref.model, credential=key)
            stream = _walled(provider, request, self._silence)
            events = _anew(stream, call.shown, call.why) if call.shown else stream
            async with aclosing(stream), aclosing(events):
                async for event in events:
                    if isinstance(event, Finished) and not self._is_answer(call, event.message):
                        raise nothing_said(event.message, ref)
                    if not spoke:
                        spoke = True
                        await self._speaks(call, ref)
                    if isinstance(event, Finished):
                        self._answered(call, ref, key)
                    if isinstance(event, TextDelta):
                        call.shown += event.text
                    elif isinstance(event, BrokenOff):
                        call.shown = ""
                    yield _signed(event, ref)
            if not spoke:
                raise ProviderError("the model's answer was empty", reason="truncated", where=str(ref))
        finally:
            self._keys.left(ref.provider, key)

    def _is_answer(self, call: _Call, answer: Assistant) -> bool:
        if answer.text.strip() or answer.tool_calls or answer.stop_reason in ("error", "aborted"):
            return True
        if not call.shown.strip():  # blanks are nothing that could stand there twice
            call.shown = ""
        return self.may_say_nothing(call.request.messages)

    async def _speaks(self, call: _Call, ref: ModelRef) -> None:
        """The first word of an answer: the person learns who speaks."""
        others = [(model, why) for model, why in call.failures if model != ref]
        if self._keys.is_news(self._bunch.session, str(self._models[0]), str(ref)) and others:
            first, why = others[0]
            await self._notice(
                say("{first} failed: {why}. Switched to {now}.", first=first, why=why.problem, now=ref)
            )

    def _answered(self, call: _Call, ref: ModelRef, key: Credential) -> None:
        """The whole answer is there: the key is well, and the model has come back."""
        self._first = self._models.index(ref)
        session, alone = self._bunch.session, len(call.doors.get(ref, ())) < 2
        self._keys.answered(ref.provider, key, ref.model, session, alone)
        self._keys.is_back(session, str(ref))

    def _asks_again(self, call: _Call, ref: ModelRef, key: Credential, failed: ProviderError) -> bool:
        """Whether what may have been an accident is asked for once more; never when something of it was shown."""
        if failed.reason in _RAISED:
            raise failed
        if failed.reason == "bad_request" and not call.shown:
            mended = sendable(call.request.messages)
            if mended != call.request.messages:  # mending what is mended changes nothing: it is done once
                call.request = replace(call.request, messages=mended)
                return True
        mark = (ref, key.name)
        well = self._keys.is_well(ref.provider, key, ref.model)
        accident = failed.reason in _ONCE_MORE or (failed.reason == "unknown" and failed.retryable)
        if not accident or call.shown or mark in call.again or not well:
            return False
        call.again.add(mark)
        return self._keys.clock.monotonic() + _PAUSE_SECONDS[1] < call.until

    async def _gives_up(self, call: _Call, ref: ModelRef, key: Credential, failed: ProviderError) -> None:
        self._keys.failed(ref.provider, key, ref.model, failed)
        call.met(ref, failed)
        call.failed.add(ref.provider)
        call.why = failed.problem
        if self._emit:
            await self._emit(AttemptFailed(str(ref), key.name, failed.reason, failed.problem))

    async def _pause(self, ref: ModelRef, failed: ProviderError) -> None:
        seconds = 0.0 if failed.reason in ("empty", "bad_request") else random.uniform(*_PAUSE_SECONDS)
        await self._tells(ref, failed.reason, seconds)
        await asyncio.sleep(seconds)

    async def _tells(self, ref: ModelRef, reason: str, seconds: float) -> None:
        if self._emit:
            await self._emit(Retrying(str(ref), reason, round(seconds, 1)))

    async def _wait(self, call: _Call) -> None:
        """Until a key may be tried again.

        :raises ProviderError: that is too late, or never; with all that was met.
        """
        keys, left = self._keys, call.until - self._keys.clock.monotonic()

        def opens_in() -> dict[ModelRef, float]:
            return {ref: keys.opens_in(ref.provider, held, ref.model) for ref, held in call.doors.items()}

        opens = opens_in()
        seconds = min(opens.values(), default=inf)
        if seconds > left or left <= 0 or call.shown:
            raise all_failed(call.failures)
        ref = min(opens, key=lambda one: opens[one])
        why = next((why for model, why in call.failures if model == ref), call.failures[0][1])
        await self._tells(ref, why.reason, seconds)
        if not call.told_wait and seconds >= _TELL_SECONDS:
            call.told_wait = True
            told = "{model}: {why}. Waiting for it; the next try is in {n} s."
            await self._notice(say(told, model=ref, why=why.problem, n=round(seconds)))
        await keys.reopened(
            sorted({ref.provider for ref in call.doors}), lambda: min(opens_in().values()), left
        )
        call.again.clear()


async def _anew(
    stream: AsyncGenerator[ModelEvent, None], shown: str, why: str
) -> AsyncGenerator[ModelEvent, None]:
    """An answer after one that broke off when ``shown`` stood there already: no word of it is shown twice.

    As long as it says the same words it is held back; from the first other word on it is an answer of its own.
    """
    said, same = "", bool(shown)
    async for event in stream:
        if same and isinstance(event, TextDelta | Finished):
            said += event.text if isinstance(event, TextDelta) else ""
            if isinstance(event, TextDelta) and shown.startswith(said):
                continue
            same = False
            rest = said.removeprefix(shown) if said.startswith(shown) else said
            if rest is said:
                yield BrokenOff(why)
            if rest:
                yield TextDelta(rest)
            if isinstance(event, TextDelta):
                continue
        yield event


async def _walled(
    provider: Provider, request: Request, silence_seconds: float
) -> AsyncGenerator[ModelEvent, None]:
    """The provider's stream; whatever a stranger does that is none of ours is told with the stranger's name."""
    stream: AsyncIterator[ModelEvent] | None = None
    silence = Alarm()
    try:
        stream = aiter(provider.stream(request))
        while True:
            with silence.within(silence_seconds):
                event = await anext(stream, None)
            if event is None:
                return
            if not isinstance(event, TextDelta | ThinkingDelta | Finished) or not (
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
        late = silence.rang and isinstance(why, TimeoutError)
        told = TimeoutError(f"it said nothing for {silence_seconds:g} s") if late else why
        raise _broken(provider.name, told) from why
    finally:
        silence.close()
        if close := getattr(stream, "aclose", None):
            await close()


def _broken(name: str, why: BaseException) -> ProviderError:
    return ProviderError(
        "provider {name} failed: {why}",
        fix="update the plugin that brings it (claw plugins list), or choose another model",
        name=name,
        why=name_of(why) or type(why).__name__,
    )


def _signed(event: ModelEvent, ref: ModelRef) -> ModelEvent:
    """The answer under the name of the model that was asked, as claw writes it."""
    if isinstance(event, Finished):
        return Finished(msgspec.structs.replace(event.message, model=str(ref)))
    return event


def nothing_said(answer: Assistant, model: object) -> ProviderError:
    """The failure that an empty answer of ``provider/model`` is."""
    cut = answer.stop_reason == "length"
    why = say("its answer came to the limit: agents.defaults.maxTokens") if cut else ""
    return failed_call(str(model), reason="empty", text=why)


async def answer_of(provider: Provider, request: Request, ref: ModelRef) -> Assistant:
    """One call, one answer, with the key in the request: no other is tried and nothing is waited for.

    :raises ProviderError: it failed.
    """
    async with aclosing(_walled(provider, request, USUAL.silence_seconds)) as stream:
        async for event in stream:
            if isinstance(event, Finished):
                return event.message
    raise ProviderError("the model's answer was empty", reason="truncated", where=str(ref))
