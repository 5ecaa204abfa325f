"""A memory for claw agents: Markdown files that people can read, searched by words and by meaning.

Notes are ``MEMORY.md`` and ``memory/YYYY-MM-DD.md`` in ``CLAW_HOME/agents/ID/agent``; they are the truth. What makes
them quick to search lies in this plugin's folder and may be deleted at any time.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from claw import hookimpl

from claw_memory import hookspecs as hookspecs
from claw_memory.hookspecs import Embedder as Embedder

if TYPE_CHECKING:
    from claw import PluginConfig, PromptSection, Tool

    from claw_memory.memories import Memories

_open: "WeakValueDictionary[int, Memories]" = WeakValueDictionary()
"""By the config they were made for: its tools and its section are asked for apart."""


def _memories(config: "PluginConfig") -> "Memories":
    memories = _open.get(id(config))
    if memories is None:
        from claw_memory.memories import Memories
        from claw_memory.settings import MemorySettings

        def others() -> "Iterable[Embedder]":
            return [embedder for _, embedder in config.answers("register_embedders")]

        memories = _open[id(config)] = Memories(config.state_dir, config.plugin(MemorySettings), others)
    return memories


@hookimpl
def register_tools(config: "PluginConfig") -> "Iterable[Tool]":
    """memory_search and memory_get."""
    from claw_memory.tools import memory_tools

    return memory_tools(_memories(config))


@hookimpl
def register_prompt_sections(config: "PluginConfig") -> "Iterable[PromptSection]":
    """Memory Recall."""
    from claw_memory.section import recall_section

    return [recall_section(_memories(config).watch)]


@hookimpl
def register_commands(app: Any) -> None:
    """``claw memory``."""
    from claw_memory.commands import memory_app

    app.add_typer(memory_app, name="memory")
