"""The path of one message, readable from top to bottom; every other module of a turn is one line of this one."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from claw.agent.context import RunningTurn, before_reset, engine_call
from claw.agent.loop import Emit, LoopCallbacks, run_loop
from claw.agent.outcome import may_be_empty, silent_tokens, turn_outcome
from claw.agent.routing import Route, account_of_turn, admit, queue_kind_of
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
    """One turn, as the process that runs it sees it.

    :param turn: its id, never used before unless ``resumed``.
    :param taken: what it answers, oldest first; the newest one's chat gets the answer.
    :param mailbox: where ``AcceptedEvent`` messages wait that came while it runs.
    :param resumed: a death cut it off; the session may hold a part of it.
    :param begun: the journal has it; before, who stops it settles what it took. ``over``: it ends, and is not stopped.
    :param parked: set before the task is cancelled: the turn is to be taken up by another process, not ended.
    :param preface: told to the model before the words of the first message; ``summed`` is what it speaks of.
    :param answer: the words of its end, whole, once it has ended.
    :param thinking: what the model thought; ``tokens`` what it read and wrote, as far as its service said.
    :param excuse: what anybody may hear of why there is no answer; empty = that something went wrong.
    :param shortened: that the past was made shorter on the way, in words for the person.
    :param ran_out: the model had made all the calls that it may, and would have gone on.
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
    notices: list[str] = field(default_factory=list)
    ran_out: bool = False

    @property
    def numbers(self) -> list[int]:
        """The numbers, in the turn log, of the events that it answers."""
        return [one.number for one in (*self.summarised, *self.taken) if one.number]

    @property
    def message(self) -> Inbound:
        """The newest of what it answers."""
        return self.taken[-1].inbound


@dataclass(frozen=True)
class TurnResult:
    """The end of a turn.

    :param owed: the messages that say so, in the ledger already when the turn came from a channel.
    :param failed: why it failed, when it did.
    """

    event: TurnEnded
    replies: tuple[Outbound, ...] = ()
    failed: Exception | None = None


MakeReplies = Callable[[Turn, TurnEnded, TurnContext | None], Awaitable[tuple[Outbound, ...]]]
"""Makes the messages that a channel must send at the end of a turn."""


async def take_turn(
    inbound: Inbound, options: TurnOptions, *, runtime: Runtime, emit: Emit
) -> Outbound | None:
    """Carry one message from a person at a terminal to an answer.

    :returns: what to say; None when the sender may not talk, a filter dropped it, or the agent stays silent.
    :raises ClawError: the turn failed; ``TurnEnded`` was told, and what was said until then is in the session.
    """
    message = await run_filters(inbound, "inbound", runtime.registry.filters, runtime.worker, runtime.log)
    if message is None:
        return None
    route = admit(message, runtime.config, options.agent, options.session)  # who may talk, to which agent
    if route is None:
        return None
    key = route.session_key
    async with runtime.session_queues.turn(key, queue_kind_of(key)) as steering:  # one at a time in a session
        turn = Turn(new_turn_id(), route, [AcceptedEvent(0, message)], steering, options)
        ended = await run_turn(turn, runtime, emit, partial(_whole, runtime))
    if ended.failed:
        raise ended.failed
    return ended.replies[0] if ended.replies else None


def new_turn_id() -> str:
    """An id for a turn: 12 hex digits."""
    return uuid.uuid4().hex[:12]


async def run_turn(errand: Turn, runtime: Runtime, emit: Emit, replies: MakeReplies) -> TurnResult:
    """Run one turn to its end, in a session that this process holds meanwhile.

    It always ends: answered, silent, failed or stopped, and what it owes is in the ledger together with that. Only a
    turn that is parked ends nowhere.
    """
    turn, told = errand.id, partial(_tell, emit, runtime)
    ending, context = TurnEnded(turn, "failed", ""), None
    failed: Exception | None = None
    began = partial(
        runtime.turn_log.began, turn, errand.route.session_key, errand.numbers, again=errand.resumed
    )
    await retry_until_written(began, runtime.log if errand.numbers else None)
    errand.begun = True
    reached(runtime.turn_log, "turn-began")
    try:
        context = await resolve_turn(
            errand.message, errand.route, runtime, errand.options
        )  # models, nine layers, prompt
        session = await runtime.sessions.open(errand.route.session_key, errand.route.agent_id)  # the past
        bill = account_of_turn(
            errand.message, errand.route, runtime.registry.channel_plugin(errand.message), turn
        )
        bill_to(replace(bill, conversation=session.id))  # who pays for its model calls
        try:
            await _begin_anew_if_stale(errand, context, session, runtime, told)
            bill_to(replace(bill, conversation=session.id))
            await _greet(turn, context, errand.route, session, told)
            ending = await _converse(errand, context, session, runtime, told)
            reached(runtime.turn_log, "answer-recorded")
        finally:
            session.flush_soon(lambda refused: runtime.log(str(refused)))
            session.release()
    except asyncio.CancelledError:
        if errand.parked:
            raise
        ending = TurnEnded(turn, "stopped", "")
        await _over(errand, ending, context, runtime, told, replies)
        raise
    except BudgetError as over:
        errand.excuse = over.excuse
        ending = TurnEnded(turn, "skipped", "") if over.skips else TurnEnded(turn, "failed", str(over))
        failed = None if over.skips else over
        if over.skips:
            runtime.log(t("{job} was skipped: {why}", job=errand.route.session_key, why=over))
    except ClawError as why:
        ending, failed = TurnEnded(turn, "failed", str(why)), why
        if getattr(why, "reason", "") == "empty":
            errand.excuse = t("The model gave an empty answer. Please ask again.")
    except Exception as broken:  # noqa: BLE001 - a fault of ours, or a stranger's past every wall: the turn ends all the same
        ending, failed = _broke(turn, broken), broken
    return await _over(errand, ending, context, runtime, told, replies, failed)


