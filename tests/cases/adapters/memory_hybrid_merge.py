"""memory_hybrid_merge: two ranked lists and their weights → one, scores rounded to six digits."""

from pathlib import Path
from typing import Any

from claw_memory.ranking import merge

FUNCTIONS = ("claw_memory.ranking:merge",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    given = case["input"]
    vector, text = ([(one["id"], one["score"]) for one in given[way]] for way in ("vector", "keyword"))

    merged = merge(vector, text, given["vector_weight"], given["text_weight"])

    assert [{"id": key, "score": round(score, 6)} for key, score in merged] == case["expect"]["ranked"]
