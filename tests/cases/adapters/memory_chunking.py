"""memory_chunking: a text → the lines and lengths of its pieces."""

from pathlib import Path
from typing import Any

from claw_memory.cutting import cut

FUNCTIONS = ("claw_memory.cutting:cut",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    given = case["input"]

    pieces = cut(given["text"], given["chunk_tokens"], given["overlap_tokens"])

    found = [{"start_line": piece.start, "end_line": piece.end, "chars": len(piece.text)} for piece in pieces]
    assert found == case["expect"]["chunks"]
