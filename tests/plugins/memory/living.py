"""An agent with a memory in a folder of its own, and an embedder that knows a few things by name."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from claw.agent.turn_context import notes_of
from claw.contracts.tool import ToolContext
from claw.security.workspace_fs import Root, WorkspaceFiles
from claw.testing import tool_context
from claw_memory.memory import Memory
from claw_memory.settings import MemorySettings

THINGS = (
    ("dentist", "teeth", "牙"),
    ("cake", "bake", "蛋糕"),
    ("server", "machine", "服务器"),
    ("dog", "puppy", "狗"),
)


class Things:
    """Texts that name the same things are alike, in any language.

    :param fails: what ``embed`` raises.
    """

    def __init__(self, name: str = "things", model: str = "1", fails: Exception | None = None) -> None:
        self.name, self.model, self.fails = name, model, fails
        self.asked: list[str] = []

    def embed(self, texts: Sequence[str], query: bool) -> Any:
        """A number for each thing, and one for any text."""
        if self.fails:
            raise self.fails
        self.asked += texts
        return [[*(3.0 * any(word in text for word in words) for words in THINGS), 1.0] for text in texts]


def agent(home: Path, **memory_search: Any) -> Any:
    """An agent whose notes lie in ``home/agents/default/agent``."""
    return SimpleNamespace(
        id="default",
        name="",
        dir=home / "agents" / "default",
        workspace=home / "ws",
        section=lambda key, model: model.model_validate(memory_search if key == "memorySearch" else {}),
    )


def note(home: Path, path: str, text: str) -> Path:
    """Write a note of that agent."""
    place = home / "agents" / "default" / "agent" / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, encoding="utf-8")
    return place


def memory(home: Path, **settings: Any) -> Memory:
    """Its memory."""
    own = home / "agents" / "default" / "agent"
    return Memory(
        own, home / "plugins" / "memory" / "default.sqlite", MemorySettings.model_validate(settings)
    )


def context(home: Path, who: Any, session_key: str = "agent:default:main", owner: bool = True) -> ToolContext:
    """Return the context of a tool call, with the file access of a turn."""
    own = who.dir / "agent"
    private = owner and "group" not in session_key.split(":")
    memory = own if private else notes_of(who, session_key, private=False)
    roots = (
        [Root(own / "MEMORY.md", write=True), Root(own / "memory", write=True)] if private else [Root(memory)]
    )
    who.workspace.mkdir(exist_ok=True)
    fence = WorkspaceFiles(roots, who.workspace, (home,))
    facts = {"session_key": session_key, "owner": owner, "memory": memory}
    return tool_context(who.workspace, agent=who, files=fence, **facts)
