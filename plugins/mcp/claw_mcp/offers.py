"""Translation between MCP and claw: a server's offers to tools, its answers to results. Pure.

Shapes from the MCP specification (modelcontextprotocol.io, revision 2025-06-18): tools, resources, prompts,
content.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from claw import Image, Text, ToolResult

from claw_mcp.record import Offer

NAME_CHARS = 64
"""Maximum length of a tool's name in the strictest model service."""

_ADDRESSES_FIRST = -32042
_TEXT = {"type": "string"}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}
RESOURCES = (
    Offer(
        "resource_list",
        "List the resources of this server: addresses that resource_read takes.",
        {"type": "object", "properties": {}},
        "resources",
        "none",
    ),
    Offer(
        "resource_read",
        "Read one resource of this server.",
        {"type": "object", "properties": {"uri": _TEXT}, "required": ["uri"]},
        "resources",
        "none",
    ),
)
PROMPTS = (
    Offer(
        "prompt_list",
        "List the prompts that this server has ready, with their arguments.",
        {"type": "object", "properties": {}},
        "prompts",
        "none",
    ),
    Offer(
        "prompt_get",
        "Get one prompt of this server, its arguments filled in.",
        {"type": "object", "properties": {"name": _TEXT, "arguments": _TEXTS}, "required": ["name"]},
        "prompts",
        "none",
    ),
)


def offer_of(tool: Any) -> Offer:
    """Convert a tool as its server lists it (``mcp.types.Tool``)."""
    hints = tool.annotations
    effects = "once"
    if hints and hints.read_only_hint:
        effects = "none"
    elif hints and hints.idempotent_hint:
        effects = "idempotent"
    schema = dict(tool.input_schema or {})
    schema.setdefault("type", "object")
    return Offer(tool.name, tool.description or tool.title or "", schema, "tool", effects)


def all_offers(tools: Iterable[Any], *, resources: bool, prompts: bool) -> tuple[Offer, ...]:
    """Return everything that a server offers; its own tools take precedence for a name."""
    own = [offer_of(tool) for tool in tools]
    names = {offer.name for offer in own}
    more = (*(RESOURCES if resources else ()), *(PROMPTS if prompts else ()))
    return (*own, *(offer for offer in more if offer.name not in names))


def full_name(server: str, name: str, *, distinct: bool = False) -> str:
    """Return ``server__tool``, in characters that every model service accepts. A truncated name, and one with letters of
    other scripts, ends in a digest.

    :param distinct: with a digest in any case: another tool has the name without it.
    """
    given = f"{server}__{name}"
    whole = re.sub(r"[^A-Za-z0-9_-]", "_", given)
    if len(whole) <= NAME_CHARS and given.isascii() and not distinct:
        return whole
    return f"{whole[: NAME_CHARS - 9]}_{hashlib.sha256(given.encode(errors='replace')).hexdigest()[:8]}"


def result_of(answer: Any) -> ToolResult:
    """Convert a call's answer (``mcp.types.CallToolResult``): texts and pictures as they are, the rest
    described.
    """
    blocks = tuple(_block(part) for part in answer.content)
    if not blocks and answer.structured_content is not None:
        blocks = (Text(json.dumps(answer.structured_content, ensure_ascii=False)),)
    return ToolResult(blocks, answer.structured_content, bool(answer.is_error))


def addresses_to_open(why: Exception) -> list[str]:
    """Return the addresses that a person must open before a call can succeed: those of the error -32042 ("Elicitation",
    "URL Elicitation Required Error"); none for another error.
    """
    error = getattr(why, "error", None)
    if getattr(error, "code", None) != _ADDRESSES_FIRST or not isinstance(error.data, Mapping):
        return []
    asked = (
        str(one.get("url", "")) for one in error.data.get("elicitations", ()) if isinstance(one, Mapping)
    )
    return [url for url in asked if url.startswith(("http://", "https://"))]


def format_resources(listed: Any, templates: Any) -> str:
    """List the resources of a server, one per line."""
    lines = [_line(one.uri, one.name, one.description) for one in listed]
    lines += [_line(one.uri_template, one.name, one.description) for one in templates]
    return "\n".join(lines) or "This server has no resources."


def format_contents(contents: Iterable[Any]) -> ToolResult:
    """Convert a resource that was read; it may have several parts."""
    return ToolResult(tuple(_resource(part) for part in contents))


def format_prompts(listed: Iterable[Any]) -> str:
    """List the prompts of a server, one per line."""
    lines = []
    for one in listed:
        arguments = ", ".join(f"{a.name}{'' if a.required else '?'}" for a in one.arguments or ())
        lines.append(_line(f"{one.name}({arguments})", one.title or "", one.description))
    return "\n".join(lines) or "This server has no prompts."


def format_prompt(answer: Any) -> ToolResult:
    """Convert a rendered prompt: role and text of each message."""
    blocks: list[Text | Image] = []
    for message in answer.messages:
        block = _block(message.content)
        blocks.append(Text(f"{message.role}: {block.text}") if isinstance(block, Text) else block)
    return ToolResult(tuple(blocks))


def _line(what: object, name: str, description: str | None) -> str:
    description_line = " ".join(" ".join(filter(None, (name, description))).split())
    return f"{what}: {description_line}" if description_line else str(what)


def _block(part: Any) -> Text | Image:
    match part.type:
        case "text":
            return Text(part.text)
        case "image":
            return Image(part.data, part.mime_type)
        case "resource":
            return _resource(part.resource)
        case "resource_link":
            return Text(_line(part.uri, part.name, part.description))
        case _:
            return Text(f"[{part.type}: {getattr(part, 'mime_type', '?')}]")


def _resource(part: Any) -> Text | Image:
    if getattr(part, "text", None) is not None:
        return Text(part.text)
    mime = part.mime_type or "application/octet-stream"
    return Image(part.blob, mime) if mime.startswith("image/") else Text(f"[{part.uri}: {mime}]")


def known_names(offers: Mapping[str, Iterable[Offer]]) -> dict[str, tuple[str, Offer]]:
    """Map full names to server and offer. Of two offers with one name, the first is used."""
    named: dict[str, tuple[str, Offer]] = {}
    for server, its in offers.items():
        first = dict[str, Offer]()
        for offer in its:
            first.setdefault(offer.name, offer)
        for name, offer in first.items():
            full = full_name(server, name)
            named[full_name(server, name, distinct=True) if full in named else full] = (server, offer)
    return named
