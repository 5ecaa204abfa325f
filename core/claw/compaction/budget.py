"""When the past is made shorter, and when what matters is saved before that. Pure."""

from dataclasses import dataclass
from typing import Any


def threshold(window_tokens: int, reserve_tokens: int, ratio: float = 1.0) -> int:
    """The tokens above which a conversation is compacted; 0 or less when the window is smaller than the reserve."""
    return min(int(window_tokens * ratio), window_tokens - reserve_tokens)


def is_over(
    tokens: int, window_tokens: int, reserve_tokens: int, ratio: float = 1.0, enabled: bool = True
) -> bool:
    """Whether a conversation of so many tokens is to be compacted."""
    return enabled and tokens > threshold(window_tokens, reserve_tokens, ratio)


def flush_is_due(tokens: int | None, at_tokens: int, compactions: int, flushed_at: int | None) -> bool:
    """Whether to save what matters now: near the threshold, once between two compactions.

    :param tokens: of the conversation; None or 0 = unknown, then never.
    :param at_tokens: from here on; 0 or less = never.
    :param compactions: how many the conversation has seen; ``flushed_at`` the number at its last flush, None = no flush.
    """
    return bool(tokens) and 0 < at_tokens <= (tokens or 0) and flushed_at != compactions


@dataclass(frozen=True, slots=True)
class Budget:
    """The settings of compaction held against one window.

    :param window: tokens that the model reads.
    :param reserve: kept free; never more than half of the window, so that small models work with the usual settings.
    :param keep: the newest part, which stays as it is; never more than half of what is below the threshold.
    """

    window: int
    reserve: int
    ratio: float
    keep: int
    soft: int
    enabled: bool = True

    @classmethod
    def of(cls, settings: Any, window: int) -> "Budget":
        """:param settings: ``compaction`` of an agent."""
        reserve = min(max(settings.reserve_tokens, settings.reserve_tokens_floor), window // 2)
        keep = min(settings.keep_recent_tokens, threshold(window, reserve, settings.trigger_ratio) // 2)
        soft = settings.memory_flush.soft_threshold_tokens
        return cls(window, reserve, settings.trigger_ratio, keep, soft, settings.enabled)

    @property
    def threshold(self) -> int:
        """Above it the past is compacted."""
        return threshold(self.window, self.reserve, self.ratio)

    @property
    def flush_at(self) -> int:
        """From here on what matters is saved: before the threshold, however small the window is."""
        return self.threshold - min(self.soft, self.threshold // 5)

    @property
    def summary_chars(self) -> int:
        """How long a summary may be: a fifth of what is below the threshold, at four characters a token."""
        return max(2000, min(self.threshold // 5, 8000) * 4)

    def is_over(self, tokens: int) -> bool:
        """Whether a request of so many tokens is to be compacted first."""
        return is_over(tokens, self.window, self.reserve, self.ratio, self.enabled)
