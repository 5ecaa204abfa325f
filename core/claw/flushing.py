"""The memory flush: before a past is made shorter or begins anew, the agent may save what matters. Nobody hears of it.

It asks with the very request that would come next, so that the provider's cache holds; only the calls are answered
otherwise: files can be read, and memory can be added to, nothing else.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from claw.abridging import can_write
from claw.amending import tools_heard
from claw.envelope import neutral
from claw.errors import FenceError
from claw.event import Event, Said, unheard
from claw.freshness import zone_of
from claw.gate import Caller, prepare
from claw.guard.fence import Fence, fence_round
from claw.guard.way import Root
from claw.loop import Steps, run_loop
from claw.origin import quoted_foreign
from claw.provider import Ask
from claw.session import Session
from claw.spending import for_purpose
from claw.stage import MEMORY, Rooms, Stage
from claw.tool import ToolContext
from claw.transcript import Assistant, Message, Text, Usage, User
from claw.usage import together
from claw.view import Save, View, models_of, note_saved, unsaved
from claw.wall import within
from claw.words import say

WRITES = "write"
MOST_STEPS = 6
_READS = ("read", "memory_search", "memory_get")

_NOTED_CHARS = 2000
_BETWEEN = re.compile(r"[\s,;]+")  # the words of the mark above an entry, the session's key among them

_PROMPT = """\
(From claw itself, not from a person.) This conversation is about to be made shorter. Save now what must outlive that: \
decisions, facts, names, figures, preferences, promises and open tasks that are not in your memory yet, in the language \
of the conversation. Use the tool write: for the file below it adds to the end, so write only what is new, and nothing \
else can be changed now. Leave out what only mattered for a moment, and every secret."""


async def save_the_rest(caller: Caller, session: Session) -> None:
    """Save what matters of a conversation that is about to begin anew; nothing happens when all of it was saved before.

    :param caller: of the turn that begins anew.
    """
    stage, rooms = caller.stage, caller.rooms
    compaction = stage.agent.settings.compaction
    wanted = compaction.enabled and compaction.memory_flush.enabled and may_save(stage, rooms)
    if not wanted or not unsaved(session):
        return
    whole = compaction.model_copy(update={"enabled": False})  # shown as it is, cut only where it must be
    settings = stage.agent.settings.model_copy(update={"compaction": whole})
    past = session.messages
    view = View(
        models_of(stage, rooms, unheard, apart=True), replace(stage, agent=replace(stage.agent, settings=settings)),
        session, rooms, unheard, past, len(past), list,
    )  # fmt: skip
    note_saved(session, await save(past, view.ask, caller, session))


def saver(caller: Caller, session: Session) -> Save | None:
    """How a turn saves what matters before its past is made shorter; None when its agent may not."""
    if not may_save(caller.stage, caller.rooms):
        return None
    ask = models_of(caller.stage, caller.rooms, unheard, apart=True)
    return partial(save, ask=ask, caller=caller, session=session)


async def save(messages: Sequence[Message], ask: Ask, caller: Caller, session: Session) -> Usage | None:
    """One silent turn over ``messages``. It is in no transcript, and whatever goes wrong in it is only complained about.

    :param caller: of the turn that is about to go on.
    :returns: what it cost.
    """
    stage, rooms = caller.stage, caller.rooms
    settings = stage.agent.settings.compaction
    own = stage.agent.dir / "agent"
    moment = datetime.fromtimestamp(session.now, zone_of(stage.agent.settings.user_timezone))
    path = stage.notes / f"{moment:%Y-%m-%d}.md"
    flush, silent = settings.memory_flush, rooms.config.settings.messages.silent_token
    fence = _fence_of(stage, own, rooms)
    parts = (
        flush.system_prompt, flush.prompt or _PROMPT, f"File: {path}", _noted(fence, path, stage.route.session_key),
        f"When that is done, or when there is nothing to save, answer with {silent} and nothing else.",
    )  # fmt: skip
    tools = {name: stage.tools[name] for name in _READS if name in stage.tools}
    tools[WRITES] = replace(stage.tools[WRITES], run=_adding(own), parallel=False)
    # Without approvals, what a person would have to allow is refused: nobody is to be woken for this.
    quiet = replace(
        caller, turn=f"{caller.turn}f", stage=replace(stage, tools=tools, fenced=lambda: fence),
        rooms=replace(rooms, approvals=None), emit=unheard, once=_again,
        heard=caller.heard | tools_heard(messages),
    )  # fmt: skip

    costs: list[Usage | None] = []

    async def count(event: Event) -> None:
        if isinstance(event, Said) and isinstance(event.message, Assistant):
            costs.append(event.message.usage)

    steps = Steps(ask=ask, prepare=partial(prepare, caller=quiet), emit=count, max_steps=MOST_STEPS)
    prompt = User((Text("\n\n".join(filter(None, parts))),), kind="memory_flush")
    try:
        await within(settings.timeout_seconds, for_purpose("saving", run_loop(messages, prompt, steps)))
    except Exception as why:  # noqa: BLE001 - the turn goes on, whatever this one met
        rooms.complain(say("what matters could not be saved before compaction: {why}", why=why))
    return together(costs)


def _fence_of(stage: Stage, own: Path, rooms: Rooms) -> Fence:
    """What can be read and added to."""
    roots = [Root(stage.workspace), Root(stage.notes, append_only=True, notes=True)]
    if stage.is_private:  # nobody else's words belong into that file
        roots.append(Root(own / MEMORY, append_only=True, notes=True))
    return fence_round(roots, stage.workspace, rooms.config.home)


def _noted(fence: Fence, path: Path, session_key: str) -> str:
    """What was saved of this conversation earlier the same day, which no transcript holds; the newest of it."""
    text = ""
    with suppress(FenceError, OSError):
        text = quoted_foreign(fence.read(str(path)).decode("utf-8", "replace"))
    lines, mine = [], False
    for line in text.split("\n"):
        if line.lstrip().startswith("<!--"):
            mine = session_key in _BETWEEN.split(line)
        elif mine and line.strip():
            lines.append(line)
    noted = "\n".join(lines)
    if len(noted) > _NOTED_CHARS:
        noted = noted[-_NOTED_CHARS:].partition("\n")[2]
    return f"Of this conversation it holds already:\n{neutral(noted)}" if noted else ""


def _adding(own: Path) -> Callable[[dict[str, Any], ToolContext], Awaitable[str]]:
    """The tool ``write`` for memory alone: it adds to the end; the fence says above it where the words come from.

    :param own: where relative paths start.
    """

    async def run(arguments: dict[str, Any], context: ToolContext) -> str:
        path = str(own / arguments.get("file_path", arguments.get("path", "")))
        content = arguments.get("content", arguments.get("text", "")).strip()
        context.files.append(path, f"\n{content}\n".encode("utf-8", "replace"))
        return f"Added to {path}"

    return run


def may_save(stage: Stage, rooms: Rooms) -> bool:
    """Whether there is a model to ask, and the agent may write: no flush without it."""
    return WRITES in stage.tools and can_write(stage, rooms)


def _again(call: str) -> bool:
    return True
