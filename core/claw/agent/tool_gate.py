"""The one gate that every tool call of every turn goes through: looked up, checked, reviewed, then run."""

import asyncio
import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from claw.agent.loop import Emit, PreparedCall
from claw.agent.turn_context import Runtime, TurnContext
from claw.config.agents import ExecEnvironment
from claw.contracts.errors import ToolError, nearest
from claw.contracts.events import Event, ToolProgress
from claw.contracts.extensions import CallContext, Review, ToolTraits
from claw.contracts.messages import ApprovalRequest, Decision, Inbound, Outbound, PlainChat, Receipt
from claw.contracts.text import digest_of, format_arguments, result_limit
from claw.contracts.tool import ApprovalCallback, Tool, ToolContext, ToolResult, fit_result, validate
from claw.contracts.transcript import NO_RESULT, UNREADABLE_CALL, Message, Text, ToolCall
from claw.host.calls import ask_approver, describe_malformed, review_tool_result, run_filters, run_reviewers
from claw.host.isolation import describe_exception, limited_cpu
from claw.host.worker import run_tool
from claw.i18n import t
from claw.policy.decision import Judgement
from claw.security.child_env import child_environment
from claw.security.rule_files import RuleFileGuard
from claw.security.untrusted_text import wrap_untrusted
from claw.storage.files import results_folder
from claw.storage.freshness import zone_of
from claw.storage.provenance import called_tools, is_untrusted_result, turn_provenance
from claw.storage.turn_log import reached

_CHECK_SECONDS = 1.0


@dataclass
class Caller:
    """On whose behalf calls run: one turn of one conversation.

    :param used_tokens: what the last model call read, for the status tool.
    :param untrusted_tools: tools whose answers, which may hold text of third parties, the model has read in this turn.
    :param once: records a call that is about to run and must not be repeated; False: it was begun before.
    :param not_begun: records that such a call waits for a person, and has done nothing yet.
    :param may_ask: a person may be asked; False refuses every call that needs one.
    :param end_turn: the reason why a reviewer ended the turn, as text for the person; empty while it may go on.
    """

    turn: str
    inbound: Inbound
    context: TurnContext
    runtime: Runtime
    emit: Emit
    used_tokens: int = 0
    once: Callable[[str], bool] = lambda call: True
    not_begun: Callable[[str], None] = lambda call: None
    untrusted_tools: set[str] = field(default_factory=set)
    may_ask: bool = True
    end_turn: str = ""

    @cached_property
    def environment(self) -> dict[str, str]:
        """The environment variables that programs of this turn's tools get."""
        config, key = self.runtime.config, "tools.exec"
        own = self.context.agent.section(key, ExecEnvironment)
        settings = own if own.model_fields_set else config.section(key, ExecEnvironment)
        return child_environment(config.environ, settings.env_allow)

    def untrusted_in(self, messages: Sequence[Message]) -> set[str]:
        """Return the tools whose results in these messages may hold the words of other people."""
        tools = {tool.name: tool for tool in (*self.runtime.registry.tools, *self.context.tools.values())}
        return {
            name for name in called_tools(messages) if name not in tools or tools[name].results == "foreign"
        }


async def prepare(call: ToolCall, choice: str = "auto", *, caller: Caller) -> PreparedCall | ToolResult:
    """Make a call ready to run; a ``ToolResult`` is its refusal, in words that the model can act on.

    :param choice: the tool choice of the answer; services may ignore it, so a call that it excludes is refused here.
    """
    tool, arguments, problem = _looked_up(call, caller.context, caller.runtime)
    if choice == "none":
        problem = _refused(t("no tool may be called now; answer in words"))
    elif choice not in ("auto", "required", call.name) and call.name != UNREADABLE_CALL:
        problem = _refused(t("only {tool} may be called now", tool=choice))
    context, runtime = call_context(tool, caller, problem), caller.runtime
    read_call = ToolCall(call.id, call.name, arguments)
    checked, review = await run_reviewers(read_call, context, runtime.plugins)
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
    call: ToolCall, context: TurnContext, runtime: Runtime
) -> tuple[Tool | None, dict[str, Any], str]:
    """Return the tool of a call, its arguments, and why it cannot run; empty when it can."""
    if call.name == UNREADABLE_CALL:
        return None, call.arguments, describe_malformed(call, runtime.plugins)
    tool = context.tools.get(call.name)
    if tool is None:
        return None, call.arguments, _why_not(call.name, context.judgement)
    with limited_cpu(_CHECK_SECONDS):  # a pattern of a third party may backtrack without end
        arguments, problem = validate(tool, call.arguments)
    return tool, call.arguments if problem else arguments, problem


