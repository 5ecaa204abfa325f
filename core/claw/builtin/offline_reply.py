"""What the stand-in answers: from the words that were asked and the results that are there, tool calls or words."""

from hashlib import sha256
from itertools import takewhile
from typing import Any

from claw import Assistant, Request, Text, ToolCall, ToolSpec, Usage, User
from claw.builtin.offline_wishes import call_of, wishes_in
from claw.builtin.offline_words import Done, answer

_CHANGES = frozenset({"write", "exec"})  # what follows may look at what they did


def reply(request: Request) -> Assistant:
    """The whole answer to ``request``: tool calls first, and words about their results once these are there."""
    past, asked, since = _split(request)
    done = _done(since)
    if calls := _calls(request, asked, done):
        return _finished(request, calls, "tool_use")
    wanted = [wish.tool for wish in wishes_in(asked)]
    offered = {spec.name for spec in request.tools} | {one.tool for one in done}
    forbidden = request.tool_choice == "none" and not done
    missing = () if forbidden else tuple(dict.fromkeys(tool for tool in wanted if tool not in offered))
    first = not any(isinstance(message, Assistant) and message.text for message in past)
    words = answer(asked, done, missing, first=first, no_tools=forbidden and bool(wanted))
    return _finished(request, (Text(words),), "stop")


def _finished(request: Request, content: tuple[Text | ToolCall, ...], why: str) -> Assistant:
    model = f"offline/{request.model}"
    return Assistant(content, model=model, stop_reason=why, usage=_usage(request, content))


def _split(request: Request) -> tuple[tuple[Any, ...], str, tuple[Any, ...]]:
    """What came before the person's last message, its words, and what came after."""
    for index in range(len(request.messages) - 1, -1, -1):
        message = request.messages[index]
        if isinstance(message, User):
            words = "\n".join(block.text for block in message.content if isinstance(block, Text))
            return request.messages[:index], words, request.messages[index + 1 :]
    return request.messages, "", ()


def _done(since: tuple[Any, ...]) -> tuple[Done, ...]:
    """The calls after the person's last message with their results, in call order."""
    results = {message.call_id: message for message in since if hasattr(message, "call_id")}
    calls = [call for message in since if isinstance(message, Assistant) for call in message.tool_calls]
    return tuple(
        Done(call.name, call.arguments, results[call.id].text, results[call.id].is_error)
        for call in calls
        if call.id in results
    )


def _calls(request: Request, asked: str, done: tuple[Done, ...]) -> tuple[ToolCall, ...]:
    """The calls to make now: all that only look go out together, one that changes something goes alone.

    ``required`` and the name of a tool hold for the first calls, also when the words ask for nothing.
    """
    offered = {spec.name: spec for spec in request.tools}
    choice = request.tool_choice
    if choice == "none" or not offered:
        return ()
    wishes = [wish for wish in wishes_in(asked) if wish.tool in offered]
    wanted = [(wish.tool, call_of(wish, offered[wish.tool])) for wish in wishes]
    if not done and choice in offered:
        named = [call for call in wanted if call[0] == choice]
        wanted = named or [(choice, _made_up(offered[choice], asked))]
    elif not done and not wanted and choice == "required":
        name = next((name for name in ("session_status", "ls") if name in offered), next(iter(offered)))
        wanted = [(name, _made_up(offered[name], asked))]
    made = [(one.tool, one.arguments) for one in done]
    left = [call for call in wanted if call not in made] if choice in ("auto", "required") or not done else []
    looks = tuple(takewhile(lambda call: call[0] not in _CHANGES, left))
    seal = sha256(repr((len(request.messages), asked, left)).encode()).hexdigest()[:12]
    return tuple(
        ToolCall(f"offline_{seal}_{number}", name, arguments)
        for number, (name, arguments) in enumerate(looks or left[:1])
    )


def _made_up(spec: ToolSpec, asked: str) -> dict[str, Any]:
    """Arguments that the schema takes, for a call that somebody insists on."""
    properties = spec.parameters.get("properties", {})
    return {name: _example(properties.get(name, {}), asked) for name in spec.parameters.get("required", ())}


def _example(schema: dict[str, Any], asked: str) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    kinds: dict[str, Any] = {"integer": 1, "number": 1, "boolean": False, "array": [], "object": {}}
    return schema.get("default", kinds.get(schema.get("type", ""), asked))


def _usage(request: Request, content: tuple[Any, ...]) -> Usage:
    """An estimate, four characters a token."""
    read = len(request.system.whole) + sum(len(repr(message)) for message in request.messages)
    said = sum(len(block.text if isinstance(block, Text) else repr(block.arguments)) for block in content)
    given, made = -(-read // 4), -(-said // 4)
    return Usage(input=given, output=made, total=given + made)
