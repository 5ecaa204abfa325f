"""memory_fts_query: a question → the query of full-text search, before CJK characters are spaced."""

from pathlib import Path
from typing import Any

from claw_memory.question import fts_query

FUNCTIONS = ("claw_memory.question:fts_query",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    assert fts_query(case["input"]["query"]) == case["expect"]["fts"]
