"""The path of one message, readable top to bottom. Every other room is one line of this one."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial

from claw.amending import tools_heard
from claw.directives import silent_tokens
from claw.dress import Dress, dress
from claw.envelope import NAMES, spoken
from claw.errors import BudgetError, ClawError
from claw.event import Event, Notice, RunEnded, Said, TurnEnded, TurnStarted
from claw.failpoint import reach
from claw.flushing import save_the_rest, saver
from claw.freshness import is_fresh, reset_policy, zone_of
from claw.gate import Caller, prepare, repetition_of
from claw.guests import filtered, tell
from claw.journal import Accepted
from claw.lane import Mailbox
from claw.loop import Emit, Steps, run_loop
from claw.message import Inbound, Outbound
from claw.meter import bill_of
from claw.outcome import is_said, outcome
from claw.provider import Ask
from claw.rebuilding import Rebuilding
from claw.route import Route, admit, lane_of
from claw.session import Session
from claw.spending import account
from claw.stage import Rooms, Stage, Wish, choosable, set_stage
from claw.transcript import Assistant, Message, Text, Thinking, ToolCall, ToolResult, User
from claw.view import View, models_of
from claw.wall import name_of
from claw.words import say


@dataclass
class Errand:
    """One turn as whoever runs it sees it.

    :param turn: its id, never used before unless ``resumed``.
    :param taken: what it answers, oldest first; the newest one's chat gets the answer.
    :param mailbox: where ``Accepted`` messages wait that came while it runs.
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

    turn: str
    route: Route
    taken: list[Accepted]
    mailbox: Mailbox
    wish: Wish = field(default_factory=Wish)
    resumed: bool = False
    begun: bool = False
    over: bool = False
    parked: bool = False
    preface: str = ""
    summed: list[Accepted] = field(default_factory=list)
    answer: str = ""
    thinking: str = ""
    tokens: tuple[int, int] = (0, 0)
    excuse: str = ""
    shortened: list[str] = field(default_factory=list)
    ran_out: bool = False

    @property
    def numbers(self) -> list[int]:
        """What it answers, by the journal's numbers."""
        return [one.number for one in (*self.summed, *self.taken) if one.number]

    @property
    def message(self) -> Inbound:
        """The newest of what it answers."""
        return self.taken[-1].inbound


@dataclass(frozen=True)
class Ended:
    """How a turn ended.

    :param owed: the messages that say so, in the ledger already when the turn came from a channel.
    :param failed: why it failed, when it did.
    """

    event: TurnEnded
    owed: tuple[Outbound, ...] = ()
    failed: Exception | None = None


Letters = Callable[[Errand, TurnEnded, Stage | None], Awaitable[tuple[Outbound, ...]]]
"""What a turn that ended has to say, as messages of its channel."""


async def take_turn(inbound: Inbound, wish: Wish, *, rooms: Rooms, emit: Emit) -> Outbound | None:
    """Carry one message from a person at a terminal to an answer.

    :returns: what to say; None when the sender may not talk, a filter dropped it, or the agent stays silent.
    :raises ClawError: the turn failed; ``TurnEnded`` was told, and what was said until then is in the session.
    """
    message = await filtered(inbound, "inbound", rooms.kit.filters, rooms.yard, rooms.complain)
    if message is None:
        return None
    route = admit(message, rooms.config, wish.agent, wish.session)  # who may talk, to which agent
    if route is None:
        return None
    key = route.session_key
    async with rooms.lanes.turn(key, lane_of(key)) as mailbox:  # one at a time in a session
        errand = Errand(new_turn(), route, [Accepted(0, message)], mailbox, wish)
        ended = await run_turn(errand, rooms, emit, partial(_whole, rooms))
    if ended.failed:
        raise ended.failed
    return ended.owed[0] if ended.owed else None


def new_turn() -> str:
    """An id for a turn: 12 hex digits."""
    return uuid.uuid4().hex[:12]