def _broke(turn: str, why: Exception) -> TurnEnded:
    return TurnEnded(turn, "failed", t("internal error in claw: {why}", why=describe_exception(why)))


async def _over(
    turn: Turn, ending: TurnEnded, context: TurnContext | None, runtime: Runtime, told: Emit, replies: MakeReplies,
    failed: Exception | None = None,
) -> TurnResult:  # fmt: skip
    """The end and what is owed for it, in one commit; then everybody hears it."""
    owed: tuple[Outbound, ...] | None = None
    try:
        owed = await replies(turn, ending, context)
    except asyncio.CancelledError:
        ending = TurnEnded(turn.id, "stopped", "")
        raise
    except Exception as broken:  # noqa: BLE001 - what it says cannot be put into messages: that is said
        ending, failed = _broke(turn.id, broken), broken
        owed = await replies(turn, ending, None)
    finally:
        if owed is not None or not turn.parked:  # else the next process says what the session holds
            turn.over, is_owed = True, bool(turn.numbers)
            more = statements_at_end(runtime.registry.middleware, turn.id, runtime.log)
            due = owed if owed and is_owed else ()
            end = partial(runtime.turn_log.ended, turn.id, ending.outcome, due, more)
            await retry_until_written(end, runtime.log if is_owed else None)
            reached(runtime.turn_log, "turn-ended")
            await told(ending)
    return TurnResult(ending, owed, failed)


async def _converse(
    errand: Turn, context: TurnContext, session: BaseSession, runtime: Runtime, told: Emit
) -> TurnEnded:
    """Model and tools, until there is an answer."""
    turn, message = errand.id, errand.message
    caller = Caller(
        turn, message, context, runtime, told, session.usage.context_tokens, partial(runtime.turn_log.once, turn),
        partial(runtime.turn_log.not_begun, turn))  # fmt: skip
    prompt = message_of(errand.taken, runtime, errand.preface, errand.summarised)
    start, untold = _fresh(session, prompt), list[AcceptedEvent]()
    if errand.resumed:
        start = _taken_up(session, start, set(map(str, errand.numbers)))
        untold = _untold(session, errand) if start.prompt is None else []
        caller.heard.update(caller.untrusted_in(start.past[start.at :]))
    metadata = metadata_of_turn(errand.taken, start.past[start.at :], prompt, context, runtime.config)

    def joined(waiting: Sequence[AcceptedEvent]) -> list[User]:
        for one in waiting:
            errand.taken.append(one)
            if one.number:
                runtime.turn_log.joined(turn, one.number)
        return told_now(waiting)

    def told_now(waiting: Sequence[AcceptedEvent]) -> list[User]:
        users = [message_of([one], runtime) for one in waiting]
        for user, one in zip(users, waiting, strict=True):
            if user.source:
                metadata.by_source[user.source] = message_metadata([one.inbound], context, runtime.config)
        return users

    def is_answered() -> bool:
        """In a chat a whole answer ends the turn, so that it is sent; what comes now gets a turn of its own."""
        newest = session.unpaired_messages[-1] if session.unpaired_messages else None
        return bool(errand.numbers) and isinstance(newest, Assistant) and not newest.tool_calls

    async def steered() -> Sequence[User]:
        if caller.end_turn:  # the results of the refused calls are in the session by now
            raise ClawError("{why}", why=caller.end_turn)
        cut_off = told_now(untold)
        untold.clear()
        return cut_off or (() if is_answered() else joined(errand.steering.take()))

    async def followed() -> Sequence[User]:
        return () if is_answered() else joined(errand.steering.close())

    steps = LoopCallbacks(
        ask=_asking(errand, start, metadata, caller, session),
        prepare=partial(prepare, caller=caller),  # one gate for every call
        emit=partial(_write_then_tell, session, told, errand, runtime.turn_log),  # written before it is told
        steer=steered,
        follow_up=followed,
        max_steps=context.agent.settings.max_turns,
        tool_choice=_tool_choice(context, errand, start),
    )
    answer = (not untold and start.answer) or await run_loop(start.past, start.prompt, steps, start.pending)
    tokens = silent_tokens(runtime.config.settings.messages.silent_token)
    return turn_outcome(
        turn, answer, session.unpaired_messages, errand.message.address, tokens, errand.ran_out
    )


