"""Chat commands about a session: ``/new``, ``/reset``, ``/status``, ``/context``, ``/tools``."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from claw import CallAccount, Tool, t
from claw.runtime import (
    CHARS_PER_TOKEN,
    CompactionRecord,
    FunctionCommand,
    describe_cost,
    with_label,
)

from claw_sessions.index import counted_messages

if TYPE_CHECKING:
    from claw_channel_sdk import Conversation

_MAX_TOOLS = 12


async def _new(arguments: str, conversation: "Conversation") -> str:
    """Start a new session; a leading model name is chosen, the remaining text is its first message."""
    first, _, text = arguments.partition(" ")
    provider, slash, _ = first.lower().partition("/")
    if slash and provider in conversation.runtime.registry.providers:
        conversation.set_overrides(model=conversation.find_model(first))
        arguments = text.strip()
    await conversation.reset()
    if arguments:
        await conversation.submit(arguments)
    return t("a new conversation")


async def _reset(arguments: str, conversation: "Conversation") -> str:
    conversation.clear_overrides()
    return await _new(arguments, conversation)


async def _status(arguments: str, conversation: "Conversation") -> str:
    lines = await conversation.call(status_of, conversation)
    return "\n".join(with_label(label, value) for label, value in lines.items())


async def status_of(conversation: "Conversation") -> Mapping[str, str]:
    """Return agent, model, conversation, context use and overrides: label → value."""
    context = await conversation.turn()
    used, messages, compactions, cost = await _history(conversation)
    percent = round(100 * used / context.window_tokens)
    fullness = t(
        "{used} of {window} tokens ({percent} %)",
        used=f"{used:,}",
        window=f"{context.window_tokens:,}",
        percent=percent,
    )
    lines = {
        t("agent"): context.agent.id,
        t("model"): str(context.models[0]),
        t("thinking"): context.agent.settings.thinking_default,
        t("workspace"): str(context.workspace),
        t("conversation"): context.route.session_key,
        t("messages"): str(messages),
        t("context"): fullness,
        t("compacted"): t("{count:time|times}", count=compactions) if compactions else t("never"),
        **({t("cost"): cost} if cost else {}),
        t("tools"): str(len(context.tools)),
    }
    chosen = conversation.overrides
    values = {
        "model": chosen.model,
        "thinking": chosen.thinking,
        "queue": chosen.queue,
        "reasoning": {True: "on", False: "off", None: ""}[chosen.reasoning],
    }
    written = ", ".join(f"{name} {value}" for name, value in values.items() if value)
    return {**lines, t("set in this chat"): written} if written else lines


async def _context(arguments: str, conversation: "Conversation") -> str:
    """Describe the size of a request: sections of the prompt and tools, at four characters a token."""
    context = await conversation.turn()
    used, _, _, cost = await conversation.call(_history, conversation)
    percent = round(100 * used / context.window_tokens) if context.window_tokens else 0
    head = t(
        "the last request: {used} of {window} tokens ({percent} %)",
        used=f"{used:,}",
        window=f"{context.window_tokens:,}",
        percent=percent,
    )
    lines = [head, *([t("cost: {spent}", spent=cost)] if cost else []), t("of these, about:")]
    lines += [
        f"  {piece.section.name}: {_tokens(piece.text):,}"
        for piece in context.rendered_sections
        if piece.text
    ]
    by_size = sorted(
        ((tool.name, _tokens(_declaration(tool))) for tool in context.tools.values()),
        key=lambda row: -row[1],
    )
    total = sum(tokens for _, tokens in by_size)
    lines.append(t("tools, {count} of them: {tokens}", count=len(by_size), tokens=f"{total:,}"))
    lines += [f"  {name}: {tokens:,}" for name, tokens in by_size[:_MAX_TOOLS]]
    if more := by_size[_MAX_TOOLS:]:
        tokens = f"{sum(tokens for _, tokens in more):,}"
        lines.append(t("  {count} more: {tokens}", count=len(more), tokens=tokens))
    return "\n".join(lines)


async def _tools(arguments: str, conversation: "Conversation") -> str:
    context = await conversation.turn()
    rows = [f"{tool.name}: {tool.description}" for tool in context.tools.values()]
    return "\n".join(rows) or t("no tools here")


async def _history(conversation: "Conversation") -> tuple[int, int, int, str]:
    """Return the tokens that the last call read, the numbers of messages and of compactions, and the cost as a text;
    empty when nothing keeps accounts."""
    runtime, key, agent = conversation.runtime, conversation.session_key, conversation.agent_id
    session = await runtime.sessions.open(key, agent)
    try:
        account = CallAccount(agent, key, session.id)
        messages = len(list(counted_messages(session.entries)))
        compactions = sum(isinstance(entry, CompactionRecord) for entry in session.entries)
        size = session.context_tokens, messages, compactions
    finally:
        session.release()
    return *size, describe_cost(account, runtime.plugins)


def _tokens(text: str) -> int:
    """Return the tokens of a text as far as its length tells."""
    return -(-len(text) // CHARS_PER_TOKEN)


def _declaration(tool: Tool) -> str:
    body: dict[str, Any] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


_NEW = "[provider/model] [text]"
COMMANDS = (
    FunctionCommand(
        "new",
        "start a new conversation; the old one is archived",
        _new,
        _NEW,
        changes="always",
        position=10,
    ),
    FunctionCommand(
        "reset",
        "start over and clear this chat's settings",
        _reset,
        _NEW,
        changes="always",
        position=11,
    ),
    FunctionCommand("status", "agent, model, conversation, context usage", _status, position=20),
    FunctionCommand("context", "size of a request: prompt sections and tools", _context, position=21),
    FunctionCommand("tools", "tools of this agent here", _tools, position=22),
)
