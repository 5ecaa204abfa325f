"""usage_accumulate: the figures of several calls → sums, and the newest prompt apart."""

from pathlib import Path
from typing import Any

import msgspec
from claw.transcript import Usage
from claw.usage import Ledger

FUNCTIONS = ("claw.usage:Ledger.plus",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    ledger = Ledger()
    for turn in case["input"]["turns"]:
        ledger = ledger.plus(Usage(**turn) if turn else None)
    assert msgspec.structs.asdict(ledger) == case["expect"]
