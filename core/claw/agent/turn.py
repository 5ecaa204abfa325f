"""The path of one message, from admission to the end of its turn, readable from top to bottom."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from claw.agent.context import RunningTurn, before_reset, engine_call
from claw.agent.loop import Emit, LoopCallbacks, lacks_call, run_loop
from claw.agent.outcome import may_be_empty, silent_tokens, turn_outcome
from claw.agent.routing import Route, account_of_turn, admit
from claw.agent.session_queue import SteeringQueue
from claw.agent.tool_gate import Caller, prepare
from claw.agent.turn_context import (
    Runtime,
    TurnContext,
    TurnOptions,
    check_tool_choice,
    model_call,
    model_options,
    resolve_turn,
)
from claw.agent.user_message import TurnMetadata, message_metadata, message_of, metadata_of_turn
from claw.contracts.errors import BudgetError, ClawError
from claw.contracts.events import Event, MessageRecorded, Notice, RunEnded, TurnEnded, TurnStarted
from claw.contracts.extensions import TurnLog
from claw.contracts.messages import AcceptedEvent, Inbound, Outbound
from claw.contracts.provider import ModelCall, bill_to
from claw.contracts.transcript import Assistant, Message, Thinking, ToolCall, ToolResultMessage, User
from claw.host.calls import notify_observers, run_filters, statements_at_end
from claw.host.isolation import describe_exception
from claw.i18n import t
from claw.storage.freshness import is_fresh, reset_policy, zone_of
from claw.storage.history import BaseSession
from claw.storage.turn_log import reached, retry_until_written


@dataclass
class Turn:
    """The state of one running turn.

    :param id: never used before, unless ``resumed``.
    :param taken: the events that it answers, oldest first; the answer goes to the chat of the newest one.
    :param steering: the queue of messages that arrive while it runs.
    :param resumed: a crash interrupted it; the session may hold a part of it.
    :param begun: the turn log has it. Before that, whoever stops it settles the events in ``taken``.
    :param over: it is ending and can no longer be stopped.
    :param parked: set before the task is cancelled: another process resumes the turn, so it does not end here.
    :param preface: a text for the model before the first message, about the messages in ``summarised``.
    :param answer: the whole final text, once it has ended.
    :param thinking: the model's reasoning.
    :param tokens: input and output tokens, as far as the service reported them.
    :param excuse: the reason for a missing answer that everyone in the chat may read; empty = "something went wrong".
    :param notices: lines for the owner that are sent beside the answer, such as a switch of model.
    :param stop_reason: of the answer, as in ``Outbound``.
    :param ran_out: the model used all its calls and would have continued.
    """

    id: str
    route: Route
    taken: list[AcceptedEvent]
    steering: SteeringQueue
    options: TurnOptions = field(default_factory=TurnOptions)
    resumed: bool = False
    begun: bool = False
    over: bool = False
    parked: bool = False
    preface: str = ""
    summarised: list[AcceptedEvent] = field(default_factory=list)
    answer: str = ""
    thinking: str = ""
    tokens: tuple[int, int] = (0, 0)
    excuse: str = ""
    stop_reason: str = "stop"
    notices: list[str] = field(default_factory=list)
    ran_out: bool = False

    @property
    def numbers(self) -> list[int]:
        """Return the numbers in the turn log of the events that it answers."""
        return [one.number for one in (*self.summarised, *self.taken) if one.number]

    @property
    def message(self) -> Inbound:
        """Return the newest message that it answers."""
        return self.taken[-1].inbound


@dataclass(frozen=True)
class TurnResult:
    """The end of a turn.

    :param replies: the messages to send; for a turn of a channel they are in the outbox already.
    :param failed: the error, when it failed.
    """

    event: TurnEnded
    replies: tuple[Outbound, ...] = ()
    failed: Exception | None = None


MakeReplies = Callable[[Turn, TurnEnded, TurnContext | None], Awaitable[tuple[Outbound, ...]]]
"""Makes the messages that a channel must send at the end of a turn."""


async def take_turn(
    inbound: Inbound, options: TurnOptions, *, runtime: Runtime, emit: Emit
) -> Outbound | None:
    """Answer one message of the person at the terminal.

    :returns: the answer; None when the sender is not admitted, a filter dropped the message, or the agent stays silent.
    :raises ClawError: the turn failed; ``TurnEnded`` was emitted, and the session holds all messages until then.
    """
    message = await run_filters(inbound, "inbound", runtime.plugins)
    if message is None:
        return None
    route = admit(message, runtime.config, options.agent, options.session)  # who may talk, to which agent
    if route is None:
        return None
    async with runtime.session_queues.turn(route.session_key) as steering:  # one at a time in a session
        turn = Turn(new_turn_id(), route, [AcceptedEvent(0, message)], steering, options)
        ended = await run_turn(turn, runtime, emit, partial(_terminal_reply, runtime))
    if ended.failed:
        raise ended.failed
    return ended.replies[0] if ended.replies else None


def new_turn_id() -> str:
    """Return a new id for a turn: 12 hex digits."""
    return uuid.uuid4().hex[:12]


async def run_turn(turn: Turn, runtime: Runtime, emit: Emit, replies: MakeReplies) -> TurnResult:
    """Run one turn to its end, in a session that this process locks meanwhile.

    It always ends answered, silent, failed or stopped; its replies are written in the same commit. Only a parked turn
    does not end here.
    """
    emit_all = partial(_emit_to_all, emit, runtime)
    ending, context = TurnEnded(turn.id, "failed", ""), None
    failed: Exception | None = None
    began = partial(runtime.turn_log.began, turn.id, turn.route.session_key, turn.numbers, again=turn.resumed)
    await retry_until_written(began, runtime.log if turn.numbers else None)
    turn.begun = True
    reached(runtime.turn_log, "turn-began")
    try:
        context = await resolve_turn(
            turn.message, turn.route, runtime, turn.options
        )  # models, nine layers, prompt
        session = await runtime.sessions.open(turn.route.session_key, turn.route.agent_id)  # the past
        bill = account_of_turn(
            turn.message, turn.route, runtime.registry.channel_plugin(turn.message), turn.id
        )
        bill_to(replace(bill, conversation=session.id))  # who pays for its model calls
        try:
            await _reset_if_stale(turn, context, session, runtime, emit_all)
            bill_to(replace(bill, conversation=session.id))
            await _announce(turn.id, context, turn.route, session, emit_all)
            ending = await _converse(turn, context, session, runtime, emit_all)
            reached(runtime.turn_log, "answer-recorded")
        finally:
            session.flush_soon(lambda refused: runtime.log(str(refused)))
            session.release()
    except asyncio.CancelledError:
        if turn.parked:
            raise
        ending = TurnEnded(turn.id, "stopped", "")
        await _end(turn, ending, context, runtime, emit_all, replies)
        raise
    except BudgetError as over:
        turn.excuse, turn.stop_reason = over.excuse, "budget"
        ending = TurnEnded(turn.id, "skipped", "") if over.skips else TurnEnded(turn.id, "failed", str(over))
        failed = None if over.skips else over
        if over.skips:
            runtime.log(t("{job} was skipped: {why}", job=turn.route.session_key, why=over))
    except ClawError as why:
        ending, failed = TurnEnded(turn.id, "failed", str(why)), why
        turn.stop_reason = getattr(why, "reason", "error")
        turn.excuse = _EXCUSES.get(turn.stop_reason, lambda: turn.excuse)()
    except Exception as broken:  # noqa: BLE001 - a fault of ours, or of a plugin that no isolation caught: the turn ends all the same
        ending, failed = _internal_error(turn.id, broken), broken
    return await _end(turn, ending, context, runtime, emit_all, replies, failed)


_EXCUSES = {
    "empty": lambda: t("The model gave an empty answer. Please ask again."),
    "content_filter": lambda: t("The model or its service refused to answer this."),
    "no_call": lambda: t("The model did not call the tool that was asked for."),
}
"""By the reason of a failure, what everyone in the chat may read."""


def _internal_error(turn: str, why: Exception) -> TurnEnded:
    return TurnEnded(turn, "failed", t("internal error in claw: {why}", why=describe_exception(why)))


async def _end(
    turn: Turn, ending: TurnEnded, context: TurnContext | None, runtime: Runtime, emit: Emit, replies: MakeReplies,
    failed: Exception | None = None,
) -> TurnResult:  # fmt: skip
    """Write the end and its replies in one commit, then emit it."""
    made: tuple[Outbound, ...] | None = None
    try:
        made = await replies(turn, ending, context)
    except asyncio.CancelledError:
        ending = TurnEnded(turn.id, "stopped", "")
        raise
    except Exception as broken:  # noqa: BLE001 - the replies cannot be made: the turn fails with that
        ending, failed = _internal_error(turn.id, broken), broken
        made = await replies(turn, ending, None)
    finally:
        if made is not None or not turn.parked:  # else the next process sends what the session holds
            turn.over = True
            is_logged = bool(turn.numbers)
            more = statements_at_end(turn.id, runtime.plugins)
            logged = made if made and is_logged else ()
            why = runtime.redact(ending.text if ending.outcome == "failed" else "; ".join(turn.notices))
            end = partial(runtime.turn_log.ended, turn.id, ending.outcome, logged, more, why)
            await retry_until_written(end, runtime.log if is_logged else None)
            reached(runtime.turn_log, "turn-ended")
            await emit(ending)
    return TurnResult(ending, made, failed)


async def _converse(
    turn: Turn, context: TurnContext, session: BaseSession, runtime: Runtime, emit: Emit
) -> TurnEnded:
    """Call model and tools until there is an answer."""
    caller = Caller(
        turn.id, turn.message, context, runtime, emit, session.usage.context_tokens,
        partial(runtime.turn_log.once, turn.id), partial(runtime.turn_log.not_begun, turn.id))  # fmt: skip
    past, prompt = session.messages, message_of(turn.taken, runtime, turn.preface, turn.summarised)
    start, missed = _Start(past, prompt, len(past)), list[AcceptedEvent]()
    if turn.resumed:
        start = _resumed_start(session, start, set(map(str, turn.numbers)))
        missed = _not_in_session(session, turn) if start.prompt is None else []
        caller.untrusted_tools.update(caller.untrusted_in(start.past[start.at :]))
    metadata = metadata_of_turn(turn.taken, start.past[start.at :], prompt, context, runtime)

    def joined(waiting: Sequence[AcceptedEvent]) -> list[User]:
        for one in waiting:
            turn.taken.append(one)
            if one.number:
                runtime.turn_log.joined(turn.id, one.number)
        return as_users(waiting)

    def as_users(waiting: Sequence[AcceptedEvent]) -> list[User]:
        users = [message_of([one], runtime) for one in waiting]
        for user, one in zip(users, waiting, strict=True):
            if user.source:
                metadata.by_source[user.source] = message_metadata([one.inbound], context, runtime)
        return users

    async def steered() -> Sequence[User]:
        if caller.end_turn:  # the results of the refused calls are in the session by now
            raise ClawError("{why}", why=caller.end_turn)
        cut_off = as_users(missed)
        missed.clear()
        return cut_off or (() if _is_answered(turn, session) else joined(turn.steering.take()))

    async def followed() -> Sequence[User]:
        return () if _is_answered(turn, session) else joined(turn.steering.close())

    steps = LoopCallbacks(
        ask=await _call_of_turn(turn, start, metadata, caller, session),
        prepare=partial(prepare, caller=caller),  # one gate for every call
        emit=partial(_record_then_emit, session, emit, turn, runtime.turn_log),
        steer=steered,
        follow_up=followed,
        max_steps=context.agent.settings.max_turns,
        tool_choice=_tool_choice(context, turn, start),
    )
    answer = (not missed and start.answer) or await run_loop(start.past, start.prompt, steps, start.pending)
    return await _outcome(turn, answer or None, context, session, runtime, emit)


async def _outcome(
    turn: Turn,
    answer: Assistant | None,
    context: TurnContext,
    session: BaseSession,
    runtime: Runtime,
    emit: Emit,
) -> TurnEnded:
    """Return the end of a turn whose loop returned. A limit that cut it off is said beside the answer."""
    limits = []
    if answer and answer.stop_reason in ("length", "max_tokens"):
        turn.stop_reason = "length"
    if turn.stop_reason == "length" and answer and answer.text.strip():
        limits.append(t("the answer was cut off at the limit of its length; ask to continue"))
    if turn.ran_out:
        stopped = "the agent stopped after {count} model calls, the most for one message; ask it to continue"
        turn.excuse = t(stopped, count=context.agent.settings.max_turns)
        limits.append(turn.excuse)
    tokens = silent_tokens(runtime.config.settings.messages.silent_token)
    ending = turn_outcome(
        turn.id, answer, session.unpaired_messages, turn.message.address, tokens, turn.ran_out
    )
    for text in limits:
        turn.notices.append(text)
        await emit(Notice(text))
    return ending


def _is_answered(turn: Turn, session: BaseSession) -> bool:
    """Return true when a complete answer ends a chat's turn: later messages get a turn of their own."""
    newest = session.unpaired_messages[-1] if session.unpaired_messages else None
    return bool(turn.numbers) and isinstance(newest, Assistant) and not newest.tool_calls


