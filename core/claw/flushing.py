"""The memory flush: before a conversation is made shorter, the agent may save what matters. Nobody hears of it.

It asks with the very request that would come next, so that the provider's cache holds; only the calls are answered
otherwise: files can be read, and memory can be added to, nothing else.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from claw.event import Event
from claw.freshness import zone_of
from claw.gate import Caller, prepare
from claw.guard.fence import fence_round
from claw.guard.way import Root
from claw.loop import Steps, run_loop
from claw.provider import Ask
from claw.session import Session
from claw.tool import Tool, ToolContext
from claw.transcript import Message, Text, User
from claw.wall import within
from claw.words import say

WRITES = "write"
MOST_STEPS = 6
_READS = ("read", "memory_search", "memory_get")

_PROMPT = """\
(From claw itself, not from a person.) This conversation is about to be made shorter. Save now what must outlive that: \
decisions, facts, names, figures, preferences, promises and open tasks that are not in your memory yet, in the language \
of the conversation. Use the tool write: for the file below it adds to the end, so write only what is new, and nothing \
else can be changed now. Leave out what only mattered for a moment, and every secret."""


async def save(messages: Sequence[Message], ask: Ask, caller: Caller, session: Session) -> None:
    """One silent turn over ``messages``. It is in no transcript, and whatever goes wrong in it is only complained about.

    :param caller: of the turn that is about to go on.
    """
    stage, rooms = caller.stage, caller.rooms
    settings = stage.agent.settings.compaction
    own = stage.agent.dir / "agent"
    moment = datetime.fromtimestamp(session.now, zone_of(stage.agent.settings.user_timezone))
    path = own / "memory" / f"{moment:%Y-%m-%d}.md"
    flush, silent = settings.memory_flush, rooms.config.settings.messages.silent_token
    parts = (
        flush.system_prompt, flush.prompt or _PROMPT, f"File: {path}",
        f"When that is done, or when there is nothing to save, answer with {silent} and nothing else.",
    )  # fmt: skip
    roots = [Root(stage.workspace), Root(own / "memory", append_only=True)]
    if stage.route.owner and stage.route.chat_type == "direct":  # nobody else's words belong into that file
        roots.append(Root(own / "MEMORY.md", append_only=True))
    fence = fence_round(roots, stage.workspace, rooms.config.home)
    origin = f"<!-- {moment:%Y-%m-%d %H:%M}, {stage.route.session_key} -->"
    tools = {name: stage.tools[name] for name in _READS if name in stage.tools}
    tools[WRITES] = replace(stage.tools[WRITES], run=_adding(own, origin), parallel=False)
    # Without approvals, what a person would have to allow is refused: nobody is to be woken for this.
    quiet = replace(
        caller, turn=f"{caller.turn}f", stage=replace(stage, tools=tools, fence=fence),
        rooms=replace(rooms, approvals=None), emit=_nobody, once=_again,
    )  # fmt: skip

    steps = Steps(ask=ask, prepare=partial(prepare, caller=quiet), emit=_nobody, max_steps=MOST_STEPS)
    prompt = User((Text("\n\n".join(filter(None, parts))),), kind="memory_flush")
    try:
        await within(settings.timeout_seconds, run_loop(messages, prompt, steps))
    except Exception as why:  # noqa: BLE001 - the turn goes on, whatever this one met
        rooms.complain(say("what matters could not be saved before compaction: {why}", why=why))


def _adding(own: Path, origin: str) -> Callable[[dict[str, Any], ToolContext], Awaitable[str]]:
    """The tool ``write`` for memory alone: it adds to the end, with a line that says where the words come from.

    :param own: where relative paths start.
    """

    async def run(arguments: dict[str, Any], context: ToolContext) -> str:
        path = str(own / arguments.get("file_path", arguments.get("path", "")))
        content = arguments.get("content", arguments.get("text", "")).strip()
        context.files.append(path, f"\n{origin}\n{content}\n".encode("utf-8", "replace"))
        return f"Added to {path}"

    return run


def may_save(tools: Mapping[str, Tool]) -> bool:
    """Whether an agent with these tools may write: no flush without it."""
    return WRITES in tools


async def _nobody(event: Event) -> None:
    pass


def _again(call: str) -> bool:
    return True
