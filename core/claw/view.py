"""What the requests of one turn show of the past: small enough for the model, whatever came together.

Before a request that would be too large, what matters is saved and the past is compacted. A service that still says "too
long" is met rung by rung: up to three compactions, short tool results, then the newest turns alone, cut until they fit.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import msgspec

from claw import abridging
from claw.compaction.budget import Budget, flush_is_due
from claw.compaction.cut import Costs, cut_point, fit, squeezed
from claw.compaction.digest import digest
from claw.errors import ProviderError
from claw.event import Notice
from claw.fallback import with_fallback
from claw.loop import Emit
from claw.provider import Ask, ModelEvent, Request, ToolSpec
from claw.pruning import Pruning, prune
from claw.record import SUMMARY, MemoryFlush, MessageRecord
from claw.session import Session
from claw.stage import Rooms, Stage, bunch_of
from claw.transcript import (
    CHARS_PER_TOKEN,
    Assistant,
    Image,
    Message,
    Text,
    ToolResult,
    Usage,
    User,
    limit_turns,
)
from claw.truncation import result_limit, share
from claw.words import say

PROMPT_SHARE = 0.8
"""Of the window, for instructions and past together when nothing is compacted; the rest is for the answer."""

MOST_COMPACTIONS = 3
"""For one request that a service refuses as too long (spec/runtime.md C11)."""

_MOST_CUTS = 5  # then a 200k window is down to 6k tokens: what does not fit that never will
_PATIENCE = 16  # messages more until a compaction that came to nothing is tried again
_TOO_LARGE = frozenset({"context_overflow", "request_too_large"})
_MAYBE_BLIND = frozenset({"bad_request", "request_too_large"})
"""How a service answers a picture to a model without eyes, and one that it cannot read, whatever its words."""
_SHORTENS = "the conversation has grown long: its older part is being summarised, which takes a moment"
_LEFT_OUT = "{count:older message is|older messages are} not shown to the model: there is no room for more"
_BLIND = "the model is asked again without the pictures: {why}"

Save = Callable[[Sequence[Message]], Awaitable[Usage | None]]
"""Has the agent save what matters, given the request so far; what that cost. It never raises."""


def models_of(
    stage: Stage,
    rooms: Rooms,
    tell: Callable[[str], Awaitable[None]],
    emit: Emit | None = None,
    apart: bool = False,
    may_say_nothing: Callable[[Sequence[Message]], bool] = lambda messages: True,
) -> Ask:
    """The models of a stage, in order, with its instructions and tools, whatever they are shown.

    :param tell: told in words that another one answers.
    :param emit: told of each wait for one that failed.
    :param may_say_nothing: whether an answer to these messages may be empty.
    :param apart: beside the conversation: nothing is waited for, and no key rests for what fails here.
    """
    settings = stage.agent.settings
    request = Request(
        model="", system=stage.system, messages=(), thinking=settings.thinking_default, max_tokens=settings.max_tokens,
        tools=tuple(ToolSpec(tool.name, tool.description, tool.parameters) for tool in stage.tools.values()),
    )  # fmt: skip
    providers = {name: brought.thing for name, brought in rooms.kit.providers.items()}
    bunch = bunch_of(stage, rooms)
    if apart:
        bunch = replace(bunch, keys=rooms.keys.apart(), wait_seconds=0.0)
    silence = rooms.yard.leeway.silence_seconds
    return with_fallback(stage.models, providers, request, tell, bunch, silence, emit, may_say_nothing)


class View:
    """The view of one turn. ``ask`` is an :class:`claw.provider.Ask` for the loop.

    :param ask: the model, whatever it is shown.
    :param at: where this turn begins in the messages that the loop will hand in.
    :param dressed: the messages as they are sent: with what the channel says of those of this turn.
    :param save: the memory flush; None when the agent may not write.
    :ivar said: what was made shorter, in words for the person.
    """

    def __init__(
        self, ask: Ask, stage: Stage, session: Session, rooms: Rooms, told: Emit, past: Sequence[Message], at: int,
        dressed: Callable[[Sequence[Message]], list[Message]], save: Save | None = None,
    ) -> None:  # fmt: skip
        self._model, self._stage, self._session, self._rooms, self._told = ask, stage, session, rooms, told
        self._dressed, self._save = dressed, save
        self._settings = stage.agent.settings
        self._budget = Budget.of(self._settings.compaction, stage.window_tokens)
        self._at = at
        self._from = at - len(limit_turns(past[:at], self._settings.history_limit))
        self._head: tuple[Message, ...] = ()
        if past and abridging.is_summary(past[0], session):
            self._head, self._from = (past[0],), max(self._from, 1)
        self._compactions = self._cuts = 0
        self._room = int(stage.window_tokens * PROMPT_SHARE) - len(stage.system.whole) // CHARS_PER_TOKEN
        self._sent = 0
        self._in_vain_at = -_PATIENCE
        self._is_first, self._told_left_out, self._is_blind = True, False, False
        self._left_out: tuple[int, Message | None] = (0, None)
        self._read: tuple[list[Message], list[int]] = ([], [])
        self._total = 0
        self.said: list[str] = []

    async def ask(self, messages: Sequence[Message], tool_choice: str) -> AsyncIterator[ModelEvent]:
        """One model call, with what is in its way cleared first."""
        shown = self._dressed(messages)
        costs = self._rooms.costs.of(shown)
        self._read, self._total = (shown, costs.each), costs.total
        await self._make_room(messages)
        while True:
            request, spoke = await self._request(), False
            request = _without_pictures(request) if self._is_blind else request
            stream: Any = self._model(request, tool_choice)
            try:
                async with aclosing(stream) as events:
                    async for event in events:
                        spoke = True
                        yield event
                return
            except ProviderError as refused:
                if not spoke and not self._is_blind and _is_of_pictures(refused) and _has_pictures(request):
                    self._is_blind = True
                    await self._told(Notice(say(_BLIND, why=refused.problem)))
                elif spoke or refused.reason not in _TOO_LARGE or not await self._smaller(messages):
                    raise

    async def _make_room(self, messages: Sequence[Message]) -> None:
        """Save and compact when it is time."""
        budget, past, flush = self._budget, self._session.past, self._settings.compaction.memory_flush
        tokens = self._tokens(messages)
        if self._is_first:
            self._prune_if_cold()
        if self._save and flush.enabled and budget.enabled:
            last = past.flush.compactions if past.flush else None
            due = flush_is_due(tokens, budget.flush_at, past.compactions, last)
            if due or (self._is_first and last != past.compactions and self._has_grown()):
                note_saved(self._session, await self._save(await self._request()))
        self._is_first = False
        tries = budget.is_over(tokens) and len(messages) - self._in_vain_at >= _PATIENCE
        saves = self._save if flush.enabled else None
        if tries and not await self._shorten(messages, tokens, budget.keep, saves):
            self._in_vain_at = len(messages)

    def _has_grown(self) -> bool:
        """Whether the file grew by so much since the last flush that what is in it is to be saved, full or not."""
        last = self._session.past.flush
        grown = self._session.size_bytes - (last.size_bytes if last else 0)
        return grown >= self._settings.compaction.memory_flush.force_flush_transcript_bytes

    async def _smaller(self, messages: Sequence[Message]) -> bool:
        """One rung down after "too long"; False below the last one. The service knows better than any estimate: what was
        sent is halved, whatever the window is said to be."""
        if self._budget.enabled and self._compactions < MOST_COMPACTIONS:
            self._compactions += 1
            real = max(self._tokens(messages), self._budget.window)
            if await self._shorten(messages, real, self._sent // 2):
                return True
            self._compactions = MOST_COMPACTIONS
        self._cuts += 1
        self._room = min(self._room, self._sent if self._cuts == 1 else self._sent // 2)
        return self._cuts <= _MOST_CUTS

    async def _shorten(
        self, messages: Sequence[Message], real_tokens: int, most_tokens: int, saves: Save | None = None
    ) -> bool:
        """Compact. At most ``most_tokens`` stay, by the estimate.

        :param saves: asked first when words would go that came after the last saving.
        """
        raw = [*self._head, *messages[self._from :]]
        costs = [*Costs(self._head).each, *self._read[1][self._from :]]
        density = abridging.density(real_tokens, sum(costs) + self._overhead)
        keep = min(int(self._budget.keep / density), most_tokens)
        head = len(self._head)
        plan = abridging.planned(raw, costs, self._session, keep, density, head)
        if plan is None:
            return False
        await self._told(Notice(say(_SHORTENS)))
        if saves and unsaved(self._session, plan.gone):
            note_saved(self._session, await saves(await self._request()))
        start = self._from + plan.first_kept - head
        asked = self._asked(start)
        total, kept = plan.tokens
        plan = replace(plan, tokens=(total, kept + Costs(asked).total))
        done = await abridging.written(plan, self._stage, self._rooms)
        if done is None:
            return False
        self._session.append_entry(done.record)
        self._from, self._head = start, (self._session.spoken[0], *asked)
        self.said.append(done.said)
        await self._told(Notice(done.said))
        return True

    def _asked(self, start: int) -> tuple[Message, ...]:
        """What this turn answers, when that stands before ``start``: it is never left to a summary alone."""
        asked = [message for message in self._read[0][self._at : start] if isinstance(message, User)]
        ends = asked if len(asked) < 3 else [asked[0], asked[-1]]
        return squeezed(ends, self._budget.window // 20 * len(ends))

    def _tokens(self, messages: Sequence[Message]) -> int:
        """How large the request would be: what the service said of the newest one, and an estimate of what came since."""
        each = self._read[1]
        if measured := self._session.past.measured:
            answer, tokens = measured
            for at in range(len(messages) - 1, self._from - 1, -1):
                if messages[at] is answer:
                    return tokens + sum(each[at + 1 :])
        return self._overhead + sum(each[self._from :]) + Costs(self._head).total

    @property
    def _overhead(self) -> int:
        """Instructions and tools, by the same estimate."""
        tools = (len(tool.description) + len(str(tool.parameters)) for tool in self._stage.tools.values())
        return (len(self._stage.system.whole) + sum(tools)) // CHARS_PER_TOKEN

    async def _request(self) -> tuple[Message, ...]:
        """The messages to send."""
        (shown, each), room, pruned = self._read, self._room, self._session.past.pruned
        total = self._total
        if self._from:
            total -= sum(each[: self._from])
            shown, each = shown[self._from :], each[self._from :]
        if pruned:
            shown = [pruned[id(message)][1] if id(message) in pruned else message for message in shown]
        if self._cuts:
            limit = result_limit(self._budget.window) // 4
            shown = [_with_short_results(message, limit) for message in shown]
        if pruned or self._cuts:
            made = Costs(shown)
            each, total = made.each, made.total
        before = Costs(self._head).total
        self._sent = before + total
        if self._sent <= room:  # as mostly: nothing of it is looked at one by one
            return (*self._head, *shown)
        view = fit(shown, each, room - before)
        start = view.left_out
        if self._cuts > 1 and view.tokens > room:  # the newest turn alone is too much
            start += cut_point(view.messages, each[start:], room // 2).first_kept
        if start and not self._told_left_out:
            self._told_left_out = True
            await self._told(Notice(say(_LEFT_OUT, count=start)))
        head = self._standing_for(shown[:start], room) if start else self._head
        whole = (*head, *shown[start:])
        whole = squeezed(whole, room) if self._cuts > 1 else whole
        self._sent = Costs(whole).total
        return whole

    def _standing_for(self, left_out: Sequence[Message], room_tokens: int) -> tuple[Message, ...]:
        """What stands for messages that are not shown and were not summarised: made without a model, in memory only."""
        count, stands = self._left_out
        if stands is None or count != len(left_out):
            before = self._session.past.summary
            most = min(self._budget.summary_chars, room_tokens * CHARS_PER_TOKEN // 5)
            text = digest(left_out, before.summary if before and self._head else "", most)
            stands = Assistant((Text(SUMMARY + text),))
            self._left_out = len(left_out), stands
        return (stands,)

    def _prune_if_cold(self) -> None:
        """Cut old tool results when the provider's cache has gone cold; what was cut once stays so, for the next one."""
        settings, answered = self._settings.context_pruning, None
        if settings.mode == "cache-ttl":
            answered = self._session.answered_at
        if answered is None or self._session.now - answered <= settings.ttl:
            return
        how = Pruning(
            settings.keep_last_assistants, settings.soft_trim_ratio, settings.hard_clear_ratio,
            settings.min_prunable_tool_chars, settings.soft_trim.max_chars, settings.soft_trim.head_chars,
            settings.soft_trim.tail_chars, settings.hard_clear.enabled, settings.hard_clear.placeholder,
            settings.tools.allow, settings.tools.deny,
        )  # fmt: skip
        shown = self._read[0][self._from :]
        for at, result in prune(shown, self._budget.window, how).items():
            self._session.past.pruned[id(shown[at])] = (shown[at], result)


