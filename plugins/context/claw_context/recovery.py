"""Recovery of a session whose history a service refuses repeatedly: continue from the last good point.

spec/reliability-security.md, P42. The lines stay in the session's file.
"""

import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from claw import (
    Assistant,
    Message,
    ModelCall,
    ModelEvent,
    ProviderError,
    Thinking,
    ToolCall,
    ToolResultMessage,
    TurnView,
    User,
    t,
)
from claw.runtime import BaseSession, Omission

from claw_context.digest import digest
from claw_context.session_figures import figures_of

_OF_MESSAGES = (
    r"tool_(?:use|result|calls?)\b|tool[ _]call[ _]id|number of function calls|function (?:call|response)s?\b.{0,30}\b"
    r"(?:turn|part)|\bmessages?[.\[]\s?\d|\bmessages? with\b|\broles?\b|\bsignature|\bthinking\b.{0,30}\bblock"
)
"""Wording of Anthropic, OpenAI, Google and Mistral for messages that do not fit together."""
_OF_SETTINGS = (
    r"\bmax_\w*tokens|budget_tokens|temperature|top_p|tool_choice|\btools[.\[]|reasoning_effort|\bimage"
)
_DIGEST_CHARS = 2000
_LEFT_OUT = (
    "the service rejected this conversation twice: it continues from the last accepted message, "
    "and {count:newer message is|newer messages are} no longer sent to the model; they stay in "
    "the session file"
)
_FIX_FIRST_TIME = "send it again: the rejected part is then left out; or start a new conversation: /new"
_FIX_NO_HELP = (
    "the service rejected it {count} times, and leaving parts out did not help. Start a new "
    "conversation: /new"
)


def message_refusal(refused: ProviderError) -> str:
    """Return the service's error text if it refused the messages; empty when it refused something else."""
    for why in refused.failures or (refused,):
        text = why.problem
        of_messages = re.search(_OF_MESSAGES, text, re.IGNORECASE)
        if why.reason == "bad_request" and of_messages and not re.search(_OF_SETTINGS, text, re.IGNORECASE):
            return text
    return ""


def last_good_index(messages: Sequence[Message], at: int, why: str) -> int:
    """Return how many of the messages were fine, as far as can be known; those behind them are left out.

    That is: those before the turn whose call the error names; else before the last answer of this turn; else
    before the newest turn with tool calls or thinking; else up to the last answer.

    :param at: index of the first message of the refused turn.
    :param why: the service's error text.
    """
    named = next((place for place, message in enumerate(messages) if _is_named(message, why)), None)
    if named is not None:
        return named if named >= at else _turn_start(messages, named)
    asked = [place for place in range(at, len(messages)) if isinstance(messages[place], Assistant)]
    if asked:
        return asked[-1]
    dependent = next((place for place in range(at - 1, -1, -1) if _is_dependent(messages[place])), None)
    if dependent is not None:
        return _turn_start(messages, dependent)
    answered = (place + 1 for place in range(at - 1, -1, -1) if isinstance(messages[place], Assistant))
    return next(answered, 0)


def _is_named(message: Message, why: str) -> bool:
    calls = message.tool_calls if isinstance(message, Assistant) else ()
    ids = (message.call_id,) if isinstance(message, ToolResultMessage) else tuple(call.id for call in calls)
    return any(id and re.search(rf"(?<![\w-]){re.escape(id)}(?![\w-])", why) for id in ids)


def _is_dependent(message: Message) -> bool:
    """Return true if the message must match other messages or state of its provider; plain text fits
    anywhere.
    """
    return isinstance(message, ToolResultMessage) or any(
        isinstance(block, ToolCall | Thinking) for block in message.content
    )


def _turn_start(messages: Sequence[Message], place: int) -> int:
    """Return the index of the user message that begins the turn of a message."""
    begins = (at for at in range(place, -1, -1) if isinstance(said := messages[at], User) and not said.kind)
    return next(begins, place)


@dataclass
class Recovery:
    """Recovery for the requests of one turn; ``ask`` is a :class:`claw.ModelCall`.

    :param make_call: makes a call for a history in which the turn begins at the given index.
    :ivar at: index of the turn's first message in ``past``. Messages of the loop from ``tail_start`` on follow
        ``past``.
    """

    make_call: Callable[[Sequence[Message], int], ModelCall]
    turn: TurnView

    def __post_init__(self) -> None:
        self.session: BaseSession = self.turn.session
        self.past, self.at, self.tail_start = self.turn.past, self.turn.start, -1
        self._model = self.make_call(self.past, self.at)

    async def ask(self, messages: Sequence[Message], tool_choice: str) -> AsyncIterator[ModelEvent]:
        """Call the model once. If the same messages are refused a second time, retry once without the newest
        of them.
        """
        while True:
            whole, began = (
                messages if self.tail_start < 0 else [*self.past, *messages[self.tail_start :]],
                False,
            )
            stream: Any = self._model(whole, tool_choice)
            try:
                async with aclosing(stream) as events:
                    async for event in events:
                        if not began:
                            began = True
                            figures_of(self.session).last_refusal = ("", 0)
                        yield event
                return
            except ProviderError as refused:
                if began or not (why := message_refusal(refused)):
                    raise
                await self._drop_refused(whole, why, refused)
                self.tail_start = len(messages)

    async def _drop_refused(self, messages: Sequence[Message], why: str, refused: ProviderError) -> None:
        """Cut the history back to its last good point.

        :raises ProviderError: it is the first refusal, or leaving messages out did not help.
        """
        past = figures_of(self.session)
        known, times = past.last_refusal
        mark = re.sub(r"\d+", "#", why)  # indexes in the list change as it grows
        times = times + 1 if known == mark else 1
        past.last_refusal = (mark, times)
        if times == 1:
            raise _error(refused, _FIX_FIRST_TIME)
        good = last_good_index(messages, self.at, why)
        left = [
            m for at, m in enumerate(messages) if at >= good and (at < self.at or not isinstance(m, User))
        ]
        if times > 2 or not left:
            raise _error(refused, _FIX_NO_HELP, count=times)
        users = [m for at, m in enumerate(messages) if at >= max(good, self.at) and isinstance(m, User)]
        last = next((id for m in reversed(messages[:good]) if (id := self.session.id_of(m))), "")
        self.session.append_entry(Omission(last_kept_entry_id=last, summary=digest(left, "", _DIGEST_CHARS)))
        kept = self.session.messages
        for message in users:
            self.session.append(message)
        self.past = (*kept, *users)
        begins = messages[self.at] if self.at < len(messages) else None
        self.at = next((at for at, message in enumerate(self.past) if message is begins), len(kept))
        self._model = self.make_call(self.past, self.at)
        await self.turn.notice(t(_LEFT_OUT, count=len(left)))


def _error(refused: ProviderError, fix: str, count: int = 1) -> ProviderError:
    return ProviderError(
        "{why}", fix=fix, reason="bad_request", status=refused.status, where=refused.where, why=refused.problem,
        count=count,
    )  # fmt: skip
