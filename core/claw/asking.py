"""Putting one call before a person: whether it must be, what they see, and that what they allowed is what runs."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from claw.catalog import normalise
from claw.errors import ToolError
from claw.message import Inbound
from claw.policy.reach import Reach
from claw.question import FOR_OWNERS, MOST_CHARS, Request, digest_of, laid_out, may_last, visible
from claw.stage import Rooms, Stage
from claw.tool import Tool
from claw.words import say


class Asking:
    """One call of one turn, as a person is asked about it.

    :param arguments: checked and reviewed.
    :param environment: what programs of the call will see.
    """

    def __init__(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        turn: str,
        inbound: Inbound,
        stage: Stage,
        rooms: Rooms,
        environment: Mapping[str, str],
    ) -> None:
        self._tool, self._arguments, self._environment = tool, arguments, environment
        self._turn, self._inbound, self._stage, self._rooms = turn, inbound, stage, rooms
        self._allowed = ""  # what a person was shown and allowed before the call
        self._seal = ""

    @property
    def must_be_asked(self) -> bool:
        """Whether ``approvals.tools`` names this tool."""
        words = self._rooms.config.settings.approvals.tools
        if not words:
            return False
        reach, name = Reach(self._rooms.facts), normalise(self._tool.name)
        return any(name in reach.of(normalise(word)) for word in words)

    async def before(self, title: str) -> str:
        """Ask about the whole call before it runs: why it may not run, empty when it may."""
        if self._rooms.approvals is None:
            return say("a person would have to allow it, and nobody can be asked here")
        seal, shown = self._sealed(self._arguments), laid_out(self._arguments)
        decision = await self._rooms.approvals.ask(self._request(shown, title))
        if decision.allowed:
            self._seal, self._allowed = seal, shown
        return decision.why

    async def ask(self, shown: str, title: str = "", seal: str = "") -> bool:
        """``ToolContext.ask``. What a person has read and allowed with the call itself is not asked again.

        :raises ToolError: they did not allow it, did not answer, or it cannot be shown whole.
        """
        if shown and shown in self._allowed:
            return True
        if self._rooms.approvals is None:
            return False
        request = self._request(shown, title)
        if seal:
            request = replace(request, digest=digest_of(request.digest, seal))
        decision = await self._rooms.approvals.ask(request)
        if decision.allowed:
            return True
        if decision.asked or len(request.shown) > MOST_CHARS:
            raise ToolError("{why}", why=decision.why)
        return False

    async def owner(self, shown: str, title: str, seal: str) -> str:
        """Ask an owner, about what is shown and nothing else: why it may not be, empty when it may.

        :param seal: digest of what is bound by the answer beside what is shown.
        """
        if self._rooms.approvals is None:
            return say("an owner would have to allow it, and nobody can be asked here")
        request = self._request(shown, title)
        reachable, digest = self._is_reachable(for_owners=True), FOR_OWNERS + digest_of(request.digest, seal)
        return (
            await self._rooms.approvals.ask(replace(request, digest=digest, grant="", reachable=reachable))
        ).why

    def is_other(self, arguments: Mapping[str, Any]) -> bool:
        """Whether these are not the bytes that a person allowed; False when nobody was asked before the call."""
        return bool(self._seal) and self._sealed(arguments) != self._seal

    @cached_property
    def _place(self) -> tuple[str, ...]:
        stage, tool = self._stage, self._tool
        sandbox = stage.sandbox.name if stage.sandbox else ""
        return stage.agent.id, tool.name, tool.plugin, str(stage.workspace), sandbox

    def _is_reachable(self, for_owners: bool = False) -> bool:
        """A direct chat has one reader; who else reads a group is not known."""
        inbound, approvals = self._inbound, self._rooms.approvals
        return inbound.chat_type != "direct" or (
            approvals is not None
            and approvals.may_decide(
                inbound.address.channel, inbound.sender, self._stage.route.owner, for_owners
            )
        )

    def _sealed(self, arguments: Mapping[str, Any]) -> str:
        return digest_of(self._place, dict(arguments), dict(self._environment))

    def _request(self, shown: str, title: str) -> Request:
        stage, inbound, tool = self._stage, self._inbound, self._tool
        masked = self._rooms.redact(shown)
        seen = visible(masked) if len(masked) <= MOST_CHARS else masked  # too long: nobody will see it
        lasting = may_last(tool.name, self._arguments)
        return Request(
            session_key=stage.route.session_key,
            agent=stage.agent.id,
            turn=self._turn,
            tool=tool.name,
            title=self._rooms.redact(title),
            shown=seen,
            digest=digest_of(self._sealed(self._arguments), shown, title),
            origin=inbound.address,
            reachable=self._is_reachable(),
            asked_by=f"{inbound.address.channel}:{inbound.sender.id}",
            grant=digest_of(self._place, dict(self._arguments), shown, title) if lasting else "",
        )
