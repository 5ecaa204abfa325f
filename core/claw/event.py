"""What a turn tells while it runs. Channels and observers hear these, in order; ``--json`` prints them."""

from typing import Any

import msgspec

from claw.tool import Result
from claw.transcript import Assistant, Message, ToolCall, ToolResult


async def unheard(said: object) -> None:
    """For a turn, or a model, that nobody listens to."""


class Event(msgspec.Struct, frozen=True, tag=True, tag_field="event"):
    """Something that a turn tells; as JSON the name of its kind stands under ``event``."""


class TurnStarted(Event, frozen=True):
    """A message was taken up: by which agent, in which session, with which model."""

    turn: str
    agent: str
    session_key: str
    model: str


class StepStarted(Event, frozen=True):
    """The model is asked, for the ``number``-th time in this turn (from 1)."""

    number: int


class TextPiece(Event, frozen=True):
    """More words of the answer."""

    text: str


class ThinkingPiece(Event, frozen=True):
    """More of what the model thinks."""

    text: str


class Said(Event, frozen=True):
    """A message is complete and belongs to the transcript now."""

    message: Message


class ToolBegan(Event, frozen=True):
    """A tool call starts to run."""

    call: ToolCall


class ToolProgress(Event, frozen=True):
    """A running tool says how far it is."""

    call_id: str
    text: str


class ToolEnded(Event, frozen=True):
    """A tool call is over, in order of completion; ``Said`` follows in call order."""

    call: ToolCall
    result: Result


class StepEnded(Event, frozen=True):
    """One model call and its tools are done."""

    message: Assistant
    results: tuple[ToolResult, ...]


class RunEnded(Event, frozen=True):
    """The model has nothing more to do, or may not go on.

    :param stop_reason: of the last answer: stop, length, error, aborted; or max_steps.
    """

    stop_reason: str


class AttemptFailed(Event, frozen=True):
    """A model call failed with this key; what comes next is another key, another model, or the end of the turn.

    :param key: its name. ``reason``: of ``ProviderError``; ``why`` the same in words.
    """

    model: str
    key: str
    reason: str
    why: str


class Retrying(Event, frozen=True):
    """A model call failed and is made again after a while.

    :param reason: of ``ProviderError``.
    :param seconds: until then, at most: a key that is well again is used at once.
    """

    model: str
    reason: str
    seconds: float


class Notice(Event, frozen=True):
    """Something the person should know, once: a switch of model, a repair, a compaction."""

    text: str


class TurnEnded(Event, frozen=True):
    """The turn is over.

    :param outcome: delivered, silent, failed or stopped; skipped = a job of the clock that a budget left out.
    :param text: the answer, or the notice of the failure.
    """

    turn: str
    outcome: str
    text: str


def as_json(event: Event) -> dict[str, Any]:
    """The event as plain data: ``{"event": "ToolBegan", ...}``, for ``--json`` and logs."""
    plain: dict[str, Any] = msgspec.to_builtins(event)
    return plain
