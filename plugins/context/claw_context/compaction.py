"""Compaction: summarise the older part of a history, before a request that would be too large or on demand.

Nothing is lost: the lines stay in the file, and a further ``CompactionRecord`` holds what replaces them. It is one
append, so a crash leaves either the old or the new state. The session lock is not held while a model writes.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from claw import (
    Assistant,
    Finished,
    Message,
    ModelEvent,
    ModelRef,
    Provider,
    ProviderError,
    Request,
    SystemPrompt,
    Text,
    TurnView,
    Usage,
    User,
    bill_to,
    current_account,
    neutralise,
    t,
)
from claw.runtime import (
    CHARS_PER_TOKEN,
    SUMMARY,
    BaseSession,
    CompactionRecord,
    candidates,
    estimate_tokens,
    within,
)

from claw_context.budget import ContextBudget
from claw_context.cut import cut_at, cut_point
from claw_context.digest import digest
from claw_context.instructions import extra_instructions
from claw_context.session_figures import figures_of
from claw_context.settings import CompactionSettings
from claw_context.split import prune_history
from claw_context.summary import MAX_CALLS, Summary, SummaryTask, WriteSummary, summarise

T = TypeVar("T")
_SUMMARY_SHARE = 0.7
"""The largest share of the removed tokens that a summary may take: the total always falls."""

_OFFLINE = "offline"  # a provider without a model
_MIN_GAIN_TOKENS = 100
_MAX_DENSITY = 4.0
LEAST_DENSITY = 0.7
"""English prose has 0.8 to 0.95 with the usual tokenizers; a figure below this leaves something out."""
_CROWDED_FACTOR = 1.2  # times the share of the window that the kept part may take (spec/runtime.md F4)


def total_usage(usages: Iterable[Usage | None]) -> Usage | None:
    """Return the total of several calls; None when no service reported usage."""
    spent = [0, 0, 0, 0, 0]
    for usage in filter(None, usages):
        reported = usage.input, usage.output, usage.cache_read, usage.cache_write
        parts = [max(0, number or 0) for number in reported]
        parts.append(sum(parts) if usage.total is None else max(0, usage.total))
        spent = [before + part for before, part in zip(spent, parts, strict=True)]
    return Usage(*spent) if spent[-1] else None


@dataclass(frozen=True)
class CompactionPlan:
    """A planned compaction: the messages to summarise and those to keep.

    :param history: whole turns to summarise; ``prefix`` the beginning of the turn that the cut splits.
    :param previous: the summary so far, which is part of the next one.
    :param first_kept: index of the first kept message among the given messages; ``record_id`` its record.
    :param tokens: estimates of all messages and of the kept ones.
    :param density: real tokens per estimated token.
    """

    history: tuple[Message, ...]
    prefix: tuple[Message, ...]
    previous: str
    first_kept: int
    record_id: str
    kept: int
    tokens: tuple[int, int]
    density: float

    @property
    def removed(self) -> tuple[Message, ...]:
        """All messages to summarise."""
        return (*self.history, *self.prefix)


@dataclass(frozen=True)
class CompactionResult:
    """A compaction that is ready to be recorded.

    :param first_kept: as in the plan. ``tokens``: estimates before and after.
    """

    record: CompactionRecord
    first_kept: int
    tokens: tuple[int, int]

    @property
    def description(self) -> str:
        """The compaction described for the person."""
        details, (before, after) = self.record.details, self.tokens
        facts = {
            "count": details["summarised"],
            "kept": details["kept"],
            "before": f"{before:,}",
            "after": f"{after:,}",
        }
        if details["by"] == "model":
            text = t(
                "conversation compacted: {count:older message|older messages} summarised, about "
                "{before} → {after} tokens; the newest {kept} messages are unchanged",
                **facts,
            )
            return text + self._what_was_not_read()
        return t(
            "conversation compacted without a summary, because no model could write one: of "
            "{count:older message|older messages} the names, numbers and requests were kept, "
            "about {before} → {after} tokens; the newest {kept} messages are unchanged",
            **facts,
        )

    def _what_was_not_read(self) -> str:
        """Return what the model did not read of the summarised messages; empty when it has read all."""
        details, texts = self.record.details, []
        if unread := details.get("unread"):
            template = (
                "; no model read {count:message|messages} of them: names, numbers and requests were kept"
            )
            texts.append(t(template, count=unread))
        if shortened := details.get("shortened"):
            template = "; {count:long message was|long messages were} read in part"
            texts.append(t(template, count=shortened))
        return "".join(texts)


def is_summary(message: Message, session: BaseSession) -> bool:
    """Return true if this message is the summary of the compacted part of the history."""
    return (
        figures_of(session).summary is not None
        and isinstance(message, Assistant)
        and message.text.startswith(SUMMARY)
    )


def plan_compaction(
    messages: Sequence[Message],
    costs: Sequence[int],
    session: BaseSession,
    keep_tokens: int,
    density: float = 1.0,
    head: int = 0,
) -> CompactionPlan | None:
    """Plan where to cut; return None when nothing can be removed.

    :param messages: as the session has them, the summary so far first when there is one; ``costs`` their tokens.
    :param keep_tokens: estimated tokens of the newest part to keep.
    :param head: number of messages at the beginning that replace earlier ones; they are always removed again.
    """
    at = int(bool(messages) and is_summary(messages[0], session))
    body, each = messages[at:], costs[at:]
    cut = cut_point(body, each, keep_tokens)
    places = [
        place for place in range(max(1, head - at), len(body)) if isinstance(body[place], User | Assistant)
    ]
    if cut.first_kept == 0 and sum(each) > keep_tokens and places:
        cut = cut_at(body, places[-1])  # the last message alone is larger than keep_tokens
    if cut.first_kept == 0:
        return None
    known = (place for place in places if place >= cut.first_kept and session.id_of(body[place]))
    first = next(known, 0)
    if not first:
        return None
    cut = cut_at(body, first)
    start = cut.turn_start if cut.splits_turn else cut.first_kept
    summary = figures_of(session).summary
    return CompactionPlan(
        history=tuple(body[:start]),
        prefix=tuple(body[start : cut.first_kept]),
        previous=summary.summary if summary and at else "",
        first_kept=cut.first_kept + at,
        record_id=session.id_of(body[first]),
        kept=len(body) - cut.first_kept,
        tokens=(sum(costs), sum(each[cut.first_kept :])),
        density=density,
    )


async def summarise_plan(
    plan: CompactionPlan, turn: TurnView, aliases: Mapping[str, str], focus: str = ""
) -> CompactionResult | None:
    """Summarise the part to remove; return None when that gains nothing, or (safeguard) when no model could do it.

    It always ends within ``compaction.timeoutSeconds``.

    :param focus: the topic that the person who asked for it wants kept.
    """
    settings = turn.agent.section("compaction", CompactionSettings)
    budget = ContextBudget.from_settings(settings, turn.window_tokens)
    total, kept = plan.tokens
    if total - kept < _MIN_GAIN_TOKENS:
        return None
    most = min(budget.summary_chars, int((total - kept) * _SUMMARY_SHARE) * CHARS_PER_TOKEN)
    wanted = "\n".join(filter(None, (settings.custom_instructions, focus)))
    task = SummaryTask(
        history=plan.history,
        prefix=plan.prefix,
        previous=plan.previous,
        window_tokens=_summary_window(turn, aliases),
        max_chars=most,
        extra_instructions=extra_instructions(
            settings.identifier_policy, settings.identifier_instructions, wanted
        ),
        tokens_per_estimate=plan.density,
    )
    crowded = kept * plan.density > turn.window_tokens * settings.max_history_share * _CROWDED_FACTOR
    drops = settings.mode == "safeguard" and crowded
    summary, costs = None, list[Usage | None]()
    if has_summary_model(turn, aliases):
        write = _writer(turn, aliases, most, costs)
        writing = (
            summarise_within(task, write, asyncio.sleep, settings.max_history_share)
            if drops
            else summarise(task, write, asyncio.sleep)
        )
        with suppress(TimeoutError):
            summary = await within(settings.timeout_seconds, with_purpose("summary", writing))
    if settings.mode == "safeguard" and not (summary and summary.successful_calls):
        return None
    summary = summary or Summary(digest(plan.removed, plan.previous, most), 0, 0)
    text = neutralise(summary.text)
    after = estimate_tokens(Assistant((Text(SUMMARY + text),))) + kept
    if not text.strip() or after >= total:
        return None
    details = _details(plan, summary) | ({"focus": focus} if focus else {})
    before = int(total * plan.density)
    record = CompactionRecord(
        summary=text,
        first_kept_entry_id=plan.record_id,
        tokens_before=before,
        details=details,
        usage=total_usage(costs),
    )
    return CompactionResult(record, plan.first_kept, (before, int(after * plan.density)))


def _details(plan: CompactionPlan, summary: Summary) -> dict[str, Any]:
    """Return what a record says about a summary: who wrote it, and from how much."""
    details = {"calls": summary.calls, "summarised": len(plan.removed), "kept": plan.kept}
    if not summary.successful_calls:
        return {"by": "cut", **details}
    gaps = {"unread": summary.unread, "shortened": summary.shortened}
    return {"by": "model", **details, **{name: count for name, count in gaps.items() if count}}


async def compact_session(
    turn: TurnView, aliases: Mapping[str, str], focus: str = ""
) -> CompactionResult | None:
    """Compact a conversation on demand: ``/compact``, ``claw sessions compact``.

    A turn may run at the same time: the session is unlocked while the model writes. At most half of it is kept verbatim.

    :returns: None when there is nothing to compact, or the session was reset or compacted meanwhile.
    :raises BusyError: another process holds the session.
    """
    session: BaseSession = turn.session
    messages, id, compactions = session.messages, session.id, figures_of(session).compactions
    costs = [estimate_tokens(message) for message in messages]
    budget = ContextBudget.from_settings(
        turn.agent.section("compaction", CompactionSettings), turn.window_tokens
    )
    plan = plan_compaction(messages, costs, session, min(budget.keep_recent, sum(costs) // 2))
    if plan is None:
        return None
    async with turn.unlocked():
        done = await summarise_plan(plan, turn, aliases, focus)
    session = turn.session
    if done is None or session.id != id or figures_of(session).compactions != compactions:
        return None
    session.append_entry(done.record)
    await session.flush()
    return done


async def with_purpose(purpose: str, step: Awaitable[T]) -> T:
    """Await ``step``, in a task of its own, with its model calls billed under ``purpose``."""
    bill_to(replace(current_account(), purpose=purpose))
    return await step


async def summarise_within(
    task: SummaryTask, write: WriteSummary, pause: Callable[[float], Awaitable[None]], share: float
) -> Summary:
    """Summarise a history for a window that the kept part crowds: its oldest part first, as the seed of the rest.

    :param share: of the window, for the part that is summarised last.
    """
    pruned = prune_history(task.history, task.window_tokens, share)
    kept = {id(message) for message in pruned.kept}
    oldest = tuple(
        message for message in task.history if id(message) not in kept
    )  # with results of dropped calls
    if not oldest:
        return await summarise(task, write, pause)
    first = await summarise(replace(task, history=oldest, prefix=()), write, pause, MAX_CALLS - 1)
    rest = replace(task, history=pruned.kept, previous=first.text)
    last = await summarise(rest, write, pause, MAX_CALLS - first.calls)
    return Summary(
        last.text,
        first.calls + last.calls,
        first.successful_calls + last.successful_calls,
        first.unread + last.unread,
        first.shortened + last.shortened,
    )


def density(real_tokens: int, estimated_tokens: int, least: float = LEAST_DENSITY) -> float:
    """Return the real tokens per estimated token: about 0.9 for English, up to 4 for Chinese."""
    return min(_MAX_DENSITY, max(least, real_tokens / max(1, estimated_tokens)))


class _LimitedProvider:
    """A provider with a shared limit of calls; keys and fallback models count too."""

    def __init__(self, provider: Provider, left: list[None]) -> None:
        self.name, self._provider, self._left = provider.name, provider, left

    def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        if not self._left:
            raise ProviderError("a summary took {count} model calls, which is the limit", count=MAX_CALLS)
        self._left.pop()
        return self._provider.stream(request)

    def __getattr__(self, name: str) -> object:
        return getattr(self._provider, name)


def _writer(
    turn: TurnView, aliases: Mapping[str, str], most_chars: int, costs: list[Usage | None]
) -> WriteSummary:
    """Return the function that has a model write a summary, through the same fallback as any other request.

    :param costs: receives the cost of each call.
    """
    left: list[None] = [None] * MAX_CALLS
    providers: dict[str, Provider] = {
        name: _LimitedProvider(provider, left)  # type: ignore[misc]
        for name, provider in turn.providers.items()
    }
    settings = turn.agent.settings
    most_tokens = min(most_chars, settings.max_tokens or most_chars)  # Chinese takes a token for a character

    async def write(rules: str, material: str) -> str:
        request = Request("", SystemPrompt(rules), (), max_tokens=most_tokens)
        ask = turn.model_call(request, _summary_models(turn, aliases), providers)
        async for event in ask((User((Text(material),)),), "auto"):
            if isinstance(event, Finished):
                costs.append(event.message.usage)
                return "" if event.message.stop_reason in ("error", "aborted") else event.message.text
        return ""

    return write


def has_summary_model(turn: TurnView, aliases: Mapping[str, str]) -> bool:
    """Return true if a real model is available: the offline rules would answer something else."""
    return any(model.provider != _OFFLINE for model in _summary_models(turn, aliases))


def _summary_models(turn: TurnView, aliases: Mapping[str, str]) -> Sequence[ModelRef]:
    chosen, models = turn.agent.section("compaction", CompactionSettings).model, turn.models
    if chosen:
        models = candidates(chosen, str(turn.models[0]), (), aliases)
    return tuple(model for model in models if model.provider != _OFFLINE) or models


def _summary_window(turn: TurnView, aliases: Mapping[str, str]) -> int:
    own = turn.agent.section("compaction", CompactionSettings).model
    return turn.window_of(_summary_models(turn, aliases)[0]) if own else turn.window_tokens
