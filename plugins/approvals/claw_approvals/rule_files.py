"""Rule files and notes that a tool call may change: an owner approves the difference of rule files, and notes carry
their provenance."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

from claw.agent.turn_context import Runtime, TurnContext
from claw.contracts.messages import Inbound
from claw.contracts.tool import ToolResult
from claw.contracts.transcript import Assistant, Message, Text
from claw.i18n import t
from claw.policy.catalog import normalise_tool_name
from claw.security.rule_files import (
    RULE_FILES_ANYWHERE,
    RULE_FILES_OF_AGENT,
    RuleFileChange,
    RuleFileRequest,
    rule_file_diff,
)
from claw.security.workspace_fs import WorkspaceFiles
from claw.storage.freshness import zone_of
from claw.storage.provenance import is_foreign, line_provenances, provenance_text

from claw_approvals.approver import CallApproval
from claw_approvals.question import digest_of, format_arguments

_OWN_TOOLS = frozenset({"write", "edit", "apply_patch", "ls", "message", "session_status"})
"""Tools whose results claw writes itself; the result of any other tool may hold the words of other people."""
_MEMORY_TOOLS = frozenset({"memory_search", "memory_get"})


class RuleFileGuard:
    """The changes of one tool call to rule files and notes.

    :param origin: the provenance line of its notes (``mark``).
    """

    def __init__(self, context: TurnContext, runtime: Runtime, origin: str) -> None:
        self._stage, self._rooms = context, runtime
        self._may_ask = context.agent.settings.rule_files == "ask"
        self._hold = RuleFileRequest(origin, takes=self._may_ask)
        self._changes: list[RuleFileChange] = []

    @property
    def files(self) -> WorkspaceFiles:
        """The file fence for this call."""
        return self._stage.fence.for_call(self._hold)

    async def check_before(self, tool: str, arguments: Mapping[str, Any], asking: CallApproval) -> str:
        """Ask an owner about a call that goes on in the background and names a rule file, as its changes would be unseen.

        :returns: the reason why the call may not begin; empty when it may.
        """
        if not self._stage.fence.rule_file_paths or not runs_on_with_rule_files(tool, arguments):
            return ""
        if not self._may_ask:
            return _denial()
        title = t("it continues in the background and mentions a rule file")
        return await asking.ask_owner(format_arguments(arguments), title, digest_of(dict(arguments)))

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[None]:
        """Watch rule files while the call runs, and revert at its end what bypassed the fence."""
        places, watch = self._stage.fence.rule_file_paths, self._rooms.rule_file_watch
        watch.begin(places)
        try:
            yield
        finally:
            held = self._hold.close()
            bypassed = watch.end(places, self._rooms.log)
            for change in bypassed:
                self._rooms.log(
                    t("{path} was changed without permission and has been restored", path=change.path)
                )
            self._changes = [change for change in (*bypassed, *held) if change.before != change.after]

    async def apply_changes(self, answer: ToolResult, asking: CallApproval) -> ToolResult:
        """Return the result after an owner decided about the rule files; unchanged when none changed."""
        if not self._changes:
            return answer
        refused = await self._apply(self._changes, asking)
        names = ", ".join(
            dict.fromkeys(self._stage.fence.display_path(str(change.path)) for change in self._changes)
        )
        if refused:
            outcome = t(
                "{names}: change rejected, the file was not modified: {why}", names=names, why=refused
            )
        else:
            outcome = t("{names}: an owner approved the change", names=names)
        return replace(
            answer, content=(Text(outcome), *answer.blocks), is_error=answer.is_error or bool(refused)
        )

    async def _apply(self, changes: Sequence[RuleFileChange], asking: CallApproval) -> str:
        """Make the changes if an owner allows them; return the reason if they were not made, else an empty text."""
        if not self._may_ask:
            return _denial()
        title = t("rules for every later conversation")
        seal = digest_of([[str(each.path), repr(each.before), repr(each.after)] for each in changes])
        if why := await asking.ask_owner(rule_file_diff(changes), title, seal):
            return why
        if not all(change.is_current for change in changes):
            return t("it was changed in the meantime; read it again")
        done: list[RuleFileChange] = []
        try:
            for change in changes:
                change.apply()
                done.append(change)
                self._rooms.rule_file_watch.allowed(change)
        except OSError as error:
            for change in done:
                reverted = replace(change, before=change.after, after=change.before)
                reverted.apply()
                self._rooms.rule_file_watch.allowed(reverted)
            return t("the file system failed: {why}", why=error)
        return ""


def runs_on_with_rule_files(tool: str, arguments: Mapping[str, Any]) -> bool:
    """Return true if a call leaves a command running, or writes to one, and names a rule file."""
    goes_on = {"exec": "background", "process": "data"}.get(normalise_tool_name(tool))
    if goes_on is None or not arguments.get(goes_on):
        return False
    words = format_arguments(arguments).casefold()
    return any(name.casefold() in words for name in (*RULE_FILES_ANYWHERE, *RULE_FILES_OF_AGENT))


def _denial() -> str:
    return t("agents may not change rule files here (agents.defaults.ruleFiles: deny)")


def provenance_of_turn(inbound: Inbound, context: TurnContext, runtime: Runtime, heard: set[str]) -> str:
    """Return the provenance line for a note of this turn.

    :param heard: tools whose results the model has read.
    """
    around, place = inbound.around, inbound.address
    parts = {
        "a quoted message": around.quoted,
        "a forwarded message": around.forwarded_from,
        "files": inbound.attachments,
        "the thread": around.thread_starter,
        "other messages": around.history,
    }
    zone = zone_of(context.agent.settings.user_timezone)
    day = datetime.fromtimestamp(runtime.sessions.clock.now(), zone).strftime("%Y-%m-%d")
    after = {*heard, *(name for name, there in parts.items() if there)}
    return provenance_text(
        place.channel,
        inbound.chat_type,
        place.chat,
        context.route.owner,
        context.route.session_key,
        day,
        after,
    )


def is_untrusted_result(tool: str, answer: ToolResult) -> bool:
    """Return true if the result of a tool may hold the words of other people."""
    if tool in _MEMORY_TOOLS:
        lines = "\n".join(block.text for block in answer.blocks if isinstance(block, Text))
        return any(map(is_foreign, line_provenances(lines)))
    return tool not in _OWN_TOOLS


def untrusted_tools(messages: Sequence[Message]) -> set[str]:
    """Return the tools whose results, as far as these messages hold them, may be the words of other people."""
    called = (call.name for one in messages if isinstance(one, Assistant) for call in one.tool_calls)
    return {name for name in called if name not in _OWN_TOOLS | _MEMORY_TOOLS}
