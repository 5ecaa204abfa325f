"""Messages of the tables (``role``, ``text`` or ``chars``, ``tool_calls`` …) as ours; the table's id goes along."""

from typing import Any

from claw.contracts.transcript import Assistant, Image, Message, Text, ToolCall, ToolResultMessage, User


def message(raw: dict[str, Any]) -> Message:
    """One message; ``id`` is kept where it costs nothing: a user's source, an answer's model, a result's details."""
    text = Text(raw["text"] if "text" in raw else "x" * raw.get("chars", 0))
    id = raw.get("id", "")
    match raw["role"]:
        case "user":
            return User((text,), source=id)
        case "assistant":
            calls = tuple(
                ToolCall(call["id"], call["name"], call.get("arguments", {}))
                for call in raw.get("tool_calls", ())
            )
            return Assistant((text, *calls), model=id)
    images = tuple(Image("AAAA") for _ in range(raw.get("images", 0)))
    return ToolResultMessage(
        raw.get("tool_call_id", ""), raw.get("tool_name", ""), (text, *images), details=id
    )


def id_of(message: Message) -> Any:
    """The table's id of a message."""
    match message:
        case User():
            return message.source
        case Assistant():
            return message.model
    return message.details
