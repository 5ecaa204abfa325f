"""The desk: what the person behind one message may do to their conversation with a chat command.

What differs from place to place (how a running turn is stopped, how a further message is taken up) is left to each.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from claw.abridging import compact
from claw.app import App
from claw.builtin.chat_commands import Costs, Models
from claw.caps import day_began
from claw.message import Inbound
from claw.meter import cost_of
from claw.overrides import NONE, Override
from claw.prompt import price
from claw.question import Request
from claw.route import Route
from claw.stage import Stage, Wish, chosen_by, set_stage
from claw.tool import Tool
from claw.words import say


class Desk:
    """The desk of a conversation; a place to talk overrides :meth:`stop` and :meth:`hear`.

    :param inbound: the message that holds the command.
    :param route: where it was admitted to.
    """

    def __init__(self, app: App, inbound: Inbound, route: Route, wish: Wish = Wish()) -> None:  # noqa: B008 - frozen
        self.app, self.inbound, self.route, self.wish = app, inbound, route, wish

    @property
    def owner(self) -> bool:
        """Whether this person is an owner."""
        return self.route.owner

    @property
    def direct(self) -> bool:
        """Whether nobody else is in this chat."""
        return self.inbound.chat_type == "direct"

    async def stop(self) -> str:
        """Nothing runs beside a command, unless the place says otherwise."""
        return say("nothing runs now")

    async def hear(self, text: str) -> None:
        """A place that can take a further message up does."""

    async def forget(self) -> None:
        """Begin anew; the old file is kept aside, open questions are closed."""
        rooms, route = self.app.rooms, self.route
        if rooms.approvals:
            rooms.approvals.withdraw(route.session_key)
        session = await rooms.sessions.open(route.session_key, route.agent_id)
        try:
            await session.reset()
        finally:
            session.release()

    async def status(self) -> Mapping[str, str]:
        """Agent, model, conversation, how full the context is, what was chosen here."""
        stage = await self._stage()
        used, messages, compactions = await self._past()
        percent = round(100 * used / stage.window_tokens)
        context = say(
            "{used} of {window} tokens ({percent} %)",
            used=f"{used:,}", window=f"{stage.window_tokens:,}", percent=percent,
        )  # fmt: skip
        spent = await self._spent()
        lines = {
            say("agent"): stage.agent.id,
            say("model"): str(stage.models[0]),
            say("thinking"): stage.agent.settings.thinking_default,
            say("workspace"): str(stage.workspace),
            say("conversation"): stage.route.session_key,
            say("messages"): str(messages),
            say("context"): context,
            say("made shorter"): say("{count:time|times}", count=compactions)
            if compactions
            else say("never"),
            say("cost"): spent,
            say("tools"): str(len(stage.tools)),
        }
        chosen = self.chosen
        values = {
            "model": chosen.model,
            "thinking": chosen.thinking,
            "queue": chosen.queue,
            "reasoning": {True: "on", False: "off", None: ""}[chosen.reasoning],
        }
        written = ", ".join(f"{name} {value}" for name, value in values.items() if value)
        return {**lines, say("chosen here"): written} if written else lines

    async def tools(self) -> Sequence[tuple[str, str]]:
        """The tools that a turn would have."""
        stage = await self._stage()
        return [(tool.name, tool.description) for tool in stage.tools.values()]

    async def costs(self) -> Costs:
        """What a request takes, by the rule of four characters a token."""
        stage = await self._stage()
        used, *_ = await self._past()
        sections = [(piece.section.name, price(piece.text).tokens) for piece in stage.pieces if piece.text]
        tools = [(tool.name, price(_schema(tool)).tokens) for tool in stage.tools.values()]
        return Costs(used, stage.window_tokens, tuple(sections), tuple(tools), await self._spent())

    async def models(self) -> Models:
        """What the settings name, and who can be asked."""
        rooms, settings = self.app.rooms, self.app.config.settings
        stage = await self._stage()
        choice = self.app.config.agent(self.route.agent_id).settings.model
        named = [(choice and choice.primary) or rooms.default_model, *(choice.fallbacks if choice else ())]
        listed = [
            f"{name}/{model}" for name, section in settings.providers.items() for model in section.models
        ]
        known = dict.fromkeys([*named, *settings.models.aliases, *listed])
        return Models(str(stage.models[0]), tuple(filter(None, known)), tuple(rooms.kit.providers))

    @property
    def chosen(self) -> Override:
        """The overrides in force."""
        overrides = self.app.rooms.overrides
        return overrides.of(self.route.session_key) if overrides else NONE

    def choose(self, **fields: Any) -> None:
        """Set overrides of this conversation.

        :raises UsageError: the model is named with a key that its provider does not have.
        """
        chosen_by(fields.get("model", ""), self.app.config.agent(self.route.agent_id), self.app.rooms)
        if self.app.rooms.overrides:
            self.app.rooms.overrides.set(self.route.session_key, **fields)

    def choose_nothing(self) -> None:
        """Take all overrides back."""
        if self.app.rooms.overrides:
            self.app.rooms.overrides.clear(self.route.session_key)

    def decide(self, id: str, verdict: str) -> str:
        """Answer an open question as the person of this message."""
        approvals, inbound = self.app.rooms.approvals, self.inbound
        if approvals is None:
            return say("nothing waits for an answer of yours")
        channel, sender = inbound.address.channel, inbound.sender
        return approvals.decide(id, verdict, channel=channel, sender=sender, owner=self.route.owner).text

    def questions(self) -> Sequence[tuple[str, str]]:
        """The open questions, for those who may answer them."""
        approvals, inbound = self.app.rooms.approvals, self.inbound
        if approvals is None:
            return ()
        may = partial(approvals.may_decide, inbound.address.channel, inbound.sender, self.route.owner)
        asked = [(one.id, one.request) for one in approvals.pending() if may(one.request.for_owners)]
        return [(id, f"{request.agent} · {request.tool}\n{self._seen(request)}") for id, request in asked]

    def _seen(self, request: Request) -> str:
        """What it is about; in a chat with others not what was asked in another one."""
        here, there = (replace(one, thread=None) for one in (self.inbound.address, request.origin))
        if self.direct or here == there:
            return request.shown
        return say("asked in another chat; /approve shows it whole there, or where nobody else reads")

    async def compact(self, focus: str) -> str:
        """Have the older part summarised now; a turn that runs goes on."""
        done = await compact(await self._stage(), self.app.rooms, focus)
        return done.said if done else say("there is nothing to make shorter in this conversation yet")

    async def _spent(self) -> str:
        """What this conversation cost, and what the agent cost today, in words."""
        route, rooms = self.route, self.app.rooms
        book = rooms.spending.book
        session = await rooms.sessions.open(route.session_key, route.agent_id)
        try:
            here = book.sums(session_key=route.session_key, conversation=session.id)
        finally:
            session.release()
        today = book.sums(since=day_began(book.clock.now()).timestamp(), agent=route.agent_id)
        return say(
            "{here} in this conversation; {today} today, all conversations of {agent}",
            here=cost_of(here), today=cost_of(today), agent=route.agent_id,
        )  # fmt: skip

    async def _stage(self) -> Stage:
        return await set_stage(self.inbound, self.route, self.app.rooms, self.wish)

    async def _past(self) -> tuple[int, int, int]:
        """Tokens that the last call read, the number of messages, and how often the past was made shorter."""
        session = await self.app.rooms.sessions.open(self.route.session_key, self.route.agent_id)
        try:
            return session.usage.context_tokens, len(session.messages), session.past.compactions
        finally:
            session.release()


def _schema(tool: Tool) -> str:
    body = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))
