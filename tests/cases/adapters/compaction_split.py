"""compaction_split: messages by their lengths → parts of about the same tokens."""

from pathlib import Path
from typing import Any

from claw.compaction.split import by_share
from claw.transcript import Text, User, estimate_tokens

FUNCTIONS = ("claw.compaction.split:by_share",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    costs = [estimate_tokens(User((Text("x" * chars),))) for chars in case["input"]["message_chars"]]
    chunks = [list(part) for part in by_share(costs, case["input"]["parts"])]
    assert any(chunks == answer["chunks"] for answer in (case["expect"], *case.get("also_ok", ())))
