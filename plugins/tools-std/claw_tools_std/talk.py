"""Talking: a message into the current conversation, and what the turn knows of itself."""

from datetime import UTC, datetime
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from claw import ToolContext, ToolError, ToolResult, tool


@tool(effects="once", parallel=False)
async def message(
    context: ToolContext, message: str, action: Literal["send"] = "send", attachments: list[str] | None = None
) -> ToolResult:
    """Send a message to this conversation at once; attachments: files of the workspace."""
    paths = tuple(attachments or ())
    for path in paths:
        if context.files.stat(path).kind != "file":
            raise ToolError("{path} is no file and cannot be attached", path=path)
    if not message.strip() and not paths:
        raise ToolError("there is nothing to send: message is empty")
    ids = await context.send(message, paths)
    count = f" with {len(paths)} attachments" if paths else ""
    return ToolResult(f"Sent{count}.", {"action": action, "messageIds": list(ids)})


@tool
def session_status(context: ToolContext) -> ToolResult:
    """Tell the time, zone, model and how much of its context is used."""
    status = context.status
    zone, now = _zone(str(status.get("zone") or ""))
    facts = {
        "time": now.strftime("%Y-%m-%d %H:%M:%S %z (%A)"),
        "zone": zone,
        "model": status.get("model"),
        "context": _context(status.get("used_tokens"), status.get("context_tokens")),
        "session": context.session_key,
        "thinking": status.get("thinking"),
        "turn": status.get("turn"),
    }
    told = {key: value for key, value in facts.items() if value not in (None, "")}
    return ToolResult(
        "\n".join(f"{key}: {value}" for key, value in told.items()), {**status, "time": now.isoformat()}
    )


def _zone(name: str) -> tuple[str, datetime]:
    """The zone and the time there; the zone of this machine when none is configured or it is not known here."""
    now = datetime.now(UTC)
    if name:
        try:
            return name, now.astimezone(ZoneInfo(name))
        except (ZoneInfoNotFoundError, ValueError):
            pass
    here = now.astimezone()
    return here.tzname() or "UTC", here


def _context(used: object, whole: object) -> str:
    if not isinstance(whole, int) or whole <= 0:
        return ""
    spent = used if isinstance(used, int) else 0
    return f"{spent:,} of {whole:,} tokens ({spent * 100 // whole} %)"
