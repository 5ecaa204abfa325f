"""Rendering of a request for a model without native tool calling: tools, calls and results as text (pure)."""

import json
from collections.abc import Sequence
from copy import copy
from dataclasses import replace

from claw import (
    UNREADABLE_CALL,
    Assistant,
    Image,
    Message,
    Request,
    SystemPrompt,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    ToolSpec,
    User,
)

from claw_prompted_tools.formats import CALL_CLOSE, CALL_OPEN, RESULT_OPEN, ParsedCall

_RESULT_END = "</tool_result>"
_HEAD = """\
# Calling tools

You call a tool by writing, outside of any code block:

{open}{{"name": "TOOL", "arguments": {{…}}}}{close}

One JSON object, keys and strings in double quotes, line ends in strings as \\n. You may write several calls, one after \
another; then stop: the results come in the next message, as {result} name="TOOL" id="…">…{end}. Never write a result \
yourself, and never speak to the person of this notation. Without a call, what you write is your answer.

The tools, with the JSON Schema of their arguments:
"""
_NO_CALL = "In this answer, call no tool: write no {open}."
_ANY_CALL = "In this answer you must call a tool: begin with {open}."
_NAMED_CALL = (
    'In this answer you must call the tool {name}: begin with {open}{{"name": "{name}", "arguments":'
)

_NOTATION = (
    f'; in words that is {CALL_OPEN}{{"name": "TOOL", "arguments": {{…}}}}{CALL_CLOSE} with sound JSON.'
)


def to_prompted_request(request: Request, messages: Sequence[Message]) -> Request:
    """Rewrite a request for a model without native tool calling.

    :param messages: the messages of the request, rewritten by :class:`PromptRenderer`.
    """
    system = request.system
    if request.tools:
        listed = "\n".join(map(_tool_line, request.tools))
        stable = "\n\n".join(filter(None, (system.stable, _HEAD.format(**_TAGS) + "\n" + listed)))
        now = _choice_instruction(request.tool_choice)
        system = SystemPrompt(stable, "\n\n".join(filter(None, (system.volatile, now))))
    return replace(request, system=system, messages=tuple(messages), tools=(), tool_choice="auto")


_TAGS = {"open": CALL_OPEN, "close": CALL_CLOSE, "result": RESULT_OPEN, "end": _RESULT_END}


def _tool_line(spec: ToolSpec) -> str:
    schema = json.dumps(dict(spec.parameters), ensure_ascii=False, separators=(",", ":"))
    return f"- {spec.name}: {' '.join(spec.description.split())}\n  {schema}"


def _choice_instruction(choice: str) -> str:
    """Return the instruction for a tool choice; empty for ``auto``."""
    if choice == "auto":
        return ""
    words = {"none": _NO_CALL, "required": _ANY_CALL}.get(choice, _NAMED_CALL)
    return words.format(name=choice, open=CALL_OPEN)


class PromptRenderer:
    """A conversation with tool calls as text; the results of one answer are joined into one message.

    Equal input gives the same message objects, so that a provider's cache of the conversation stays valid.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._collects_results = False

    def add(self, message: Message) -> None:
        """Append a message."""
        if isinstance(message, ToolResultMessage):
            content = _result_blocks(message)
            if self._collects_results and isinstance(self.messages[-1], User):
                content = (*self.messages.pop().content, *content)
            self.messages.append(User(content, kind="tool_results"))
        else:
            self.messages.append(_with_text_calls(message) if isinstance(message, Assistant) else message)
        self._collects_results = isinstance(message, ToolResultMessage)

    def copy(self) -> "PromptRenderer":
        """Return an independent copy."""
        other = copy(self)
        other.messages = [*self.messages]
        return other


def _result_blocks(result: ToolResultMessage) -> tuple[Text | Image, ...]:
    text = result.text.replace("</tool_result", "<\\/tool_result").replace(RESULT_OPEN, "<\\tool_result")
    if result.tool_name == UNREADABLE_CALL and CALL_OPEN not in text:  # worded for native tool calling
        text = text.removesuffix(".") + _NOTATION
    failed = ' error="true"' if result.is_error else ""
    head = f'{RESULT_OPEN} name="{result.tool_name}" id="{result.call_id}"{failed}>'
    pictures = (block for block in result.content if isinstance(block, Image))
    return (Text(f"{head}\n{text}\n{_RESULT_END}"), *pictures)


def _with_text_calls(message: Assistant) -> Assistant:
    if not message.tool_calls:
        return message
    blocks: list[Text | Thinking | ToolCall] = [
        Text(render_call(block)) if isinstance(block, ToolCall) else block for block in message.content
    ]
    return Assistant(tuple(blocks), message.model, "stop", message.usage, message.error)


def render_call(call: ToolCall) -> str:
    """Write a call in the prompted notation; an unreadable call keeps its original text."""
    if call.name == UNREADABLE_CALL:
        return f"\n{call.arguments.get('written', '')}\n"
    plain = {"name": call.name, "arguments": call.arguments}
    return f"\n{CALL_OPEN}{json.dumps(plain, ensure_ascii=False)}{CALL_CLOSE}\n"


def malformed_call_error(call: ToolCall) -> str:
    """Return the error text that the model gets for an unreadable call; the notation only for one that it printed."""
    why = call.arguments.get("why") or "it cannot be read"
    again = f"Your tool call was not made: {why}. Call the tool again, in the way that your tools are called"
    is_printed = call.arguments.get("written") and not call.arguments.get("tool")
    return f"{again}{_NOTATION}" if is_printed else f"{again}."


def foreign_text(message: Message) -> str:
    """Return the text of a message not written by the model; empty for the model's own messages."""
    if isinstance(message, Assistant):
        return ""
    return "\n".join(block.text for block in message.content if isinstance(block, Text))


def same(one: ParsedCall, other: ParsedCall) -> bool:
    """Return true if both are the same call."""
    return (one.name, one.arguments) == (other.name, other.arguments)
