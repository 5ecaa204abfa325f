"""compaction_instructions: policy, own rule, focus → the instructions of the summariser beside its task."""

from pathlib import Path
from typing import Any

from claw_context.instructions import IDENTIFIER_RULE, extra_instructions

FUNCTIONS = ("claw_context.instructions:extra_instructions",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    given = case["input"]
    own, focus = given["identifier_instructions"], given["custom_instructions"]
    text = extra_instructions(given["identifier_policy"], own, focus)
    rules = [rule for rule in (IDENTIFIER_RULE, (own or "").strip()) if rule and rule in text]
    has_focus = bool(focus) and focus in text
    ordered = has_focus and all(text.index(rule) < text.index(focus) for rule in rules)
    assert {
        "present": bool(text),
        "has_default_identifier_rule": IDENTIFIER_RULE in text,
        "has_custom_identifier_rule": bool((own or "").strip()) and own.strip() in text,
        "has_custom_focus": has_focus,
        "order": "focus_last" if ordered else None,
    } == case["expect"]
