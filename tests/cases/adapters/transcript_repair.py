"""transcript_repair: messages out of order, doubled, orphaned → what may be sent. A free field carries the index."""

from pathlib import Path
from typing import Any

from claw.contracts.transcript import Assistant, Message, Text, ToolCall, ToolResultMessage, User, pair

FUNCTIONS = ("claw.contracts.transcript:pair",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    paired = pair([_message(index, raw) for index, raw in enumerate(case["input"]["messages"])])
    answers = [case["expect"], *case.get("also_ok", [])]
    assert any(
        paired.synthetic_added == answer["synthetic_added"]
        and len(paired.messages) == len(answer["messages"])
        and all(
            _is(message, wanted) for message, wanted in zip(paired.messages, answer["messages"], strict=True)
        )
        for answer in answers
    ), paired


def _message(index: int, raw: dict[str, Any]) -> Message:
    text = (Text(raw["text"]),) if raw.get("text") else ()
    match raw["role"]:
        case "user":
            return User((*text, Text(f"#{index}")))
        case "assistant":
            calls = tuple(
                ToolCall(call.get("id", ""), call.get("name", ""), call.get("arguments"))
                for call in raw.get("tool_calls", ())
            )
            return Assistant((*text, *calls), model=f"#{index}", stop_reason=raw.get("stop_reason", "stop"))
        case _:
            return ToolResultMessage(
                raw["tool_call_id"],
                raw.get("tool_name") or "",
                text,
                details=index,
                is_error=raw.get("is_error", False),
            )


def _is(message: Message, wanted: dict[str, Any]) -> bool:
    if wanted.get("synthetic"):
        return (
            isinstance(message, ToolResultMessage)
            and message.details is None
            and (message.call_id, message.tool_name, message.is_error)
            == (wanted["tool_call_id"], wanted["tool_name"], wanted["is_error"])
        )
    match message:
        case User():
            return message.content[-1] == Text(f"#{wanted['from']}")
        case Assistant():
            return message.model == f"#{wanted['from']}"
    return (
        message.details == wanted["from"] and wanted.get("tool_name", message.tool_name) == message.tool_name
    )
