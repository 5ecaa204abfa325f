"""context_pruning: messages, window, settings → which tool results are kept, trimmed or cleared."""

from pathlib import Path
from typing import Any

from claw_context.pruning import Pruning, prune

from cases.conversations import message

FUNCTIONS = ("claw_context.pruning:prune",)

NAMES = {
    "keep_last_assistants": "keep_last_assistants",
    "soft_trim_ratio": "soft_ratio",
    "hard_clear_ratio": "hard_ratio",
    "min_prunable_tool_chars": "min_chars",
    "soft_max_chars": "max_chars",
    "soft_head_chars": "head_chars",
    "soft_tail_chars": "tail_chars",
    "hard_clear_enabled": "clears",
    "placeholder": "placeholder",
    "tools_allow": "allow",
    "tools_deny": "deny",
}


def check(case: dict[str, Any], tmp_path: Path) -> None:
    given = case["input"]
    how = Pruning(**{NAMES[key]: value for key, value in given["settings"].items()})
    messages = [message(raw) for raw in given["messages"]]
    changed = prune(messages, given["context_window_tokens"], how)

    def action(at: int) -> str:
        if at not in changed:
            return "kept"
        return "cleared" if changed[at].text == how.placeholder else "trimmed"

    wanted = case["expect"]["results"]
    assert [action(row["index"]) for row in wanted] == [row["action"] for row in wanted]
