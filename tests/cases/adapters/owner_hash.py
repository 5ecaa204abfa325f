"""owner_hash: the name by which a prompt knows an owner."""

from pathlib import Path
from typing import Any

from claw_prompt.facts import owner_hash

FUNCTIONS = ("claw_prompt.facts:owner_hash",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    given = case["input"]
    assert owner_hash(given["owner_id"], given["secret"] or "") == case["expect"]["display"]
