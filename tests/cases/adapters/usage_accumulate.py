"""usage_accumulate: the figures of several calls → sums, and the newest prompt apart."""

from pathlib import Path
from typing import Any

import msgspec
from claw.contracts.transcript import Usage
from claw_sessions.usage import SessionUsage

FUNCTIONS = ("claw_sessions.usage:SessionUsage.plus",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    ledger = SessionUsage()
    for turn in case["input"]["turns"]:
        ledger = ledger.plus(Usage(**turn) if turn else None)
    assert msgspec.structs.asdict(ledger) == case["expect"]