async def run_turn(errand: Errand, rooms: Rooms, emit: Emit, letters: Letters) -> Ended:
    """Answer what an errand took, in a session that is ours while this runs.

    It always ends: answered, silent, failed or stopped, and what it owes is in the ledger together with that. Only a
    turn that is parked ends nowhere.
    """
    turn, told = errand.turn, partial(_tell, emit, rooms)
    ending, stage = TurnEnded(turn, "failed", ""), None
    failed: Exception | None = None
    began = partial(rooms.journal.began, turn, errand.route.session_key, errand.numbers, again=errand.resumed)
    await rooms.journal.insist(began, rooms.complain if errand.numbers else None)
    errand.begun = True
    reach("turn-began")
    try:
        stage = await set_stage(
            errand.message, errand.route, rooms, errand.wish
        )  # models, nine layers, prompt
        session = await rooms.sessions.open(errand.route.session_key, errand.route.agent_id)  # the past
        bill = bill_of(errand.message, errand.route, rooms.kit, turn)
        account(replace(bill, conversation=session.id))  # who pays for its model calls
        try:
            await _begin_anew_if_stale(errand, stage, session, rooms, told)
            account(replace(bill, conversation=session.id))
            await _greet(turn, stage, errand.route, session, told)
            ending = await _converse(errand, stage, session, rooms, told)
            reach("answer-recorded")
        finally:
            session.flush_soon(lambda refused: rooms.complain(str(refused)))
            session.release()
    except asyncio.CancelledError:
        if errand.parked:
            raise
        ending = TurnEnded(turn, "stopped", "")
        await _over(errand, ending, stage, rooms, told, letters)
        raise
    except BudgetError as over:
        errand.excuse = over.excuse
        ending = TurnEnded(turn, "skipped", "") if over.skips else TurnEnded(turn, "failed", str(over))
        failed = None if over.skips else over
        if over.skips:
            rooms.complain(say("{job} was left out: {why}", job=errand.route.session_key, why=over))
    except ClawError as why:
        ending, failed = TurnEnded(turn, "failed", str(why)), why
        if getattr(why, "reason", "") == "empty":
            errand.excuse = say("The model said nothing. Please ask again.")
    except Exception as broken:  # noqa: BLE001 - a fault of ours, or a stranger's past every wall: the turn ends all the same
        ending, failed = _broke(turn, broken), broken
    return await _over(errand, ending, stage, rooms, told, letters, failed)


def _broke(turn: str, why: Exception) -> TurnEnded:
    return TurnEnded(turn, "failed", say("something broke inside claw: {why}", why=name_of(why)))


async def _over(
    errand: Errand, ending: TurnEnded, stage: Stage | None, rooms: Rooms, told: Emit, letters: Letters,
    failed: Exception | None = None,
) -> Ended:  # fmt: skip
    """The end and what is owed for it, in one commit; then everybody hears it."""
    owed: tuple[Outbound, ...] | None = None
    try:
        owed = await letters(errand, ending, stage)
    except asyncio.CancelledError:
        ending = TurnEnded(errand.turn, "stopped", "")
        raise
    except Exception as broken:  # noqa: BLE001 - what it says cannot be put into messages: that is said
        ending, failed = _broke(errand.turn, broken), broken
        owed = await letters(errand, ending, None)
    finally:
        if owed is not None or not errand.parked:  # else the next process says what the session holds
            errand.over, is_owed = True, bool(errand.numbers)
            unsure: tuple[str, ...] = ()
            if owed and is_owed and errand.resumed:
                # What a stream of the process before posted and did not note may stand there, beside what is owed now.
                shown, lost = rooms.journal.standing(errand.turn)
                unsure = tuple(one.key for one in owed[len(shown) :] if one.text) if lost or shown else ()
            paid, due = rooms.spending.book.of_turn(errand.turn), owed if owed and is_owed else ()
            end = partial(rooms.journal.ended, errand.turn, ending.outcome, due, unsure, paid)
            await rooms.journal.insist(end, rooms.complain if is_owed else None)
            reach("turn-ended")
            await told(ending)
    return Ended(ending, owed, failed)


