"""compaction_chunk: messages by their lengths → pieces of at most so many tokens, less the margin."""

from pathlib import Path
from typing import Any

from claw.contracts.transcript import Text, User, estimate_tokens
from claw_context.split import split_by_size

FUNCTIONS = ("claw_context.split:split_by_size",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    costs = [estimate_tokens(User((Text("x" * chars),))) for chars in case["input"]["message_chars"]]
    chunks = [list(piece) for piece in split_by_size(costs, case["input"]["max_tokens"])]
    assert any(chunks == answer["chunks"] for answer in (case["expect"], *case.get("also_ok", ())))
