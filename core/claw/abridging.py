"""Making the past of a conversation shorter: before a request that would be too large, or when somebody asks for it.

Nothing is lost: the lines stay in the file, and one more, a ``Compaction``, says what is shown in their place. It is one
append, so a process that dies in the middle leaves the old or the new. No lock is held for others while a model writes.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from claw.compaction.budget import Budget
from claw.compaction.cut import cut_at, cut_point
from claw.compaction.digest import digest
from claw.compaction.instructions import extra
from claw.compaction.split import prune_history
from claw.compaction.summary import MOST_CALLS, Summary, Task, Write, summarise
from claw.envelope import neutral
from claw.errors import ProviderError
from claw.event import unheard
from claw.fallback import ModelRef, candidates, with_fallback
from claw.provider import Finished, ModelEvent, Provider, Request, SystemPrompt
from claw.record import SUMMARY, Compaction
from claw.session import Session
from claw.spending import for_purpose
from claw.stage import Rooms, Stage, bunch_of, window_of
from claw.transcript import CHARS_PER_TOKEN, Assistant, Message, Text, Usage, User, estimate_tokens
from claw.usage import together
from claw.wall import within
from claw.words import say

_SUMMARY_SHARE = 0.7
"""Of the tokens that go, a summary may take so many at most: they always fall."""

_RULES = "offline"  # the provider that is no model
_LEAST_GAIN_TOKENS = 100
_MOST_DENSITY = 4.0
_CROWDED = 1.2  # times the share of the window: more than so much of it is new (spec/runtime.md F4)


@dataclass(frozen=True)
class Plan:
    """What would go and what would stay.

    :param history: whole turns that go; ``prefix`` the beginning of the turn that is cut through.
    :param previous: the summary so far, which goes into the next.
    :param first_kept: index of the first message that stays, in the messages that were given; ``record_id`` its record.
    :param tokens: estimates of all messages and of those that stay.
    :param density: real tokens for one that is estimated.
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
    def gone(self) -> tuple[Message, ...]:
        """All messages that go."""
        return (*self.history, *self.prefix)


@dataclass(frozen=True)
class Shortened:
    """A compaction that is ready to be recorded, and what there is to say of it.

    :param first_kept: as in the plan. ``tokens``: estimates before and after.
    """

    record: Compaction
    first_kept: int
    tokens: tuple[int, int]

    @property
    def said(self) -> str:
        """In words for the person."""
        details, (before, after) = self.record.details, self.tokens
        facts = {
            "count": details["summarised"], "kept": details["kept"], "before": f"{before:,}", "after": f"{after:,}",
        }  # fmt: skip
        if details["by"] == "model":
            return say(
                "the conversation was made shorter: {count:older message|older messages} became a summary, about "
                "{before} → {after} tokens; the newest {kept} messages stay word for word", **facts,
            )  # fmt: skip
        return say(
            "the conversation was made shorter, but no model could summarise it: of {count:older message|older "
            "messages} the names, numbers and requests were kept, about {before} → {after} tokens; the newest {kept} "
            "messages stay word for word", **facts,
        )  # fmt: skip


def is_summary(message: Message, session: Session) -> bool:
    """Whether this message is what stands for the compacted part of the past."""
    return (
        session.past.summary is not None
        and isinstance(message, Assistant)
        and message.text.startswith(SUMMARY)
    )


