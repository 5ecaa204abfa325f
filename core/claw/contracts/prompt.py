"""System prompt rendering: sections, ordered and within budget, become one prompt. Pure: same facts, same
bytes.

A prompt has two halves, the stable one first: a provider with a cache keeps it as long as its bytes stay the
same, so content that changes with the message belongs to the second half (``BOUNDARY``).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from claw.contracts.provider import SystemPrompt, ToolSpec

FULL, MINIMAL, NONE = "full", "minimal", "none"
BOUNDARY = 195.0  # a section at a higher position is volatile, whatever its own flag says


@dataclass(frozen=True, slots=True)
class ContextFile:
    """One of the agent's own files, as included in the prompt.

    :param path: as shown to the model.
    :param text: None, before the budget: the file is expected and missing.
    :param state: set by the budget; the text of a missing file is its marker.
    """

    path: str
    text: str | None
    state: Literal["whole", "cut", "missing"] = "whole"


@dataclass(frozen=True)
class PromptFacts:
    """The facts that a section may use. Facts that change with the message are only for volatile sections.

    :param agent: ``claw.config.agents.Agent``.
    :param mode: full, minimal (a sub-agent) or none.
    :param tools: the tools of this turn, in order.
    :param zone: IANA name of the user's time zone, empty when not configured. A section that prepares the facts brings
        it, and ``owners``, ``silent_token``, ``model_aliases`` and ``docs``.
    :param owners: hashed ids of the owners, never raw ones.
    :param is_private: a direct chat of an owner alone.
    :param own_workspace: the workspace is the agent's own, not the folder of another project.
    :param context_files: of the agent and the workspace, within budget already; a section
        that prepares the facts brings them. The agent may change those in its own folder.
    :param warnings: lines for the operator's log, from a section that prepares the facts.
    :param extra: group or sub-agent context, empty when there is none.
    :param docs: folder or address of documentation, ``prompt.docsPath``.
    :param inbound_meta: the trusted metadata of this message, None when it is placed elsewhere.
    :param sandbox: the environment of a command, empty without a sandbox.
    :param runtime: agent, session, host, repo, os, python, model, default_model (when it is another), shell,
        thinking, reasoning (``shown`` where the person sees it): the last lines.
    """

    agent: Any
    mode: str
    tools: tuple[ToolSpec, ...]
    workspace: Path
    channel: str = ""
    capabilities: tuple[str, ...] = ()
    zone: str = ""
    owners: tuple[str, ...] = ()
    is_private: bool = False
    own_workspace: bool = True
    context_files: tuple[ContextFile, ...] = ()
    warnings: tuple[str, ...] = ()
    extra: str = ""
    inbound_meta: dict[str, Any] | None = None
    sandbox: str = ""
    silent_token: str = "NO_REPLY"
    model_aliases: tuple[tuple[str, str], ...] = ()
    runtime: dict[str, str] = field(default_factory=dict)
    docs: str = ""


@dataclass(frozen=True)
class PromptSection:
    """A section of the system prompt.

    :param position: order in the prompt; claw's own sections are at 10, 20, ... in the order of the manual.
        Above ``BOUNDARY`` it is volatile.
    :param stable: before the cache boundary; its text must not depend on anything that changes with the
        message.
    :param modes: the modes that include it.
    :param render: facts → text with its heading; empty = left out.
    :param plugin: id of the plugin that registered it; set by the host.
    :param prepare: facts → facts with more in them, such as the context files; called for each turn, before any section
        is rendered.
    :param readable: agent → folders outside of the workspace that this section points to: the agent may read
        them.
    """

    name: str
    position: float
    render: Callable[[PromptFacts], str]
    stable: bool = True
    modes: frozenset[str] = frozenset({FULL})
    plugin: str = ""
    readable: Callable[[Any], tuple[Path, ...]] | None = None
    prepare: Callable[[PromptFacts], PromptFacts] | None = None


@dataclass(frozen=True, slots=True)
class RenderedSection:
    """One rendered section, for ``prompt show``.

    :param text: its part of the prompt; empty when the section failed.
    :param stable: its half, after the operator's positions.
    :param fault: the error, empty when it did not fail; ``cause``: of it, without the plugin.
    """

    section: PromptSection
    text: str
    stable: bool = True
    fault: str = ""
    cause: str = ""


def ordered_sections(
    sections: Sequence[PromptSection],
    mode: str,
    positions: Mapping[str, float] | None = None,
    disabled: Collection[str] = (),
) -> tuple[tuple[PromptSection, bool], ...]:
    """Return the sections of a mode by position, each with a flag: stable, that is before the cache boundary.

    :param positions: by section name, ``prompt.positions``; they override the section's own. A stable section
        may be moved behind the boundary; a volatile one never before it.
    :param disabled: names of sections to leave out, ``prompt.disabled``.
    """
    places = positions or {}

    def key(section: PromptSection) -> tuple[bool, float, str]:
        position = places.get(section.name, section.position)
        return not section.stable or position > BOUNDARY, position, section.name

    wanted = (each for each in sections if mode in each.modes and each.name not in disabled)
    return tuple((section, not key(section)[0]) for section in sorted(wanted, key=key))


def join_sections(pieces: Sequence[RenderedSection]) -> SystemPrompt:
    """Join pieces, in order, to the two halves of the prompt."""
    stable = [piece.text for piece in pieces if piece.text and piece.stable]
    volatile = [piece.text for piece in pieces if piece.text and not piece.stable]
    return SystemPrompt("\n\n".join(stable), "\n\n".join(volatile))
