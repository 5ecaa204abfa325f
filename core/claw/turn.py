"""The path of one message, readable top to bottom. Every other room is one line of this one."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import cache, partial

from claw import compaction
from claw.config import Config
from claw.errors import ClawError, UsageError
from claw.event import Event, Notice, Said, TurnEnded, TurnStarted
from claw.fallback import with_fallback
from claw.gate import Caller, prepare
from claw.guests import filtered, tell
from claw.loop import Emit, Steps, run_loop
from claw.message import Inbound, Outbound
from claw.prompt import inbound_context
from claw.provider import Ask, ModelEvent, Request, ToolSpec
from claw.route import Route, admit
from claw.session import Session
from claw.stage import Rooms, Stage, Wish, inbound_meta, set_stage
from claw.transcript import Assistant, Message, Text, User, limit_turns
from claw.words import say

_PROMPT_SHARE = 0.8
"""Of the window, for instructions and past together; the rest is for the answer (DESIGN, compaction trigger)."""

_LEFT_OUT = "{count} older messages are not shown to the model: they no longer fit"


async def take_turn(inbound: Inbound, wish: Wish, *, rooms: Rooms, emit: Emit) -> Outbound | None:
    """Carry one message from a person to an answer.

    :returns: what to say; None when the sender may not talk, a filter dropped it, or the agent stays silent.
    :raises ClawError: the turn failed; ``TurnEnded`` was told, and what was said until then is in the session.
    """
    message = await filtered(inbound, "inbound", rooms.kit.filters, rooms.yard, rooms.complain)
    if message is None:
        return None
    route = admit(message, rooms.config, wish.agent, wish.session)  # who may talk, to which agent
    if route is None:
        return None
    turn, told = uuid.uuid4().hex[:12], partial(_tell, emit, rooms)
    async with rooms.lanes.turn(route.session_key) as mailbox:  # one at a time in a session
        stage = await set_stage(message, route, rooms, wish)  # the models, the nine layers, the prompt
        session = await rooms.sessions.open(route.session_key, route.agent_id)  # the past
        rooms.journal.began(turn, route.session_key)
        ending = TurnEnded(turn, "failed", "")
        try:
            await _greet(turn, stage, route, session, told)
            caller = Caller(turn, message, stage, rooms, told, session.usage.context_tokens)
            steps = Steps(
                ask=_asking(message, stage, session, rooms, told),
                prepare=partial(prepare, caller=caller),  # one gate for every call
                emit=partial(_write_then_tell, session, told),  # written before it is told
                steer=_async(mailbox.take),
                follow_up=_async(mailbox.shut),  # what came too late to steer is still answered in this turn
                max_steps=stage.agent.settings.max_turns,
                tool_choice=_tool_choice(stage, wish),
            )
            answer = await run_loop(session.messages, User((Text(message.text),)), steps)
            ending = _ending(turn, answer, rooms.config)
        except asyncio.CancelledError:
            ending = TurnEnded(turn, "stopped", "")
            raise
        except ClawError as failed:
            ending = TurnEnded(turn, "failed", str(failed))
            raise
        finally:
            await session.flush()
            rooms.journal.ended(turn, ending.outcome)
            session.release()
            await told(ending)
    if ending.outcome == "silent":
        return None
    outbound = Outbound(turn, message.address, ending.text, reply_to=message.message_id or None)
    return await filtered(outbound, "outbound", rooms.kit.filters, rooms.yard, rooms.complain)


async def _greet(turn: str, stage: Stage, route: Route, session: Session, told: Emit) -> None:
    await told(TurnStarted(turn, stage.agent.id, route.session_key, str(stage.models[0])))
    for line in session.notices:
        await told(Notice(line))


def _asking(inbound: Inbound, stage: Stage, session: Session, rooms: Rooms, told: Emit) -> Ask:
    """One model call: the past that fits, this message, the tools, through the models in order."""
    settings = stage.agent.settings
    request = Request(
        model="", system=stage.system, messages=(), thinking=settings.thinking_default, max_tokens=settings.max_tokens,
        tools=tuple(ToolSpec(tool.name, tool.description, tool.parameters) for tool in stage.tools.values()),
    )  # fmt: skip
    providers = {name: brought.thing for name, brought in rooms.kit.providers.items()}
    ask = with_fallback(
        stage.models, providers, request, lambda text: told(Notice(text)), _key_orders(rooms.config),
        rooms.yard.leeway.silence_seconds,
    )  # fmt: skip
    budget = int(stage.window_tokens * _PROMPT_SHARE) - len(stage.system.whole) // 4
    head = _head_of_message(inbound, rooms.config)
    past = session.messages
    turn_start = len(past)
    skipped = turn_start - len(
        limit_turns(past, settings.history_limit)
    )  # older turns than the setting keeps

    shortened = False

    @cache  # the same object at each step: what is known by identity stays known
    def headed(message: User) -> User:
        return User((Text(head), *message.content))

    async def fitted(messages: Sequence[Message], tool_choice: str) -> AsyncIterator[ModelEvent]:
        nonlocal shortened
        shown = list(messages)
        if head and len(shown) > turn_start and isinstance(shown[turn_start], User):
            shown[turn_start] = headed(shown[turn_start])
        view = compaction.fit(shown[skipped:], rooms.costs.of(shown).each[skipped:], budget)
        if view.left_out and not shortened:
            shortened = True
            await told(Notice(say(_LEFT_OUT, count=view.left_out)))
        async for event in ask(view.messages, tool_choice):
            yield event

    return fitted


def _key_orders(config: Config) -> dict[str, tuple[str, ...]]:
    return {
        name: section.auth_order for name, section in config.settings.providers.items() if section.auth_order
    }


def _head_of_message(inbound: Inbound, config: Config) -> str:
    """What stands before the person's words in the request of this turn; history keeps the plain words."""
    if config.settings.prompt.inbound_meta != "user":
        return ""
    return inbound_context(inbound_meta(inbound)) + "\n\n"


def _tool_choice(stage: Stage, wish: Wish) -> str:
    choice = wish.tool_choice or stage.agent.settings.tool_choice
    if choice in ("auto", "none", "required") or choice in stage.tools:
        return choice
    ruling = stage.judgement.rulings.get(choice)
    raise UsageError(
        "the tool {name} was asked for by tool choice, and this turn does not have it: {why}",
        fix="claw tools explain {name} says how to let it through",
        name=choice,
        why=ruling.reason if ruling else say("no such tool is installed"),
    )


async def _tell(emit: Emit, rooms: Rooms, event: Event) -> None:
    await emit(event)
    if rooms.kit.observers:
        await tell(event, rooms.kit.observers, rooms.yard, rooms.complain)


async def _write_then_tell(session: Session, told: Emit, event: Event) -> None:
    if isinstance(event, Said):
        session.append(event.message)
    await told(event)


def _async(take: Callable[[], Sequence[str]]) -> Callable[[], Awaitable[Sequence[str]]]:
    async def taken() -> Sequence[str]:
        return take()

    return taken


def _ending(turn: str, answer: Assistant | None, config: Config) -> TurnEnded:
    """How a turn ended whose loop came back."""
    if answer is None:
        return TurnEnded(turn, "failed", "")
    text = answer.text
    if answer.stop_reason in ("error", "aborted"):
        return TurnEnded(turn, "failed" if answer.stop_reason == "error" else "stopped", text or answer.error)
    silent = text.strip() == config.settings.messages.silent_token
    return TurnEnded(turn, "silent" if silent else "delivered", text)