def planned(
    messages: Sequence[Message],
    costs: Sequence[int],
    session: Session,
    keep_tokens: int,
    density: float = 1.0,
    head: int = 0,
) -> Plan | None:
    """Where to cut; None when nothing can go.

    :param messages: as they stand in the session, the summary so far first when there is one; ``costs`` their tokens.
    :param keep_tokens: of the newest part, by the estimate.
    :param head: so many at the beginning only stand for what went before; they go again, whatever is cut.
    """
    at = int(bool(messages) and is_summary(messages[0], session))
    body, each = messages[at:], costs[at:]
    cut = cut_point(body, each, keep_tokens)
    places = [
        place for place in range(max(1, head - at), len(body)) if isinstance(body[place], User | Assistant)
    ]
    if cut.first_kept == 0 and sum(each) > keep_tokens and places:
        cut = cut_at(body, places[-1])  # what came last is larger than all that should stay
    if cut.first_kept == 0:
        return None
    known = (place for place in places if place >= cut.first_kept and session.id_of(body[place]))
    first = next(known, 0)
    if not first:
        return None
    cut = cut_at(body, first)
    start = cut.turn_start if cut.splits_a_turn else cut.first_kept
    summary = session.past.summary
    return Plan(
        tuple(body[:start]), tuple(body[start : cut.first_kept]), summary.summary if summary and at else "",
        cut.first_kept + at, session.id_of(body[first]), len(body) - cut.first_kept,
        (sum(costs), sum(each[cut.first_kept :])), density,
    )  # fmt: skip


async def written(plan: Plan, stage: Stage, rooms: Rooms, focus: str = "") -> Shortened | None:
    """Have the part that goes summarised; None when that would gain nothing, or (safeguard) when no model could.

    It ends within ``compaction.timeoutSeconds``, whatever the model does.

    :param focus: what matters to whoever asked for it.
    """
    settings = stage.agent.settings.compaction
    budget = Budget.of(settings, stage.window_tokens)
    total, kept = plan.tokens
    if total - kept < _LEAST_GAIN_TOKENS:
        return None
    most = min(budget.summary_chars, int((total - kept) * _SUMMARY_SHARE) * CHARS_PER_TOKEN)
    wanted = "\n".join(filter(None, (settings.custom_instructions, focus)))
    task = Task(
        plan.history, plan.prefix, plan.previous, _writing_window(stage, rooms), most,
        extra(settings.identifier_policy, settings.identifier_instructions, wanted), plan.density,
    )  # fmt: skip
    crowded = kept * plan.density > stage.window_tokens * settings.max_history_share * _CROWDED
    drops = settings.mode == "safeguard" and crowded
    summary, costs = None, list[Usage | None]()
    if can_write(stage, rooms):
        writing = _summarised(task, _writer(stage, rooms, most, costs), settings.max_history_share, drops)
        with suppress(TimeoutError):
            summary = await within(settings.timeout_seconds, for_purpose("summary", writing))
    if settings.mode == "safeguard" and not (summary and summary.written):
        return None
    summary = summary or Summary(digest(plan.gone, plan.previous, most), 0, 0)
    text = neutral(summary.text)
    after = estimate_tokens(Assistant((Text(SUMMARY + text),))) + kept
    if not text.strip() or after >= total:
        return None
    details = {
        "by": "model" if summary.written else "cut", "calls": summary.calls,
        "summarised": len(plan.gone), "kept": plan.kept, **({"focus": focus} if focus else {}),
    }  # fmt: skip
    before = int(total * plan.density)
    record = Compaction(
        summary=text,
        first_kept_entry_id=plan.record_id,
        tokens_before=before,
        details=details,
        usage=together(costs),
    )
    return Shortened(record, plan.first_kept, (before, int(after * plan.density)))


