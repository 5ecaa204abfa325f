"""Texts cut into messages."""

from pathlib import Path
from typing import Any

from claw.contracts.channel import ChannelLimits
from claw_channel_sdk.splitting import split_text

FUNCTIONS = ("claw_channel_sdk.splitting:split_text",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    given = case["input"]
    pieces = split_text(given["text"], ChannelLimits(text_chars=given["limit"]), given["mode"])
    assert list(pieces) == case["expect"]["chunks"]
