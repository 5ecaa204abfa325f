"""Fallback: the choice of the next model and key (pure), and a stream that applies it.

The reaction to each class of failure: spec/channels.md 5.6. ``keys`` knows how long a key cools down.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any

from claw import (
    AttemptFailed,
    ClawError,
    ConfigError,
    Credential,
    Finished,
    Message,
    ModelCall,
    ModelEvent,
    ModelOptions,
    ModelRef,
    Notice,
    Provider,
    ProviderError,
    Request,
    Retrying,
    TextDelta,
    nearest,
    t,
)
from claw.runtime import AnswerBroken, checked_answer, missing_key_error, missing_provider_error, sendable

from claw_models.answer_limit import empty_by_limit
from claw_models.key_choice import KeyChoices
from claw_models.key_pool import KeyPool
from claw_models.shortage import MACHINE, as_shortage

_RAISED_AT_ONCE = frozenset({"context_overflow", "request_too_large"})
"""Failures that no other model cures; a shorter history does."""
_RETRIED_ONCE = frozenset({"server", "network", "truncated", "empty"})
_SAME_FOR_EVERY_KEY = frozenset({"bad_request", "content_filter", "model_not_found", "empty"})
"""Failures that another key of the same model would meet too."""
_LASTING = frozenset({"model_not_found", "auth", "auth_permanent", "permission"})
"""Failures that no later try cures: no other model answers in place of one that a person named."""
_RETRY_PAUSE_SECONDS = (0.5, 1.5)
_NOTICE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class KeySelection:
    """The keys of one call, and the time it may wait for one.

    :param wait_seconds: the longest wait for a model to become available; 0 = no waiting and no retry.
    """

    keys: KeyPool = field(default_factory=KeyPool)
    wait_seconds: float = 0.0


class Failover(KeyChoices):
    """The model selector that switches to the next key and the next model when one fails.

    :param wait_seconds: the longest wait of a turn for a model to become available.
    """

    name = "failover"

    def __init__(self, keys: KeyPool, wait_seconds: float = 0.0) -> None:
        self.keys, self._wait_seconds = keys, wait_seconds

    def select(
        self,
        models: Sequence[ModelRef],
        providers: Mapping[str, Provider],
        request: Request,
        options: ModelOptions,
    ) -> ModelCall:
        """Return a model call that survives the failure of a key or a model."""
        detached = options.detached
        keys, wait = (self.keys.isolated_copy(), 0.0) if detached else (self.keys, self._wait_seconds)
        return with_fallback(models, providers, request, KeySelection(keys, wait), options)

    def credentials(self, provider: Provider, agent_dir: Path | None = None) -> tuple[Credential, ...]:
        """Return the keys of a provider: the agent's own and the shared ones."""
        return self.keys.keys_for(provider, agent_dir)

    async def close(self) -> None:
        """Write the times of last use."""
        self.keys.close()


def with_fallback(
    models: Sequence[ModelRef],
    providers: Mapping[str, Provider],
    request: Request,
    selection: KeySelection | None = None,
    options: ModelOptions | None = None,
) -> ModelCall:
    """Return a ``ModelCall`` that switches to the next key and the next model when one fails.

    A model that answered once in a turn is tried first for the rest of it. The person is notified of a switch
    once in a conversation, until the first model answers again. When an answer breaks off after a part of it
    was shown, ``AnswerBroken`` and another answer follow, unless that begins with the text shown: then it
    continues that text. A context overflow and a cancellation are raised at once.

    :param request: what does not change between steps; model, messages, choice and credential are filled in.
    :param options: ``emit`` is given ``AttemptFailed`` for each key and model that is abandoned, ``Retrying`` before
        each wait. An empty answer that may not be empty is a failure.
    """
    return _Fallback(models, providers, request, selection or KeySelection(), options or ModelOptions()).ask


@dataclass
class _ChatCall:
    """One model call over all its attempts.

    :param failures: the errors, by model; ``shown`` the text that the person sees already.
    :param keys: models that may become available again, with their keys.
    """

    request: Request
    deadline: float
    failures: list[tuple[ModelRef, ProviderError]] = field(default_factory=list)
    shown: str = ""
    last_problem: str = ""
    keys: dict[ModelRef, tuple[Credential, ...]] = field(default_factory=dict)
    failed_providers: set[str] = field(default_factory=set)
    retried: set[tuple[ModelRef, str]] = field(default_factory=set)
    wait_announced: bool = False

    def add_failure(self, ref: ModelRef, why: ProviderError) -> None:
        self.failures = [one for one in self.failures if (one[0], one[1].parts) != (ref, why.parts)]
        self.failures.append((ref, why))


