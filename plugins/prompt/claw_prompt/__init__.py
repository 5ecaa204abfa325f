"""The standard sections of the system prompt, the context files (AGENTS.md and others), and ``claw prompt``."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from claw import hookimpl

if TYPE_CHECKING:
    from claw import Diagnostic, PluginConfig, PromptSection


@hookimpl
def register_prompt_sections(config: "PluginConfig") -> "Iterable[PromptSection]":
    """Contribute the standard sections; the first one prepares the facts for all of them."""
    from claw_prompt.facts import TurnFacts
    from claw_prompt.sections import standard_sections

    first, *others = standard_sections()
    return [replace(first, prepare=TurnFacts(config.settings).prepare), *others]


@hookimpl
def register_diagnostics(config: "PluginConfig") -> "Iterable[Diagnostic]":
    """Contribute the check of the names of sections in the config file."""
    from claw_prompt.diagnostics import PromptDiagnostic

    return [PromptDiagnostic()]


@hookimpl
def register_commands(app: Any) -> None:
    """Add ``claw prompt``."""
    from claw_prompt.command import app as prompt_app

    app.add_typer(prompt_app, name="prompt")
