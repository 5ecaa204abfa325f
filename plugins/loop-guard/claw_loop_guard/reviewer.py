"""The reviewer: one loop detector for each turn, asked before every call and given every result."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from claw import UNREADABLE_CALL, CallContext, Image, Review, Text, ToolCall, ToolResult

from claw_loop_guard.detector import LoopDetector, LoopLimits, refusal, warning

MAX_TURNS = 256
"""Turns whose calls are remembered, those with the newest calls; the end of a turn is not reported to a reviewer."""

ResultCallback = Callable[[Sequence[Text | Image], bool], None]


@dataclass
class _TurnState:
    """The calls of one turn; ``running``: call id → the function that takes its result."""

    detector: LoopDetector
    running: dict[str, ResultCallback] = field(default_factory=dict)


class LoopGuard:
    """A reviewer (``claw.Reviewer``) that warns of repeated calls, refuses them, and in the end stops the turn.

    :param default: the limits for agents that set none of their own.
    :param by_agent: agent id → its own limits.
    """

    name = "loop-guard"
    position = 0.0
    """It compares what the model wrote, so it is asked before reviewers that change arguments."""
    all_calls = True
    """A model can also repeat a call that cannot run, or that is refused."""

    def __init__(self, default: LoopLimits, by_agent: Mapping[str, LoopLimits] | None = None) -> None:
        self._default, self._by_agent = default, by_agent or {}
        self._turns: OrderedDict[str, _TurnState] = OrderedDict()

    def before(self, call: ToolCall, context: CallContext) -> Review | None:
        """Refuse a call that repeats too often; let one that repeats run with a warning behind its result."""
        state = self._state_of(context)
        detector = state.detector
        if call.name == UNREADABLE_CALL:
            detector.count_unreadable()
            stopped = detector.stop_reason_text
            return Review("deny", context.problem, end_turn=stopped) if stopped else None
        sign, ended = detector.check_call(call)
        if sign and sign.level == "critical":
            return Review("deny", refusal(sign, call.name), end_turn=detector.stop_reason_text)
        state.running[call.id] = ended
        return Review(note=warning(sign, call.name)) if sign else None

    def after(self, call: ToolCall, result: ToolResult, context: CallContext) -> None:
        """Take note of a result. The result of a call that was refused here is not new."""
        if ended := self._state_of(context).running.pop(call.id, None):
            ended(result.blocks, result.is_error)

    def _state_of(self, context: CallContext) -> _TurnState:
        state = self._turns.get(context.turn)
        if state is None:
            state = self._turns[context.turn] = _TurnState(
                LoopDetector(self._by_agent.get(context.agent, self._default))
            )
        self._turns.move_to_end(context.turn)
        if len(self._turns) > MAX_TURNS:
            self._turns.popitem(last=False)
        return state
