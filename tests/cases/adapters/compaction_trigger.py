"""compaction_trigger: tokens, window, reserve → whether to compact. Run with triggerRatio 1.0 (DESIGN, section 13)."""

from pathlib import Path
from typing import Any

from claw_context.budget import is_over

FUNCTIONS = ("claw_context.budget:is_over",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    given = case["input"]
    over = is_over(
        given["context_tokens"], given["context_window"], given["reserve_tokens"], 1.0, given["enabled"]
    )
    assert over is case["expect"]["compact"]
