"""``plugins.entries.memory.config``: parameters of index and scoring; ``agents.memorySearch``: those of an agent."""

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from claw import Section, nearest
from pydantic import Field

from claw_memory.embedder import OFF, built_in


class Variety(Section):
    """Rank results lower that repeat a better one (maximal marginal relevance)."""

    enabled: bool = Field(False, description="true: it is done.")
    weight: float = Field(
        0.7, ge=0, le=1, description="Of the score, against being unlike the results before."
    )


class Decay(Section):
    """Rank old day files lower. MEMORY.md and files without a date in their name are not affected."""

    enabled: bool = Field(False, description="true: it is done.")
    half_life_days: float = Field(30, gt=0, description="Age in days at which a file counts half.")


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

    enabled: bool = Field(
        True, description="false: a search is refused, and the prompt does not ask for one."
    )
    provider: str | None = Field(None, description="Who embeds texts; absent = what is installed.")
    model: str | None = Field(
        None, description="Model that embeds texts; absent = the first of the provider."
    )
    citations: Literal["on", "off", "auto"] = Field(
        "on", description="Results name file and line; auto: not in a chat where others read along."
    )
    max_results: int = Field(6, ge=1, description="Results of a search, when the agent asks for no number.")

    def unknown_names(
        self, plugins: Iterable[Any]
    ) -> Iterator[tuple[tuple[str, ...], str, str, dict[str, str]]]:
        """Yield a warning for a provider or model that no embedder has, so that nothing is searched by meaning.

        :param plugins: those in use (``claw.runtime.InstalledPlugin``). One whose code names ``register_embedders`` may
            bring any embedder: then nothing is said here, and a search reports it.
        """
        provider, model = self.provider, self.model
        if (provider is None and model is None) or (provider or "").lower() in OFF:
            return
        there = built_in()
        if any(provider in (None, one.name) and model in (None, one.model) for one in there):
            return
        if any(map(_brings_embedders, plugins)):
            return
        by_name = [one for one in there if provider in (None, one.name)]
        key, written = ("model", model or "") if by_name and model else ("provider", provider or model or "")
        known = [one.model for one in by_name] if key == "model" else [one.name for one in there]
        near = nearest(written, dict.fromkeys([*known, *OFF[:1]]) if key == "provider" else known)
        fix = "Did you mean {near}?" if near else "To search by words alone, write off; else remove the key"
        if not there and not near:
            fix = "To install one: pip install 'claw-memory-search[embeddings]'; to search by words alone, write off"
        yield (key,), "there is no embedder {name}", fix, {"name": written, "near": near or ""}


def _brings_embedders(plugin: Any) -> bool:
    """Return true if the code of a third party's plugin names the hook."""
    if plugin.is_first_party or plugin.folder is None:
        return not plugin.is_first_party  # a single module: nobody knows
    sources = (path.read_bytes() for path in plugin.folder.rglob("*.py"))
    return any(b"register_embedders" in source for source in sources)