async def compact(stage: Stage, rooms: Rooms, focus: str = "") -> Shortened | None:
    """Compact a conversation because somebody asked: ``/compact``, ``claw sessions compact``.

    A turn may run beside it: the session is let go of while the model writes. At most half of it stays word for word.

    :returns: None when there is nothing to make shorter, or the conversation became another one meanwhile.
    :raises BusyError: another process holds the session.
    """
    key, agent = stage.route.session_key, stage.route.agent_id
    session = await rooms.sessions.open(key, agent)
    try:
        messages, id, standing = session.messages, session.id, session.past.compactions
        costs = [estimate_tokens(message) for message in messages]
        keep = min(Budget.of(stage.agent.settings.compaction, stage.window_tokens).keep, sum(costs) // 2)
        plan = planned(messages, costs, session, keep)
    finally:
        session.release()
    done = await written(plan, stage, rooms, focus) if plan else None
    if done is None:
        return None
    session = await rooms.sessions.open(key, agent)
    try:
        if session.id != id or session.past.compactions != standing:
            return None
        session.append_entry(done.record)
        await session.flush()
    finally:
        session.release()
    return done


async def _summarised(task: Task, write: Write, share: float, drops: bool) -> Summary:
    """The summary; when what stays crowds the window already, the oldest part is summarised first and seeds the rest."""
    calls = written = 0
    if drops:
        pruned = prune_history(task.history, task.window_tokens, share)
        if pruned.chunks:
            oldest = replace(task, history=pruned.dropped, prefix=())
            first = await summarise(oldest, write, asyncio.sleep, MOST_CALLS - 1)
            calls, written = first.calls, first.written
            task = replace(task, history=pruned.kept, previous=first.text)
    last = await summarise(task, write, asyncio.sleep, MOST_CALLS - calls)
    return Summary(last.text, calls + last.calls, written + last.written)


def density(real_tokens: int, estimated_tokens: int) -> float:
    """How many tokens stand behind one that is estimated: 1 for English, up to 4 for Chinese."""
    return min(_MOST_DENSITY, max(1.0, real_tokens / max(1, estimated_tokens)))


class _Counted:
    """A provider that is asked so often at most, over all of its kind: keys and spare models count too."""

    def __init__(self, provider: Provider, left: list[None]) -> None:
        self.name, self._provider, self._left = provider.name, provider, left

    def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        if not self._left:
            raise ProviderError("a summary took {count} model calls, and no more are made", count=MOST_CALLS)
        self._left.pop()
        return self._provider.stream(request)

    def __getattr__(self, name: str) -> object:
        return getattr(self._provider, name)


def _writer(stage: Stage, rooms: Rooms, most_chars: int, costs: list[Usage | None]) -> Write:
    """The model that writes summaries, through the same fallback as any other request.

    :param costs: what each call cost is added to it.
    """
    left: list[None] = [None] * MOST_CALLS
    providers: dict[str, Provider] = {
        name: _Counted(brought.thing, left)  # type: ignore[misc]
        for name, brought in rooms.kit.providers.items()
    }
    settings = stage.agent.settings
    most_tokens = min(most_chars, settings.max_tokens or most_chars)  # Chinese takes a token for a character

    async def write(rules: str, material: str) -> str:
        request = Request("", SystemPrompt(rules), (), max_tokens=most_tokens)
        # A summary that cannot be had is no reason to let a key rest that the conversation needs right after.
        apart = replace(bunch_of(stage, rooms), keys=rooms.keys.apart(), wait_seconds=0.0)
        ask = with_fallback(
            _writing_models(stage, rooms),
            providers,
            request,
            unheard,
            apart,
            rooms.yard.leeway.silence_seconds,
        )
        async for event in ask((User((Text(material),)),), "auto"):
            if isinstance(event, Finished):
                costs.append(event.message.usage)
                return "" if event.message.stop_reason in ("error", "aborted") else event.message.text
        return ""

    return write


def can_write(stage: Stage, rooms: Rooms) -> bool:
    """Whether a real model is there for this: the offline rules would answer something else."""
    return any(model.provider != _RULES for model in _writing_models(stage, rooms))


def _writing_models(stage: Stage, rooms: Rooms) -> tuple[ModelRef, ...]:
    chosen = stage.agent.settings.compaction.model
    models = stage.models
    if chosen:
        models = candidates(chosen, str(stage.models[0]), (), rooms.config.settings.models.aliases)
    return tuple(model for model in models if model.provider != _RULES) or models


def _writing_window(stage: Stage, rooms: Rooms) -> int:
    own = stage.agent.settings.compaction.model
    return window_of(_writing_models(stage, rooms)[0], rooms) if own else stage.window_tokens
