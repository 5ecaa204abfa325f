"""Events that a turn emits while it runs. Channels and observers receive them in order; ``--json`` prints them."""

import dataclasses
from typing import Any

import msgspec

from claw.contracts.tool import ToolResult
from claw.contracts.transcript import Assistant, Message, ToolCall, ToolResultMessage, Usage


async def ignore_event(said: object) -> None:
    """Ignore an event: for a turn, or a model call, without listeners."""


class Event(msgspec.Struct, frozen=True, tag=True, tag_field="event", rename="camel"):
    """An event of a turn; in JSON the field ``event`` holds the name of its class."""


class TurnStarted(Event, frozen=True):
    """A turn has begun: its agent, session and model."""

    turn: str
    agent: str
    session_key: str
    model: str


class StepStarted(Event, frozen=True):
    """Model call ``number`` of this turn begins (from 1)."""

    number: int


class TextStreamed(Event, frozen=True):
    """A piece of the answer text."""

    text: str


class ThinkingStreamed(Event, frozen=True):
    """A piece of the thinking text."""

    text: str


class MessageRecorded(Event, frozen=True):
    """A message is complete and part of the transcript."""

    message: Message


class ToolBegan(Event, frozen=True):
    """A tool call starts to run."""

    call: ToolCall


class ToolProgress(Event, frozen=True):
    """A running tool reports its progress."""

    call_id: str
    text: str


class ToolEnded(Event, frozen=True):
    """A tool call has ended; in order of completion. ``MessageRecorded`` follows in call order."""

    call: ToolCall
    result: ToolResult


class StepEnded(Event, frozen=True):
    """One model call and its tool calls are done."""

    message: Assistant
    results: tuple[ToolResultMessage, ...]


class RunEnded(Event, frozen=True):
    """The run has ended: the model has nothing more to do, or may not go on.

    :param stop_reason: of the last answer: stop, length, error, aborted; or max_steps.
    """

    stop_reason: str


class AttemptFailed(Event, frozen=True):
    """A model call failed with this key; what comes next is another key, another model, or the end of the turn.

    :param key: name of the key. ``reason``: of ``ProviderError``; ``why`` the same in words.
    """

    model: str
    key: str
    reason: str
    why: str


class Retrying(Event, frozen=True):
    """A model call failed and is repeated after a pause.

    :param reason: of ``ProviderError``.
    :param seconds: the longest pause: a key that works again is used at once.
    """

    model: str
    reason: str
    seconds: float


class Notice(Event, frozen=True):
    """A notice for the person, shown once: a switch of model, a repair, a compaction."""

    text: str


class TurnEnded(Event, frozen=True):
    """A turn has ended.

    :param outcome: delivered, silent, failed or stopped; skipped = a scheduled job that a budget left out.
    :param text: the answer, or the notice of the failure.
    :param model: ``provider/model`` of the newest answer; empty when no model answered.
    :param usage: tokens of all model calls of the turn, summaries too, since this process began it; None when there was
        no call, or no plugin keeps accounts.
    :param cost_usd: their cost in US dollars; None when one of them has no known price.
    """

    turn: str
    outcome: str
    text: str
    model: str = ""
    usage: Usage | None = None
    cost_usd: float | None = None


def as_json(event: Event) -> dict[str, Any]:
    """Return the event as plain data: ``{"event": "ToolBegan", ...}``, for ``--json`` and logs.

    Keys are in camelCase, except in the arguments and the ``details`` of a tool, which are its own.
    """
    plain: dict[str, Any] = msgspec.to_builtins(event)
    if isinstance(event, ToolEnded):
        names = [field.name for field in dataclasses.fields(ToolResult)]
        plain["result"] = {_camel(name): plain["result"][name] for name in names}
    return plain


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))
