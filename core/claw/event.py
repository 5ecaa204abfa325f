"""What a turn tells while it runs. Channels and observers hear these, in order; ``--json`` prints them."""

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import msgspec

from claw.tool import Result
from claw.transcript import Assistant, Message, ToolCall, ToolResult


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A message was taken up: by which agent, in which session, with which model."""

    turn: str
    agent: str
    session_key: str
    model: str


@dataclass(frozen=True, slots=True)
class StepStarted:
    """The model is asked, for the ``number``-th time in this turn (from 1)."""

    number: int


@dataclass(frozen=True, slots=True)
class TextPiece:
    """More words of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingPiece:
    """More of what the model thinks."""

    text: str


@dataclass(frozen=True, slots=True)
class Said:
    """A message is complete and belongs to the transcript now."""

    message: Message


@dataclass(frozen=True, slots=True)
class ToolBegan:
    """A tool call starts to run."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """A running tool says how far it is."""

    call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolEnded:
    """A tool call is over, in order of completion; ``Said`` follows in call order."""

    call: ToolCall
    result: Result


@dataclass(frozen=True, slots=True)
class StepEnded:
    """One model call and its tools are done."""

    message: Assistant
    results: tuple[ToolResult, ...]


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The model has nothing more to do, or may not go on.

    :param stop_reason: of the last answer: stop, length, error, aborted; or max_steps.
    """

    stop_reason: str


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the person should know, once: a switch of model, a repair, a compaction."""

    text: str


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The turn is over.

    :param outcome: delivered, silent, failed or stopped.
    :param text: the answer, or the notice of the failure.
    """

    turn: str
    outcome: str
    text: str


Event = (
    TurnStarted
    | StepStarted
    | TextPiece
    | ThinkingPiece
    | Said
    | ToolBegan
    | ToolProgress
    | ToolEnded
    | StepEnded
    | RunEnded
    | Notice
    | TurnEnded
)


def as_json(event: Event) -> dict[str, Any]:
    """The event as plain data: ``{"event": "ToolBegan", ...}``, for ``--json`` and logs."""
    body = {item.name: _plain(getattr(event, item.name)) for item in fields(event)}
    return {"event": type(event).__name__, **body}


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return msgspec.to_builtins(value)
