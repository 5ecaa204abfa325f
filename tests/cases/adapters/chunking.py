"""Texts cut into messages."""

from pathlib import Path
from typing import Any

from claw.channel import Limits
from claw.chunking import split_text

FUNCTIONS = ("claw.chunking:split_text",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    given = case["input"]
    pieces = split_text(given["text"], Limits(text_chars=given["limit"]), given["mode"])
    assert list(pieces) == case["expect"]["chunks"]
