"""Sections in order and within budget become one system prompt. Pure: the same facts give the same bytes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from claw.provider import SystemPrompt, ToolSpec

FULL, MINIMAL, NONE = "full", "minimal", "none"


@dataclass(frozen=True, slots=True)
class ContextFile:
    """One of the agent's own files, as it goes into the prompt. ``text`` None: the file is expected and missing."""

    path: str
    text: str | None


@dataclass(frozen=True)
class PromptFacts:
    """All that a section may know. Facts that change with the message are only for volatile sections.

    :param agent: ``claw.config.Agent``.
    :param mode: full, minimal (a sub-agent) or none.
    :param tools: the tools that this turn may use, in order.
    :param zone: IANA name of the user's time zone, empty when not configured.
    :param owners: hashed ids of the owners (``owner_hash``), never raw ones.
    :param extra: group or sub-agent context, empty when there is none.
    :param inbound_meta: the trusted metadata of this message, None when it goes elsewhere.
    :param runtime: agent, session, host, os, python, model, default_model, shell, thinking: what the last line shows.
    """

    agent: Any
    mode: str
    tools: tuple[ToolSpec, ...]
    workspace: Path
    channel: str = ""
    capabilities: tuple[str, ...] = ()
    zone: str = ""
    owners: tuple[str, ...] = ()
    context_files: tuple[ContextFile, ...] = ()
    extra: str = ""
    inbound_meta: dict[str, Any] | None = None
    sandbox: str = ""
    silent_token: str = "NO_REPLY"
    model_aliases: tuple[tuple[str, str], ...] = ()
    runtime: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PromptSection:
    """A piece of the system prompt.

    :param position: order in the prompt; claw's own stand at 10, 20, ... in the order of the manual.
    :param stable: before the cache boundary; it must not depend on anything that changes with the message.
    :param modes: in which modes it stands.
    :param render: facts → text with its heading; empty = left out.
    :param plugin: id of the plugin that brought it; set by the host.
    """

    name: str
    position: float
    render: Callable[[PromptFacts], str]
    stable: bool = True
    modes: frozenset[str] = frozenset({FULL})
    plugin: str = ""


@dataclass(frozen=True, slots=True)
class Piece:
    """One rendered section, for ``prompt show``: ``text`` is what went into the prompt."""

    section: PromptSection
    text: str


def assemble(sections: Sequence[PromptSection], facts: PromptFacts) -> tuple[SystemPrompt, tuple[Piece, ...]]:
    """Render every section that stands in this mode, in order of position, split at the cache boundary."""
    ordered = sorted((s for s in sections if facts.mode in s.modes), key=lambda s: (not s.stable, s.position, s.name))
    rendered = (Piece(section, section.render(facts).strip("\n")) for section in ordered)
    pieces = tuple(piece for piece in rendered if piece.text)
    stable = "\n\n".join(piece.text for piece in pieces if piece.section.stable)
    volatile = "\n\n".join(piece.text for piece in pieces if not piece.section.stable)
    return SystemPrompt(stable, volatile), pieces
