"""``agents.compaction`` and ``agents.contextPruning`` in the config file."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from claw import Section
from claw.runtime import Duration, Names, section_default, validation_error
from claw_config_sdk import Size
from pydantic import Field, ValidationInfo, model_validator

Ratio = Annotated[float, Field(gt=0, le=1)]
Tokens = Annotated[int, Field(ge=0)]


class MemoryFlushSettings(Section):
    """A silent turn before compaction, in which the agent saves important facts."""

    enabled: bool = Field(True, description="false: nothing is saved before a compaction.")
    soft_threshold_tokens: Tokens = Field(4000, description="How far before compaction; at most a fifth.")
    force_flush_transcript_bytes: Size = Field(2 << 20, description="Flush when the transcript is larger.")
    prompt: str | None = Field(None, description="In place of claw's own request to save facts.")
    system_prompt: str | None = Field(None, description="A paragraph of yours before that request.")


class CompactionSettings(Section):
    """Conditions and limits of the compaction of history."""

    enabled: bool = Field(True, description="off: nothing is summarised; what does not fit is not shown.")
    mode: Literal["default", "safeguard"] = Field(
        "default", description="safeguard: when no model can summarise, the file keeps the past as it is."
    )
    trigger_ratio: Ratio = Field(0.8, description="Share of the window above which the past is compacted.")
    reserve_tokens: Tokens = Field(
        20_000, description="Kept free for the answer and the summary; at most half of the window."
    )
    reserve_tokens_floor: Tokens = Field(20_000, description="The reserve is never below this; 0 = no floor.")
    keep_recent_tokens: Tokens = Field(20_000, description="The newest part, which is never summarised.")
    max_history_share: Ratio = Field(0.5, description="Safeguard: share of the window that history may take.")
    identifier_policy: Literal["strict", "off", "custom"] = Field(
        "strict",
        description="Ids, paths and numbers in a summary: copied exactly, no rule, or a rule of yours.",
    )
    identifier_instructions: str | None = Field(
        None, description="custom: the rule; without one the policy is strict."
    )
    custom_instructions: str | None = Field(None, description="Added to the instructions of the summariser.")
    model: str | None = Field(None, description="Model that writes summaries; absent = the agent's own.")
    timeout_seconds: float = Field(180, gt=0, description="Longest wait for a summary, all tries together.")
    memory_flush: MemoryFlushSettings = section_default()

    @model_validator(mode="after")
    def _reserve_fits_window(self, info: ValidationInfo) -> "CompactionSettings":
        window = ((info.context or {}).get("beside") or {}).get("contextTokens")
        if (
            "reserve_tokens" in self.model_fields_set
            and isinstance(window, int)
            and self.reserve_tokens >= window
        ):
            problem = "{reserve} tokens are reserved, but the context window is not larger than {window}"
            fix, at = "Reserve less than contextTokens", ("reserveTokens",)
            raise validation_error(problem, fix, at=at, reserve=self.reserve_tokens, window=window)
        return self


class SoftTrim(Section):
    """Limits for cutting a long tool result: its head and tail are kept."""

    max_chars: int = Field(5000, ge=0, description="Characters above which a result is cut.")
    head_chars: int = Field(2000, ge=0, description="Characters kept of its beginning.")
    tail_chars: int = Field(2000, ge=0, description="Characters kept of its end.")


class HardClear(Section):
    """Replacement of an old tool result by a placeholder."""

    enabled: bool = Field(True, description="false: results are only cut, never replaced.")
    placeholder: str = Field(
        "[Old tool result removed to save space]", description="What the model is shown instead."
    )


class PrunedTools(Section):
    """Tools whose results may be cut."""

    allow: Names | None = Field(None, description="Only these; absent = all but those of deny.")
    deny: Names = Field((), description="Not these.")


class ContextPruning(Section):
    """Cut old tool results before a request, in memory only."""

    mode: Literal["off", "cache-ttl"] = Field(
        "off", description="cache-ttl: once the provider's cache has expired, after ttl."
    )
    ttl: Duration = Field(3600.0, description="Only when the last request is older than this.")
    keep_last_assistants: int = Field(
        3, ge=0, description="Results behind the n-th last answer stay whole; 0 = none do."
    )
    soft_trim_ratio: Ratio = Field(0.7, description="Share of the window above which long results are cut.")
    hard_clear_ratio: Ratio = Field(
        0.85, description="Share of the window above which the oldest results are replaced."
    )
    min_prunable_tool_chars: int = Field(
        1000, ge=0, description="Nothing is replaced while all old results together have fewer characters."
    )
    tools: PrunedTools = section_default()
    soft_trim: SoftTrim = section_default()
    hard_clear: HardClear = section_default()

    def odd_keys(self, agents: Any) -> Iterator[tuple[tuple[str, ...], str, str, dict[str, object]]]:
        """Yield a warning for each limit that another one makes useless."""
        if self.mode != "off" and self.hard_clear.enabled and self.soft_trim_ratio >= self.hard_clear_ratio:
            problem = "it has no effect: results are removed at hardClearRatio, {limit}"
            yield ("softTrimRatio",), problem, "Write a smaller number", {"limit": self.hard_clear_ratio}
        kept = self.soft_trim.head_chars + self.soft_trim.tail_chars
        if "soft_trim" in self.model_fields_set and kept >= self.soft_trim.max_chars > 0:
            problem = "nothing is cut: headChars and tailChars keep {kept} characters"
            yield ("softTrim", "maxChars"), problem, "Write a larger number than their sum", {"kept": kept}
