"""The pacer of one bot: calls that name a chat wait here until the limits allow them, in fair order between the chats."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from claw import DeliveryError
from claw.runtime import SYSTEM_CLOCK, Clock

from claw_telegram.call_budget import BOT, CallBudget, CallKind, CountedCall

LONGEST_WAIT_SECONDS: Mapping[CallKind, float] = {"post": 0.5, "edit": 2.0, "sign": 5.0}
"""Longest wait inside a call that was not allowed beforehand; after it the caller is asked to come again.

An answer in many messages is one call of the gateway, which has a time limit: so its posts do not wait one after another.
"""
_SOONEST_SECONDS = 0.1
_ALLOWED_SECONDS = BOT.seconds  # in which a call that was allowed beforehand is made: it is counted so long
_SIGNS = ("sendChatAction", "sendMessageDraft")
_POSTS, _EDITS, _OTHERS = ("send", "forward", "copy"), ("edit",), ("delete", "setMessageReaction")


def kind_of(method: str) -> CallKind | None:
    """Return the kind of a method as the limits count it; None when they do not."""
    if method in _SIGNS or method.startswith(_OTHERS):
        return "sign"
    if method.startswith(_POSTS):
        return "post"
    return "edit" if method.startswith(_EDITS) else None


def chat_of(params: Mapping[str, Any]) -> str:
    """Return the chat that the parameters of a call name; empty when they name none."""
    return str(params.get("chat_id") or "")


class _Waiting:
    """A call that waits; ``allowed`` is set with its result."""

    def __init__(self, kind: CallKind) -> None:
        self.kind = kind
        self.allowed: asyncio.Future[CountedCall] = asyncio.get_running_loop().create_future()


class Pacer:
    """The calls of one bot in time."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock, self._budget = clock, CallBudget()
        self._waiting: dict[str, deque[_Waiting]] = {}
        self._allowed: dict[str, CountedCall] = {}
        self._timer: asyncio.TimerHandle | None = None

    def has_room(self, chat: str, kind: CallKind) -> bool:
        """Return true if a call that may be skipped should be made now."""
        now = self._clock.monotonic()
        return chat not in self._waiting and self._budget.wait(chat, kind, now, optional=True) <= 0

    async def wait_for_room(self, chat: str, kind: CallKind) -> None:
        """Wait until a call is allowed that leaves a part of each limit to calls which must not be skipped."""
        while not self.has_room(chat, kind):
            wait = self._budget.wait(chat, kind, self._clock.monotonic(), optional=True)
            await asyncio.sleep(max(_SOONEST_SECONDS, wait))

    async def wait_for_post(self, chat: str) -> None:
        """Wait, however long it takes, until a message to this chat is allowed; the next call there goes out at once."""
        self._allowed[chat] = self._allowed_before(chat) or await self._admit(chat, "post")

    @asynccontextmanager
    async def call(self, method: str, params: Mapping[str, Any]) -> AsyncIterator[None]:
        """Wait until this call is allowed; it is over with the block.

        :raises DeliveryError: the wait would take too long; the error says when to try again.
        """
        kind, chat = kind_of(method), chat_of(params)
        if kind is None or not chat:
            yield
            return
        call = self._allowed_before(chat) or await self._admit_soon(chat, kind)
        if call is None:
            wait = self._budget.wait(chat, kind, self._clock.monotonic())
            raise DeliveryError(
                "Telegram's limits of calls are used up: {method} waits",
                method=method,
                retry_after_seconds=max(_SOONEST_SECONDS, wait),
            )
        call.start()
        try:
            yield
        finally:
            call.end(self._clock.monotonic())

    def record_refusal(self, params: Mapping[str, Any], seconds: float) -> None:
        """Obey a 429."""
        if chat := chat_of(params):
            self._budget.record_refusal(chat, seconds, self._clock.monotonic())
            self._allowed.pop(chat, None)

    def _allowed_before(self, chat: str) -> CountedCall | None:
        """Take the call to this chat that was allowed just now and is not made yet."""
        call = self._allowed.pop(chat, None)
        is_counted = call and call.at is not None and self._clock.monotonic() - call.at < _ALLOWED_SECONDS
        return call if is_counted else None

    async def _admit_soon(self, chat: str, kind: CallKind) -> CountedCall | None:
        """Wait as long as a call may; return None when that is not enough."""
        longest_wait = LONGEST_WAIT_SECONDS[kind]
        if self._budget.wait(chat, kind, self._clock.monotonic()) <= longest_wait:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(longest_wait):
                    return await self._admit(chat, kind)
        return None

    async def _admit(self, chat: str, kind: CallKind) -> CountedCall:
        waiting = _Waiting(kind)
        self._waiting.setdefault(chat, deque()).append(waiting)
        self._allow_next()
        try:
            return await waiting.allowed
        finally:
            self._forget(chat, waiting)

    def _allow_next(self) -> None:
        """Allow every waiting call that is within the limits now; come again when the next one is."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        while self._waiting:
            now = self._clock.monotonic()
            heads = {chat: calls[0].kind for chat, calls in self._waiting.items()}
            chat, wait = self._budget.next_chat(heads, now)
            if chat is None:
                self._timer = asyncio.get_running_loop().call_later(wait, self._allow_next)
                return
            allowed = self._waiting[chat][0]
            self._forget(chat, allowed)
            if not allowed.allowed.done():  # else it was cancelled
                allowed.allowed.set_result(self._budget.count(chat, allowed.kind, now))

    def _forget(self, chat: str, waiting: _Waiting) -> None:
        calls = self._waiting.get(chat, deque())
        if waiting in calls:
            calls.remove(waiting)
        if not calls:
            self._waiting.pop(chat, None)
