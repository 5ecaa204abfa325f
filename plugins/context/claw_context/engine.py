"""The context engine of one turn: it selects which messages each request sends, so that they fit the model's
window.

Before a request that would be too large, the memory flush runs and the history is compacted. When a service
still answers "too long", the request shrinks step by step: up to three compactions, then short tool results,
then only the newest turns, cut until they fit.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
from claw import (
    Assistant,
    Event,
    Image,
    Message,
    ModelCall,
    ModelEvent,
    Notice,
    ProviderError,
    Text,
    ThinkingDelta,
    ToolResultMessage,
    TurnView,
    Usage,
    User,
    result_limit,
    t,
)
from claw.runtime import (
    CHARS_PER_TOKEN,
    OMITTED,
    PROMPT_SHARE,
    SUMMARY,
    TOO_LARGE_REASONS,
    BaseSession,
    MemoryFlushRecord,
    MessageRecord,
    estimate_tokens,
    limit_turns,
    newest_turns_within,
    truncate_blocks,
)

from claw_context import compaction
from claw_context.budget import ContextBudget, flush_is_due
from claw_context.cut import TokenCosts, cut_point, shorten_to_fit
from claw_context.digest import digest
from claw_context.pruning import Pruning, prune
from claw_context.session_figures import SessionFigures, figures_of
from claw_context.settings import CompactionSettings, ContextPruning
from claw_context.shared import SharedState

MAX_COMPACTIONS = 3
"""Limit for one request that a service refuses as too long (spec/runtime.md C11)."""

_MAX_CUTS = 5  # by then a 200k window is down to 6k tokens: what does not fit that never will
_RETRY_MESSAGES = 16  # new messages until a compaction that achieved nothing is tried again
_IMAGE_REFUSALS = frozenset({"bad_request", "request_too_large"})
"""Error reasons of services that got an image for a model without vision, or one they cannot read; their
texts vary.
"""
_COMPACTING = "the conversation is long: summarising its older part, which takes a moment"
_WITHOUT_IMAGES = "the request is repeated without the pictures: {why}"

FlushCall = Callable[[Sequence[Message]], Awaitable[Usage | None]]
"""Run the memory flush, given the request so far; return its cost. It never raises."""


class History(NamedTuple):
    """The messages with which the requests of a turn begin.

    :param start: index of the turn's first message.
    """

    past: Sequence[Message]
    start: int


class ContextView:
    """The context of one turn's requests. ``ask`` is a :class:`claw.ModelCall`.

    :param call: calls the model with any messages.
    :param save: the memory flush; None when the agent may not write.
    :param is_aside: it serves a request beside the conversation: nothing is compacted, nothing is reported.
    """

    def __init__(
        self,
        call: ModelCall,
        turn: TurnView,
        shared: SharedState,
        history: History,
        save: FlushCall | None = None,
        is_aside: bool = False,
    ) -> None:
        self._model, self._turn, self._shared, self._save = call, turn, shared, save
        self._session: BaseSession = turn.session
        self._is_aside = is_aside
        self._settings = turn.agent.settings
        self._compaction = turn.agent.section("compaction", CompactionSettings)
        self._pruning = turn.agent.section("contextPruning", ContextPruning)
        budget = ContextBudget.from_settings(self._compaction, turn.window_tokens)
        self._budget = replace(budget, enabled=budget.enabled and not is_aside)
        past, at = history
        self._at = at
        self._start = at - len(limit_turns(past[:at], self._settings.history_limit))
        self._head: tuple[Message, ...] = ()
        if past and compaction.is_summary(past[0], self._session):
            self._head, self._start = (past[0],), max(self._start, 1)
        self._compactions = self._cuts = 0
        most = int(turn.window_tokens * PROMPT_SHARE)
        self._most_tokens = max(most, budget.threshold) if budget.enabled else most
        self._available_tokens = self._most_tokens - len(turn.system.whole) // CHARS_PER_TOKEN
        self._sent = self._size = 0
        self._failed_at = -_RETRY_MESSAGES
        self._is_first = True
        self._omission_reported = False
        self._no_images = False
        self._digest_cache: tuple[int, Message | None] = (0, None)  # omitted messages → their digest
        self._shown: tuple[list[Message], list[int]] = ([], [])
        self._total = 0

    @property
    def _figures(self) -> SessionFigures:
        return figures_of(self._session)

    async def _emit(self, event: Event) -> None:
        if not self._is_aside:
            await self._turn.emit(event)

    async def ask(self, messages: Sequence[Message], tool_choice: str) -> AsyncIterator[ModelEvent]:
        """Call the model once; before that, flush and compact if needed."""
        shown = self._turn.with_metadata(messages)
        costs = self._shared.costs.get(shown)
        self._shown, self._total = (shown, costs.each), costs.total
        self._size = self._tokens(messages)
        await self._compact_if_due(messages)
        while True:
            request, began = await self._request(), False
            request = _without_images(request) if self._no_images else request
            stream: Any = self._model(request, tool_choice)
            try:
                async with aclosing(stream) as events:
                    async for event in events:
                        began = began or not isinstance(event, ThinkingDelta)
                        yield event
                return
            except ProviderError as refused:
                if not began and not self._no_images and _is_image_refusal(refused) and _has_images(request):
                    self._no_images = True
                    await self._emit(Notice(t(_WITHOUT_IMAGES, why=refused.problem)))
                elif began or refused.reason not in TOO_LARGE_REASONS or not await self._reduce(messages):
                    raise

    async def _compact_if_due(self, messages: Sequence[Message]) -> None:
        """Flush memory and compact the history if their thresholds are reached."""
        budget, past, flush = self._budget, self._figures, self._compaction.memory_flush
        tokens = self._size
        if self._is_first:
            self._prune_if_cold()
        if self._save and flush.enabled and budget.enabled:
            last = past.memory_flush.compactions if past.memory_flush else None
            due = flush_is_due(tokens, budget.flush_at, past.compactions, last)
            if due or (self._is_first and last != past.compactions and self._flush_forced()):
                record_flush(self._session, await self._save(await self._request()))
        self._is_first = False
        tries = budget.is_over(tokens) and len(messages) - self._failed_at >= _RETRY_MESSAGES
        saves = self._save if flush.enabled else None
        if tries and not await self._compact(messages, tokens, budget.keep_recent, saves):
            self._failed_at = len(messages)

    def _flush_forced(self) -> bool:
        """Return true if the file grew so much since the last flush that a flush is due at any window usage."""
        last = self._figures.memory_flush
        grown = self._session.size_bytes - (last.size_bytes if last else 0)
        return bool(grown >= self._compaction.memory_flush.force_flush_transcript_bytes)

    async def _reduce(self, messages: Sequence[Message]) -> bool:
        """Shrink the request one step after "too long"; return False when no step is left.

        The service knows the real size better than any estimate: halve what was sent, whatever the configured
        window.
        """
        if self._budget.enabled and self._compactions < MAX_COMPACTIONS:
            self._compactions += 1
            real = max(self._size, self._budget.window)
            if await self._compact(messages, real, self._sent // 2):
                return True
            self._compactions = MAX_COMPACTIONS
        self._cuts += 1
        self._available_tokens = min(
            self._available_tokens, self._sent if self._cuts == 1 else self._sent // 2
        )
        return self._cuts <= _MAX_CUTS

    async def _compact(
        self, messages: Sequence[Message], real_tokens: int, most_tokens: int, saves: FlushCall | None = None
    ) -> bool:
        """Compact the history to at most ``most_tokens`` (estimated).

        :param saves: the memory flush; it runs first when messages newer than the last flush would be removed.
        """
        raw = [*self._head, *messages[self._start :]]
        costs = [*TokenCosts(self._head).each, *self._shown[1][self._start :]]
        least = (
            1.0 if self._figures.pruned else compaction.LEAST_DENSITY
        )  # the summariser reads whole results
        density = compaction.density(real_tokens, sum(costs) + self._overhead, least)
        keep = min(int(self._budget.keep_recent / density), most_tokens)
        head = len(self._head)
        plan = compaction.plan_compaction(raw, costs, self._session, keep, density, head)
        if plan is None:
            return False
        await self._emit(Notice(t(_COMPACTING)))
        if saves and has_unsaved(self._session, plan.removed):
            record_flush(self._session, await saves(await self._request()))
        start = self._start + plan.first_kept - head
        asked = self._current_request(start)
        total, kept = plan.tokens
        plan = replace(plan, tokens=(total, kept + TokenCosts(asked).total))
        done = await compaction.summarise_plan(plan, self._turn, self._shared.aliases)
        if done is None:
            return False
        self._session.append_entry(done.record)
        self._start, self._head = start, (self._session.unpaired_messages[0], *asked)
        self._size = self._tokens(messages)
        await self._turn.notice(done.description)
        return True

    def _current_request(self, start: int) -> tuple[Message, ...]:
        """Return the user messages of this turn that stand before ``start``: a summary alone must never
        replace them.
        """
        asked = [message for message in self._shown[0][self._at : start] if isinstance(message, User)]
        ends = asked if len(asked) < 3 else [asked[0], asked[-1]]
        return shorten_to_fit(ends, self._budget.window // 20 * len(ends))

    def _tokens(self, messages: Sequence[Message]) -> int:
        """Return the size of the request: the service's figure for the newest measured answer, plus an
        estimate of what followed. A figure far below the estimate is not used: some servers leave out cached tokens.
        """
        each, past = self._shown[1], self._figures
        shortened = sum(
            estimate_tokens(long) - estimate_tokens(short) for long, short in past.pruned.values()
        )
        estimated = self._overhead + self._total - sum(each[: self._start]) - shortened
        estimated += TokenCosts(self._head).total
        if past.last_measured and past.sent_whole:
            answer, tokens = past.last_measured
            for at in range(len(messages) - 1, self._start - 1, -1):
                if messages[at] is answer:
                    measured = tokens + sum(each[at + 1 :])
                    return measured if measured >= estimated * compaction.LEAST_DENSITY else estimated
        return estimated

    @property
    def _overhead(self) -> int:
        """Tokens of instructions and tools, by the same estimate."""
        tools = (len(tool.description) + len(str(tool.parameters)) for tool in self._turn.tools.values())
        return (len(self._turn.system.whole) + sum(tools)) // CHARS_PER_TOKEN

    async def _request(self) -> tuple[Message, ...]:
        """Return the messages to send."""
        (shown, each), available, pruned = self._shown, self._available_tokens, self._figures.pruned
        total = self._total
        if self._start:
            total -= sum(each[: self._start])
            shown, each = shown[self._start :], each[self._start :]
        if pruned:
            shown = [pruned[id(message)][1] if id(message) in pruned else message for message in shown]
        if self._cuts:
            limit = result_limit(self._budget.window) // 4
            shown = [_with_short_results(message, limit) for message in shown]
        if pruned or self._cuts:
            made = TokenCosts(shown)
            each, total = made.each, made.total
        before = TokenCosts(self._head).total
        self._sent = before + total
        fits = self._sent <= available or (not self._cuts and self._size <= self._most_tokens)
        if fits:  # the usual case: no message needs a look of its own
            self._record_omission(0)
            return (*self._head, *shown)
        view = newest_turns_within(shown, each, available - before)
        start = view.omitted
        if self._cuts > 1 and view.tokens > available:  # the newest turn alone is too much
            start += cut_point(view.messages, each[start:], available // 2).first_kept
        self._record_omission(start)
        if start and not self._omission_reported:
            self._omission_reported = True
            await self._emit(Notice(t(OMITTED, count=start)))
        head = self._digest_of(shown[:start], available) if start else self._head
        whole = (*head, *shown[start:])
        whole = shorten_to_fit(whole, available) if self._cuts > 1 else whole
        self._sent = TokenCosts(whole).total
        return whole

    def _record_omission(self, count: int) -> None:
        """Record whether the figures of the next answer measure the whole history."""
        if not self._is_aside:
            self._figures.sent_whole = not count

    def _digest_of(self, left_out: Sequence[Message], room_tokens: int) -> tuple[Message, ...]:
        """Return a digest that replaces messages neither shown nor summarised; made without a model, kept in
        memory only.
        """
        count, message = self._digest_cache
        if message is None or count != len(left_out):
            before = self._figures.summary
            most = min(self._budget.summary_chars, room_tokens * CHARS_PER_TOKEN // 5)
            text = digest(left_out, before.summary if before and self._head else "", most)
            message = Assistant((Text(SUMMARY + text),))
            self._digest_cache = len(left_out), message
        return (message,)

    def _prune_if_cold(self) -> None:
        """Shorten old tool results if the provider's cache has expired; keep the short form, so that the next
        cache can hold.
        """
        settings, answered = self._pruning, None
        if settings.mode == "cache-ttl":
            answered = self._session.time_of(lambda said: isinstance(said, Assistant))
        if answered is None or self._session.now - answered <= settings.ttl:
            return
        how = Pruning(
            settings.keep_last_assistants, settings.soft_trim_ratio, settings.hard_clear_ratio,
            settings.min_prunable_tool_chars, settings.soft_trim.max_chars, settings.soft_trim.head_chars,
            settings.soft_trim.tail_chars, settings.hard_clear.enabled, settings.hard_clear.placeholder,
            settings.tools.allow, settings.tools.deny,
        )  # fmt: skip
        shown = self._shown[0][self._start :]
        for at, result in prune(shown, self._budget.window, how).items():
            self._figures.pruned[id(shown[at])] = (shown[at], result)


def has_unsaved(session: BaseSession, messages: Sequence[Message] | None = None) -> bool:
    """Return true if a person wrote something since the last memory flush.

    :param messages: look among these only; None = the whole session.
    """
    wanted = None if messages is None else {id(message) for message in messages}
    for entry in reversed(session.entries):
        if isinstance(entry, MemoryFlushRecord):
            return False
        said = entry.message if isinstance(entry, MessageRecord) else None
        if isinstance(said, User) and not said.kind and (wanted is None or id(said) in wanted):
            return True
    return False


def record_flush(session: BaseSession, cost: Usage | None) -> None:
    """Record that the memory flush covers the conversation up to here."""
    count = figures_of(session).compactions
    session.append_entry(MemoryFlushRecord(compactions=count, size_bytes=session.size_bytes, usage=cost))


def _is_image_refusal(refused: ProviderError) -> bool:
    return refused.reason in _IMAGE_REFUSALS or "image" in refused.problem.lower()


def _has_images(messages: Sequence[Message]) -> bool:
    return any(isinstance(block, Image) for message in messages for block in message.content)


def _without_images(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages without images; the text line that names an image stays."""
    return tuple(_image_free(message) if _has_images((message,)) else message for message in messages)


def _image_free(message: Message) -> Message:
    words = tuple(block for block in message.content if not isinstance(block, Image))
    return msgspec.structs.replace(message, content=words or (Text("[a picture that is not shown]"),))


def _with_short_results(message: Message, limit: int) -> Message:
    if not isinstance(message, ToolResultMessage) or len(message.text) <= limit:
        return message
    return msgspec.structs.replace(message, content=truncate_blocks(message.content, limit))