def _untold(session: BaseSession, turn: Turn) -> list[AcceptedEvent]:
    """Return the events that had joined an interrupted turn and are not in the session yet."""
    told = {
        number
        for said in session.unpaired_messages
        if isinstance(said, User)
        for number in said.source.split(",")
    }
    return [one for one in turn.taken if one.number and str(one.number) not in told]


@dataclass(frozen=True)
class _Start:
    """Where a turn begins.

    :param prompt: what to say; None when ``past`` holds it already, from ``at`` on.
    :param pending: calls of the past without a result.
    :param answer: the answer, when the past holds that too.
    """

    past: Sequence[Message]
    prompt: User | None
    at: int
    pending: tuple[ToolCall, ...] = ()
    answer: Assistant | None = None


def _fresh(session: BaseSession, prompt: User) -> _Start:
    past = session.messages
    return _Start(past, prompt, len(past))


def _taken_up(session: BaseSession, fresh: _Start, numbers: set[str]) -> _Start:
    """Where a turn that was cut off stands. A half answer that was kept is left out: the model is asked again.

    :param numbers: what it answers: the first message that came from one of them is where it began.
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


async def _begin_anew_if_stale(
    turn: Turn, context: TurnContext, session: BaseSession, runtime: Runtime, told: Emit
) -> None:
    """A conversation that has been left long enough starts anew, where the settings want that; the old one is kept."""
    message, last = turn.message, session.last_user_at
    kind = "thread" if message.address.thread else message.chat_type
    policy = reset_policy(runtime.config.settings.session, kind, message.address.channel)
    if turn.resumed or last is None or policy.mode == "off":
        return
    if not is_fresh(policy, last, session.now, zone_of(context.agent.settings.user_timezone)):
        past = session.messages
        await before_reset(
            RunningTurn(Caller(turn.id, message, context, runtime, told), session, past, len(past))
        )
        await session.reset()
        await told(Notice(t("new conversation: the previous one had expired")))


async def _greet(turn: str, context: TurnContext, route: Route, session: BaseSession, told: Emit) -> None:
    await told(TurnStarted(turn, context.agent.id, route.session_key, str(context.models[0])))
    for line in session.notices:
        await told(Notice(line))


def _asking(
    turn: Turn, start: _Start, metadata: TurnMetadata, caller: Caller, session: BaseSession
) -> ModelCall:
    """Return the model call of a turn: the history that fits, this message, the tools, through the models in order."""
    options = replace(
        model_options(caller.stage, caller.rooms),
        notice=partial(_switched, turn, caller.emit),
        emit=caller.emit,
        may_be_empty=lambda messages: may_be_empty(messages, turn.message.address),
    )
    call = model_call(caller.stage, caller.rooms, options)
    return engine_call(call, RunningTurn(caller, session, start.past, start.at, metadata, turn.notices))


async def _switched(turn: Turn, told: Emit, text: str) -> None:
    """Report a switch of model; in a chat the owner reads it beside the answer."""
    if turn.route.owner:
        turn.notices.append(text)
    await told(Notice(text))


def _tool_choice(context: TurnContext, turn: Turn, start: _Start) -> str:
    """Of the first model call. A turn that is taken up behind its first one had it already."""
    choice = turn.options.tool_choice or turn.message.tool_choice or context.agent.settings.tool_choice
    if choice != "none" and any(isinstance(said, Assistant) for said in start.past[start.at :]):
        return "auto"
    return check_tool_choice(choice, context)


async def _tell(emit: Emit, runtime: Runtime, event: Event) -> None:
    await emit(event)
    if runtime.registry.observers:
        await notify_observers(event, runtime.registry.observers, runtime.worker, runtime.log)


async def _write_then_tell(session: BaseSession, told: Emit, turn: Turn, log: TurnLog, event: Event) -> None:
    if isinstance(event, MessageRecorded):
        if turn.parked and isinstance(event.message, Assistant) and event.message.stop_reason == "aborted":
            return  # the next process asks the model again
        session.append(event.message)
        if isinstance(event.message, Assistant):
            _count(turn, event.message)
        if isinstance(event.message, User):
            reached(log, "user-recorded")
    elif isinstance(event, RunEnded):
        turn.ran_out = event.stop_reason == "max_steps"
    await told(event)


def _count(turn: Turn, said: Assistant) -> None:
    usage, (read, written) = said.usage, turn.tokens
    asked = (usage.input or 0) + (usage.cache_read or 0) + (usage.cache_write or 0)
    turn.tokens = (read + asked, written + (usage.output or 0))
    turn.thinking += "".join(block.text for block in said.content if isinstance(block, Thinking))


async def _whole(
    runtime: Runtime, turn: Turn, ending: TurnEnded, context: TurnContext | None
) -> tuple[Outbound, ...]:
    """A terminal's answer: one message, whatever its length."""
    if ending.outcome in ("silent", "failed") or not ending.text:
        return ()
    message = turn.message
    outbound = Outbound(ending.turn, message.address, ending.text, reply_to=message.message_id or None)
    let_out = await run_filters(outbound, "outbound", runtime.registry.filters, runtime.worker, runtime.log)
    return (let_out,) if let_out else ()
