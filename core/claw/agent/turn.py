"""The path of one message, from admission to the end of its turn, readable from top to bottom."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import msgspec

from claw.agent.context import RunningTurn, before_reset, engine_call
from claw.agent.loop import Emit, LoopCallbacks, lacks_call, run_loop
from claw.agent.outcome import may_be_empty, silent_tokens, turn_outcome
from claw.agent.routing import Route, account_of_turn, admit
from claw.agent.tool_gate import ToolGate
from claw.agent.turn_context import Runtime, TurnContext, TurnOptions, resolve_turn
from claw.agent.user_message import TurnMetadata, message_of
from claw.contracts.errors import BudgetError, ClawError, UsageError
from claw.contracts.events import Event, MessageRecorded, Notice, RunEnded, TurnEnded, TurnStarted
from claw.contracts.messages import AcceptedEvent, Inbound, Outbound
from claw.contracts.provider import bill_to
from claw.contracts.transcript import Assistant, Image, Message, ToolCall, User
from claw.host.calls import notify_observers, run_filters, statements_at_end, turn_usage
from claw.host.isolation import describe_exception
from claw.i18n import t
from claw.security.workspace_fs import WorkspaceFiles
from claw.storage.history import BaseSession
from claw.storage.turn_log import retry_until_written, takes_cause

TOOL_CHOICES = ("auto", "none", "required")
"""Tool choices that are not the name of a tool."""


@dataclass(frozen=True)
class TurnStart:
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


@dataclass
class Turn:
    """The state of one running turn. A chat service derives its turns from it.

    :param id: never used before, unless ``resumed``.
    :param taken: the events that it answers, oldest first; the answer goes to the chat of the newest one.
    :param resumed: a crash interrupted it; the session may hold a part of it, which :meth:`start` finds.
    :param begun: the turn log has it. Before that, whoever stops it settles the events in ``taken``.
    :param over: it is ending and can no longer be stopped.
    :param parked: set before the task is cancelled: another process resumes the turn, so it does not end here.
    :param excuse: the reason for a missing answer that everyone in the chat may read; empty = the one of ``stop_reason``.
    :param notices: lines for the owner that are sent beside the answer, such as a switch of model.
    :param stop_reason: of the answer, as in ``Outbound``.
    :param ran_out: the model used all its calls and would have continued.
    :param model: of its newest answer, as ``provider/model``.
    """

    id: str
    route: Route
    taken: list[AcceptedEvent]
    options: TurnOptions = field(default_factory=TurnOptions)
    resumed: bool = False
    begun: bool = False
    over: bool = False
    parked: bool = False
    excuse: str = ""
    stop_reason: str = "stop"
    notices: list[str] = field(default_factory=list)
    ran_out: bool = False
    model: str = ""

    @property
    def numbers(self) -> list[int]:
        """Return the numbers in the turn log of the events that it answers."""
        return [one.number for one in self.taken if one.number]

    @property
    def message(self) -> Inbound:
        """Return the newest message that it answers."""
        return self.taken[-1].inbound

    def start(self, context: TurnContext, session: BaseSession) -> TurnStart:
        """Return where it starts: with its message, behind the past."""
        return TurnStart(session.messages, message_of(self.taken, context.runtime), len(session.messages))

    def steer(self, session: BaseSession) -> Sequence[AcceptedEvent]:
        """Return the messages that came in meanwhile; it answers them too."""
        return ()

    def follow_up(self, session: BaseSession) -> Sequence[AcceptedEvent]:
        """Return the last messages that it answers too; later ones get a turn of their own."""
        return ()

    def pictures(self, inbound: Inbound, fence: Callable[[], WorkspaceFiles]) -> tuple[Image, ...]:
        """Return the pictures of a message that the model is shown; the file access is made at the first call."""
        return ()


@dataclass(frozen=True)
class TurnResult:
    """The end of a turn.

    :param replies: the messages to send; for a turn of a channel they are in the outbox already.
    :param failed: the error, when it failed.
    """

    event: TurnEnded
    replies: tuple[Outbound, ...] = ()
    failed: Exception | None = None


AnyTurn = TypeVar("AnyTurn", bound=Turn)
MakeReplies = Callable[[AnyTurn, TurnEnded, TurnContext | None], Awaitable[tuple[Outbound, ...]]]
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
    async with runtime.session_queues.turn(route.session_key):  # one at a time in a session
        turn = Turn(new_turn_id(), route, [AcceptedEvent(0, message)], options)
        ended = await run_turn(turn, runtime, emit, partial(_terminal_reply, runtime))
    if ended.failed:
        raise ended.failed
    return ended.replies[0] if ended.replies else None


def new_turn_id() -> str:
    """Return a new id for a turn: 12 hex digits."""
    return uuid.uuid4().hex[:12]


async def run_turn(turn: AnyTurn, runtime: Runtime, emit: Emit, replies: MakeReplies[AnyTurn]) -> TurnResult:
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
    try:
        # models, layers, prompt
        context = await resolve_turn(turn.message, turn.route, runtime, turn.options)
        ending = await _run_in_session(turn, context, emit_all)
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
    except Exception as broken:  # noqa: BLE001 - a fault of ours, or of a plugin that no isolation caught: the turn ends all the same
        ending, failed = _internal_error(turn.id, broken), broken
    return await _end(turn, ending, context, runtime, emit_all, replies, failed)


async def _run_in_session(turn: Turn, context: TurnContext, emit: Emit) -> TurnEnded:
    """Open the session of a turn, with the past, and converse in it."""
    runtime, route = context.runtime, turn.route
    session = await runtime.sessions.open(route.session_key, route.agent_id)
    bill = account_of_turn(turn.message, route, runtime.registry.channel_plugin(turn.message), turn.id)
    bill_to(replace(bill, conversation=session.id))  # who pays for its model calls
    try:
        await _reset_if_stale(turn, context, session, emit)
        bill_to(replace(bill, conversation=session.id))
        await emit(TurnStarted(turn.id, context.agent.id, route.session_key, str(context.models[0])))
        for line in session.notices:
            await emit(Notice(line))
        return await _converse(turn, context, session, emit)
    finally:
        session.flush_soon(lambda refused: runtime.log(str(refused)))
        session.release()


async def _reset_if_stale(turn: Turn, context: TurnContext, session: BaseSession, emit: Emit) -> None:
    """Start a new conversation when the store says that the last one has expired; the old one is archived."""
    runtime, message = context.runtime, turn.message
    if not turn.resumed and runtime.sessions.has_expired(session, message, context.agent, runtime.config):
        past = session.messages
        await before_reset(RunningTurn(ToolGate(turn.id, context, emit), session, past, len(past)))
        await session.reset()
        await emit(Notice(t("new conversation: the previous one had expired")))


async def _converse(turn: Turn, context: TurnContext, session: BaseSession, emit: Emit) -> TurnEnded:
    """Call model and tools until there is an answer."""
    start, log = turn.start(context, session), context.runtime.turn_log
    gate = ToolGate(turn.id, context, emit, is_logged=True, used_tokens=session.context_tokens)
    gate.untrusted_tools |= gate.untrusted_in(start.past[start.at :])
    metadata = TurnMetadata(context, turn.taken, start.prompt, start.past[start.at :], turn.pictures)
    running = RunningTurn(gate, session, start.past, start.at, metadata, turn.notices)

    def joined(waiting: Sequence[AcceptedEvent]) -> list[User]:
        for one in waiting:
            if one not in turn.taken:
                turn.taken.append(one)
            if one.number:
                log.joined(turn.id, one.number)
        return [metadata.message_of(one) for one in waiting]

    async def steered() -> Sequence[User]:
        if gate.end_turn:  # the results of the refused calls are in the session by now
            raise ClawError("{why}", why=gate.end_turn)
        return joined(turn.steer(session))

    async def followed() -> Sequence[User]:
        return joined(turn.follow_up(session))

    async def report_switch(text: str) -> None:
        await (running.notice(text) if turn.route.owner else emit(Notice(text)))

    options = replace(
        context.model_options(),
        notice=report_switch,
        emit=emit,
        may_be_empty=lambda messages: may_be_empty(messages, turn.message.address),
    )
    steps = LoopCallbacks(
        ask=await engine_call(context.model_call(options), running),  # the history that fits, models in order
        prepare=gate.prepare,  # one gate for every call
        emit=partial(_record_then_emit, session, emit, turn),
        steer=steered,
        follow_up=followed,
        max_steps=context.agent.settings.max_turns,
        tool_choice=_tool_choice(context, turn, start),
    )
    answer = start.answer or await run_loop(start.past, start.prompt, steps, start.pending)
    return await _outcome(turn, answer, context, session, emit)


def _tool_choice(context: TurnContext, turn: Turn, start: TurnStart) -> str:
    """Return the tool choice of the first model call; a turn that resumes behind the call it asks for has used it."""
    choice = turn.options.tool_choice or turn.message.tool_choice or context.agent.settings.tool_choice
    has_call = choice != "none" and not all(lacks_call(said, choice) for said in start.past[start.at :])
    return "auto" if has_call else check_tool_choice(choice, context)


def check_tool_choice(choice: str, context: TurnContext) -> str:
    """Return a tool choice that this turn can follow.

    :raises UsageError: it asks for a call of a tool that the turn would not have, or of any, and there is none.
    """
    if choice in context.tools or (choice in TOOL_CHOICES and (context.tools or choice != "required")):
        return choice
    if choice == "required":
        fix = "claw tools list --all shows why"
        raise UsageError("tool choice asks for a call, and this turn has no tools", fix=fix)
    ruling = context.judgement.rulings.get(choice)
    raise UsageError(
        "the tool {name} was asked for by tool choice, and this turn does not have it: {why}",
        fix="claw tools explain {name} shows how to allow it",
        name=choice,
        why=ruling.reason if ruling else t("no such tool is installed"),
    )


async def _record_then_emit(session: BaseSession, emit: Emit, turn: Turn, event: Event) -> None:
    if isinstance(event, MessageRecorded):
        if turn.parked and isinstance(event.message, Assistant) and event.message.stop_reason == "aborted":
            return  # the next process asks the model again
        if isinstance(event.message, Assistant):
            turn.model = event.message.model
        session.append(event.message)
    elif isinstance(event, RunEnded):
        turn.ran_out = event.stop_reason == "max_steps"
    await emit(event)


async def _emit_to_all(emit: Emit, runtime: Runtime, event: Event) -> None:
    await emit(event)
    await notify_observers(event, runtime.plugins)


async def _outcome(
    turn: Turn, answer: Assistant | None, context: TurnContext, session: BaseSession, emit: Emit
) -> TurnEnded:
    """Return the end of a turn whose loop returned. A limit that cut it off is said beside the answer."""
    limits = []
    if answer and answer.stop_reason in ("length", "max_tokens"):
        turn.stop_reason = "length"
        if answer.text.strip():
            limits.append(t("the answer was cut off at the limit of its length; ask to continue"))
    if turn.ran_out:
        stopped = "the agent stopped after {count} model calls, the most for one message; ask it to continue"
        turn.excuse = t(stopped, count=context.agent.settings.max_turns)
        limits.append(turn.excuse)
    tokens = silent_tokens(context.runtime.config.settings.messages.silent_token)
    ending = turn_outcome(
        turn.id, answer, session.unpaired_messages, turn.message.address, tokens, turn.ran_out
    )
    for text in limits:
        turn.notices.append(text)
        await emit(Notice(text))
    return ending


def _internal_error(turn: str, why: Exception) -> TurnEnded:
    return TurnEnded(turn, "failed", t("internal error in claw: {why}", why=describe_exception(why)))


async def _end(
    turn: AnyTurn, ending: TurnEnded, context: TurnContext | None, runtime: Runtime, emit: Emit,
    replies: MakeReplies[AnyTurn],
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
            usage, cost = turn_usage(turn.id, runtime.plugins)
            ending = msgspec.structs.replace(ending, model=turn.model, usage=usage, cost_usd=cost)
            more = statements_at_end(turn.id, runtime.plugins)
            logged = made if made and is_logged else ()
            why = runtime.redact(ending.text if ending.outcome == "failed" else "; ".join(turn.notices))
            cause = (why,) if takes_cause(runtime.turn_log) else ()
            end = partial(runtime.turn_log.ended, turn.id, ending.outcome, logged, more, *cause)
            await retry_until_written(end, runtime.log if is_logged else None)
            await emit(ending)
    return TurnResult(ending, made, failed)


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
