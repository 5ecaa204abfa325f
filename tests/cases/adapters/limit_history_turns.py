"""limit_history_turns: roles, one letter each, and a number of turns → the messages kept."""

from pathlib import Path
from typing import Any

from claw.contracts.transcript import Assistant, Message, Text, ToolCall, ToolResultMessage, User, limit_turns

FUNCTIONS = ("claw.contracts.transcript:limit_turns",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    messages = [_message(index, role) for index, role in enumerate(case["input"]["roles"])]
    kept = limit_turns(messages, case["input"].get("limit"))
    assert [messages.index(message) for message in kept] == case["expect"]["kept_indexes"]


def _message(index: int, role: str) -> Message:
    said = (Text(str(index)),)
    match role:
        case "u":
            return User(said)
        case "x":
            return User(said, kind="custom")
        case "a":
            return Assistant(said)
        case "t":
            return Assistant((*said, ToolCall(str(index), "read", {})))
    return ToolResultMessage(str(index - 1), "read", said)
