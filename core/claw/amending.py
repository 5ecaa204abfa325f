"""One call and what outlives its conversation: rule files change when an owner allows the difference, and notes say
where they come from."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

from claw.asking import Asking
from claw.catalog import normalise
from claw.freshness import zone_of
from claw.guard.fence import Fence
from claw.guard.rules import ANYWHERE, OF_AN_AGENT, Change, Hold, difference
from claw.message import Inbound
from claw.origin import is_foreign, origin, origins
from claw.question import digest_of, laid_out
from claw.stage import Rooms, Stage
from claw.tool import Result
from claw.transcript import Assistant, Message, Text
from claw.words import say

_OURS = frozenset({"write", "edit", "apply_patch", "ls", "message", "session_status"})
"""Tools that answer with claw's own words; what any other one says may be somebody else's."""
_NOTES = frozenset({"memory_search", "memory_get"})


class Amending:
    """What one call may leave behind.

    :param origin: words of the mark of its notes (``mark``).
    """

    def __init__(self, stage: Stage, rooms: Rooms, origin: str) -> None:
        self._stage, self._rooms = stage, rooms
        self._may_ask = stage.agent.settings.rule_files == "ask"
        self._hold = Hold(origin, takes=self._may_ask)
        self._changes: list[Change] = []

    @property
    def files(self) -> Fence:
        """The fence for this call."""
        return self._stage.fence.holding(self._hold)

    async def before(self, tool: str, arguments: Mapping[str, Any], asking: Asking) -> str:
        """Why a call may not begin, empty when it may: what goes on after it could change a rule file unseen, so that
        one that names such a file is asked about first."""
        if not self._stage.fence.rule_places or not goes_on_with_rules(tool, arguments):
            return ""
        if not self._may_ask:
            return _denied()
        title = say("it goes on in the background, and names a file of rules for every later conversation")
        return await asking.owner(laid_out(arguments), title, digest_of(dict(arguments)))

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """While the call runs: whatever it does to a rule file past the fence is put back at its end."""
        places, watch = self._stage.fence.rule_places, self._rooms.watch
        watch.begin(places)
        try:
            yield
        finally:
            held = self._hold.end()
            past = watch.end(places, self._rooms.complain)
            for change in past:
                self._rooms.complain(
                    say("{path} was changed past the fence, and is as before", path=change.path)
                )
            self._changes = [change for change in (*past, *held) if change.before != change.after]

    async def settled(self, answer: Result, asking: Asking) -> Result:
        """The answer, once an owner has decided about the rule files; without changes as it was."""
        if not self._changes:
            return answer
        refused = await self._refused(self._changes, asking)
        names = ", ".join(dict.fromkeys(self._stage.fence.show(str(change.path)) for change in self._changes))
        if refused:
            told = say("{names}: not changed, whatever is said below: {why}", names=names, why=refused)
        else:
            told = say("{names}: an owner was shown the difference and allowed it", names=names)
        return replace(
            answer, content=(Text(told), *answer.blocks), is_error=answer.is_error or bool(refused)
        )

    async def _refused(self, changes: Sequence[Change], asking: Asking) -> str:
        """Why the changes were not made; empty when they were."""
        if not self._may_ask:
            return _denied()
        title = say("rules for every later conversation")
        seal = digest_of([[str(each.path), repr(each.before), repr(each.after)] for each in changes])
        if why := await asking.owner(difference(changes), title, seal):
            return why
        if not all(change.stands for change in changes):
            return say("it is another one by now than the difference was made from; read it again")
        done: list[Change] = []
        try:
            for change in changes:
                change.make()
                done.append(change)
                self._rooms.watch.allowed(change)
        except OSError as why_not:
            for change in done:
                back = replace(change, before=change.after, after=change.before)
                back.make()
                self._rooms.watch.allowed(back)
            return say("the disk refused: {why}", why=why_not)
        return ""


def goes_on_with_rules(tool: str, arguments: Mapping[str, Any]) -> bool:
    """Whether a call leaves a command running, or talks to one, and names a rule file."""
    goes_on = {"exec": "background", "process": "data"}.get(normalise(tool))
    if goes_on is None or not arguments.get(goes_on):
        return False
    words = laid_out(arguments).casefold()
    return any(name.casefold() in words for name in (*ANYWHERE, *OF_AN_AGENT))


def _denied() -> str:
    return say("an agent does not change rule files here (agents.defaults.ruleFiles: deny)")


def mark(inbound: Inbound, stage: Stage, rooms: Rooms, heard: set[str]) -> str:
    """The words that say where a note of this turn comes from.

    :param heard: tools whose answers the model has read.
    """
    around, place = inbound.around, inbound.address
    parts = {
        "a quoted message": around.quoted, "a forwarded message": around.forwarded_from, "files": inbound.attachments,
        "the thread": around.thread_starter, "other messages": around.history,
    }  # fmt: skip
    zone = zone_of(stage.agent.settings.user_timezone)
    day = datetime.fromtimestamp(rooms.sessions.clock.now(), zone).strftime("%Y-%m-%d")
    after = {*heard, *(name for name, there in parts.items() if there)}
    return origin(
        place.channel, inbound.chat_type, place.chat, stage.route.owner, stage.route.session_key, day, after
    )


def is_outside(tool: str, answer: Result) -> bool:
    """Whether what a tool answered may be somebody else's words."""
    if tool in _NOTES:
        lines = "\n".join(block.text for block in answer.blocks if isinstance(block, Text))
        return any(map(is_foreign, origins(lines)))
    return tool not in _OURS


def tools_heard(messages: Sequence[Message]) -> set[str]:
    """The tools whose answers these messages may hold, as far as they may be somebody else's words."""
    called = (call.name for said in messages if isinstance(said, Assistant) for call in said.tool_calls)
    return {name for name in called if name not in _OURS | _NOTES}
