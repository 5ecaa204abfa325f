"""context_overflow: what a service says → whether the request was too long for the model."""

from pathlib import Path
from typing import Any

from claw_provider_sdk.errors import is_overflow

FUNCTIONS = ("claw_provider_sdk.errors:is_overflow",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    wanted = [case["expect"], *case.get("also_ok", [])]
    assert {"overflow": is_overflow(case["input"]["message"])} in wanted
