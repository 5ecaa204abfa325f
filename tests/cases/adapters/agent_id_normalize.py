"""Making agent ids of what people write."""

from pathlib import Path
from typing import Any

from claw.config.paths import normalise_agent_id

FUNCTIONS = ("claw.config.paths:normalise_agent_id",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    assert normalise_agent_id(case["input"]["value"], "main") == case["expect"]["agent_id"]
