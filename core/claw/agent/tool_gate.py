"""The one gate that every tool call of every turn goes through: looked up, checked, reviewed, then run."""

import asyncio
import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial
from typing import Any

from claw.agent.loop import Emit, PreparedCall
from claw.agent.models import select_models
from claw.agent.turn_context import TurnContext
from claw.config.agents import ExecEnvironment
from claw.contracts.errors import ToolError, nearest
from claw.contracts.events import ToolProgress
from claw.contracts.extensions import CallContext, Review, ToolTraits
from claw.contracts.messages import ApprovalRequest, Decision, Outbound, Receipt, text_sender
from claw.contracts.text import digest_of, format_arguments, result_limit
from claw.contracts.tool import Tool, ToolContext, ToolResult, fit_result, validate
from claw.contracts.transcript import NO_RESULT, UNREADABLE_CALL, Message, Text, ToolCall
from claw.host.calls import ask_approver, describe_malformed, review_tool_result, run_filters, run_reviewers
from claw.host.isolation import describe_exception, limited_cpu
from claw.host.worker import run_tool
from claw.i18n import t
from claw.policy.decision import Judgement
from claw.security.child_env import child_environment
from claw.security.rule_files import RuleFileGuard
from claw.security.untrusted_text import wrap_untrusted
from claw.storage.clock import zone_of
from claw.storage.files import results_folder
from claw.storage.provenance import called_tools, is_untrusted_result, turn_provenance

_CHECK_SECONDS = 1.0


@dataclass
class ToolGate:
    """The gate of the tool calls of one turn.

    :param turn: the id of the turn.
    :param is_logged: the turn log records the calls that must not be repeated.
    :param may_ask: a person may be asked; False refuses every call that needs one.
    :param used_tokens: what the last model call read, for the status tool.
    :param untrusted_tools: tools whose answers, which may hold text of third parties, the model has read in this turn.
    :param end_turn: the reason why a reviewer ended the turn, as text for the person; empty while it may go on.
    """

    turn: str
    context: TurnContext
    emit: Emit
    is_logged: bool = False
    may_ask: bool = True
    used_tokens: int = 0
    untrusted_tools: set[str] = field(default_factory=set)
    end_turn: str = ""

    @cached_property
    def environment(self) -> dict[str, str]:
        """The environment variables that programs of this turn's tools get."""
        config, key = self.context.runtime.config, "tools.exec"
        own = self.context.agent.section(key, ExecEnvironment)
        settings = own if own.model_fields_set else config.section(key, ExecEnvironment)
        return child_environment(config.environ, settings.env_allow)

    @property
    def provenance_mark(self) -> str:
        """The mark of a note that is written in this turn."""
        context, clock = self.context, self.context.runtime.sessions.clock
        today = datetime.fromtimestamp(clock.now(), zone_of(context.agent.settings.user_timezone))
        owner, key = context.route.owner, context.route.session_key
        return turn_provenance(context.inbound, owner, key, today.strftime("%Y-%m-%d"), self.untrusted_tools)

    def untrusted_in(self, messages: Sequence[Message]) -> set[str]:
        """Return the tools whose results in these messages may hold the words of other people."""
        known = (*self.context.runtime.registry.tools, *self.context.tools.values())
        results = {tool.name: tool.results for tool in known}
        return {name for name in called_tools(messages) if results.get(name, "foreign") == "foreign"}

    async def prepare(self, call: ToolCall, choice: str = "auto") -> PreparedCall | ToolResult:
        """Make a call ready to run; a ``ToolResult`` is its refusal, in words that the model can act on.

        :param choice: the tool choice of the answer; services may ignore it, so a call that it excludes is refused here.
        """
        tool, arguments, problem = self._look_up(call)
        if choice == "none":
            problem = _refused(t("no tool may be called now; answer in words"))
        elif choice not in ("auto", "required", call.name) and call.name != UNREADABLE_CALL:
            problem = _refused(t("only {tool} may be called now", tool=choice))
        call, view = ToolCall(call.id, call.name, arguments), self._view(tool, problem)
        call, review = await run_reviewers(call, view, self.context.runtime.plugins)
        self.end_turn = self.end_turn or review.end_turn
        if review.verdict == "deny":
            problem = _refused(review.why or review.verdict)
        if tool is None or problem:
            return await self.refuse(call, problem, view, review)
        return await _GatedCall(self, call, tool, view, review).prepare()

    async def refuse(self, call: ToolCall, why: str, view: CallContext, review: Review) -> ToolResult:
        """Return the answer to a call that does not run, as reviewers of all calls have seen it."""
        answer, plugins = ToolResult(why, is_error=True), self.context.runtime.plugins
        return self.noted(await review_tool_result(call, answer, view, plugins, has_run=False), review)

    def noted(self, result: ToolResult, review: Review) -> ToolResult:
        """Return the result with the notes of the reviewers behind it."""
        if not review.note or review.verdict == "deny":
            return result
        note = Text(self.context.runtime.redact.mask_known(review.note))
        return replace(result, content=(*result.blocks, note))

    def begin_once(self, call: str) -> bool:
        """Record a call that is about to run and must not be repeated; false: it was begun before."""
        return not self.is_logged or self.context.runtime.turn_log.once(self.turn, call)

    def _look_up(self, call: ToolCall) -> tuple[Tool | None, dict[str, Any], str]:
        """Return the tool of a call, its arguments, and why it cannot run; empty when it can."""
        if call.name == UNREADABLE_CALL:
            return None, call.arguments, describe_malformed(call, self.context.runtime.plugins)
        tool = self.context.tools.get(call.name)
        if tool is None:
            return None, call.arguments, _absence(call.name, self.context.judgement)
        with limited_cpu(_CHECK_SECONDS):  # a pattern of a third party may backtrack without end
            arguments, problem = validate(tool, call.arguments)
        return tool, call.arguments if problem else arguments, problem

    def _view(self, tool: Tool | None, problem: str) -> CallContext:
        """Return the circumstances of a call of this tool, for reviewers."""
        context, traits = self.context, None
        if tool:
            loaded = context.judgement.loaded
            traits = ToolTraits(
                tool.name, tool.plugin, tool.effects, tool.owner_only, tool.optional, tool.parallel,
                any(fact.name == tool.name and fact.plugin is None for fact in loaded), tool.leaves_running,
            )  # fmt: skip
        return CallContext(
            turn=self.turn,
            session_key=context.route.session_key,
            agent=context.agent.id,
            address=context.inbound.address,
            sender=context.inbound.sender,
            owner=context.route.owner,
            tool=traits,
            provenance=frozenset(self.untrusted_tools),
            settings=context.agent.settings,
            problem=problem,
        )


