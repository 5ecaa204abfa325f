"""memory_flush_trigger: tokens, settings and counts → whether to flush. Run with triggerRatio 1.0."""

from pathlib import Path
from typing import Any

from claw_context.budget import flush_is_due, threshold

FUNCTIONS = ("claw_context.budget:flush_is_due", "claw_context.budget:threshold")


def check(case: dict[str, Any], tmp_path: Path) -> None:
    given = case["input"]
    at = (
        threshold(given["context_window"], given["reserve_tokens_floor"], 1.0)
        - given["soft_threshold_tokens"]
    )
    counts = given["compaction_count"], given["last_flush_compaction_count"]
    assert flush_is_due(given["total_tokens"], at, *counts) is case["expect"]["flush"]
