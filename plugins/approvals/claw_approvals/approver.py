"""The approval request of one tool call: decide if a person must be asked, ask, bind the answer to the exact call."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from claw.agent.turn_context import Runtime, TurnContext
from claw.contracts.errors import ToolError
from claw.contracts.messages import Inbound
from claw.contracts.tool import Tool
from claw.i18n import t
from claw.policy.catalog import normalise_tool_name
from claw.policy.matching import ToolMatcher

from claw_approvals.question import (
    FOR_OWNERS,
    MAX_SHOWN_CHARS,
    ApprovalRequest,
    can_allow_always,
    digest_of,
    format_arguments,
    visible,
)


class CallApproval:
    """The approval requests of one tool call in one turn.

    :param arguments: checked and reviewed.
    :param environment: the environment variables of programs that the call starts.
    """

    def __init__(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        turn: str,
        inbound: Inbound,
        context: TurnContext,
        runtime: Runtime,
        environment: Mapping[str, str],
    ) -> None:
        self._tool, self._arguments, self._environment = tool, arguments, environment
        self._turn, self._inbound, self._stage, self._rooms = turn, inbound, context, runtime
        self._allowed_text = ""  # the text that a person read and allowed before the call
        self._allowed_digest = ""

    @property
    def is_required(self) -> bool:
        """True if ``approvals.tools`` names this tool."""
        words = self._rooms.config.settings.approvals.tools
        if not words:
            return False
        reach, name = ToolMatcher(self._rooms.facts), normalise_tool_name(self._tool.name)
        return any(name in reach.match(normalise_tool_name(word)) for word in words)

    async def ask_before_call(self, title: str) -> str:
        """Ask about the whole call before it runs; return the reason why it may not run, empty when it may."""
        if self._rooms.approvals is None:
            return t("it needs approval, and no one can be asked here")
        seal, shown = self._digest(self._arguments), format_arguments(self._arguments)
        decision = await self._rooms.approvals.ask(self._request(shown, title))
        if decision.allowed:
            self._allowed_digest, self._allowed_text = seal, shown
        return decision.reason

    async def ask(self, shown: str, title: str = "", seal: str = "") -> bool:
        """Implement ``ToolContext.ask``; what a person read and allowed with the call itself is not asked again.

        :raises ToolError: the person did not allow it, did not answer, or it is too long to be shown whole.
        """
        if shown and shown in self._allowed_text:
            return True
        if self._rooms.approvals is None:
            return False
        request = self._request(shown, title)
        if seal:
            request = replace(request, digest=digest_of(request.digest, seal))
        decision = await self._rooms.approvals.ask(request)
        if decision.allowed:
            return True
        if decision.asked or len(request.shown) > MAX_SHOWN_CHARS:
            raise ToolError("{why}", why=decision.reason)
        return False

    async def ask_owner(self, shown: str, title: str, seal: str) -> str:
        """Ask an owner, only about the shown text; return the reason why it may not be done, empty when it may.

        :param seal: digest of what the answer binds besides the shown text.
        """
        if self._rooms.approvals is None:
            return t("it needs an owner's approval, and no owner can be asked here")
        request = self._request(shown, title)
        reachable, digest = self._is_reachable(for_owners=True), FOR_OWNERS + digest_of(request.digest, seal)
        return (
            await self._rooms.approvals.ask(replace(request, digest=digest, grant="", reachable=reachable))
        ).reason

    def has_changed(self, arguments: Mapping[str, Any]) -> bool:
        """Return true if a person allowed other arguments before the call; false when nobody was asked then."""
        return bool(self._allowed_digest) and self._digest(arguments) != self._allowed_digest

    @cached_property
    def _digest_context(self) -> tuple[str, ...]:
        context, tool = self._stage, self._tool
        sandbox = context.sandbox.name if context.sandbox else ""
        return context.agent.id, tool.name, tool.plugin, str(context.workspace), sandbox

    def _is_reachable(self, for_owners: bool = False) -> bool:
        """Return true if somebody who may decide reads this chat; assumed in a group, whose readers are not known."""
        inbound, approvals = self._inbound, self._rooms.approvals
        return inbound.chat_type != "direct" or (
            approvals is not None
            and approvals.may_decide(
                inbound.address.channel, inbound.sender, self._stage.route.owner, for_owners
            )
        )

    def _digest(self, arguments: Mapping[str, Any]) -> str:
        return digest_of(self._digest_context, dict(arguments), dict(self._environment))

    def _request(self, shown: str, title: str) -> ApprovalRequest:
        context, inbound, tool = self._stage, self._inbound, self._tool
        masked = self._rooms.redact(shown)
        seen = visible(masked) if len(masked) <= MAX_SHOWN_CHARS else masked  # too long: it is never shown
        lasting = can_allow_always(tool.name, self._arguments)
        return ApprovalRequest(
            session_key=context.route.session_key,
            agent=context.agent.id,
            turn=self._turn,
            tool=tool.name,
            title=self._rooms.redact(title),
            shown=seen,
            digest=digest_of(self._digest(self._arguments), shown, title),
            origin=inbound.address,
            reachable=self._is_reachable(),
            requested_by=f"{inbound.address.channel}:{inbound.sender.id}",
            grant=digest_of(self._digest_context, dict(self._arguments), shown, title) if lasting else "",
        )
