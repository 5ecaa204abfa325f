"""Records of one run. The judge reads these and nothing else."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal

KINDS = ("plain", "long", "once", "idempotent", "undeclared", "longest", "file")
"""Kinds of questions: a short answer, an answer of two or of many messages, one after a call of that tool, or one with a
file."""


@dataclass(frozen=True)
class Asked:
    """A message that a person sent to the agent.

    :ivar question: its id in the whole run, ``CHAT.NUMBER``.
    :ivar position: order among all messages of the chat.
    :ivar taken: the platform will not deliver it again.
    :ivar probe: it was sent after all faults had ended.
    """

    question: str
    channel: str
    chat: str
    kind: str
    position: int
    taken: bool = True
    probe: bool = False


@dataclass(frozen=True)
class Visible:
    """A message of the agent that is in a chat at the end; the name of a file is in its text.

    :ivar position: order among all messages of the chat.
    """

    channel: str
    chat: str
    position: int
    text: str


@dataclass(frozen=True)
class Attempt:
    """One HTTP request of a caller and its end.

    :ivar status: of the response; 0 = none came.
    :ivar text: content of a completed 200, or the error.
    :ivar complete: the response came whole.
    """

    status: int
    text: str
    complete: bool


@dataclass(frozen=True)
class Call:
    """An HTTP call of a program, with its repetitions.

    :ivar gave_up: the caller stopped repeating without an answer.
    """

    question: str
    user: str
    kind: str
    attempts: tuple[Attempt, ...] = ()
    gave_up: bool = False
    probe: bool = False


@dataclass(frozen=True)
class Effect:
    """One execution of a tool."""

    tool: str
    question: str


@dataclass(frozen=True)
class History:
    """A whole run.

    :ivar abandoned: questions that were lost when all was quiet, before the probes.
    :ivar asked_of_model: the questions that the model has seen.
    :ivar queue: ``messages.queue.mode`` of the run; in ``followup`` every message has its own turn.
    :ivar illformed: what the platforms' types find wrong in requests.
    :ivar incidents: by name, what happened to processes: ``crashed``, ``did_not_stop``, ``tools_missing`` …; and
        ``card_open``, the cards that say that they are being generated, or are empty.
    """

    asked: Sequence[Asked] = ()
    visible: Sequence[Visible] = ()
    calls: Sequence[Call] = ()
    effects: Sequence[Effect] = ()
    abandoned: Collection[str] = ()
    asked_of_model: Collection[str] = ()
    queue: Literal["followup", "collect", "steer"] = "followup"
    illformed: Sequence[str] = ()
    incidents: Counter[str] = field(default_factory=Counter)
