"""A request as a model reads it that has no tools of its own: tools, calls and results in words (pure)."""

import json
from collections.abc import Sequence
from copy import copy
from dataclasses import replace

from claw.provider import Request, SystemPrompt, ToolSpec
from claw.spoken.forms import CLOSE, OPEN, RESULT, Spoken
from claw.transcript import Assistant, Image, Message, Text, Thinking, ToolCall, ToolResult, User

RAW_CHARS = 2000
"""Of a call that cannot be read, as it is kept."""

_END = "</tool_result>"
_HEAD = """\
# Calling tools

You call a tool by writing, outside of any code block:

{open}{{"name": "TOOL", "arguments": {{…}}}}{close}

One JSON object, keys and strings in double quotes, line ends in strings as \\n. You may write several calls, one after \
another; then stop: the results come in the next message, as {result} name="TOOL" id="…">…{end}. Never write a result \
yourself, and never speak to the person of this notation. Without a call, what you write is your answer.

The tools, with the JSON Schema of their arguments:
"""
_NONE = "In this answer, call no tool: write no {open}."
_ANY = "In this answer you must call a tool: begin with {open}."
_NAMED = 'In this answer you must call the tool {name}: begin with {open}{{"name": "{name}", "arguments":'


def in_words(request: Request, messages: Sequence[Message]) -> Request:
    """The request for a model that has only words.

    :param messages: those of the request, as :class:`Rewriting` made them.
    """
    system = request.system
    if request.tools:
        listed = "\n".join(map(_line, request.tools))
        stable = "\n\n".join(filter(None, (system.stable, _HEAD.format(**_TAGS) + "\n" + listed)))
        now = _chosen(request.tool_choice)
        system = SystemPrompt(stable, "\n\n".join(filter(None, (system.volatile, now))))
    return replace(request, system=system, messages=tuple(messages), tools=(), tool_choice="auto")


_TAGS = {"open": OPEN, "close": CLOSE, "result": RESULT, "end": _END}


def _line(spec: ToolSpec) -> str:
    schema = json.dumps(dict(spec.parameters), ensure_ascii=False, separators=(",", ":"))
    return f"- {spec.name}: {' '.join(spec.description.split())}\n  {schema}"


def _chosen(choice: str) -> str:
    """What a tool choice asks for, in words; nothing for ``auto``."""
    if choice == "auto":
        return ""
    words = {"none": _NONE, "required": _ANY}.get(choice, _NAMED)
    return words.format(name=choice, open=OPEN)


class Rewriting:
    """A conversation in words: calls as they were to be written, the results of one answer as one message.

    The same messages become the same objects, so that what a provider keeps of a conversation stays of use.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._collects = False

    def add(self, message: Message) -> None:
        """One more message."""
        if isinstance(message, ToolResult):
            content = _result(message)
            if self._collects and isinstance(self.messages[-1], User):
                content = (*self.messages.pop().content, *content)
            self.messages.append(User(content, kind="tool_results"))
        else:
            self.messages.append(_spelled(message) if isinstance(message, Assistant) else message)
        self._collects = isinstance(message, ToolResult)

    def fork(self) -> "Rewriting":
        """A copy that grows on its own."""
        other = copy(self)
        other.messages = [*self.messages]
        return other


def _result(result: ToolResult) -> tuple[Text | Image, ...]:
    text = result.text.replace("</tool_result", "<\\/tool_result").replace(RESULT, "<\\tool_result")
    failed = ' error="true"' if result.is_error else ""
    head = f'{RESULT} name="{result.tool_name}" id="{result.call_id}"{failed}>'
    pictures = (block for block in result.content if isinstance(block, Image))
    return (Text(f"{head}\n{text}\n{_END}"), *pictures)


def _spelled(message: Assistant) -> Assistant:
    if not message.tool_calls:
        return message
    blocks: list[Text | Thinking | ToolCall] = [
        Text(spelled(block)) if isinstance(block, ToolCall) else block for block in message.content
    ]
    return Assistant(tuple(blocks), message.model, "stop", message.usage, message.error)


def spelled(call: ToolCall) -> str:
    """A call as it is to be written; one that could not be read, as it was."""
    if call.name == UNREADABLE:
        return f"\n{call.arguments.get('written', '')}\n"
    plain = {"name": call.name, "arguments": call.arguments}
    return f"\n{OPEN}{json.dumps(plain, ensure_ascii=False)}{CLOSE}\n"


UNREADABLE = "unreadable_call"
"""The name under which a call goes on that nobody can read; no tool has it."""


def garbled_call(call_id: str, raw: str, why: str) -> ToolCall:
    """What stands in the conversation for a call that nobody can read."""
    written = raw if len(raw) <= RAW_CHARS else raw[:RAW_CHARS] + "…"
    return ToolCall(call_id, UNREADABLE, {"written": written, "why": why})


def unread(call: ToolCall) -> str:
    """What the model is told of such a call."""
    why = call.arguments.get("why") or "it cannot be read"
    return (
        f"Your tool call was not made: {why}. Call the tool again, in the way that your tools are called; in words "
        f'that is {OPEN}{{"name": "TOOL", "arguments": {{…}}}}{CLOSE} with sound JSON.'
    )


def not_called(choice: str) -> str:
    """Why an answer is not enough that was to call a tool."""
    return (
        "no tool was called, and one was asked for"
        if choice == "required"
        else f"the tool {choice} was asked for"
    )


def said_in(message: Message) -> str:
    """The words of a message that somebody else than the model wrote; empty for its own."""
    if isinstance(message, Assistant):
        return ""
    return "\n".join(block.text for block in message.content if isinstance(block, Text))


def same(one: Spoken, other: Spoken) -> bool:
    """Whether two texts mean the same call."""
    return (one.name, one.arguments) == (other.name, other.arguments)
