"""The one gate that every tool call of every turn goes through: looked up, checked, reviewed, then run."""

import asyncio
import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from claw_approvals.approver import CallApproval
from claw_approvals.rule_files import (
    RuleFileGuard,
    is_untrusted_result,
    provenance_of_turn,
    untrusted_tools,
)

from claw.agent.loop import Emit, PreparedCall
from claw.agent.turn_context import Runtime, TurnContext
from claw.contracts.errors import ToolError
from claw.contracts.events import Event, ToolProgress
from claw.contracts.extensions import CallContext, Review, ToolTraits
from claw.contracts.messages import Address, Inbound, Outbound
from claw.contracts.text import result_limit
from claw.contracts.tool import ApprovalCallback, Tool, ToolContext, ToolResult, fit_result, validate
from claw.contracts.transcript import NO_RESULT, UNREADABLE_CALL, Message, Text, ToolCall
from claw.host.calls import describe_malformed, review_tool_result, run_filters, run_reviewers
from claw.host.isolation import describe_exception
from claw.host.worker import run_tool
from claw.i18n import t
from claw.policy import Judgement
from claw.security.child_env import child_environment
from claw.security.untrusted_text import wrap_untrusted
from claw.storage.files import results_folder
from claw.storage.turn_log import reached

_READ = "read"


@dataclass
class Caller:
    """On whose behalf calls run: one turn of one conversation.

    :param used_tokens: what the last model call read, for the status tool.
    :param heard: tools whose answers, somebody else's words perhaps, the model has read in this turn.
    :param once: told that a call is about to run whose effect must not be repeated; False: it was begun before.
    :param not_begun: told that such a call waits for a person, and has done nothing yet.
    :param end_turn: the reason why a reviewer ended the turn, as text for the person; empty while it may go on.
    """

    turn: str
    inbound: Inbound
    stage: TurnContext
    rooms: Runtime
    emit: Emit
    used_tokens: int = 0
    once: Callable[[str], bool] = lambda call: True
    not_begun: Callable[[str], None] = lambda call: None
    heard: set[str] = field(default_factory=set)
    end_turn: str = ""

    @cached_property
    def environment(self) -> dict[str, str]:
        """The environment variables that programs of this turn's tools get."""
        config, tools = self.rooms.config, self.stage.agent.settings.tools
        settings = (tools and tools.exec) or config.settings.tools.exec
        return child_environment(config.environ, settings.env_allow)

    def untrusted_in(self, messages: Sequence[Message]) -> set[str]:
        """Return the tools whose results in these messages may hold the words of other people."""
        return untrusted_tools(messages)


async def prepare(call: ToolCall, caller: Caller) -> PreparedCall | ToolResult:
    """Make a call ready to run; a ``Result`` is its refusal, in words that the model can act on."""
    tool, arguments, problem = _looked_up(call, caller.stage, caller.rooms)
    context, runtime = call_context(tool, caller, problem), caller.rooms
    checked, review = await run_reviewers(
        ToolCall(call.id, call.name, arguments),
        context,
        runtime.registry.reviewers,
        runtime.worker,
        runtime.log,
    )
    caller.end_turn = caller.end_turn or review.end_turn
    if review.verdict == "deny":
        problem = _refused(review.why or review.verdict)
    if tool is None or problem:
        return _noted(await _not_run(checked, problem, context, runtime), review, runtime)
    ready = await _prepared(checked, tool, review, context, caller)
    if isinstance(ready, ToolResult):
        return _noted(ready, review, runtime)
    if not review.note:
        return ready

    async def run() -> ToolResult:
        return _noted(await ready.run(), review, runtime)

    return PreparedCall(run, ready.parallel)


def _looked_up(
    call: ToolCall, stage: TurnContext, runtime: Runtime
) -> tuple[Tool | None, dict[str, Any], str]:
    """Return the tool of a call, its arguments, and why it cannot run; empty when it can."""
    if call.name == UNREADABLE_CALL:
        return None, call.arguments, describe_malformed(call, runtime.registry.middleware)
    tool = stage.tools.get(call.name)
    if tool is None:
        return None, call.arguments, _why_not(call.name, stage.judgement)
    arguments, problem = validate(tool, call.arguments)
    return tool, call.arguments if problem else arguments, problem


def _refused(why: str) -> str:
    return t("the call was refused: {why}", why=why)