def unsaved(session: Session, messages: Sequence[Message] | None = None) -> bool:
    """Whether a person said something since the last saving.

    :param messages: among these; None = in the whole of it.
    """
    those = None if messages is None else {id(message) for message in messages}
    for entry in reversed(session.past.entries):
        if isinstance(entry, MemoryFlush):
            return False
        said = entry.message if isinstance(entry, MessageRecord) else None
        if isinstance(said, User) and not said.kind and (those is None or id(said) in those):
            return True
    return False


def note_saved(session: Session, cost: Usage | None) -> None:
    """Write down that what matters of a conversation is saved until here."""
    mark = MemoryFlush(compactions=session.past.compactions, size_bytes=session.size_bytes, usage=cost)
    session.append_entry(mark)


def _is_of_pictures(refused: ProviderError) -> bool:
    return refused.reason in _MAYBE_BLIND or "image" in refused.problem.lower()


def _has_pictures(messages: Sequence[Message]) -> bool:
    return any(isinstance(block, Image) for message in messages for block in message.content)


def _without_pictures(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The same messages; a picture's line in the words of its message stays."""
    return tuple(_blinded(message) if _has_pictures((message,)) else message for message in messages)


def _blinded(message: Message) -> Message:
    words = tuple(block for block in message.content if not isinstance(block, Image))
    return msgspec.structs.replace(message, content=words or (Text("[a picture that is not shown]"),))


def _with_short_results(message: Message, limit: int) -> Message:
    if not isinstance(message, ToolResult) or len(message.text) <= limit:
        return message
    return msgspec.structs.replace(message, content=share(message.content, limit))
