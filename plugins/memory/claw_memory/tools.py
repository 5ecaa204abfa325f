"""The tools ``memory_search`` and ``memory_get``."""

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from claw import FenceError, Tool, ToolContext, ToolError, ToolResult, say, tool

from claw_memory.memories import Memories
from claw_memory.session import cites, is_private

if TYPE_CHECKING:
    from claw_memory.memory import Answer, Hit

_MOST_RESULTS = 50
_GET = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "from": {"type": "integer", "minimum": 1},
        "lines": {"type": "integer", "minimum": 1},
    },
    "required": ["path"],
    "additionalProperties": False,
}


def memory_tools(house: Memories) -> tuple[Tool, Tool]:
    """Both tools of a house."""

    async def close() -> None:
        await asyncio.to_thread(house.close)  # it waits for the text that is being embedded

    @tool(close=close)
    def memory_search(
        query: str,
        context: ToolContext,
        max_results: int | None = None,
    ) -> ToolResult:
        """Search your notes by meaning and by words."""
        agent = context.agent
        wanted = agent.settings.memory_search
        if not wanted.enabled:
            raise ToolError("the memory is not searched here: memorySearch.enabled is false")
        private = is_private(context.session_key, context.owner)
        embedder, unknown = None, ""
        try:
            embedder = house.embedder(agent)
        except ToolError as why:  # words alone find something too
            unknown = str(why)
        answer = house.of(agent).search(query, embedder, _within(max_results or wanted.max_results), private)
        house.watch(agent)
        cited = cites(wanted.citations, context.session_key)
        return ToolResult(told(answer, cited, unknown), details=document(answer, unknown))

    @tool(parameters=_GET)
    def memory_get(context: ToolContext, path: str, lines: int | None = None, **more: Any) -> str:
        """Read lines of MEMORY.md or memory/*.md."""
        from claw_memory.notes import LONG_TERM, lines_of, plain

        notes = house.of(context.agent).notes
        place = notes.place(path)
        if place == LONG_TERM and not is_private(context.session_key, context.owner):
            raise ToolError(
                "MEMORY.md is read only in a private chat with an owner. The files in memory/ can be read"
            )
        try:
            text = plain(context.files.read(str(notes.own / place)))
        except FenceError:
            if (notes.own / place).exists():
                raise
            return ""
        return lines_of(text, more.get("from", 1), lines)

    return memory_search, memory_get


def _within(results: int) -> int:
    return min(max(results, 1), _MOST_RESULTS)


def told(answer: "Answer", cited: bool, unknown: str = "") -> str:
    """A search for the model.

    :param cited: each piece ends with its source, ready to be copied into a reply.
    :param unknown: why the embedder that the settings name is not there.
    """
    parts = [_piece(number, hit, cited) for number, hit in enumerate(answer.hits, 1)]
    if not parts:
        parts = [
            say(
                "Nothing in the memory matches. Other words may; a new search changes nothing in what is noted."
            )
        ]
    return "\n\n".join([*parts, *_caveats(answer, unknown)])


def document(answer: "Answer", unknown: str = "") -> dict[str, Any]:
    """A search for programs."""
    return {
        "results": [
            {
                "path": hit.path, "from": hit.first, "to": hit.last, "score": hit.score, "text": hit.text,
                "changed": _moment(hit.changed), "fresh": hit.fresh,
            }
            for hit in answer.hits
        ],
        "byMeaning": answer.by_meaning,
        "whyNot": unknown or answer.why_not,
        "filesBehind": answer.behind,
        "piecesWaiting": answer.waiting,
    }  # fmt: skip


def _piece(number: int, hit: "Hit", cited: bool) -> str:
    state = say("current") if hit.fresh else say("changed since it was indexed: read it with memory_get")
    head = say(
        "{number}. {path} lines {first}-{last} (score {score:.2f}, file of {changed}, {state})",
        number=number, path=hit.path, first=hit.first, last=hit.last, score=hit.score, changed=_moment(hit.changed),
        state=state,
    )  # fmt: skip
    return f"{head}\n{hit.text}" + (f"\nSource: {hit.path}#{hit.first}" if cited else "")


def _caveats(answer: "Answer", unknown: str) -> list[str]:
    lines = []
    if unknown or not answer.by_meaning:
        lines.append(say("Searched by words alone: {why}.", why=unknown or answer.why_not))
    if answer.behind:
        lines.append(
            say("{count} files are not indexed yet; that goes on in the background.", count=answer.behind)
        )
    if answer.by_meaning and answer.waiting:
        lines.append(say("{count} pieces are found by their words alone so far.", count=answer.waiting))
    return [" ".join(lines)] if lines else []


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
