"""loop_detection: calls in order → the first time that each level and detector speaks, asked before the call is made."""

from pathlib import Path
from typing import Any

from claw_loop_guard.detector import CallRecord, call_record, detect_loop, limits_of, outcome_of
from claw_loop_guard.settings import LoopDetection

FUNCTIONS = (
    "claw_loop_guard.detector:detect_loop",
    "claw_loop_guard.detector:call_record",
    "claw_loop_guard.detector:limits_of",
)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    limits = limits_of(LoopDetection.model_validate(case["input"]["config"]))
    history: list[CallRecord] = []
    first: dict[tuple[str, str], dict[str, Any]] = {}
    for number, call in enumerate(case["input"]["calls"], 1):
        now = call_record(call["tool"], call["args"])
        if sign := detect_loop(history, now, limits):
            event = {
                "before_call": number,
                "count": sign.count,
                "detector": sign.detector,
                "level": sign.level,
            }
            first.setdefault((sign.level, sign.detector), event)
        now.outcome = outcome_of(call["result"])
        history.append(now)

    assert list(first.values()) == case["expect"]["first_events"]
