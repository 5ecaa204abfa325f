"""A turn of a chat: steered by later messages, with pictures, and resumed after a crash."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from claw import AcceptedEvent, Assistant, Image, Inbound, Text, ToolResultMessage, User
from claw.runtime import BaseSession, Turn, TurnContext, TurnStart, WorkspaceFiles, sendable

from claw_gateway.pictures import pictures_of


class SteeringQueue:
    """The steering queue of a running turn: messages that wait for its next batch boundary.

    ``open`` is False once the turn accepts no more; messages still in the queue can be taken.
    """

    def __init__(self) -> None:
        self._waiting: list[AcceptedEvent] = []
        self.open = True

    def put(self, message: AcceptedEvent) -> bool:
        """Add a message; return False when the turn accepts no more."""
        if self.open:
            self._waiting.append(message)
        return self.open

    def take(self) -> list[AcceptedEvent]:
        """Remove and return everything that waits, oldest first."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def close(self) -> list[AcceptedEvent]:
        """Close the queue and return what is left; a later message gets a turn of its own."""
        self.open = False
        return self.take()


@dataclass
class ChannelTurn(Turn):
    """The state of a running turn of a chat.

    :param steering: the queue of messages that arrive while it runs.
    :param preface: a text for the model before the first message, about the messages in ``summarised``.
    :param answer: the whole final text, once it has ended.
    :param thinking: the model's reasoning. ``tokens``: of input and output. The sender of the answer collects both.
    :param missed: the events that had joined the turn before a crash and are not in the session yet.
    """

    steering: SteeringQueue = field(default_factory=SteeringQueue)
    preface: str = ""
    summarised: list[AcceptedEvent] = field(default_factory=list)
    answer: str = ""
    thinking: str = ""
    tokens: tuple[int, int] = (0, 0)
    missed: tuple[AcceptedEvent, ...] = ()

    @property
    def numbers(self) -> list[int]:
        """Return the numbers in the turn log of the events that it answers."""
        return [one.number for one in (*self.summarised, *self.taken) if one.number]

    def steer(self, session: BaseSession) -> Sequence[AcceptedEvent]:
        """Return the messages that came in meanwhile, first those of before a crash; it answers them too."""
        missed, self.missed = self.missed, ()
        return missed or (() if self._is_answered(session) else self.steering.take())

    def follow_up(self, session: BaseSession) -> Sequence[AcceptedEvent]:
        """Return the last messages that it answers too; later ones get a turn of their own."""
        return () if self._is_answered(session) else self.steering.close()

    def pictures(self, inbound: Inbound, fence: Callable[[], WorkspaceFiles]) -> tuple[Image, ...]:
        """Return the pictures of a message that the model is shown; the file access is made at the first call."""
        return pictures_of(inbound, fence)

    def start(self, context: TurnContext, session: BaseSession) -> TurnStart:
        """Return where it starts, or resumes after a crash: with the first message that came from one of its events.

        A partial answer is left out: the model is asked again. One of which the session holds nothing begins.
        """
        if not self.resumed:
            return self._new_start(context, session)
        said = list(session.unpaired_messages)
        sources = [set(m.source.split(",")) if isinstance(m, User) else set[str]() for m in said]
        numbers = set(map(str, self.numbers))
        at = next((at for at, source in enumerate(sources) if numbers & source), None)
        if at is None:
            return self._new_start(context, session)
        tail, recorded = said[at:], set[str]().union(*sources)
        while isinstance(last := tail[-1], Assistant) and last.stop_reason in ("error", "aborted"):
            tail.pop()
        newest = next((m for m in reversed(tail) if isinstance(m, Assistant)), None)
        answered = {m.call_id for m in tail if isinstance(m, ToolResultMessage)}
        pending = tuple(call for call in newest.tool_calls if call.id not in answered) if newest else ()
        self.missed = tuple(one for one in self.taken if one.number and str(one.number) not in recorded)
        is_over = isinstance(last, Assistant) and not last.tool_calls and not self.missed
        before = sendable(said[:at])
        return TurnStart((*before, *tail), None, len(before), pending, newest if is_over else None)

    def _new_start(self, context: TurnContext, session: BaseSession) -> TurnStart:
        start = super().start(context, session)
        if not (self.preface and start.prompt):
            return start
        words = "".join(block.text for block in start.prompt.content if isinstance(block, Text))
        source = ",".join(map(str, self.numbers))
        return TurnStart(start.past, User((Text(f"{self.preface}\n\n{words}"),), source=source), start.at)

    def _is_answered(self, session: BaseSession) -> bool:
        """Return true when a complete answer ends the session: later messages get a turn of their own."""
        newest = session.unpaired_messages[-1] if session.unpaired_messages else None
        return bool(self.numbers) and isinstance(newest, Assistant) and not newest.tool_calls
