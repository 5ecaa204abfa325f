"""Answers of the offline provider: tool calls or text, from the request and the results so far."""

from hashlib import sha256
from itertools import takewhile
from typing import Any

from claw import Assistant, Request, Text, ToolCall, ToolSpec, Usage, User

from claw_offline.intents import intents_in, to_arguments
from claw_offline.texts import CompletedCall, render_answer

_WITH_EFFECTS = frozenset({"write", "exec"})  # later calls may depend on their effect


def offline_answer(request: Request) -> Assistant:
    """Answer ``request``: with tool calls first, with a text once their results are there."""
    past, asked, since = _split(request)
    done = _done(since)
    if calls := _calls(request, asked, done):
        return _to_message(request, calls, "tool_use")
    wanted = [intent.tool for intent in intents_in(asked)]
    offered = {spec.name for spec in request.tools} | {one.tool for one in done}
    forbidden = request.tool_choice == "none" and not done
    missing = () if forbidden else tuple(dict.fromkeys(tool for tool in wanted if tool not in offered))
    first = not any(isinstance(message, Assistant) and message.text for message in past)
    words = render_answer(asked, done, missing, offered, first=first, no_tools=forbidden and bool(wanted))
    return _to_message(request, (Text(words),), "stop")


def _to_message(request: Request, content: tuple[Text | ToolCall, ...], why: str) -> Assistant:
    model = f"offline/{request.model}"
    return Assistant(content, model=model, stop_reason=why, usage=_usage(request, content))


def _split(request: Request) -> tuple[tuple[Any, ...], str, tuple[Any, ...]]:
    """Split at the person's last message: the messages before it, its text, the messages after it."""
    for index in range(len(request.messages) - 1, -1, -1):
        message = request.messages[index]
        if isinstance(message, User):
            words = "\n".join(block.text for block in message.content if isinstance(block, Text))
            return request.messages[:index], words, request.messages[index + 1 :]
    return request.messages, "", ()


def _done(since: tuple[Any, ...]) -> tuple[CompletedCall, ...]:
    """Return the calls after the person's last message with their results, in call order."""
    results = {message.call_id: message for message in since if hasattr(message, "call_id")}
    calls = [call for message in since if isinstance(message, Assistant) for call in message.tool_calls]
    return tuple(
        CompletedCall(call.name, call.arguments, results[call.id].text, results[call.id].is_error)
        for call in calls
        if call.id in results
    )


def _calls(request: Request, asked: str, done: tuple[CompletedCall, ...]) -> tuple[ToolCall, ...]:
    """Return the calls to make now: all read-only calls together, a call with side effects alone.

    A tool choice of ``required`` or of one tool applies to the first calls, even when the text asks for no tool.
    """
    offered = {spec.name: spec for spec in request.tools}
    choice = request.tool_choice
    if choice == "none" or not offered:
        return ()
    intents = [intent for intent in intents_in(asked) if intent.tool in offered]
    wanted = [(intent.tool, to_arguments(intent, offered[intent.tool])) for intent in intents]
    if not done and choice in offered:
        named = [call for call in wanted if call[0] == choice]
        wanted = named or [(choice, _example_arguments(offered[choice], asked))]
    elif not done and not wanted and choice == "required":
        name = next((name for name in ("session_status", "ls") if name in offered), next(iter(offered)))
        wanted = [(name, _example_arguments(offered[name], asked))]
    made = [(one.tool, one.arguments) for one in done]
    left = [call for call in wanted if call not in made] if choice in ("auto", "required") or not done else []
    looks = tuple(takewhile(lambda call: call[0] not in _WITH_EFFECTS, left))
    digest = sha256(repr((len(request.messages), asked, left)).encode()).hexdigest()[:12]
    return tuple(
        ToolCall(f"offline_{digest}_{number}", name, arguments)
        for number, (name, arguments) in enumerate(looks or left[:1])
    )


def _example_arguments(spec: ToolSpec, asked: str) -> dict[str, Any]:
    """Build arguments valid for the schema, for a call forced by the tool choice."""
    properties = spec.parameters.get("properties", {})
    return {
        name: _example_value(properties.get(name, {}), asked) for name in spec.parameters.get("required", ())
    }


def _example_value(schema: dict[str, Any], asked: str) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    kinds: dict[str, Any] = {"integer": 1, "number": 1, "boolean": False, "array": [], "object": {}}
    return schema.get("default", kinds.get(schema.get("type", ""), asked))


def _usage(request: Request, content: tuple[Any, ...]) -> Usage:
    """Estimate the usage at four characters a token."""
    read = len(request.system.whole) + sum(len(repr(message)) for message in request.messages)
    said = sum(len(block.text if isinstance(block, Text) else repr(block.arguments)) for block in content)
    given, made = -(-read // 4), -(-said // 4)
    return Usage(input=given, output=made, total=given + made)
