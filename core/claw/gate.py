"""The one gate that every tool call of every turn goes through: looked up, checked, reviewed, then run."""

import asyncio
import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from claw.amending import Amending, is_outside, mark
from claw.asking import Asking
from claw.envelope import contained
from claw.errors import ClawError
from claw.event import Event, ToolProgress
from claw.failpoint import reach
from claw.guard.environment import child_environment
from claw.guests import review, review_result
from claw.loop import Emit, Prepared
from claw.loops import Limits, Repetition, Sign, limits_of, refusal, warning
from claw.message import Inbound
from claw.policy import Judgement
from claw.shelf import folder_of, keep
from claw.spoken.told import UNREADABLE, unread
from claw.stage import Rooms, Stage
from claw.talk import Talk
from claw.tool import Ask, Result, Tool, ToolContext, fit, run, validate
from claw.transcript import NO_RESULT, Text, ToolCall
from claw.truncation import result_limit
from claw.words import say

_READ = "read"


@dataclass(frozen=True)
class Caller:
    """On whose behalf calls run: one turn of one conversation.

    :param used_tokens: what the last model call read, for the status tool.
    :param heard: tools whose answers, somebody else's words perhaps, the model has read in this turn.
    :param repetition: the calls of this turn; it knows when they go round in circles.
    :param once: told that a call is about to run whose effect must not be repeated; False: it was begun before.
    :param not_begun: told that such a call waits for a person, and has done nothing yet.
    """

    turn: str
    inbound: Inbound
    stage: Stage
    rooms: Rooms
    emit: Emit
    used_tokens: int = 0
    once: Callable[[str], bool] = lambda call: True
    not_begun: Callable[[str], None] = lambda call: None
    heard: set[str] = field(default_factory=set)
    repetition: Repetition = field(default_factory=lambda: Repetition(Limits(enabled=False)))

    @cached_property
    def environment(self) -> dict[str, str]:
        """What programs of this turn's tools see of ours."""
        config, tools = self.rooms.config, self.stage.agent.settings.tools
        settings = (tools and tools.exec) or config.settings.tools.exec
        return child_environment(config.environ, settings.env_allow)


def repetition_of(stage: Stage, rooms: Rooms) -> Repetition:
    """What watches the calls of one turn, by the agent's settings, else the house's."""
    tools = stage.agent.settings.tools
    own = tools if tools and "loop_detection" in tools.model_fields_set else rooms.config.settings.tools
    return Repetition(limits_of(own.loop_detection))


async def prepare(call: ToolCall, caller: Caller) -> Prepared | Result:
    """Make a call ready to run; a ``Result`` is its refusal, in words that the model can act on.

    A call that goes round in circles is warned of, or refused.
    """
    if call.name == UNREADABLE:
        caller.repetition.garbled()
        return Result(unread(call), is_error=True)
    sign, came = caller.repetition.begins(call)
    if sign and sign.level == "critical":
        return Result(refusal(sign, call.name), is_error=True)
    ready = await _prepared(call, caller)
    if isinstance(ready, Result):
        came(ready.blocks, ready.is_error)
        return _warned(ready, sign, call)

    async def run() -> Result:
        result = await ready.run()
        came(result.blocks, result.is_error)
        return _warned(result, sign, call)

    return Prepared(run, ready.parallel)


def _warned(result: Result, sign: Sign | None, call: ToolCall) -> Result:
    return replace(result, content=(*result.blocks, Text(warning(sign, call.name)))) if sign else result


async def _prepared(call: ToolCall, caller: Caller) -> Prepared | Result:
    stage, rooms = caller.stage, caller.rooms
    tool = stage.tools.get(call.name)
    if tool is None:
        return Result(_why_not(call.name, stage.judgement), is_error=True)
    arguments, wrong = validate(tool, call.arguments)
    if wrong:
        return Result(wrong, is_error=True)
    checked, verdict = await review(
        ToolCall(call.id, call.name, arguments), rooms.kit.reviewers, rooms.yard, rooms.complain
    )
    environment = dict(caller.environment)
    asking = Asking(tool, checked.arguments, caller.turn, caller.inbound, stage, rooms, environment)
    refused = (verdict.why or verdict.verdict) if verdict.verdict == "deny" else ""
    if not refused and (verdict.verdict == "ask" or asking.must_be_asked):
        refused = await asking.before(verdict.why)
    amending = Amending(stage, rooms, mark(caller.inbound, stage, rooms, caller.heard))
    refused = refused or await amending.before(tool.name, checked.arguments, asking)
    if refused:
        return Result(say("the call was refused: {why}", why=refused), is_error=True)
    context = replace(context_of(checked.id, tool, caller, environment, asking), files=amending.files)
    limit = result_limit(stage.window_tokens)

    async def ready() -> Result:
        given = copy.deepcopy(checked.arguments)  # nobody else holds what runs
        if asking.is_other(given):
            changed = say("the call was refused: it is no longer what a person allowed; ask again")
            return Result(changed, is_error=True)
        if tool.effects == "once" and not caller.once(checked.id):
            return Result(NO_RESULT, is_error=True)
        reach("effect-marked")
        async with amending.watched():
            answer = await run(tool, given, context)
        reach("effect-done")
        answer = await amending.settled(answer, asking)
        if is_outside(tool.name, answer):
            caller.heard.add(tool.name)
        result = await review_result(checked, answer, rooms.kit.reviewers, rooms.yard, rooms.complain)
        masked = _texts(rooms.redact.known_masked, result)
        most = limit if masked.most_chars is None else min(limit, masked.most_chars)
        return _texts(contained, fit(masked, most, await _rest_of(masked, most, tool, checked.id, caller)))

    return Prepared(ready, tool.parallel)