def _refused(why: str) -> str:
    return t("the call was refused: {why}", why=why)


async def _not_run(call: ToolCall, why: str, context: CallContext, runtime: Runtime) -> ToolResult:
    """Return the answer to a call that does not run, as reviewers of all calls have seen it."""
    answer = ToolResult(why, is_error=True)
    return await review_tool_result(call, answer, context, runtime.plugins, has_run=False)


def _noted(result: ToolResult, review: Review, runtime: Runtime) -> ToolResult:
    """Return the result with the notes of the reviewers behind it."""
    if not review.note or review.verdict == "deny":
        return result
    return replace(result, content=(*result.blocks, Text(runtime.redact.mask_known(review.note))))


async def _prepared(
    checked: ToolCall, tool: Tool, review: Review, context: CallContext, caller: Caller
) -> PreparedCall | ToolResult:
    turn, runtime = caller.context, caller.runtime
    environment = dict(caller.environment)
    approval = CallApproval(tool, checked.arguments, caller, context, environment)
    refused = await approval.ask_before_call(review.why) if review.verdict == "ask" else ""
    rule_files = RuleFileGuard(
        turn.fence,
        runtime.rule_file_watch,
        turn.agent.settings.rule_files,
        _provenance(caller),
        runtime.log,
    )
    refused = refused or await rule_files.check_before(
        tool.leaves_running, checked.arguments, approval.ask_owner
    )
    if refused:
        return await _not_run(checked, _refused(refused), context, runtime)
    given_context = replace(
        context_of(checked.id, tool, caller, environment, approval),
        files=turn.fence.for_call(rule_files),
    )
    limit = result_limit(turn.window_tokens)

    async def ready() -> ToolResult:
        given = copy.deepcopy(checked.arguments)  # no other code can change what runs
        if approval.has_changed(given):
            changed = t("the call was refused: it differs from what was approved; ask again")
            return await _not_run(checked, changed, context, runtime)
        if tool.effects == "once" and not caller.once(checked.id):
            return await _not_run(checked, NO_RESULT, context, runtime)
        reached(runtime.turn_log, "effect-marked")
        async with rule_files.watch():
            answer = await run_tool(tool, given, given_context)
        reached(runtime.turn_log, "effect-done")
        outcome, are_changed = await rule_files.apply_changes(approval.ask_owner)
        if outcome:
            content = (Text(outcome), *answer.blocks)
            answer = replace(answer, content=content, is_error=answer.is_error or not are_changed)
        if is_untrusted_result(tool.results, _joined(answer)):
            caller.untrusted_tools.add(tool.name)
        result = await review_tool_result(checked, answer, context, runtime.plugins)
        masked = _texts(runtime.redact.mask_known, result)
        most = limit if masked.most_chars is None else min(limit, masked.most_chars)
        return _texts(
            wrap_untrusted, fit_result(masked, most, await _rest_of(masked, most, tool, checked.id, caller))
        )

    return PreparedCall(ready, tool.parallel)


def call_context(tool: Tool | None, caller: Caller, problem: str = "") -> CallContext:
    """Return the view of a call of this tool that reviewers get.

    :param problem: why the call cannot run.
    """
    context, inbound = caller.context, caller.inbound
    traits = None
    if tool:
        traits = ToolTraits(
            tool.name, tool.plugin, tool.effects, tool.owner_only, tool.optional, tool.parallel,
            any(fact.name == tool.name and fact.plugin is None for fact in context.judgement.loaded), tool.leaves_running,
        )  # fmt: skip
    return CallContext(
        turn=caller.turn,
        session_key=context.route.session_key,
        agent=context.agent.id,
        address=inbound.address,
        sender=inbound.sender,
        owner=context.route.owner,
        tool=traits,
        provenance=frozenset(caller.untrusted_tools),
        settings=context.agent.settings,
        problem=problem,
    )


