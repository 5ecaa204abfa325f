"""``context_window_tokens`` → most characters of one result."""

from pathlib import Path
from typing import Any

from claw.truncation import result_limit

FUNCTIONS = ("claw.truncation:result_limit",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    assert result_limit(case["input"]["context_window_tokens"]) == case["expect"]["max_chars"]
