"""prune_history: messages, window, share, parts → what stays and what goes."""

from pathlib import Path
from typing import Any

from claw_context.split import prune_history

from cases.conversations import id_of, message

FUNCTIONS = ("claw_context.split:prune_history",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    given = case["input"]
    messages = [message(raw) for raw in given["messages"]]
    pruned = prune_history(
        messages, given["max_context_tokens"], given.get("max_history_share") or 0.5, given.get("parts")
    )
    answer = {
        "kept_ids": [id_of(m) for m in pruned.kept],
        "dropped_ids": [id_of(m) for m in pruned.dropped],
        "dropped_chunks": pruned.chunks,
        "dropped_messages": pruned.dropped_messages,
        "dropped_tokens": pruned.dropped_tokens,
        "kept_tokens": pruned.kept_tokens,
        "budget_tokens": pruned.budget_tokens,
    }
    allowed = [case["expect"], *case.get("also_ok", ())]
    assert any(answer == {key: one.get(key, value) for key, value in answer.items()} for one in allowed), (
        answer
    )
