"""The memory flush: before the history is compacted or reset, the agent may silently save what matters.

It sends the very request that would come next, so that the provider's cache stays valid; only the calls are
handled differently: files can be read and memory can be appended to, nothing else.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from claw import (
    Assistant,
    Event,
    FenceError,
    Message,
    MessageRecorded,
    ModelCall,
    SideTurn,
    Text,
    ToolContext,
    TurnView,
    Usage,
    User,
    neutralise,
    t,
)
from claw.runtime import BaseSession, quoted_foreign, within, zone_of

from claw_context.compaction import has_summary_model, total_usage, with_purpose
from claw_context.engine import ContextView, FlushCall, History, has_unsaved, record_flush
from claw_context.settings import CompactionSettings
from claw_context.shared import SharedState

WRITE_TOOL = "write"
MAX_FLUSH_STEPS = 6
_READS = ("read", "memory_search", "memory_get")

_SAVED_TODAY_CHARS = 2000
_SEPARATORS = re.compile(r"[\s,;]+")  # separates the words of a mark, the session's key among them

_PROMPT = """\
(From claw itself, not from a person.) This conversation is about to be shortened. Do not answer the message above now; \
you will be asked again. Save what must be kept: decisions, facts, names, figures, preferences, promises and open tasks \
that are not in your memory yet, in the language of the conversation. Use the tool write: for the file below it appends, \
so write only what is new; nothing else can be changed now. Leave out passing details, and every secret."""


async def flush_before_reset(turn: TurnView, shared: SharedState) -> None:
    """Save what matters of a conversation that is about to be reset, unless all of it was saved before."""
    session: BaseSession = turn.session
    compaction = turn.agent.section("compaction", CompactionSettings)
    wanted = compaction.enabled and compaction.memory_flush.enabled and can_flush(turn, shared)
    if not wanted or not has_unsaved(session):
        return
    view = ContextView(turn.model_call(), turn, shared, History(turn.past, turn.start), is_aside=True)
    record_flush(session, await run_flush(turn.past, view.ask, turn, shared))


def flush_function(turn: TurnView, shared: SharedState) -> FlushCall | None:
    """Return the function that saves what matters before compaction; None when the agent may not."""
    if not can_flush(turn, shared):
        return None

    async def flush(messages: Sequence[Message]) -> Usage | None:
        if not any(isinstance(message, Assistant) for message in messages):
            return None  # compaction takes nothing away from a conversation without an answer
        return await run_flush(messages, turn.model_call(), turn, shared)

    return flush


async def run_flush(
    messages: Sequence[Message], ask: ModelCall, turn: TurnView, shared: SharedState
) -> Usage | None:
    """Run one silent turn over ``messages``. No transcript holds it, and its errors are only logged.

    :param turn: the turn that is about to go on.
    :returns: its usage.
    """
    settings = turn.agent.section("compaction", CompactionSettings)
    moment = datetime.fromtimestamp(turn.session.now, zone_of(turn.agent.settings.user_timezone))
    path = turn.memory_folder / f"{moment:%Y-%m-%d}.md"
    flush, files = settings.memory_flush, turn.memory_files()
    parts = (
        flush.system_prompt,
        flush.prompt or _PROMPT,
        f"File: {path}",
        _saved_today(files, path, turn.session_key),
        f"When that is done, or when there is nothing to save, answer with {shared.silent_token} and nothing else.",
    )
    tools = {name: turn.tools[name] for name in _READS if name in turn.tools}
    own = turn.agent.dir / "agent"
    tools[WRITE_TOOL] = replace(turn.tools[WRITE_TOOL], run=_append_tool(own), parallel=False)
    costs: list[Usage | None] = []

    async def count(event: Event) -> None:
        if isinstance(event, MessageRecorded) and isinstance(event.message, Assistant):
            costs.append(event.message.usage)

    prompt = User((Text("\n\n".join(filter(None, parts))),), kind="memory_flush")
    aside = SideTurn(messages, prompt, ask, tools, files, MAX_FLUSH_STEPS, count)
    try:
        await within(settings.timeout_seconds, with_purpose("saving", turn.run_aside(aside)))
    except Exception as why:  # noqa: BLE001 - the turn continues, whatever failed here
        turn.log(t("memory could not be saved before compaction: {why}", why=why))
    return total_usage(costs)


def _saved_today(files: Any, path: Path, session_key: str) -> str:
    """Return the newest text saved of this conversation earlier the same day; no transcript holds it."""
    text = ""
    with suppress(FenceError, OSError):
        text = quoted_foreign(files.read(str(path)).decode("utf-8", "replace"))
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


def can_flush(turn: TurnView, shared: SharedState) -> bool:
    """Return true if there is a model to ask and the agent may write; there is no flush otherwise."""
    return WRITE_TOOL in turn.tools and has_summary_model(turn, shared.aliases)