class _GatedCall:
    """A call that no reviewer denied: the requests to a person about it, its run, and its result for the model.

    Each request is bound by a digest to what it is about.
    """

    def __init__(self, gate: ToolGate, call: ToolCall, tool: Tool, view: CallContext, review: Review) -> None:
        self._gate, self._call, self._tool, self._view, self._review = gate, call, tool, view, review
        self._context = context = gate.context
        self._runtime = runtime = context.runtime
        self._environment = dict(gate.environment)
        self._rule_files = RuleFileGuard(
            context.fence, runtime.rule_file_watch, context.agent.settings.rule_files, gate.provenance_mark, runtime.log
        )  # fmt: skip
        sandbox = context.sandbox.name if context.sandbox else ""
        self._bound_to = context.agent.id, tool.name, tool.plugin, str(context.workspace), sandbox
        self._allowed_text = self._allowed_digest = ""  # that a person read and allowed before the call

    async def prepare(self) -> PreparedCall | ToolResult:
        """Ask the person who must be asked before the call runs."""
        arguments, refused = self._call.arguments, ""
        if self._review.verdict == "ask":
            refused = await self._ask_before_call(self._review.why)
        refused = refused or await self._rule_files.check_before(
            self._tool.leaves_running, arguments, self._ask_owner
        )
        return (
            await self._refuse(_refused(refused)) if refused else PreparedCall(self._run, self._tool.parallel)
        )

    async def _run(self) -> ToolResult:
        arguments = copy.deepcopy(self._call.arguments)  # no other code can change it
        if self._allowed_digest and self._digest(arguments) != self._allowed_digest:
            return await self._refuse(t("the call was refused: it differs from what was approved; ask again"))
        if self._tool.effects == "once" and not self._gate.begin_once(self._call.id):
            return await self._refuse(NO_RESULT)
        async with self._rule_files.watch():
            answer = await run_tool(self._tool, arguments, self._tool_context())
        outcome, are_changed = await self._rule_files.apply_changes(self._ask_owner)
        if outcome:
            content = (Text(outcome), *answer.blocks)
            answer = replace(answer, content=content, is_error=answer.is_error or not are_changed)
        if is_untrusted_result(self._tool.results, _joined(answer)):
            self._gate.untrusted_tools.add(self._tool.name)
        result = await review_tool_result(self._call, answer, self._view, self._runtime.plugins)
        return self._gate.noted(await self._fitted(result), self._review)

    async def _refuse(self, why: str) -> ToolResult:
        return await self._gate.refuse(self._call, why, self._view, self._review)

    async def _fitted(self, result: ToolResult) -> ToolResult:
        """Return the result without known secrets and forged marks, cut to what the model may be given."""
        masked = _texts(self._runtime.redact.mask_known, result)
        most = result_limit(self._context.window_tokens)
        most = most if masked.most_chars is None else min(most, masked.most_chars)
        return _texts(wrap_untrusted, fit_result(masked, most, await self._keep_whole(masked, most)))

    async def _keep_whole(self, result: ToolResult, limit: int) -> str | None:
        """Return the last line of a result that is too long: where the engine keeps the whole. None: it keeps nothing."""
        context, engine = self._context, self._runtime.registry.engine
        text, keep = _joined(result), getattr(engine.value, "keep_result", None) if engine else None
        is_readable = any(one.reads_files for one in context.tools.values())
        if keep is None or len(text) <= limit or not is_readable or self._tool.reads_files:
            return None
        folder = results_folder(context.agent.dir, context.route.session_key)
        try:
            return str(await keep(text, limit, folder, f"{self._gate.turn}-{self._call.id}"))
        except Exception as failed:  # noqa: BLE001 - the code of a plugin; the result is cut all the same
            why = describe_exception(failed)
            line = t("the tool's result was too long and could not be saved in full: {why}", why=why)
            self._runtime.log(line)
            return None

    def _sandboxed(self, argv: Sequence[str]) -> list[str]:
        assert self._context.sandbox is not None
        workspace, environment = self._context.workspace, self._environment
        return self._context.sandbox.wrap(argv, workspace=workspace, environment=environment)

    # --- requests to a person

    async def _ask_before_call(self, title: str) -> str:
        """Ask about the whole call before it runs; return the reason why it may not run, empty when it may."""
        arguments = self._call.arguments
        digest, shown = self._digest(arguments), format_arguments(arguments)
        decision = await self._decide(self._request(shown, title))
        if decision.allowed:
            self._allowed_digest, self._allowed_text = digest, shown
            return ""
        return decision.reason

    async def _ask(self, shown: str, title: str = "", binds: str = "") -> bool:
        """Implement ``ToolContext.ask``; what a person read and allowed with the call itself is not asked again.

        :raises ToolError: the person did not allow it, did not answer, or it is too long to be shown whole.
        """
        if shown and shown in self._allowed_text:
            return True
        decision = await self._decide(self._request(shown, title, binds))
        if decision.verdict == "deny":
            raise ToolError("{why}", why=decision.reason)
        return decision.allowed

    async def _ask_owner(self, shown: str, title: str, binds: str) -> str:
        """Ask an owner, only about the shown text; return the reason why it may not be done, empty when it may.

        :param binds: digest of what the answer binds besides the shown text.
        """
        request = replace(self._request(shown, title, binds), grant="", for_owners=True)
        decision = await self._decide(request)
        return "" if decision.allowed else decision.reason

    async def _decide(self, request: ApprovalRequest) -> Decision:
        if not self._gate.may_ask:
            return Decision("nobody", t("it needs approval, and no one can be asked here"))
        return await ask_approver(request, self._runtime.plugins)

    def _digest(self, arguments: Mapping[str, Any]) -> str:
        return digest_of(self._bound_to, dict(arguments), self._environment)

    def _request(self, shown: str, title: str, binds: str = "") -> ApprovalRequest:
        # Known secrets only: a mask by shape could hide what runs, as in API_TOKEN="$(…)".
        view, arguments, mask = self._view, dict(self._call.arguments), self._runtime.redact.mask_known
        digest = digest_of(self._digest(arguments), shown, title)
        return ApprovalRequest(
            session_key=view.session_key,
            agent=view.agent,
            turn=view.turn,
            tool=self._tool.name,
            title=mask(title),
            shown=mask(shown),
            digest=digest_of(digest, binds) if binds else digest,
            address=view.address,
            sender=view.sender,
            grant=digest_of(self._bound_to, arguments, shown, title),
            owner=view.owner,
            chat_type=self._context.inbound.chat_type,
            arguments=copy.deepcopy(arguments),
            plugin=self._tool.plugin,
            effects=self._tool.effects,
        )

    def _asking_before_effects(self) -> Callable[..., Any]:
        """Return :meth:`_ask`, with the record of a call that must not be repeated kept true.

        The call is recorded before it runs. The record is removed while a person is being asked, so that after a restart
        the call runs again and finds its approval request.
        """
        gate, call, answered = self._gate, self._call.id, False
        if self._tool.effects != "once" or not gate.is_logged:
            return self._ask

        async def ask(shown: str, title: str = "", binds: str = "") -> bool:
            nonlocal answered
            if not answered:
                self._runtime.turn_log.not_begun(gate.turn, call)
            cut_off = False
            try:
                return await self._ask(shown, title, binds)
            except asyncio.CancelledError:
                cut_off = True
                raise
            finally:
                if not cut_off:
                    answered = True
                    gate.begin_once(call)

        return ask

    # --- the tool's own view

    def _tool_context(self) -> ToolContext:
        """Return the context that the tool gets."""
        gate, context, runtime, call_id = self._gate, self._context, self._runtime, self._call.id
        loop, settings, environment = asyncio.get_running_loop(), context.agent.settings, self._environment

        def progress(text: str) -> None:  # may be called from a tool's thread
            asyncio.run_coroutine_threadsafe(gate.emit(ToolProgress(call_id, text)), loop)

        async def deliver(outbound: Outbound) -> Receipt | None:
            masked = replace(outbound, text=runtime.redact.answer_mask.masked(outbound.text))
            allowed = await run_filters(masked, "outbound", runtime.plugins)
            return await runtime.deliver(allowed) if allowed else None

        key, make = f"{gate.turn}:{call_id}"[:46], getattr(runtime.turn_log, "chat_api", None)
        inbound = context.inbound
        talk = make(key, inbound, context, runtime) if make else None
        return ToolContext(
            call_id=call_id, session_key=context.route.session_key,
            agent=context.agent, owner=context.route.owner,
            files=context.fence.for_call(self._rule_files), state_dir=runtime.config.home / "plugins" / self._tool.plugin,
            progress=progress, send=talk.send if talk else text_sender(key, inbound, deliver), talk=talk,
            status={
                "model": str(context.models[0]), "context_tokens": context.window_tokens,
                "used_tokens": gate.used_tokens, "session_key": context.route.session_key,
                "zone": settings.user_timezone or "", "thinking": settings.thinking_default, "turn": gate.turn,
            },
            environment=environment, wrap=self._sandboxed if context.sandbox else None, ask=self._asking_before_effects(),
            memory=context.agent.dir / "agent" if context.is_private else context.notes,
            model_call=partial(
                select_models, runtime.registry, context.models, options=context.model_options(detached=True)
            ),
        )  # fmt: skip


def _refused(why: str) -> str:
    return t("the call was refused: {why}", why=why)


def _joined(result: ToolResult) -> str:
    return "\n".join(block.text for block in result.blocks if isinstance(block, Text))


def _texts(change: Callable[[str], str], result: ToolResult) -> ToolResult:
    """Return the result with every text of it changed."""
    blocks = tuple(Text(change(block.text)) if isinstance(block, Text) else block for block in result.blocks)
    return result if blocks == result.blocks else replace(result, content=blocks)


def _absence(name: str, judgement: Judgement) -> str:
    """Return the reason why a call has no tool, for the model: the key that decided, or that there is no such tool."""
    ruling = judgement.rulings.get(name)
    if ruling is None or ruling.allowed:
        near = nearest(name, [known for known, one in judgement.rulings.items() if one.allowed])
        return f"Tool {name} not found" + (f". Did you mean {near}?" if near else "")
    return f"Tool {name} is not available here: {ruling.reason}"
