"""Answers that stream in and go out in blocks. ``feed`` is how many characters come at once, 0 = all."""

from pathlib import Path
from typing import Any

from claw_channel_sdk.splitting import BlockSettings, BlockSplitter

FUNCTIONS = (
    "claw_channel_sdk.splitting:BlockSplitter.feed",
    "claw_channel_sdk.splitting:BlockSplitter.finish",
)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    given = case["input"]
    shape = BlockSettings(
        given["min_chars"], given["max_chars"], given["break_preference"], given["flush_on_paragraph"]
    )
    text, step = given["text"], given["feed"] or len(given["text"])
    blocks = BlockSplitter(shape)

    gone = [block for start in range(0, len(text), step) for block in blocks.feed(text[start : start + step])]

    assert [*gone, *blocks.finish()] == case["expect"]["chunks"]
