"""compaction_split: messages by their lengths → parts of about the same tokens."""

from pathlib import Path
from typing import Any

from claw.contracts.transcript import Text, User, estimate_tokens
from claw_context.split import split_evenly

FUNCTIONS = ("claw_context.split:split_evenly",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    costs = [estimate_tokens(User((Text("x" * chars),))) for chars in case["input"]["message_chars"]]
    chunks = [list(part) for part in split_evenly(costs, case["input"]["parts"])]
    assert any(chunks == answer["chunks"] for answer in (case["expect"], *case.get("also_ok", ())))