def _not_in_session(session: BaseSession, turn: Turn) -> list[AcceptedEvent]:
    """Return the events that had joined an interrupted turn and are not in the session yet."""
    recorded = {
        number
        for said in session.unpaired_messages
        if isinstance(said, User)
        for number in said.source.split(",")
    }
    return [one for one in turn.taken if one.number and str(one.number) not in recorded]


@dataclass(frozen=True)
class _Start:
    """The point at which a turn starts or resumes.

    :param past: the messages of the session.
    :param prompt: the user message; None when ``past`` holds it already, from ``at`` on.
    :param pending: calls in ``past`` without a result.
    :param answer: the answer, when ``past`` holds it already.
    """

    past: Sequence[Message]
    prompt: User | None
    at: int
    pending: tuple[ToolCall, ...] = ()
    answer: Assistant | None = None


def _resumed_start(session: BaseSession, fresh: _Start, numbers: set[str]) -> _Start:
    """Return the point at which an interrupted turn resumes. A partial answer is left out: the model is asked again.

    :param numbers: the events that it answers; the first message that came from one of them is its start.
    """
    said = list(session.unpaired_messages)
    at = next(
        (at for at, m in enumerate(said) if isinstance(m, User) and numbers & set(m.source.split(","))), None
    )
    if at is None:
        return fresh
    tail = said[at:]
    while isinstance(last := tail[-1], Assistant) and last.stop_reason in ("error", "aborted"):
        tail.pop()
    newest = next((m for m in reversed(tail) if isinstance(m, Assistant)), None)
    answered = {m.call_id for m in tail if isinstance(m, ToolResultMessage)}
    pending = tuple(call for call in newest.tool_calls if call.id not in answered) if newest else ()
    before = session.messages_before(at)
    answer = tail[-1] if isinstance(tail[-1], Assistant) and not tail[-1].tool_calls else None
    return _Start((*before, *tail), None, len(before), pending, answer)


