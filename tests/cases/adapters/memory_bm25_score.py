"""memory_bm25_score: a rank → a score, rounded to six digits."""

from pathlib import Path
from typing import Any

from claw_memory.ranking import text_score

FUNCTIONS = ("claw_memory.ranking:text_score",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    assert round(text_score(case["input"]["rank"]), 6) == case["expect"]["score"]
