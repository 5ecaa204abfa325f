"""compaction_chunk_ratio: messages by their lengths, and a window → the share of it for one piece."""

from pathlib import Path
from typing import Any

from claw.contracts.transcript import Text, User, estimate_tokens
from claw_context.split import chunk_ratio

FUNCTIONS = ("claw_context.split:chunk_ratio",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    costs = [estimate_tokens(User((Text("x" * chars),))) for chars in case["input"]["message_chars"]]
    assert round(chunk_ratio(costs, case["input"]["context_window"]), 6) == case["expect"]["ratio"]