async def _reset_if_stale(
    turn: Turn, context: TurnContext, session: BaseSession, runtime: Runtime, emit: Emit
) -> None:
    """Start a new conversation when the last one has expired (``session.reset``); the old one is archived."""
    message, last = turn.message, session.last_user_at
    kind = "thread" if message.address.thread else message.chat_type
    policy = reset_policy(runtime.config.settings.session, kind, message.address.channel)
    if turn.resumed or last is None or policy.mode == "off":
        return
    if not is_fresh(policy, last, session.now, zone_of(context.agent.settings.user_timezone)):
        past = session.messages
        caller = Caller(turn.id, message, context, runtime, emit)
        await before_reset(RunningTurn(caller, session, past, len(past)))
        await session.reset()
        await emit(Notice(t("new conversation: the previous one had expired")))


async def _announce(turn: str, context: TurnContext, route: Route, session: BaseSession, emit: Emit) -> None:
    await emit(TurnStarted(turn, context.agent.id, route.session_key, str(context.models[0])))
    for line in session.notices:
        await emit(Notice(line))


async def _call_of_turn(
    turn: Turn, start: _Start, metadata: TurnMetadata, caller: Caller, session: BaseSession
) -> ModelCall:
    """Return the model call of a turn: the history that fits, this message, the tools, through the models in order."""
    options = replace(
        model_options(caller.context, caller.runtime),
        notice=partial(_report_switch, turn, caller.emit),
        emit=caller.emit,
        may_be_empty=lambda messages: may_be_empty(messages, turn.message.address),
    )
    call = model_call(caller.context, caller.runtime, options)
    return await engine_call(call, RunningTurn(caller, session, start.past, start.at, metadata, turn.notices))


