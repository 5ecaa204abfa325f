"""``claw memory``: search an agent's notes, update their index, and show its state."""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from claw import HttpClients, PluginConfig, ToolError, t
from claw.runtime import load_setup, with_label

from claw_memory.embedder import OFF
from claw_memory.memories import Memories
from claw_memory.settings import MemorySearch, MemorySettings
from claw_memory.tools import document

memory_app = typer.Typer(no_args_is_help=True, help="Search and index the notes of agents.")
AgentId = Annotated[str, typer.Option("--agent", help="Agent id; default: the default agent.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


@memory_app.command()
def search(
    query: Annotated[str, typer.Argument(help="A question, or key words.")],
    agent: AgentId = "",
    most: Annotated[
        int, typer.Option("--max", min=0, max=50, help="Number of pieces at most; 0 = as configured.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Search as the agent does, MEMORY.md included. Exit code 1: nothing was found."""
    with _open_memories() as (config, memories):
        who = config.agent(agent)
        embedder, unknown = _embedder(memories, who)
        answer = memories.of(who).search(
            query, embedder, most or who.section("memorySearch", MemorySearch).max_results
        )
    if as_json:
        _document("memorySearch", {"agent": who.id, "query": query} | document(answer, unknown))
    else:
        for hit in answer.hits:
            typer.echo(f"{hit.path}:{hit.first}-{hit.last}  {hit.score:.2f}")
            for line in hit.text.split("\n"):
                typer.echo(f"    {line}".rstrip())
        if not answer.hits:
            _say(t("nothing found"))
        if unknown or answer.why_not:
            why = unknown or (answer.why_not if embedder else _why_no_embedder(who))
            _say(t("searched by words only: {why}", why=why))
        elif answer.waiting:
            _say(t("{count} pieces have no vector yet; run: claw memory index", count=answer.waiting))
    raise typer.Exit(0 if answer.hits else 1)


@memory_app.command()
def index(
    agent: AgentId = "",
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Delete the index first.")] = False,
    as_json: AsJson = False,
) -> None:
    """Update the index, vectors included. The notes themselves are never changed."""
    with _open_memories() as (config, memories):
        who = config.agent(agent)
        memory = memories.of(who)
        if rebuild:
            memory.index.clear()
        memory.sync(_progress(t("files")))
        embedder, unknown = _embedder(memories, who)
        if embedder is not None:
            name = f"{embedder.name}/{embedder.model}"
            memory.index.use_embedder(name)
            waiting = memory.index.counts().waiting
            show = _progress(t("pieces"))
            memory.embed(embedder, lambda done: show(done, max(waiting, done)))
        row = _row(who, memories)
    _show([row], as_json)
    if unknown:
        _say(t("without vectors: {why}", why=unknown))
        raise typer.Exit(1)


@memory_app.command()
def status(
    agent: Annotated[str, typer.Option("--agent", help="Agent id; default: all agents.")] = "",
    as_json: AsJson = False,
) -> None:
    """Show the number of indexed files and pieces, the outdated ones, and the embedder. Changes nothing."""
    with _open_memories() as (config, memories):
        ids = [agent] if agent else config.agent_ids
        rows = [_row(config.agent(one), memories) for one in ids]
    _show(rows, as_json)


@contextmanager
def _open_memories() -> Iterator[tuple[Any, Memories]]:
    config = load_setup().config
    state_dir = config.home / "plugins" / "memory"
    view = PluginConfig(config, "memory", HttpClients().client, state_dir)
    memories = Memories(state_dir, view.plugin(MemorySettings))
    try:
        yield config, memories
    finally:
        memories.close()


def _embedder(memories: Memories, agent: Any) -> tuple[Any, str]:
    """Return the embedder, or None with the reason. A command does not load other plugins, so their
    embedders are missing.
    """
    try:
        return memories.embedder(agent), ""
    except ToolError as why:
        return None, t("{why}. Embedders of other plugins work while claw runs, not in this command", why=why)


def _why_no_embedder(agent: Any) -> str:
    """Explain why no embedder is available, and what to do about it."""
    if (agent.section("memorySearch", MemorySearch).provider or "").lower() in OFF:
        return t("memorySearch.provider is off")
    return t("no embedder is installed; to install one: pip install 'claw-memory-search[embeddings]'")


def _row(agent: Any, memories: Memories) -> dict[str, Any]:
    memory = memories.of(agent)
    embedder, unknown = _embedder(memories, agent)
    state = memory.state()
    return {
        "agent": agent.id,
        "notes": str(memory.notes.own),
        "index": str(memory.index.path),
        "files": state.counts.files,
        "pieces": state.counts.pieces,
        "filesBehind": state.behind,
        "piecesWaiting": state.counts.waiting if embedder or unknown else 0,
        "embedder": f"{embedder.name}/{embedder.model}" if embedder else "",
        "whyNot": unknown or ("" if embedder else _why_no_embedder(agent)),
    }


def _show(rows: Iterable[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        _document("memory", {"agents": list(rows)})
        return
    for row in rows:
        typer.echo(
            t(
                "{agent}: {files} files, {pieces} pieces",
                agent=row["agent"],
                files=row["files"],
                pieces=row["pieces"],
            )
        )
        if row["filesBehind"]:
            typer.echo(
                "    " + t("{count} files changed since; run: claw memory index", count=row["filesBehind"])
            )
        if row["piecesWaiting"]:
            typer.echo("    " + t("{count} pieces have no vector yet", count=row["piecesWaiting"]))
        typer.echo("    " + t("embedder: {name}", name=row["embedder"] or row["whyNot"]))
        typer.echo("    " + t("notes: {path}", path=row["notes"]))


def _progress(what: str) -> Any:
    """Return a progress callback that writes to stderr when it is a terminal."""

    def show_progress(done: int, all_: int) -> bool:
        if sys.stderr.isatty() and all_:
            end = "\n" if done >= all_ else ""
            typer.echo(f"\r{with_label(what, f'{done}/{all_}')}{end}", nl=False, err=True)
        return True

    return show_progress


def _say(line: str) -> None:
    typer.echo(line, err=True)


def _document(kind: str, body: dict[str, Any]) -> None:
    typer.echo(json.dumps({"schemaVersion": 1, "kind": kind} | body, ensure_ascii=False, indent=2))
