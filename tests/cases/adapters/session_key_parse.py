"""Reading session keys."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from claw.agent.routing import parse_key

FUNCTIONS = ("claw.agent.routing:parse_key",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    found = asdict(parse_key(case["input"]["key"], "main"))
    assert {name: found[name] for name in case["expect"]} == case["expect"]
