"""Making agent ids of what people write."""

from pathlib import Path
from typing import Any

from claw.config.names import normalise_agent_id

FUNCTIONS = ("claw.config.names:normalise_agent_id",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    assert normalise_agent_id(case["input"]["value"], "main") == case["expect"]["agent_id"]
