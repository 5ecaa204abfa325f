"""The tools ``memory_search`` and ``memory_get``."""

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from claw import FenceError, Tool, ToolContext, ToolError, ToolResult, t, tool
from claw.runtime import line_provenances, quoted_foreign

from claw_memory.memories import Memories
from claw_memory.session import cites
from claw_memory.settings import MemorySearch

if TYPE_CHECKING:
    from claw_memory.memory import SearchAnswer, SearchHit

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


def memory_tools(memories: Memories) -> tuple[Tool, Tool]:
    """Return both tools."""

    async def close() -> None:
        await asyncio.to_thread(memories.close)  # waits for the text that is being embedded

    @tool(effects="none", results="marked", close=close)
    def memory_search(
        query: str,
        context: ToolContext,
        max_results: int | None = None,
    ) -> ToolResult:
        """Search your notes by meaning and by words."""
        agent = context.agent
        wanted = agent.section("memorySearch", MemorySearch)
        if not wanted.enabled:
            raise ToolError("the memory is not searched here: memorySearch.enabled is false")
        embedder, unknown = None, ""
        try:
            embedder = memories.embedder(agent)
        except ToolError as why:  # a search by words alone still works
            unknown = str(why)
        answer = memories.of(agent).search(
            query, embedder, _clamped(max_results or wanted.max_results), _seen(context)
        )
        memories.watch(agent)
        cited = cites(wanted.citations, context.session_key)
        return ToolResult(search_text(answer, cited, unknown), details=document(answer, unknown))

    @tool(effects="none", results="marked", parameters=_GET)
    def memory_get(context: ToolContext, path: str, lines: int | None = None, **more: Any) -> str:
        """Read lines of MEMORY.md or memory/*.md."""
        from claw_memory.notes import decode_note

        notes = memories.of(context.agent).notes
        place = notes.place(path)
        if not place.startswith(_seen(context)):
            raise ToolError(
                "{path} is read only in a private chat with an owner. Elsewhere there are the notes of that chat alone",
                path=place,
            )
        try:
            text = decode_note(context.files.read(str(notes.own / place)))
        except FenceError:
            if (notes.own / place).exists():
                raise
            return ""
        return _with_provenance(text, more.get("from", 1), lines)

    return memory_search, memory_get


def _seen(context: ToolContext) -> str:
    """Return the path prefix of the notes that this chat may see."""
    if context.memory is None:
        return "/"  # matches no path
    inside = str(context.memory.relative_to(context.agent.dir / "agent"))
    return "" if inside == "." else f"{inside}/"


def _with_provenance(text: str, first: int, count: int | None) -> str:
    """Return lines of a note, with other people's words as quotations; a provenance mark above the first
    line applies too.
    """
    from claw_memory.notes import lines_of

    shown = lines_of(quoted_foreign(text), first, count)
    above = line_provenances(text)[first - 1 : first] if first > 1 else ()
    return f"<!-- from: {above[0]} -->\n{shown}" if above and above[0] else shown


def _clamped(results: int) -> int:
    return min(max(results, 1), _MOST_RESULTS)


def search_text(answer: "SearchAnswer", cited: bool, unknown: str = "") -> str:
    """Format a search for the model.

    :param cited: each chunk ends with its source, ready to be copied into a reply.
    :param unknown: why the embedder that the settings name is missing.
    """
    parts = [_piece(number, hit, cited) for number, hit in enumerate(answer.hits, 1)]
    if not parts:
        parts = [
            t(
                "Nothing in the memory matches. Other words may; a new search changes nothing in what is noted."
            )
        ]
    return "\n\n".join([*parts, *_caveats(answer, unknown)])


def document(answer: "SearchAnswer", unknown: str = "") -> dict[str, Any]:
    """Format a search as JSON data."""
    return {
        "results": [
            {
                "path": hit.path,
                "from": hit.first,
                "to": hit.last,
                "score": hit.score,
                "text": hit.text,
                "changed": _moment(hit.changed),
                "fresh": hit.fresh,
                "origin": hit.origin,
            }
            for hit in answer.hits
        ],
        "byMeaning": answer.by_meaning,
        "whyNot": unknown or answer.why_not,
        "filesBehind": answer.behind,
        "piecesWaiting": answer.waiting,
    }


def _piece(number: int, hit: "SearchHit", cited: bool) -> str:
    state = t("current") if hit.fresh else t("changed since it was indexed: read it with memory_get")
    head = t(
        "{number}. {path} lines {first}-{last} (score {score:.2f}, file of {changed}, {state})",
        number=number,
        path=hit.path,
        first=hit.first,
        last=hit.last,
        score=hit.score,
        changed=_moment(hit.changed),
        state=state,
    )
    lines = hit.text.split("\n")
    said = quoted_foreign(hit.text, [hit.origin] * len(lines))
    text = f"<!-- from: {hit.origin} -->\n{said}" if hit.origin else said
    return f"{head}\n{text}" + (f"\nSource: {hit.path}#{hit.first}" if cited else "")


def _caveats(answer: "SearchAnswer", unknown: str) -> list[str]:
    lines = []
    if unknown or not answer.by_meaning:
        lines.append(t("Searched by words alone: {why}.", why=unknown or answer.why_not))
    if answer.behind:
        lines.append(
            t("{count} files are not indexed yet; indexing continues in the background.", count=answer.behind)
        )
    if answer.by_meaning and answer.waiting:
        lines.append(t("{count} pieces are found by their words alone so far.", count=answer.waiting))
    return [" ".join(lines)] if lines else []


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
