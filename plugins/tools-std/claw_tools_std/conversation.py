"""Conversation tools: a message into the current conversation, and the status of the session."""

from datetime import UTC, datetime
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from claw import Address, ToolContext, ToolError, ToolResult, tool
from claw_tool_sdk import chat_of

Action = Literal["send", "reply", "react", "edit", "delete", "poll"]


@tool(effects="once", parallel=False, results="own")
async def message(  # noqa: PLR0917 - a tool's parameters are passed by name
    context: ToolContext,
    message: str | None = None,
    action: Action | None = None,
    attachments: list[str] | None = None,
    target: str | None = None,
    channel: str | None = None,
    account: str | None = None,
    message_id: str | None = None,
    emoji: str | None = None,
    remove: bool | None = None,
    options: list[str] | None = None,
) -> ToolResult:
    """Send (default) a message to this chat now; or react, edit, delete or poll where `capabilities` lists it.

    :param attachments: workspace files
    :param target: id of another chat
    :param message_id: the message acted on
    :param emoji: for react
    :param remove: undo the reaction
    :param options: for poll
    """
    action = action or "send"
    talk, text, id = chat_of(context), message or "", message_id or ""
    where = talk.resolve_address(target or "", channel or "", account or "")
    ids: tuple[str, ...] = (id,) if id else ()
    if action in ("send", "reply"):
        ids = await _said(context, text, tuple(attachments or ()), where, action, id)
    elif action == "react":
        await talk.react(_required(emoji or "", "emoji", action), id, bool(remove), where)
    elif action == "edit":
        await talk.edit(_required(id, "message_id", action), _required(text, "message", action), where)
    elif action == "delete":
        await talk.delete(_required(id, "message_id", action), where)
    else:
        if len(options or ()) < 2:
            raise ToolError("a poll needs at least two options")
        ids = await talk.poll(_required(text, "message", action), options or (), where)
    done = {"send": "Sent", "reply": "Sent", "react": "Reacted", "edit": "Edited", "delete": "Deleted"}
    count = f" with {len(attachments)} attachments" if attachments else ""
    answers = where == talk.resolve_address() and action != "delete"
    details = {"action": action, "messageIds": list(ids), "answers": answers}
    return ToolResult(f"{done.get(action, 'Asked')}{count}.", details)


async def _said(
    context: ToolContext, text: str, paths: tuple[str, ...], where: Address, action: Action, message_id: str
) -> tuple[str, ...]:
    for path in paths:
        if context.files.stat(path).kind != "file":
            raise ToolError("{path} is no file and cannot be attached", path=path)
    if not text.strip() and not paths:
        raise ToolError("there is nothing to send: message is empty")
    quoted = message_id or None
    if action == "reply":
        quoted = _required(message_id or chat_of(context).answered_message_id(where), "message_id", action)
    ids: tuple[str, ...] = await chat_of(context).send(text, paths, where, quoted)
    return ids


def _required(value: str, name: str, action: str) -> str:
    if not value.strip():
        raise ToolError("{action} needs {name}", action=action, name=name)
    return value


@tool(effects="none", results="own")
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
    known = {key: value for key, value in facts.items() if value not in (None, "")}
    return ToolResult(
        "\n".join(f"{key}: {value}" for key, value in known.items()), {**status, "time": now.isoformat()}
    )


def _zone(name: str) -> tuple[str, datetime]:
    """Return the zone and the time there; the zone of this machine when none is configured or it is
    unknown.
    """
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
