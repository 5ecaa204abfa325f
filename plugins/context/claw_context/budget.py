"""Thresholds of compaction and of the memory flush before it. Pure."""

from dataclasses import dataclass
from typing import Any


def threshold(window_tokens: int, reserve_tokens: int, ratio: float = 1.0) -> int:
    """Return the tokens above which to compact; 0 or less when the window is smaller than the reserve."""
    return min(int(window_tokens * ratio), window_tokens - reserve_tokens)


def is_over(
    tokens: int, window_tokens: int, reserve_tokens: int, ratio: float = 1.0, enabled: bool = True
) -> bool:
    """Return true if a conversation of this many tokens must be compacted."""
    return enabled and tokens > threshold(window_tokens, reserve_tokens, ratio)


def flush_is_due(tokens: int | None, at_tokens: int, compactions: int, flushed_at: int | None) -> bool:
    """Return true if a memory flush is due: near the threshold, once between two compactions.

    :param tokens: tokens of the conversation; None or 0 = unknown, then never.
    :param at_tokens: flush from this many tokens on; 0 or less = never.
    :param compactions: number of compactions of the conversation.
    :param flushed_at: the number of compactions at the last flush; None = no flush yet.
    """
    return bool(tokens) and 0 < at_tokens <= (tokens or 0) and flushed_at != compactions


@dataclass(frozen=True, slots=True)
class ContextBudget:
    """The compaction settings applied to one context window, in tokens.

    :param window: the context window of the model.
    :param reserve: kept free; at most half of the window, so that small models work with the usual settings.
    :param keep_recent: the newest part, which stays unchanged; at most half of the threshold.
    """

    window: int
    reserve: int
    ratio: float
    keep_recent: int
    flush_margin: int
    enabled: bool = True

    @classmethod
    def from_settings(cls, settings: Any, window: int) -> "ContextBudget":
        """Build the budget of a window.

        :param settings: ``compaction`` of an agent.
        """
        reserve = min(max(settings.reserve_tokens, settings.reserve_tokens_floor), window // 2)
        keep = min(settings.keep_recent_tokens, threshold(window, reserve, settings.trigger_ratio) // 2)
        soft = settings.memory_flush.soft_threshold_tokens
        return cls(window, reserve, settings.trigger_ratio, keep, soft, settings.enabled)

    @property
    def threshold(self) -> int:
        """The tokens above which the history is compacted."""
        return threshold(self.window, self.reserve, self.ratio)

    @property
    def flush_at(self) -> int:
        """The tokens from which a memory flush is due: below the threshold for any window."""
        return self.threshold - min(self.flush_margin, self.threshold // 5)

    @property
    def summary_chars(self) -> int:
        """The maximum length of a summary: a fifth of the threshold, at four characters a token."""
        return max(2000, min(self.threshold // 5, 8000) * 4)

    def is_over(self, tokens: int) -> bool:
        """Return true if a request of this many tokens must be compacted first."""
        return is_over(tokens, self.window, self.reserve, self.ratio, self.enabled)
