"""The tools ``memory_search`` and ``memory_get``."""

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from claw import (
    FenceError,
    Tool,
    ToolContext,
    ToolError,
    ToolResult,
    origins,
    quoted_foreign,
    say,
    tool,
)

from claw_memory.memories import Memories
from claw_memory.session import cites

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
        embedder, unknown = None, ""
        try:
            embedder = house.embedder(agent)
        except ToolError as why:  # words alone find something too
            unknown = str(why)
        answer = house.of(agent).search(
            query, embedder, _within(max_results or wanted.max_results), _seen(context)
        )
        house.watch(agent)
        cited = cites(wanted.citations, context.session_key)
        return ToolResult(told(answer, cited, unknown), details=document(answer, unknown))

    @tool(parameters=_GET)
    def memory_get(context: ToolContext, path: str, lines: int | None = None, **more: Any) -> str:
        """Read lines of MEMORY.md or memory/*.md."""
        from claw_memory.notes import plain

        notes = house.of(context.agent).notes
        place = notes.place(path)
        if not place.startswith(_seen(context)):
            raise ToolError(
                "{path} is read only in a private chat with an owner. Elsewhere there are the notes of that chat alone",
                path=place,
            )
        try:
            text = plain(context.files.read(str(notes.own / place)))
        except FenceError:
            if (notes.own / place).exists():
                raise
            return ""
        return _marked(text, more.get("from", 1), lines)

    return memory_search, memory_get


def _seen(context: ToolContext) -> str:
    """What the paths of the notes begin with that this chat may see."""
    if context.memory is None:
        return "/"  # none does
    inside = str(context.memory.relative_to(context.agent.dir / "agent"))
    return "" if inside == "." else f"{inside}/"


def _marked(text: str, first: int, count: int | None) -> str:
    """Lines of a note, what others said as quotations; the mark of the first one is told although it stands above."""
    from claw_memory.notes import lines_of

    shown = lines_of(quoted_foreign(text), first, count)
    above = origins(text)[first - 1 : first] if first > 1 else ()
    return f"<!-- from: {above[0]} -->\n{shown}" if above and above[0] else shown


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
                "changed": _moment(hit.changed), "fresh": hit.fresh, "origin": hit.origin,
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
    lines = hit.text.split("\n")
    said = quoted_foreign(hit.text, [hit.origin] * len(lines))
    text = f"<!-- from: {hit.origin} -->\n{said}" if hit.origin else said
    return f"{head}\n{text}" + (f"\nSource: {hit.path}#{hit.first}" if cited else "")


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
