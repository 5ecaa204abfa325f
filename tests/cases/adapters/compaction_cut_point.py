"""compaction_cut_point: messages, and the tokens to keep → the first that stays, and the turn that is cut through."""

from pathlib import Path
from typing import Any

from claw.contracts.transcript import estimate_tokens
from claw_context.cut import cut_point

from cases.conversations import message

FUNCTIONS = ("claw_context.cut:cut_point",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    messages = [message(raw) for raw in case["input"]["entries"]]
    cut = cut_point(messages, [estimate_tokens(m) for m in messages], case["input"]["keep_recent_tokens"])
    wanted = case["expect"]
    assert (cut.first_kept, cut.turn_start) == (wanted["first_kept_index"], wanted["turn_start_index"])
    assert cut.splits_turn is wanted["is_split_turn"]
