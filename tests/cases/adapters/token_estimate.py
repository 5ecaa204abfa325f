"""token_estimate: a message → tokens, four characters each."""

from pathlib import Path
from typing import Any

from claw.contracts.transcript import (
    Assistant,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    User,
    estimate_tokens,
)

FUNCTIONS = ("claw.contracts.transcript:estimate_tokens",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    assert estimate_tokens(_message(case["input"])) == case["expect"]["tokens"]


def _message(raw: dict[str, Any]) -> Message:
    shown = (Text(raw["text"]), *(Image("AAAA") for _ in range(raw.get("images", 0))))
    match raw["role"]:
        case "user":
            return User(shown)
        case "assistant":
            calls = tuple(
                ToolCall("c", call["name"], call["arguments"]) for call in raw.get("tool_calls", ())
            )
            return Assistant((Thinking(raw.get("thinking", "")), Text(raw["text"]), *calls))
    return ToolResultMessage("c", "read", shown, details=raw.get("details"))