async def _not_run(call: ToolCall, why: str, context: CallContext, runtime: Runtime) -> ToolResult:
    """Return the answer to a call that does not run, as reviewers of all calls have seen it."""
    answer = ToolResult(why, is_error=True)
    return await review_tool_result(
        call, answer, context, runtime.registry.reviewers, runtime.worker, runtime.log, has_run=False
    )


def _noted(result: ToolResult, review: Review, runtime: Runtime) -> ToolResult:
    """Return the result with the notes of the reviewers behind it."""
    if not review.note or review.verdict == "deny":
        return result
    return replace(result, content=(*result.blocks, Text(runtime.redact.mask_known(review.note))))


async def _prepared(
    checked: ToolCall, tool: Tool, review: Review, context: CallContext, caller: Caller
) -> PreparedCall | ToolResult:
    stage, runtime = caller.stage, caller.rooms
    environment = dict(caller.environment)
    asking = CallApproval(tool, checked.arguments, caller.turn, caller.inbound, stage, runtime, environment)
    refused = ""
    if review.verdict == "ask" or asking.is_required:
        refused = await asking.ask_before_call(review.why)
    amending = RuleFileGuard(stage, runtime, provenance_of_turn(caller.inbound, stage, runtime, caller.heard))
    refused = refused or await amending.check_before(tool.name, checked.arguments, asking)
    if refused:
        return await _not_run(checked, _refused(refused), context, runtime)
    given_context = replace(context_of(checked.id, tool, caller, environment, asking), files=amending.files)
    limit = result_limit(stage.window_tokens)

    async def ready() -> ToolResult:
        given = copy.deepcopy(checked.arguments)  # nobody else holds what runs
        if asking.has_changed(given):
            changed = t("the call was refused: it differs from what was approved; ask again")
            return await _not_run(checked, changed, context, runtime)
        if tool.effects == "once" and not caller.once(checked.id):
            return await _not_run(checked, NO_RESULT, context, runtime)
        reached(runtime.turn_log, "effect-marked")
        async with amending.watch():
            answer = await run_tool(tool, given, given_context)
        reached(runtime.turn_log, "effect-done")
        answer = await amending.apply_changes(answer, asking)
        if is_untrusted_result(tool.name, answer):
            caller.heard.add(tool.name)
        result = await review_tool_result(
            checked, answer, context, runtime.registry.reviewers, runtime.worker, runtime.log
        )
        masked = _texts(runtime.redact.mask_known, result)
        most = limit if masked.most_chars is None else min(limit, masked.most_chars)
        return _texts(
            wrap_untrusted, fit_result(masked, most, await _rest_of(masked, most, tool, checked.id, caller))
        )

    return PreparedCall(ready, tool.parallel)


def call_context(tool: Tool | None, caller: Caller, problem: str = "") -> CallContext:
    """Return what reviewers are told of a call of this tool.

    :param problem: why the call cannot run.
    """
    context, inbound = caller.stage, caller.inbound
    traits = None
    if tool:
        traits = ToolTraits(
            tool.name, tool.plugin, tool.effects, tool.owner_only, tool.optional, tool.parallel
        )
    return CallContext(
        turn=caller.turn,
        session_key=context.route.session_key,
        agent=context.agent.id,
        address=inbound.address,
        sender=inbound.sender,
        owner=context.route.owner,
        tool=traits,
        provenance=frozenset(caller.heard),
        settings=context.agent.settings,
        problem=problem,
    )


async def _rest_of(result: ToolResult, limit: int, tool: Tool, call: str, caller: Caller) -> str | None:
    """Return the last line of a result that is too long: where the engine keeps the whole. None when nothing is kept."""
    context, engine = caller.stage, caller.rooms.registry.engine
    text = "\n".join(block.text for block in result.blocks if isinstance(block, Text))
    keep = getattr(engine.value, "keep_result", None) if engine else None
    if keep is None or len(text) <= limit or _READ not in context.tools or tool.name == _READ:
        return None
    folder = results_folder(context.agent.dir, context.route.session_key)
    try:
        return str(await keep(text, limit, folder, f"{caller.turn}-{call}"))
    except Exception as failed:  # noqa: BLE001 - the code of a plugin; the result is cut all the same
        why = describe_exception(failed)
        caller.rooms.log(t("the tool's result was too long and could not be saved in full: {why}", why=why))
        return None


