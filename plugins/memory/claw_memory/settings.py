"""``plugins.entries.memory.config``: parameters of index and scoring; ``agents.memorySearch``: those of an agent."""

from typing import Literal

from claw import Section
from pydantic import Field


class Variety(Section):
    """Rank results lower that repeat a better one (maximal marginal relevance)."""

    enabled: bool = False
    weight: float = Field(
        0.7, ge=0, le=1, description="Of the score, against being unlike the results before."
    )


class Decay(Section):
    """Rank old day files lower. MEMORY.md and files without a date in their name are not affected."""

    enabled: bool = False
    half_life_days: float = Field(30, gt=0)


class MemorySettings(Section):
    """Settings of the memory plugin."""

    chunk_tokens: int = Field(
        400, ge=8, le=8000, description="Longer entries are indexed in parts of this size."
    )
    overlap_tokens: int = Field(80, ge=0, description="What a part repeats of the one before.")
    vector_weight: float = Field(0.7, ge=0, le=1, description="Of likeness in meaning.")
    text_weight: float = Field(0.3, ge=0, le=1, description="Of words in common.")
    candidates: int = Field(4, ge=1, le=50, description="Looked at for each result wanted.")
    min_score: float = Field(
        0.05, ge=0, le=1, description="Results below are left out, where meaning is compared."
    )
    mmr: Variety = Field({}, validate_default=True)
    time_decay: Decay = Field({}, validate_default=True)
    watch: bool = Field(
        True, description="Keep the index in step while claw runs, not only when it is searched."
    )
    watch_seconds: float = Field(10, ge=1, description="How often the files are looked at.")
    debounce_seconds: float = Field(
        1.5, ge=0, description="Seconds without a change before a file is indexed."
    )


class MemorySearch(Section):
    """Settings of memory search."""

    enabled: bool = True
    provider: str | None = Field(None, description="Who embeds texts; absent = what is installed.")
    model: str | None = None
    citations: Literal["on", "off", "auto"] = "on"
    max_results: int = Field(6, ge=1)