class _Fallback:
    def __init__(
        self,
        models: Sequence[ModelRef],
        providers: Mapping[str, Provider],
        request: Request,
        selection: KeySelection,
        options: ModelOptions,
    ) -> None:
        self._models, self._providers, self._request = models, providers, request
        self._keys, self._wait_seconds = selection.keys, selection.wait_seconds
        self._options, self._emit = options, options.emit
        self._preferred = 0

    async def ask(self, messages: Sequence[Message], tool_choice: str) -> AsyncIterator[ModelEvent]:
        """Make one model call, answered by the first model and key that can."""
        clock = self._keys.clock
        full = replace(self._request, messages=tuple(messages), tool_choice=tool_choice)
        call = _ChatCall(full, clock.monotonic() + self._wait_seconds)
        while True:
            for ref, provider, key in self._attempts(call):
                while True:
                    try:
                        async with aclosing(self._attempt(call, ref, provider, key)) as events:
                            async for event in events:
                                yield event
                        return
                    except ProviderError as error:
                        failed = as_shortage(error)
                        retry = self._should_retry(call, ref, key, failed)
                        self._keys.release(ref.provider, key)
                        if not retry:
                            await self._give_up(call, ref, key, failed)
                            break
                        await self._pause(ref, failed)
            await self._wait(call)

    # --- which one is next

    def _attempts(self, call: _ChatCall) -> Iterator[tuple[ModelRef, Provider, Credential]]:
        """Yield the models and keys to try now; the result of one decides which is next."""
        call.keys.clear()
        call.failed_providers.clear()
        later: list[tuple[ModelRef, Provider, Credential]] = []
        for ref in (*self._models[self._preferred :], *self._models[: self._preferred]):
            self._check_named(call)
            provider = self._providers.get(ref.provider)
            try:
                keys = self._keys_of(provider, ref)
            except ProviderError as why:
                self._add_failure(call, ref, why)
                continue
            assert provider is not None
            call.keys[ref] = keys
            for key in keys:
                reason = call.failures[-1][1].reason if call.failures and call.failures[-1][0] == ref else ""
                if reason in _SAME_FOR_EVERY_KEY:
                    break
                if reason == "overloaded":  # the next model is tried first
                    later.append((ref, provider, key))
                elif not self._is_barred(call, ref, key, keys):
                    yield ref, provider, key
        self._check_named(call)
        for ref, provider, key in later:
            if not self._is_barred(call, ref, key, call.keys[ref]):
                yield ref, provider, key

    def _add_failure(self, call: _ChatCall, ref: ModelRef, why: ProviderError) -> None:
        problem, fix, values = why.parts
        is_about_model = why.reason == "model_not_found" and values.get("unknown") != "address"
        if is_about_model and (near := self._nearest(ref)):
            others: dict[str, Any] = {**values, "near": near, "instead": t(fix, **values)}
            why = ProviderError(
                problem, fix="did you mean {near}? Or: {instead}" if fix else "did you mean {near}?",
                reason=why.reason, status=why.status, where=why.where, **others,
            )  # fmt: skip
        call.add_failure(ref, why)

    def _nearest(self, ref: ModelRef) -> str | None:
        """Return the closest name of the models that the settings or the providers name."""
        names = {str(one) for one in self._models}
        for name, provider in self._providers.items():
            names |= {f"{name}/{model}" for model in getattr(provider, "model_names", tuple)()}
        return nearest(str(ref), names - {str(ref)})

    def _check_named(self, call: _ChatCall) -> None:
        """Raise the failure of the model that a person named, if no later try cures it."""
        own = [why for ref, why in call.failures if ref == self._models[0]]
        if self._options.is_named and own and all(why.reason in _LASTING for why in own):
            own[-1].where = own[-1].where or str(self._models[0])
            raise own[-1]

    def _is_barred(self, call: _ChatCall, ref: ModelRef, key: Credential, keys: Sequence[Credential]) -> bool:
        """Return true if this key must not be used now, as when it failed in this very round."""
        again = ref.provider in call.failed_providers and self._keys.all_cooling_down(
            ref.provider, keys, ref.model
        )
        if not again and self._keys.try_acquire(ref.provider, keys, key, ref.model):
            return False
        if not any(seen == ref for seen, _ in call.failures):
            call.add_failure(ref, self._keys.cooldown_error(ref.provider, key, ref.model))
        return True

    def _keys_of(self, provider: Provider | None, ref: ModelRef) -> tuple[Credential, ...]:
        if provider is None:
            raise missing_provider_error(ref)
        try:
            options, chosen = self._options, self._options.keys.get(ref.provider, "")
            keys = self._keys.keys_for(provider, options.agent_dir, options.session_key, ref.model, chosen)
        except ClawError as why:
            if isinstance(why, ConfigError) and len(self._models) > 1:  # another model may not need this key
                raise ProviderError("{why}", reason="auth", why=why) from why
            raise
        if not keys:
            raise missing_key_error(ref.provider, self._options.key_variables.get(ref.provider, ()), str(ref))
        return keys

    # --- one attempt

    async def _attempt(
        self, call: _ChatCall, ref: ModelRef, provider: Provider, key: Credential
    ) -> AsyncGenerator[ModelEvent, None]:
        started = False
        try:
            if key.expires_at is not None:
                key = await self._keys.logins.refreshed(provider, key, self._options.agent_dir)
            request = replace(call.request, model=ref.model, credential=key)
            stream: Any = provider.stream(request)
            events = _continuing(stream, call.shown, call.last_problem) if call.shown else stream
            async with aclosing(stream), aclosing(events):
                async for event in events:
                    if isinstance(event, Finished):
                        event = self._finished(call, event, ref)  # noqa: PLW2901
                    if not started:
                        started = True
                        await self._notify_of_switch(call, ref)
                    if isinstance(event, Finished):
                        self._record_answer(call, ref, key)
                    if isinstance(event, TextDelta):
                        call.shown += event.text
                    elif isinstance(event, AnswerBroken):
                        call.shown = ""
                    yield event
            if not started:
                raise ProviderError("the model's answer was empty", reason="truncated", where=str(ref))
        finally:
            self._keys.release(ref.provider, key)

    def _finished(self, call: _ChatCall, event: Finished, ref: ModelRef) -> Finished:
        try:
            return checked_answer(event, ref, call.request.messages, self._options)
        except ProviderError:
            if not call.shown.strip():  # blanks cannot be shown twice
                call.shown = ""
            if event.message.stop_reason == "length":
                raise empty_by_limit(ref, call.request.max_tokens) from None
            raise

    async def _notify_of_switch(self, call: _ChatCall, ref: ModelRef) -> None:
        """Notify the person of the model that answers, at the first event of its answer."""
        others = [(model, why) for model, why in call.failures if model != ref]
        if self._keys.is_new_switch(self._options.session_key, str(self._models[0]), str(ref)) and others:
            first, why = others[0]
            text = t("{first} failed: {why}. Switched to {now}.", first=first, why=why.problem, now=ref)
            await self._notice(text)

    def _record_answer(self, call: _ChatCall, ref: ModelRef, key: Credential) -> None:
        """Record the complete answer: the key works, and the model is available again."""
        self._preferred = self._models.index(ref)
        session, alone = self._options.session_key, len(call.keys.get(ref, ())) < 2
        self._keys.record_success(ref.provider, key, ref.model, session, alone)
        self._keys.reset_switches(session, str(ref))

    def _should_retry(self, call: _ChatCall, ref: ModelRef, key: Credential, failed: ProviderError) -> bool:
        """Return true if the failure may be accidental, is retried, and nothing of the answer was shown."""
        if failed.reason in _RAISED_AT_ONCE:
            raise failed
        if failed.reason == "bad_request" and not call.shown:
            repaired = sendable(call.request.messages)
            if repaired != call.request.messages:  # a repaired history stays as it is, so this happens once
                call.request = replace(call.request, messages=repaired)
                return True
        if failed.reason == MACHINE:  # it passes when another turn ends
            return not call.shown and self._keys.clock.monotonic() + _RETRY_PAUSE_SECONDS[1] < call.deadline
        mark = (ref, key.name)
        is_healthy = self._keys.is_healthy(ref.provider, key, ref.model)
        accident = failed.reason in _RETRIED_ONCE or (failed.reason == "unknown" and failed.retryable)
        if not accident or call.shown or mark in call.retried or not is_healthy:
            return False
        call.retried.add(mark)
        return self._keys.clock.monotonic() + _RETRY_PAUSE_SECONDS[1] < call.deadline

    async def _give_up(self, call: _ChatCall, ref: ModelRef, key: Credential, failed: ProviderError) -> None:
        self._keys.record_failure(ref.provider, key, ref.model, failed)
        self._add_failure(call, ref, failed)
        call.failed_providers.add(ref.provider)
        call.last_problem = failed.problem
        if self._emit:
            await self._emit(AttemptFailed(str(ref), key.name, failed.reason, failed.problem))

    async def _notice(self, text: str) -> None:
        if self._options.notice:
            await self._options.notice(text)

    async def _pause(self, ref: ModelRef, failed: ProviderError) -> None:
        seconds = 0.0 if failed.reason in ("empty", "bad_request") else random.uniform(*_RETRY_PAUSE_SECONDS)
        await self._emit_retrying(ref, failed.reason, seconds)
        await asyncio.sleep(seconds)

    async def _emit_retrying(self, ref: ModelRef, reason: str, seconds: float) -> None:
        if self._emit:
            await self._emit(Retrying(str(ref), reason, round(seconds, 1)))

    async def _wait(self, call: _ChatCall) -> None:
        """Wait until a key may be tried again.

        :raises ProviderError: that is too late, or never; with all failures of the call.
        """
        keys, left = self._keys, call.deadline - self._keys.clock.monotonic()

        def opens_in() -> dict[ModelRef, float]:
            return {ref: keys.available_in(ref.provider, held, ref.model) for ref, held in call.keys.items()}

        opens = opens_in()
        seconds = min(opens.values(), default=inf)
        if seconds > left or left <= 0 or call.shown:
            raise all_failed(call.failures)
        ref = min(opens, key=lambda one: opens[one])
        why = next((why for model, why in call.failures if model == ref), call.failures[0][1])
        await self._emit_retrying(ref, why.reason, seconds)
        if self._emit and not call.wait_announced and seconds >= _NOTICE_SECONDS:
            call.wait_announced = True  # an event only: beside the answer of a chat it would be out of date
            text = "{model}: {why}. Retrying in {n} s."
            await self._emit(Notice(t(text, model=ref, why=why.problem, n=round(seconds))))
        await keys.wait_available(
            sorted({ref.provider for ref in call.keys}), lambda: min(opens_in().values()), left
        )
        call.retried.clear()


