"""The memory flush: before the history is compacted or reset, the agent may silently save what matters.

It sends the very request that would come next, so that the provider's cache stays valid; only the calls are
handled differently: files can be read and memory can be appended to, nothing else.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from claw import with_purpose
from claw.agent.loop import LoopCallbacks, run_loop
from claw.agent.tool_gate import Caller, prepare
from claw.agent.turn_context import MEMORY, Runtime, TurnContext, model_call, model_options
from claw.contracts.errors import FenceError
from claw.contracts.events import Event, MessageRecorded, ignore_event
from claw.contracts.provider import ModelCall
from claw.contracts.tool import ToolContext
from claw.contracts.transcript import Assistant, Message, Text, Usage, User
from claw.host.isolation import within
from claw.i18n import t
from claw.security.path_walk import Root
from claw.security.untrusted_text import neutralise
from claw.security.workspace_fs import WorkspaceFiles, workspace_files
from claw.storage.freshness import zone_of
from claw.storage.provenance import quoted_foreign
from claw.storage.sessions import Session
from claw.storage.usage import total_usage
from claw_approvals.rule_files import untrusted_tools

from claw_context.compaction import has_summary_model
from claw_context.engine import ContextView, FlushCall, has_unsaved, record_flush

WRITE_TOOL = "write"
MAX_FLUSH_STEPS = 6
_READS = ("read", "memory_search", "memory_get")

_SAVED_TODAY_CHARS = 2000
_SEPARATORS = re.compile(r"[\s,;]+")  # separates the words of a mark, the session's key among them

_PROMPT = """\
(From claw itself, not from a person.) This conversation is about to be made shorter. Save now what must outlive that: \
decisions, facts, names, figures, preferences, promises and open tasks that are not in your memory yet, in the language \
of the conversation. Use the tool write: for the file below it adds to the end, so write only what is new, and nothing \
else can be changed now. Leave out what only mattered for a moment, and every secret."""


async def flush_before_reset(caller: Caller, session: Session) -> None:
    """Save what matters of a conversation that is about to be reset, unless all of it was saved before.

    :param caller: of the turn that resets it.
    """
    context, runtime = caller.stage, caller.rooms
    compaction = context.agent.settings.compaction
    wanted = compaction.enabled and compaction.memory_flush.enabled and can_flush(context, runtime)
    if not wanted or not has_unsaved(session):
        return
    whole = compaction.model_copy(update={"enabled": False})  # not compacted, cut only where it must be
    settings = context.agent.settings.model_copy(update={"compaction": whole})
    past = session.messages
    view = ContextView(
        model_call(context, runtime, model_options(context, runtime, detached=True)),
        replace(context, agent=replace(context.agent, settings=settings)),
        session,
        runtime,
        ignore_event,
        past,
        len(past),
        list,
    )
    record_flush(session, await run_flush(past, view.ask, caller, session))


def flush_function(caller: Caller, session: Session) -> FlushCall | None:
    """Return the function that saves what matters before compaction; None when the agent may not."""
    if not can_flush(caller.stage, caller.rooms):
        return None
    context, runtime = caller.stage, caller.rooms
    ask = model_call(context, runtime, model_options(context, runtime, detached=True))
    return partial(run_flush, ask=ask, caller=caller, session=session)


async def run_flush(
    messages: Sequence[Message], ask: ModelCall, caller: Caller, session: Session
) -> Usage | None:
    """Run one silent turn over ``messages``. No transcript holds it, and its errors are only logged.

    :param caller: of the turn that is about to go on.
    :returns: its usage.
    """
    context, runtime = caller.stage, caller.rooms
    settings = context.agent.settings.compaction
    own = context.agent.dir / "agent"
    moment = datetime.fromtimestamp(session.now, zone_of(context.agent.settings.user_timezone))
    path = context.notes / f"{moment:%Y-%m-%d}.md"
    flush, silent = settings.memory_flush, runtime.config.settings.messages.silent_token
    fence = _fence_of(context, own, runtime)
    parts = (
        flush.system_prompt,
        flush.prompt or _PROMPT,
        f"File: {path}",
        _saved_today(fence, path, context.route.session_key),
        f"When that is done, or when there is nothing to save, answer with {silent} and nothing else.",
    )
    tools = {name: context.tools[name] for name in _READS if name in context.tools}
    tools[WRITE_TOOL] = replace(context.tools[WRITE_TOOL], run=_append_tool(own), parallel=False)
    # Without approvals, a call that needs one is refused: a flush asks no person.
    flush_caller = replace(
        caller, turn=f"{caller.turn}f", stage=replace(context, tools=tools, open_fence=lambda: fence),
        rooms=replace(runtime, approvals=None), emit=ignore_event, once=_allow_repeat,
        heard=caller.heard | untrusted_tools(messages),
    )  # fmt: skip

    costs: list[Usage | None] = []

    async def count(event: Event) -> None:
        if isinstance(event, MessageRecorded) and isinstance(event.message, Assistant):
            costs.append(event.message.usage)

    steps = LoopCallbacks(
        ask=ask, prepare=partial(prepare, caller=flush_caller), emit=count, max_steps=MAX_FLUSH_STEPS
    )
    prompt = User((Text("\n\n".join(filter(None, parts))),), kind="memory_flush")
    try:
        await within(settings.timeout_seconds, with_purpose("saving", run_loop(messages, prompt, steps)))
    except Exception as why:  # noqa: BLE001 - the turn goes on, whatever failed here
        runtime.log(t("memory could not be saved before compaction: {why}", why=why))
    return total_usage(costs)


def _fence_of(context: TurnContext, own: Path, runtime: Runtime) -> WorkspaceFiles:
    """Return the fence round what can be read and appended to."""
    roots = [Root(context.workspace), Root(context.notes, append_only=True, marks_provenance=True)]
    if context.is_private:  # words of others do not belong in that file
        roots.append(Root(own / MEMORY, append_only=True, marks_provenance=True))
    return workspace_files(roots, context.workspace, runtime.config.home)


def _saved_today(fence: WorkspaceFiles, path: Path, session_key: str) -> str:
    """Return the newest text saved of this conversation earlier the same day; no transcript holds it."""
    text = ""
    with suppress(FenceError, OSError):
        text = quoted_foreign(fence.read(str(path)).decode("utf-8", "replace"))
    lines, is_ours = [], False
    for line in text.split("\n"):
        if line.lstrip().startswith("<!--"):
            is_ours = session_key in _SEPARATORS.split(line)
        elif is_ours and line.strip():
            lines.append(line)
    noted = "\n".join(lines)
    if len(noted) > _SAVED_TODAY_CHARS:
        noted = noted[-_SAVED_TODAY_CHARS:].partition("\n")[2]
    return f"Of this conversation it holds already:\n{neutralise(noted)}" if noted else ""


def _append_tool(own: Path) -> Callable[[dict[str, Any], ToolContext], Awaitable[str]]:
    """Return the tool ``write`` for memory only: it appends; the fence marks the provenance of the text.

    :param own: where relative paths start.
    """

    async def run(arguments: dict[str, Any], context: ToolContext) -> str:
        path = str(own / arguments.get("file_path", arguments.get("path", "")))
        content = arguments.get("content", arguments.get("text", "")).strip()
        context.files.append(path, f"\n{content}\n".encode("utf-8", "replace"))
        return f"Added to {path}"

    return run


def can_flush(context: TurnContext, runtime: Runtime) -> bool:
    """Return true if there is a model to ask and the agent may write; there is no flush otherwise."""
    return WRITE_TOOL in context.tools and has_summary_model(context, runtime)


def _allow_repeat(call: str) -> bool:
    return True