async def _converse(errand: Errand, stage: Stage, session: Session, rooms: Rooms, told: Emit) -> TurnEnded:
    """Model and tools, until there is an answer."""
    turn, message = errand.turn, errand.message
    caller = Caller(
        turn, message, stage, rooms, told, session.usage.context_tokens, partial(rooms.journal.once, turn),
        partial(rooms.journal.not_begun, turn), repetition=repetition_of(stage, rooms))  # fmt: skip
    prompt = _words(errand.taken, rooms, errand.preface, errand.summed)
    start, untold = _fresh(session, prompt), list[Accepted]()
    if errand.resumed:
        start = _taken_up(session, start, set(map(str, errand.numbers)))
        untold = _untold(session, errand) if start.prompt is None else []
        caller.heard.update(tools_heard(start.past[start.at :]))
    worn = {prompt.source: dress([one.inbound for one in errand.taken], stage, rooms.config)}
    known = {str(one.number): one.inbound for one in errand.taken}
    for said in start.past[start.at :]:
        if isinstance(said, User) and said.source.rpartition(",")[2] in known:
            those = [known[one] for one in said.source.split(",") if one in known]
            worn[said.source] = dress(those, stage, rooms.config)

    def joined(waiting: Sequence[Accepted]) -> list[User]:
        for one in waiting:
            errand.taken.append(one)
            if one.number:
                rooms.journal.joined(turn, one.number)
        return told_now(waiting)

    def told_now(waiting: Sequence[Accepted]) -> list[User]:
        users = [_words([one], rooms) for one in waiting]
        for user, one in zip(users, waiting, strict=True):
            if user.source:
                worn[user.source] = dress([one.inbound], stage, rooms.config)
        return users

    def is_answered() -> bool:
        """In a chat a whole answer ends the turn, so that it is sent; what comes now gets a turn of its own."""
        newest = session.spoken[-1] if session.spoken else None
        return bool(errand.numbers) and isinstance(newest, Assistant) and not newest.tool_calls

    async def steered() -> Sequence[User]:
        if caller.repetition.over:  # what it was refused is in the session by now
            raise ClawError("{why}", why=caller.repetition.over)
        cut_off = told_now(untold)
        untold.clear()
        return cut_off or (() if is_answered() else joined(errand.mailbox.take()))

    async def followed() -> Sequence[User]:
        return () if is_answered() else joined(errand.mailbox.shut())

    steps = Steps(
        ask=_asking(errand, start, worn, caller, session),
        prepare=partial(prepare, caller=caller),  # one gate for every call
        emit=partial(_write_then_tell, session, told, errand),  # written before it is told
        steer=steered,
        follow_up=followed,
        max_steps=stage.agent.settings.max_turns,
        tool_choice=_tool_choice(stage, errand, start),
    )
    answer = (not untold and start.answer) or await run_loop(start.past, start.prompt, steps, start.pending)
    tokens = silent_tokens(rooms.config.settings.messages.silent_token)
    return outcome(turn, answer, session.spoken, errand.message.address, tokens, errand.ran_out)


def _untold(session: Session, errand: Errand) -> list[Accepted]:
    """What had joined the turn that was cut off, and was not yet in the session."""
    told = {number for said in session.spoken if isinstance(said, User) for number in said.source.split(",")}
    return [one for one in errand.taken if one.number and str(one.number) not in told]


def _words(
    taken: Sequence[Accepted], rooms: Rooms, preface: str = "", summed: Sequence[Accepted] = ()
) -> User:
    """What came in, as one message of the person: its words, and where they came from.

    :param summed: what the preface speaks of.
    """
    texts = [preface] if preface else []
    texts += [spoken(one.inbound, _names_people(one.inbound, rooms)) for one in taken]
    return User((Text("\n\n".join(texts)),), source=source_of((*summed, *taken)))


def _names_people(inbound: Inbound, rooms: Rooms) -> bool:
    channel = rooms.kit.channel(inbound.address.channel, inbound.address.account)
    return channel is not None and NAMES in channel.capabilities


def source_of(taken: Sequence[Accepted]) -> str:
    """What came in, by its numbers in the journal."""
    return ",".join(str(one.number) for one in taken if one.number)


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


def _fresh(session: Session, prompt: User) -> _Start:
    past = session.messages
    return _Start(past, prompt, len(past))


def _taken_up(session: Session, fresh: _Start, numbers: set[str]) -> _Start:
    """Where a turn that was cut off stands. A half answer that was kept is left out: the model is asked again.

    :param numbers: what it answers: the first message that came from one of them is where it began.
    """
    said = list(session.spoken)
    at = next(
        (at for at, m in enumerate(said) if isinstance(m, User) and numbers & set(m.source.split(","))), None
    )
    if at is None:
        return fresh
    tail = said[at:]
    while isinstance(last := tail[-1], Assistant) and last.stop_reason in ("error", "aborted"):
        tail.pop()
    newest = next((m for m in reversed(tail) if isinstance(m, Assistant)), None)
    answered = {m.call_id for m in tail if isinstance(m, ToolResult)}
    pending = tuple(call for call in newest.tool_calls if call.id not in answered) if newest else ()
    before = session.before(at)
    answer = tail[-1] if isinstance(tail[-1], Assistant) and not tail[-1].tool_calls else None
    return _Start((*before, *tail), None, len(before), pending, answer)