async def _rest_of(result: ToolResult, limit: int, tool: Tool, call: str, caller: Caller) -> str | None:
    """Return the last line of a result that is too long: where the engine keeps the whole. None when nothing is kept."""
    context, engine = caller.context, caller.runtime.registry.engine
    text = _joined(result)
    keep = getattr(engine.value, "keep_result", None) if engine else None
    is_readable = any(one.reads_files for one in context.tools.values())
    if keep is None or len(text) <= limit or not is_readable or tool.reads_files:
        return None
    folder = results_folder(context.agent.dir, context.route.session_key)
    try:
        return str(await keep(text, limit, folder, f"{caller.turn}-{call}"))
    except Exception as failed:  # noqa: BLE001 - the code of a plugin; the result is cut all the same
        why = describe_exception(failed)
        caller.runtime.log(t("the tool's result was too long and could not be saved in full: {why}", why=why))
        return None


def _joined(result: ToolResult) -> str:
    return "\n".join(block.text for block in result.blocks if isinstance(block, Text))


def _provenance(caller: Caller) -> str:
    """Return the mark of a note that is written in this turn."""
    context, clock = caller.context, caller.runtime.sessions.clock
    day = datetime.fromtimestamp(clock.now(), zone_of(context.agent.settings.user_timezone)).strftime(
        "%Y-%m-%d"
    )
    route = context.route
    return turn_provenance(caller.inbound, route.owner, route.session_key, day, caller.untrusted_tools)


def _texts(change: Callable[[str], str], result: ToolResult) -> ToolResult:
    """The result with every text of it changed: no configured secret reaches a model, no forged mark either."""
    blocks = tuple(Text(change(block.text)) if isinstance(block, Text) else block for block in result.blocks)
    return result if blocks == result.blocks else replace(result, content=blocks)


def _why_not(name: str, judgement: Judgement) -> str:
    """Return the reason why a call has no tool, for the model: the key that decided, or that there is no such tool."""
    ruling = judgement.rulings.get(name)
    if ruling is None or ruling.allowed:
        near = nearest(name, [known for known, one in judgement.rulings.items() if one.allowed])
        return f"Tool {name} not found" + (f". Did you mean {near}?" if near else "")
    return f"Tool {name} is not available here: {ruling.reason}"


class CallApproval:
    """The requests to a person about one tool call, each bound by a digest to what it is about.

    :param arguments: checked and reviewed.
    :param environment: the environment variables of programs that the call starts.
    """

    def __init__(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        caller: Caller,
        context: CallContext,
        environment: Mapping[str, str],
    ) -> None:
        self._tool, self._arguments, self._environment = tool, arguments, environment
        self._caller, self._context = caller, context
        self._allowed_text = ""  # the text that a person read and allowed before the call
        self._allowed_digest = ""

    async def ask_before_call(self, title: str) -> str:
        """Ask about the whole call before it runs; return the reason why it may not run, empty when it may."""
        digest, shown = self._digest(self._arguments), format_arguments(self._arguments)
        decision = await self._decide(self._request(shown, title))
        if decision.allowed:
            self._allowed_digest, self._allowed_text = digest, shown
            return ""
        return decision.reason

    async def ask(self, shown: str, title: str = "", binds: str = "") -> bool:
        """Implement ``ToolContext.ask``; what a person read and allowed with the call itself is not asked again.

        :raises ToolError: the person did not allow it, did not answer, or it is too long to be shown whole.
        """
        if shown and shown in self._allowed_text:
            return True
        request = self._request(shown, title)
        if binds:
            request = replace(request, digest=digest_of(request.digest, binds))
        decision = await self._decide(request)
        if decision.verdict == "deny":
            raise ToolError("{why}", why=decision.reason)
        return decision.allowed

    async def ask_owner(self, shown: str, title: str, binds: str) -> str:
        """Ask an owner, only about the shown text; return the reason why it may not be done, empty when it may.

        :param binds: digest of what the answer binds besides the shown text.
        """
        request = self._request(shown, title)
        digest = digest_of(request.digest, binds)
        decision = await self._decide(replace(request, digest=digest, grant="", for_owners=True))
        return "" if decision.allowed else decision.reason

    def has_changed(self, arguments: Mapping[str, Any]) -> bool:
        """Return true if a person allowed other arguments before the call; false when no person was asked then."""
        return bool(self._allowed_digest) and self._digest(arguments) != self._allowed_digest

    async def _decide(self, request: ApprovalRequest) -> Decision:
        if not self._caller.may_ask:
            return Decision("nobody", t("it needs approval, and no one can be asked here"))
        return await ask_approver(request, self._caller.runtime.plugins)

    @cached_property
    def _digest_context(self) -> tuple[str, ...]:
        context, tool = self._caller.context, self._tool
        sandbox = context.sandbox.name if context.sandbox else ""
        return context.agent.id, tool.name, tool.plugin, str(context.workspace), sandbox

    def _digest(self, arguments: Mapping[str, Any]) -> str:
        return digest_of(self._digest_context, dict(arguments), dict(self._environment))

    def _request(self, shown: str, title: str) -> ApprovalRequest:
        # Known secrets only: a mask by shape could hide what runs, as in API_TOKEN="$(…)".
        context, inbound, mask = self._context, self._caller.inbound, self._caller.runtime.redact.mask_known
        return ApprovalRequest(
            session_key=context.session_key,
            agent=context.agent,
            turn=context.turn,
            tool=self._tool.name,
            title=mask(title),
            shown=mask(shown),
            digest=digest_of(self._digest(self._arguments), shown, title),
            address=inbound.address,
            sender=inbound.sender,
            grant=digest_of(self._digest_context, dict(self._arguments), shown, title),
            owner=context.owner,
            chat_type=inbound.chat_type,
            arguments=copy.deepcopy(dict(self._arguments)),
            plugin=self._tool.plugin,
            effects=self._tool.effects,
        )