async def _continuing(
    stream: AsyncGenerator[ModelEvent, None], shown: str, why: str
) -> AsyncGenerator[ModelEvent, None]:
    """Yield an answer that follows one that broke off after ``shown`` was shown: no text is shown twice.

    While it repeats the same text it is held back; from the first difference on it is an answer of its own.
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
                yield AnswerBroken(why)
            if rest:
                yield TextDelta(rest)
            if isinstance(event, TextDelta):
                continue
        yield event


def all_failed(failures: Sequence[tuple[object, ProviderError]]) -> ProviderError:
    """Return the error of a call that no model answered: the problem and the fix of each attempt.

    :param failures: ``provider/model`` and its error, in order.
    """
    if len(failures) == 1:
        return failures[0][1]
    fixes = {error.fix for _, error in failures}
    shared = fixes.pop() if len(fixes) == 1 else ""
    details = "; ".join(
        f"{model}: {error.problem} ({error.reason})" + (f" → {error.fix}" if error.fix and not shared else "")
        for model, error in failures
    )
    whole = ProviderError(
        "no model answered ({count} attempts): {details}",
        reason=failures[-1][1].reason if failures else "unknown",
        retryable=any(error.retryable for _, error in failures),
        fix=shared.replace("{", "{{").replace("}", "}}"),
        count=len(failures),
        details=details,
    )
    whole.failures = tuple(error for _, error in failures)
    return whole
