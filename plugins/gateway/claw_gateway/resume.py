"""The point at which a turn goes on that a crash interrupted, as its session and the turn log tell it. Pure."""

from claw import Assistant, ToolResultMessage, User
from claw.runtime import BaseSession, Turn, TurnContext, TurnStart, new_start, sendable


def resumed_start(turn: Turn, context: TurnContext, session: BaseSession) -> TurnStart:
    """Return the point at which a turn resumes: its start is the first message that came from one of its events.

    A partial answer is left out: the model is asked again. A turn of which the session holds nothing starts anew.
    """
    said = list(session.unpaired_messages)
    sources = [set(m.source.split(",")) if isinstance(m, User) else set[str]() for m in said]
    numbers = set(map(str, turn.numbers))
    at = next((at for at, source in enumerate(sources) if numbers & source), None)
    if at is None:
        return new_start(turn, context, session)
    tail, recorded = said[at:], set[str]().union(*sources)
    while isinstance(last := tail[-1], Assistant) and last.stop_reason in ("error", "aborted"):
        tail.pop()
    newest = next((m for m in reversed(tail) if isinstance(m, Assistant)), None)
    answered = {m.call_id for m in tail if isinstance(m, ToolResultMessage)}
    pending = tuple(call for call in newest.tool_calls if call.id not in answered) if newest else ()
    answer = last if isinstance(last, Assistant) and not last.tool_calls else None
    missed = tuple(one for one in turn.taken if one.number and str(one.number) not in recorded)
    before = sendable(said[:at])
    return TurnStart((*before, *tail), None, len(before), pending, answer, missed)