def _texts(change: Callable[[str], str], result: ToolResult) -> ToolResult:
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
    call_id: str, tool: Tool, caller: Caller, environment: dict[str, str], asking: CallApproval
) -> ToolContext:
    """Return the context that ``tool`` gets when it runs for ``caller``."""
    context, runtime, inbound = caller.stage, caller.rooms, caller.inbound
    loop = asyncio.get_running_loop()

    def progress(text: str) -> None:  # may be called from a tool's thread
        asyncio.run_coroutine_threadsafe(_said(caller.emit, ToolProgress(call_id, text)), loop)

    talk = (runtime.chat_api or PlainChat)(f"{caller.turn}:{call_id}"[:46], inbound, context, runtime)

    async def send(text: str, paths: tuple[str, ...] = ()) -> tuple[str, ...]:
        return await talk.send(text, paths)

    config, settings = runtime.config, context.agent.settings

    def wrap(argv: Sequence[str]) -> list[str]:
        assert context.sandbox is not None
        return context.sandbox.wrap(argv, workspace=context.workspace, environment=environment)

    return ToolContext(
        call_id=call_id,
        session_key=context.route.session_key,
        agent=context.agent,
        owner=context.route.owner,
        files=context.fence,
        fetch=runtime.fetch,
        state_dir=config.home / "plugins" / tool.plugin,
        progress=progress,
        send=send,
        talk=talk,
        status={
            "model": str(context.models[0]), "context_tokens": context.window_tokens,
            "used_tokens": caller.used_tokens, "session_key": context.route.session_key,
            "zone": settings.user_timezone or "", "thinking": settings.thinking_default, "turn": caller.turn,
        },
        environment=environment, wrap=wrap if context.sandbox else None, ask=_asked_first(call_id, tool, caller, asking),
        memory=context.agent.dir / "agent" if context.is_private else context.notes,
    )  # fmt: skip


def _asked_first(call: str, tool: Tool, caller: Caller, asking: CallApproval) -> ApprovalCallback:
    """``asking.ask``. A call whose effect must not be repeated is marked before it runs, for it may never ask; while a
    person thinks the mark is taken back, so that a restart makes the call again and it finds its request.
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


class PlainChat:
    """The chat access of tools when no plugin brings one: texts to the chat that the turn answers in, nothing else.

    :param key: prefix of the delivery keys of this call.
    """

    def __init__(self, key: str, inbound: Inbound, context: TurnContext, runtime: Runtime) -> None:
        self._key, self._inbound, self._runtime, self._count = key, inbound, runtime, 0

    def resolve_address(self, target: str = "", channel: str = "", account: str = "") -> Address:
        """Return the address of the turn's chat.

        :raises ToolError: another one was named.
        """
        here = self._inbound.address
        if target in ("", here.chat, f"{here.channel}:{here.chat}") and channel in ("", here.channel):
            return here
        raise self._refused()

    def answered_message_id(self, where: Address | None = None) -> str:
        """Return the id of the message that this turn answers."""
        return self._inbound.message_id if where in (None, self._inbound.address) else ""

    async def send(
        self,
        text: str,
        paths: Sequence[str] = (),
        where: Address | None = None,
        reply_to: str | None = None,
        voice: bool = False,
    ) -> tuple[str, ...]:
        """Send a text to the turn's chat; return the message ids."""
        if paths or where not in (None, self._inbound.address):
            raise self._refused()
        self._count += 1
        key = self._key if self._count == 1 else f"{self._key}.{self._count}"
        runtime, masked = self._runtime, self._runtime.redact.answer_mask.masked(text)
        outbound = Outbound(
            key, self._inbound.address, masked, reply_to=reply_to, answers=self.answered_message_id()
        )
        allowed = await run_filters(
            outbound, "outbound", runtime.registry.filters, runtime.worker, runtime.log
        )
        return (await runtime.deliver(allowed)).message_ids if allowed else ()

    async def edit(self, message_id: str, text: str, where: Address | None = None) -> None:
        """Refuse: an edit needs the gateway."""
        raise self._refused()

    async def delete(self, message_id: str, where: Address | None = None) -> None:
        """Refuse: a deletion needs the gateway."""
        raise self._refused()

    async def react(
        self, emoji: str, message_id: str = "", remove: bool = False, where: Address | None = None
    ) -> None:
        """Refuse: a reaction needs the gateway."""
        raise self._refused()

    async def poll(
        self, question: str, options: Sequence[str], where: Address | None = None
    ) -> tuple[str, ...]:
        """Refuse: a poll needs the gateway."""
        raise self._refused()

    def _refused(self) -> ToolError:
        return ToolError("only text to this chat can be sent: more needs the plugin claw-gateway")
