"""Messages that are nothing but an abort word."""

from pathlib import Path
from typing import Any

from claw.abort import is_abort

FUNCTIONS = ("claw.abort:is_abort",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    assert is_abort(case["input"]["text"]) == case["expect"]["abort"]
