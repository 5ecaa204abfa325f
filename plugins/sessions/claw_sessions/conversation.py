"""Chat commands: the actions that a command may take on the conversation of its message.

What differs between channels (how a running turn is stopped, how a further message is queued) is left to subclasses.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from claw import CallAccount
from claw.agent.chat_commands import KnownModels, RequestCosts
from claw.agent.routing import Route
from claw.agent.turn_context import TurnContext, TurnOptions, parse_model_choice, resolve_turn
from claw.app import App
from claw.contracts.messages import Inbound
from claw.contracts.prompt import size_of
from claw.contracts.tool import Tool
from claw.i18n import t
from claw.runtime import describe_cost
from claw.storage.overrides import Override
from claw_approvals.question import ApprovalRequest
from claw_context.compaction import compact_session


class SessionConversation:
    """The conversation as a chat command sees it; a gateway overrides :meth:`stop` and :meth:`hear`.

    :param inbound: the message that holds the command.
    :param route: the route that it was admitted to.
    """

    def __init__(
        self,
        app: App,
        inbound: Inbound,
        route: Route,
        options: TurnOptions = TurnOptions(),  # noqa: B008
    ) -> None:
        self.app, self.inbound, self.route, self.wish = app, inbound, route, options

    @property
    def owner(self) -> bool:
        """True if this person is an owner."""
        return self.route.owner

    @property
    def direct(self) -> bool:
        """True if nobody else is in this chat."""
        return self.inbound.chat_type == "direct"

    async def stop(self) -> str:
        """Stop the running turn; here none can run during a command."""
        return t("nothing runs now")

    async def submit(self, text: str) -> None:
        """Queue a further message; ignored here."""

    async def reset(self) -> None:
        """Reset the conversation; the old file is kept under another name, open approval requests are closed."""
        runtime, route = self.app.runtime, self.route
        if runtime.approvals:
            runtime.approvals.withdraw(route.session_key)
        session = await runtime.sessions.open(route.session_key, route.agent_id)
        try:
            await session.reset()
        finally:
            session.release()

    async def status(self) -> Mapping[str, str]:
        """Return agent, model, conversation, context use and overrides."""
        stage = await self._stage()
        used, messages, compactions = await self._history_size()
        percent = round(100 * used / stage.window_tokens)
        context = t(
            "{used} of {window} tokens ({percent} %)",
            used=f"{used:,}",
            window=f"{stage.window_tokens:,}",
            percent=percent,
        )
        spent = await self._cost_text()
        lines = {
            t("agent"): stage.agent.id,
            t("model"): str(stage.models[0]),
            t("thinking"): stage.agent.settings.thinking_default,
            t("workspace"): str(stage.workspace),
            t("conversation"): stage.route.session_key,
            t("messages"): str(messages),
            t("context"): context,
            t("made shorter"): t("{count:time|times}", count=compactions) if compactions else t("never"),
            **({t("cost"): spent} if spent else {}),
            t("tools"): str(len(stage.tools)),
        }
        chosen = self.overrides
        values = {
            "model": chosen.model,
            "thinking": chosen.thinking,
            "queue": chosen.queue,
            "reasoning": {True: "on", False: "off", None: ""}[chosen.reasoning],
        }
        written = ", ".join(f"{name} {value}" for name, value in values.items() if value)
        return {**lines, t("chosen here"): written} if written else lines

    async def tools(self) -> Sequence[tuple[str, str]]:
        """Return the tools that a turn would have."""
        context = await self._stage()
        return [(tool.name, tool.description) for tool in context.tools.values()]

    async def costs(self) -> RequestCosts:
        """Return the token costs of a request, estimated at four characters a token."""
        context = await self._stage()
        used, *_ = await self._history_size()
        sections = [
            (piece.section.name, size_of(piece.text).tokens)
            for piece in context.rendered_sections
            if piece.text
        ]
        tools = [(tool.name, size_of(_schema(tool)).tokens) for tool in context.tools.values()]
        return RequestCosts(
            used, context.window_tokens, tuple(sections), tuple(tools), await self._cost_text()
        )

    async def models(self) -> KnownModels:
        """Return the models that the settings name and the providers that are loaded."""
        runtime, settings = self.app.runtime, self.app.config.settings
        context = await self._stage()
        choice = self.app.config.agent(self.route.agent_id).settings.model
        named = [(choice and choice.primary) or runtime.default_model, *(choice.fallbacks if choice else ())]
        listed = [
            f"{name}/{model}" for name, section in settings.providers.items() for model in section.models
        ]
        known = dict.fromkeys([*named, *settings.models.aliases, *listed])
        return KnownModels(
            str(context.models[0]), tuple(filter(None, known)), tuple(runtime.registry.providers)
        )

    @property
    def overrides(self) -> Override:
        """The overrides of this conversation."""
        return self.app.runtime.sessions.overrides.of(self.route.session_key)

    def set_overrides(self, **fields: Any) -> None:
        """Set overrides of this conversation.

        :raises UsageError: the model is named with a key that its provider does not have.
        """
        parse_model_choice(
            fields.get("model", ""), self.app.config.agent(self.route.agent_id), self.app.runtime
        )
        self.app.runtime.sessions.overrides.set(self.route.session_key, **fields)

    def clear_choices(self) -> None:
        """Clear all overrides."""
        self.app.runtime.sessions.overrides.clear(self.route.session_key)

    def answer_request(self, id: str, verdict: str) -> str:
        """Answer an open approval request as the person of this message."""
        approvals, inbound = self.app.runtime.approvals, self.inbound
        if approvals is None:
            return t("nothing waits for an answer of yours")
        channel, sender = inbound.address.channel, inbound.sender
        return approvals.decide(id, verdict, channel=channel, sender=sender, owner=self.route.owner).text

    def open_requests(self) -> Sequence[tuple[str, str]]:
        """Return the open approval requests that this person may answer."""
        approvals, inbound = self.app.runtime.approvals, self.inbound
        if approvals is None:
            return ()
        may = partial(approvals.may_decide, inbound.address.channel, inbound.sender, self.route.owner)
        asked = [(one.id, one.request) for one in approvals.pending() if may(one.request.for_owners)]
        return [
            (id, f"{request.agent} · {request.tool}\n{self._shown_here(request)}") for id, request in asked
        ]

    def _shown_here(self, request: ApprovalRequest) -> str:
        """Return the shown text; in a group, hide a request from another chat."""
        here, there = (replace(one, thread=None) for one in (self.inbound.address, request.origin))
        if self.direct or here == there:
            return request.shown
        return t("asked in another chat; /approve shows it whole there, or where nobody else reads")

    async def compact(self, focus: str) -> str:
        """Summarise the older part now; a running turn goes on."""
        done = await compact_session(await self._stage(), self.app.runtime, focus)
        return done.description if done else t("there is nothing to make shorter in this conversation yet")

    async def _cost_text(self) -> str:
        """Describe the cost of this conversation, and of the agent today; empty when nothing keeps accounts."""
        route, runtime = self.route, self.app.runtime
        session = await runtime.sessions.open(route.session_key, route.agent_id)
        try:
            account = CallAccount(route.agent_id, route.session_key, session.id)
        finally:
            session.release()
        return describe_cost(runtime.registry.middleware, account, runtime.log)

    async def _stage(self) -> TurnContext:
        return await resolve_turn(self.inbound, self.route, self.app.runtime, self.wish)

    async def _history_size(self) -> tuple[int, int, int]:
        """Return the tokens that the last call read, the number of messages, and the number of compactions."""
        session = await self.app.runtime.sessions.open(self.route.session_key, self.route.agent_id)
        try:
            return session.usage.context_tokens, len(session.messages), session.history.compactions
        finally:
            session.release()


def _schema(tool: Tool) -> str:
    body = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))