def context_of(
    call_id: str, tool: Tool, caller: Caller, environment: dict[str, str], approval: CallApproval
) -> ToolContext:
    """Return the context that ``tool`` gets when it runs for ``caller``."""
    context, runtime, inbound = caller.context, caller.runtime, caller.inbound
    loop = asyncio.get_running_loop()

    def progress(text: str) -> None:  # may be called from a tool's thread
        asyncio.run_coroutine_threadsafe(_emit(caller.emit, ToolProgress(call_id, text)), loop)

    async def deliver(outbound: Outbound) -> Receipt | None:
        masked = replace(outbound, text=runtime.redact.answer_mask.masked(outbound.text))
        allowed = await run_filters(masked, "outbound", runtime.plugins)
        return await runtime.deliver(allowed) if allowed else None

    key = f"{caller.turn}:{call_id}"[:46]
    make = getattr(runtime.turn_log, "chat_api", None)
    talk = make(key, inbound, context, runtime) if make else PlainChat(key, inbound, deliver)

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
        state_dir=config.home / "plugins" / tool.plugin,
        progress=progress,
        send=send, talk=talk,
        status={
            "model": str(context.models[0]), "context_tokens": context.window_tokens,
            "used_tokens": caller.used_tokens, "session_key": context.route.session_key,
            "zone": settings.user_timezone or "", "thinking": settings.thinking_default, "turn": caller.turn,
        },
        environment=environment, wrap=wrap if context.sandbox else None,
        ask=_recorded_ask(call_id, tool, caller, approval),
        memory=context.agent.dir / "agent" if context.is_private else context.notes,
    )  # fmt: skip


def _recorded_ask(call: str, tool: Tool, caller: Caller, approval: CallApproval) -> ApprovalCallback:
    """Return ``approval.ask``, with the record of a call that must not be repeated kept true.

    The call is recorded before it runs. The record is removed while a person is being asked, so that after a restart
    the call runs again and finds its approval request.
    """
    if tool.effects != "once":
        return approval.ask
    answered = False

    async def ask(shown: str, title: str = "", binds: str = "") -> bool:
        nonlocal answered
        if not answered:
            caller.not_begun(call)
        cut_off = False
        try:
            return await approval.ask(shown, title, binds)
        except asyncio.CancelledError:
            cut_off = True
            raise
        finally:
            if not cut_off:
                answered = True
                caller.once(call)

    return ask


async def _emit(emit: Emit, event: Event) -> None:
    await emit(event)