async def _rest_of(result: Result, limit: int, tool: Tool, call: str, caller: Caller) -> str | None:
    """What a result that is too long ends with: where all of it is. None when it fits, or nobody could read it."""
    stage = caller.stage
    text = "\n".join(block.text for block in result.blocks if isinstance(block, Text))
    if len(text) <= limit or _READ not in stage.tools or tool.name == _READ:
        return None
    folder = folder_of(stage.agent.dir, stage.route.session_key)
    try:
        path, lines = await keep(folder, f"{caller.turn}-{call}", text)
    except (OSError, ClawError) as refused:
        caller.rooms.complain(
            say("the tool's answer was too long; it could not be kept whole: {why}", why=refused)
        )
        return None
    return f"\n[... {len(text) - limit} chars truncated; all {lines} lines, long ones broken, are in {path}: use {_READ}]"


def _texts(change: Callable[[str], str], result: Result) -> Result:
    """The result with every text of it changed: no configured secret reaches a model, no forged mark either."""
    blocks = tuple(Text(change(block.text)) if isinstance(block, Text) else block for block in result.blocks)
    return result if blocks == result.blocks else replace(result, content=blocks)


def _why_not(name: str, judgement: Judgement) -> str:
    """Why a call has no tool, for the model: the key that decided, or that there is no such tool."""
    ruling = judgement.rulings.get(name)
    if ruling is None or ruling.allowed:
        return f"Tool {name} not found"
    return f"Tool {name} is not available here: {ruling.reason}"


def context_of(
    call_id: str, tool: Tool, caller: Caller, environment: dict[str, str], asking: Asking
) -> ToolContext:
    """What ``tool`` is given when it runs for ``caller``."""
    stage, rooms, inbound = caller.stage, caller.rooms, caller.inbound
    loop = asyncio.get_running_loop()

    def progress(text: str) -> None:  # may be called from a tool's thread
        asyncio.run_coroutine_threadsafe(_said(caller.emit, ToolProgress(call_id, text)), loop)

    talk = Talk(f"{caller.turn}:{call_id}"[:46], inbound, stage, rooms)

    async def send(text: str, paths: tuple[str, ...] = ()) -> tuple[str, ...]:
        return await talk.send(text, paths)

    config, settings = rooms.config, stage.agent.settings

    def wrap(argv: Sequence[str]) -> list[str]:
        assert stage.sandbox is not None
        return stage.sandbox.wrap(argv, workspace=stage.workspace, environment=environment)

    return ToolContext(
        call_id=call_id,
        session_key=stage.route.session_key,
        agent=stage.agent,
        owner=stage.route.owner,
        files=stage.fence,
        fetch=rooms.fetch,
        state_dir=config.home / "plugins" / tool.plugin,
        progress=progress,
        send=send,
        talk=talk,
        status={
            "model": str(stage.models[0]), "context_tokens": stage.window_tokens,
            "used_tokens": caller.used_tokens, "session_key": stage.route.session_key,
            "zone": settings.user_timezone or "", "thinking": settings.thinking_default, "turn": caller.turn,
        },
        environment=environment, wrap=wrap if stage.sandbox else None, ask=_asked_first(call_id, tool, caller, asking),
        memory=stage.agent.dir / "agent" if stage.is_private else stage.notes,
    )  # fmt: skip


def _asked_first(call: str, tool: Tool, caller: Caller, asking: Asking) -> Ask:
    """``asking.ask``. A call whose effect must not be repeated is marked before it runs, for it may never ask; while a
    person thinks the mark is taken back, so that a restart makes the call anew and it finds its question.
    """
    if tool.effects != "once":
        return asking.ask
    answered = False

    async def ask(shown: str, title: str = "", seal: str = "") -> bool:
        nonlocal answered
        if not answered:
            caller.not_begun(call)
        cut_off = False
        try:
            return await asking.ask(shown, title, seal)
        except asyncio.CancelledError:
            cut_off = True
            raise
        finally:
            if not cut_off:
                answered = True
                caller.once(call)

    return ask


async def _said(emit: Emit, event: Event) -> None:
    await emit(event)
