"""A past that a service refuses again and again: taken up from its last good point, so that no conversation is stuck.

spec/reliability-security.md, P42. The lines stay in the session's file.
"""

import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from claw.compaction.digest import digest
from claw.errors import ProviderError
from claw.event import Notice
from claw.loop import Emit
from claw.provider import Ask, ModelEvent
from claw.record import LeftOut
from claw.session import Session
from claw.transcript import Assistant, Message, Thinking, ToolCall, ToolResult, User
from claw.words import say

_OF_THE_MESSAGES = (
    r"tool_(?:use|result|calls?)\b|tool[ _]call[ _]id|number of function calls|function (?:call|response)s?\b.{0,30}\b"
    r"(?:turn|part)|\bmessages?[.\[]\s?\d|\bmessages? with\b|\broles?\b|\bsignature|\bthinking\b.{0,30}\bblock"
)
"""As Anthropic, OpenAI, Google and Mistral speak of messages that do not fit together."""
_OF_SETTINGS = (
    r"\bmax_\w*tokens|budget_tokens|temperature|top_p|tool_choice|\btools[.\[]|reasoning_effort|\bimage"
)
_NOTE_CHARS = 2000
_LEFT_OUT = (
    "the service refused this conversation twice: it goes on from the last good point, and {count:newer message of it "
    "is|newer messages of it are} no longer shown to the model; they stay in the session's file"
)
_AGAIN = "say it again: what was refused is then left out; or begin a new conversation: /new"
_STUCK = (
    "the same refusal came {count} times, and leaving things out did not help: begin a new conversation: /new"
)


def said_of_messages(refused: ProviderError) -> str:
    """What a service said of the messages, when that is what it refused; empty when it was something else."""
    for why in refused.failures or (refused,):
        text = why.problem
        of_messages = re.search(_OF_THE_MESSAGES, text, re.IGNORECASE)
        if why.reason == "bad_request" and of_messages and not re.search(_OF_SETTINGS, text, re.IGNORECASE):
            return text
    return ""


def good_point(messages: Sequence[Message], at: int, why: str) -> int:
    """How many of the messages were fine, as far as can be known: what comes behind them is left out.

    That is what stands before the turn whose call is named; else before the last call of this turn; else before the
    newest turn with calls or thoughts; else up to the last answer.

    :param at: where the turn begins that was refused. ``why``: the service's words.
    """
    named = next((place for place, message in enumerate(messages) if _is_named(message, why)), None)
    if named is not None:
        return named if named >= at else _turn_of(messages, named)
    asked = [place for place in range(at, len(messages)) if isinstance(messages[place], Assistant)]
    if asked:
        return asked[-1]
    frail = next((place for place in range(at - 1, -1, -1) if _is_frail(messages[place])), None)
    if frail is not None:
        return _turn_of(messages, frail)
    answered = (place + 1 for place in range(at - 1, -1, -1) if isinstance(messages[place], Assistant))
    return next(answered, 0)


def _is_named(message: Message, why: str) -> bool:
    calls = message.tool_calls if isinstance(message, Assistant) else ()
    ids = (message.call_id,) if isinstance(message, ToolResult) else tuple(call.id for call in calls)
    return any(id and re.search(rf"(?<![\w-]){re.escape(id)}(?![\w-])", why) for id in ids)


def _is_frail(message: Message) -> bool:
    """Whether it must fit to others, or to what its maker remembers; words alone fit anywhere."""
    return isinstance(message, ToolResult) or any(
        isinstance(block, ToolCall | Thinking) for block in message.content
    )


def _turn_of(messages: Sequence[Message], place: int) -> int:
    """Where the turn of a message begins: at the person's word."""
    begins = (at for at in range(place, -1, -1) if isinstance(said := messages[at], User) and not said.kind)
    return next(begins, place)


@dataclass
class Rebuilding:
    """The requests of one turn; ``ask`` is an :class:`claw.provider.Ask` for the loop.

    :param seen: a way to ask over this past, in which the turn begins at this place.
    :param said: what was left out, in words for the person.
    :param at: where the turn begins in ``past``; what the loop hands in from ``after`` on stands behind ``past``.
    """

    seen: Callable[[Sequence[Message], int], Ask]
    session: Session
    told: Emit
    said: list[str]
    past: Sequence[Message]
    at: int
    after: int = -1

    def __post_init__(self) -> None:
        self._model = self.seen(self.past, self.at)

    async def ask(self, messages: Sequence[Message], tool_choice: str) -> AsyncIterator[ModelEvent]:
        """One model call. What is refused for its messages the second time is asked for once more without the newest."""
        while True:
            whole, spoke = messages if self.after < 0 else [*self.past, *messages[self.after :]], False
            stream: Any = self._model(whole, tool_choice)
            try:
                async with aclosing(stream) as events:
                    async for event in events:
                        if not spoke:
                            spoke, self.session.past.refused = True, ("", 0)
                        yield event
                return
            except ProviderError as refused:
                if spoke or not (why := said_of_messages(refused)):
                    raise
                await self._leaves_out(whole, why, refused)
                self.after = len(messages)

    async def _leaves_out(self, messages: Sequence[Message], why: str, refused: ProviderError) -> None:
        """Take the past up from its last good point.

        :raises ProviderError: it is the first time, or it did not help.
        """
        past = self.session.past
        known, times = past.refused
        mark = re.sub(r"\d+", "#", why)  # places in the list move as it grows
        times = times + 1 if known == mark else 1
        past.refused = (mark, times)
        if times == 1:
            raise _told(refused, _AGAIN)
        good = good_point(messages, self.at, why)
        left = [
            m for at, m in enumerate(messages) if at >= good and (at < self.at or not isinstance(m, User))
        ]
        if times > 2 or not left:
            raise _told(refused, _STUCK, count=times)
        users = [m for at, m in enumerate(messages) if at >= max(good, self.at) and isinstance(m, User)]
        last = next((id for m in reversed(messages[:good]) if (id := self.session.id_of(m))), "")
        self.session.append_entry(LeftOut(last_kept_entry_id=last, summary=digest(left, "", _NOTE_CHARS)))
        kept = self.session.messages
        for message in users:
            self.session.append(message)
        self.past = (*kept, *users)
        begins = messages[self.at] if self.at < len(messages) else None
        self.at = next((at for at, message in enumerate(self.past) if message is begins), len(kept))
        self._model = self.seen(self.past, self.at)
        self.said.append(say(_LEFT_OUT, count=len(left)))
        await self.told(Notice(self.said[-1]))


def _told(refused: ProviderError, fix: str, count: int = 1) -> ProviderError:
    return ProviderError(
        "{why}", fix=fix, reason="bad_request", status=refused.status, where=refused.where, why=refused.problem,
        count=count,
    )  # fmt: skip