async def _report_switch(turn: Turn, emit: Emit, text: str) -> None:
    """Report a switch of model; in a chat the owner reads it beside the answer."""
    if turn.route.owner:
        turn.notices.append(text)
    await emit(Notice(text))


def _tool_choice(context: TurnContext, turn: Turn, start: _Start) -> str:
    """Return the tool choice of the first model call; a turn that resumes behind the call it asks for has used it."""
    choice = turn.options.tool_choice or turn.message.tool_choice or context.agent.settings.tool_choice
    has_call = choice != "none" and not all(lacks_call(said, choice) for said in start.past[start.at :])
    return "auto" if has_call else check_tool_choice(choice, context)


async def _emit_to_all(emit: Emit, runtime: Runtime, event: Event) -> None:
    await emit(event)
    await notify_observers(event, runtime.plugins)


async def _record_then_emit(session: BaseSession, emit: Emit, turn: Turn, log: TurnLog, event: Event) -> None:
    if isinstance(event, MessageRecorded):
        if turn.parked and isinstance(event.message, Assistant) and event.message.stop_reason == "aborted":
            return  # the next process asks the model again
        session.append(event.message)
        if isinstance(event.message, Assistant):
            _count_usage(turn, event.message)
        if isinstance(event.message, User):
            reached(log, "user-recorded")
    elif isinstance(event, RunEnded):
        turn.ran_out = event.stop_reason == "max_steps"
    await emit(event)


def _count_usage(turn: Turn, said: Assistant) -> None:
    usage, (read, written) = said.usage, turn.tokens
    asked = (usage.input or 0) + (usage.cache_read or 0) + (usage.cache_write or 0)
    turn.tokens = (read + asked, written + (usage.output or 0))
    turn.thinking += "".join(block.text for block in said.content if isinstance(block, Thinking))


async def _terminal_reply(
    runtime: Runtime, turn: Turn, ending: TurnEnded, context: TurnContext | None
) -> tuple[Outbound, ...]:
    """Return the answer for the terminal: one message of any length."""
    if ending.outcome in ("silent", "failed") or not ending.text:
        return ()
    message = turn.message
    outbound = Outbound(ending.turn, message.address, ending.text, reply_to=message.message_id or None)
    let_out = await run_filters(outbound, "outbound", runtime.plugins)
    return (let_out,) if let_out else ()