async def _begin_anew_if_stale(
    errand: Errand, stage: Stage, session: Session, rooms: Rooms, told: Emit
) -> None:
    """A conversation that has been left long enough starts anew, where the settings want that; the old one is kept."""
    message, last = errand.message, session.last_heard_at
    kind = "thread" if message.address.thread else message.chat_type
    policy = reset_policy(rooms.config.settings.session, kind, message.address.channel)
    if errand.resumed or last is None or policy.mode == "off":
        return
    if not is_fresh(policy, last, session.now, zone_of(stage.agent.settings.user_timezone)):
        await save_the_rest(Caller(errand.turn, message, stage, rooms, told), session)
        await session.reset()
        await told(Notice(say("a new conversation: the last one had ended by itself")))


async def _greet(turn: str, stage: Stage, route: Route, session: Session, told: Emit) -> None:
    await told(TurnStarted(turn, stage.agent.id, route.session_key, str(stage.models[0])))
    for line in session.notices:
        await told(Notice(line))


def _asking(
    errand: Errand, start: _Start, worn: Mapping[str, Dress], caller: Caller, session: Session
) -> Ask:
    """One model call: the past that fits, this message, the tools, through the models in order."""
    stage, rooms, told = caller.stage, caller.rooms, caller.emit
    ask = models_of(
        stage, rooms, partial(_switched, errand, told), told,
        may_say_nothing=lambda messages: is_said(messages, errand.message.address),
    )  # fmt: skip

    @cache  # the same object at each step: what is known by identity stays known
    def worn_by(message: User) -> User:
        return worn[message.source].on(message)

    def dressed(messages: Sequence[Message], begins: int) -> list[Message]:
        shown = list(messages)
        for at in range(begins, len(shown)):
            message = shown[at]
            if isinstance(message, User) and any(worn.get(message.source, ())):
                shown[at] = worn_by(message)
        return shown

    def seen(past: Sequence[Message], at: int) -> Ask:
        dress = partial(dressed, begins=at)
        view = View(ask, stage, session, rooms, told, past, at, dress, saver(caller, session))
        view.said = errand.shortened
        return view.ask

    return Rebuilding(seen, session, told, errand.shortened, start.past, start.at).ask


async def _switched(errand: Errand, told: Emit, text: str) -> None:
    """What happened to the models; in a chat the owner reads it beside the answer."""
    if errand.route.owner:
        errand.shortened.append(text)
    await told(Notice(text))


def _tool_choice(stage: Stage, errand: Errand, start: _Start) -> str:
    """Of the first model call. A turn that is taken up behind its first one had it already."""
    choice = errand.wish.tool_choice or errand.message.tool_choice or stage.agent.settings.tool_choice
    if choice != "none" and any(isinstance(said, Assistant) for said in start.past[start.at :]):
        return "auto"
    return choosable(choice, stage)


async def _tell(emit: Emit, rooms: Rooms, event: Event) -> None:
    await emit(event)
    if rooms.kit.observers:
        await tell(event, rooms.kit.observers, rooms.yard, rooms.complain)


async def _write_then_tell(session: Session, told: Emit, errand: Errand, event: Event) -> None:
    if isinstance(event, Said):
        if errand.parked and isinstance(event.message, Assistant) and event.message.stop_reason == "aborted":
            return  # the next process asks the model again
        session.append(event.message)
        if isinstance(event.message, Assistant):
            _count(errand, event.message)
        if isinstance(event.message, User):
            reach("user-recorded")
    elif isinstance(event, RunEnded):
        errand.ran_out = event.stop_reason == "max_steps"
    await told(event)


def _count(errand: Errand, said: Assistant) -> None:
    usage, (read, written) = said.usage, errand.tokens
    asked = (usage.input or 0) + (usage.cache_read or 0) + (usage.cache_write or 0)
    errand.tokens = (read + asked, written + (usage.output or 0))
    errand.thinking += "".join(block.text for block in said.content if isinstance(block, Thinking))


async def _whole(
    rooms: Rooms, errand: Errand, ending: TurnEnded, stage: Stage | None
) -> tuple[Outbound, ...]:
    """A terminal's answer: one message, whatever its length."""
    if ending.outcome in ("silent", "failed") or not ending.text:
        return ()
    message = errand.message
    outbound = Outbound(ending.turn, message.address, ending.text, reply_to=message.message_id or None)
    let_out = await filtered(outbound, "outbound", rooms.kit.filters, rooms.yard, rooms.complain)
    return (let_out,) if let_out else ()
