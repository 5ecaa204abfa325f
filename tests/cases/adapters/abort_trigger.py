"""Messages that are nothing but an abort word."""

from pathlib import Path
from typing import Any

from claw_gateway.abort_words import is_abort

FUNCTIONS = ("claw_gateway.abort_words:is_abort",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    assert is_abort(case["input"]["text"]) == case["expect"]["abort"]
