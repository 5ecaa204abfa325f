"""``context_window_tokens`` → most characters of one result."""

from pathlib import Path
from typing import Any

from claw.contracts.text import result_limit

FUNCTIONS = ("claw.contracts.text:result_limit",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    assert result_limit(case["input"]["context_window_tokens"]) == case["expect"]["max_chars"]
