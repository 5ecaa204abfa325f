"""A prompt of some sections in one step, for tests: in the house each piece is kept apart (``claw.guests.Rendered``)."""

from collections.abc import Collection, Mapping, Sequence

from claw.prompt import Piece, PromptFacts, PromptSection, rendered, standing, together
from claw.provider import SystemPrompt


def assemble(
    sections: Sequence[PromptSection],
    facts: PromptFacts,
    positions: Mapping[str, float] | None = None,
    disabled: Collection[str] = (),
) -> tuple[SystemPrompt, tuple[Piece, ...]]:
    """The prompt, and those of its pieces that say something or failed."""
    order = standing(sections, facts.mode, positions, disabled)
    pieces = tuple(rendered(section, facts, stable) for section, stable in order)
    return together(pieces), tuple(piece for piece in pieces if piece.text or piece.fault)
