"""Memory for claw agents: Markdown files that people can read, searched by words and by meaning.

Notes are ``MEMORY.md`` and ``memory/YYYY-MM-DD.md`` in ``CLAW_HOME/agents/ID/agent``; these files are
authoritative. The search index lies in this plugin's folder and may be deleted at any time.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from claw import hookimpl

from claw_memory import hookspecs as hookspecs
from claw_memory.hookspecs import Embedder as Embedder

if TYPE_CHECKING:
    from claw import PluginConfig, PromptSection, Tool

    from claw_memory.memories import Memories


def _memories(config: "PluginConfig") -> "Memories":
    """Return the memories of this configuration: the tools and the prompt section share them."""
    if "memories" not in config.shared:
        from claw_memory.memories import Memories
        from claw_memory.settings import MemorySettings

        def others() -> "Iterable[Embedder]":
            return [embedder for _, embedder in config.contributions("register_embedders")]

        config.shared["memories"] = Memories(config.state_dir, config.plugin(MemorySettings), others)
    memories: Memories = config.shared["memories"]
    return memories


@hookimpl
def register_tools(config: "PluginConfig") -> "Iterable[Tool]":
    """Register memory_search and memory_get."""
    from claw_memory.tools import memory_tools

    return memory_tools(_memories(config))


@hookimpl
def register_prompt_sections(config: "PluginConfig") -> "Iterable[PromptSection]":
    """Register the section Memory Recall."""
    from claw_memory.section import recall_section

    return [recall_section(_memories(config).watch)]


@hookimpl
def register_commands(app: Any) -> None:
    """Register ``claw memory``."""
    from claw_memory.commands import memory_app

    app.add_typer(memory_app, name="memory")
