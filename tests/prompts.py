"""A prompt of some sections in one step, for tests: each piece is kept apart (``claw.host.calls.SectionCache``)."""

from collections.abc import Collection, Mapping, Sequence

from claw.contracts.prompt import (
    PromptFacts,
    PromptSection,
    RenderedSection,
    join_sections,
    ordered_sections,
)
from claw.contracts.provider import SystemPrompt


def render_section(section: PromptSection, facts: PromptFacts, stable: bool) -> RenderedSection:
    """Render a section; the piece of one that raises holds the error."""
    try:
        text = section.render(facts)
    except Exception as error:
        return RenderedSection(section, "", stable, f"{type(error).__name__}: {error}")
    if not isinstance(text, str):
        return RenderedSection(section, "", stable, f"render answered with {type(text).__name__}, not text")
    return RenderedSection(section, text.strip("\n"), stable)


def assemble(
    sections: Sequence[PromptSection],
    facts: PromptFacts,
    positions: Mapping[str, float] | None = None,
    disabled: Collection[str] = (),
) -> tuple[SystemPrompt, tuple[RenderedSection, ...]]:
    """The prompt, and those of its pieces that say something or failed."""
    order = ordered_sections(sections, facts.mode, positions, disabled)
    pieces = tuple(render_section(section, facts, stable) for section, stable in order)
    return join_sections(pieces), tuple(piece for piece in pieces if piece.text or piece.fault)
