"""Conversion of a request to the body of a Messages request. Pure.

Facts: docs.anthropic.com, "Messages", "Prompt caching" (four breakpoints at most; the content before one is
cached only from 1,024 tokens on), "Extended thinking" (a budget of 1,024 tokens or more, below max_tokens; no
forced tool).
"""

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from claw import Assistant, Image, Message, Request, SystemPrompt, Text, Thinking, ToolCall, ToolSpec, User
from claw_provider_sdk import CallIds, JsonRows, object_schema

MIN_CACHED_CHARS = 4096
THINKING_TOKENS = {"low": 2048, "medium": 8192, "high": 24576}
_CACHE = {"type": "ephemeral"}
_OPENING = "(The conversation so far was longer; what follows is how it stands.)"

_OPEN_TURNS = 2
_MARKED_ANSWERS = 2
_MOST_MARKS = 4

Block = dict[str, Any]


def body(request: Request, turns: "MessagesTurns", default_max_tokens: int) -> dict[str, Any]:
    """Return the whole body of a streamed request.

    :param turns: the request's messages.
    """
    messages = _without_final_blanks(turns.whole)
    thinking = _thinking(request, messages)
    max_tokens = request.max_tokens or default_max_tokens
    budget = thinking.get("budget_tokens", 0)
    wire: dict[str, Any] = {
        "model": request.model,
        "max_tokens": max_tokens if max_tokens > budget else budget + max_tokens,
        "stream": True,
        "messages": messages,
    }
    if system := system_blocks(request.system):
        wire["system"] = system
    if request.tools:
        wire["tools"] = [to_tool(spec) for spec in request.tools]
        wire["tool_choice"] = to_tool_choice(request.tool_choice)
    if thinking:
        wire["thinking"] = thinking
    _mark_for_cache(wire, request, turns)
    return wire


def _without_final_blanks(messages: list[Any]) -> list[Any]:
    """Strip the blanks that end a final answer: the service refuses "trailing whitespace" there."""
    last = messages[-1]
    content = last["content"]
    if last["role"] == "assistant" and content and "text" in content[-1]:
        content[-1] = content[-1] | {"text": content[-1]["text"].rstrip()}
    return messages


def system_blocks(system: SystemPrompt) -> list[Block]:
    """Return the system prompt as blocks, split at the end of its constant part."""
    blocks: list[Block] = []
    if system.stable.strip():
        blocks.append({"type": "text", "text": system.stable, "cache_control": _CACHE})
    if system.volatile.strip():
        blocks.append({"type": "text", "text": system.volatile})
    return blocks


def to_tool(spec: ToolSpec) -> Block:
    """Convert a tool; its schema must be of type object at the top."""
    return {
        "name": spec.name,
        "description": spec.description,
        "input_schema": object_schema(spec.parameters),
    }


def to_tool_choice(choice: str) -> Block:
    """Convert auto, none, required, or the name of a tool."""
    words = {"auto": {"type": "auto"}, "none": {"type": "none"}, "required": {"type": "any"}}
    return words.get(choice) or {"type": "tool", "name": choice}


@dataclass(frozen=True)
class _EndedTurn:
    """The answer in front of a person's message, and what follows it, up to the next such answer.

    :param chars: of the conversation up to the end of the answer.
    """

    answer: Block
    rows: list[msgspec.Raw]
    chars: int


class MessagesTurns:
    """The messages of a conversation as turns: the service wants user first, and all results of an answer in one
    user message, first.

    :param maker: name of this provider; thoughts are returned only to the ``model`` that made them.
    """

    def __init__(self, maker: str, model: str) -> None:
        self._maker, self._model = maker, f"{maker}/{model}"
        self._ids = CallIds(64)
        self._older = JsonRows()  # everything before _ended
        self._ended: list[_EndedTurn] = []  # the last two
        self._turns: list[
            Block
        ] = []  # the newest two: the next message may be merged into the last, and its thoughts count
        self.chars = 0

    @property
    def whole(self) -> list[Any]:
        """All turns, the older ones as JSON; the caller may change the last one."""
        if not self._turns:
            return [{"role": "user", "content": [{"type": "text", "text": _OPENING}]}]
        *others, last = self._turns
        ended = (row for one in self._ended for row in (one.answer, *one.rows))
        return [*self._older.rows, *ended, *others, last | {"content": [*last["content"]]}]

    def ended_answers(self) -> Iterator[tuple[int, int]]:
        """Yield the index in ``whole`` of the answers before the last two messages of a person, and the characters up
        to there; an earlier message has none.
        """
        at = len(self._older.rows)
        for one in self._ended:
            yield at, one.chars
            at += 1 + len(one.rows)

    def add(self, message: Message) -> None:
        """Add a message."""
        self.chars += _length(message)
        if isinstance(message, Assistant):
            role, content = "assistant", _assistant_blocks(message, self._maker, self._model, self._ids)
        elif isinstance(message, User):
            role, content = "user", _blocks(message.content)
        else:
            result = {"type": "tool_result", "tool_use_id": self._ids.of_result(message.call_id)}
            if inner := _blocks(message.content):
                result["content"] = inner
            role, content = "user", [result | ({"is_error": True} if message.is_error else {})]
        if not content:
            return
        if not self._turns and role != "user":
            self._turns.append({"role": "user", "content": [{"type": "text", "text": _OPENING}]})
        if self._turns and self._turns[-1]["role"] == role:
            self._turns[-1]["content"] += content
        else:
            if isinstance(message, User) and self._turns:
                self._end_turn(self.chars - _length(message))
            self._turns.append({"role": role, "content": content})
            if len(self._turns) > _OPEN_TURNS:
                self._add_row(self._turns.pop(0))

    def _add_row(self, turn: Block) -> None:
        if self._ended:
            self._ended[-1].rows.append(msgspec.Raw(msgspec.json.encode(turn)))
        else:
            self._older.add(turn)

    def _end_turn(self, chars: int) -> None:
        """Put all messages before a new one of a person; the last of them is an answer."""
        *others, answer = self._turns
        for turn in others:
            self._add_row(turn)
        self._turns = []
        self._ended.append(_EndedTurn(answer, [], chars))
        if len(self._ended) > _MARKED_ANSWERS:
            oldest = self._ended.pop(0)
            for row in (oldest.answer, *oldest.rows):
                self._older.add(row)

    def fork(self) -> "MessagesTurns":
        """Return an independent copy."""
        other = copy(self)
        other._ids, other._older = self._ids.fork(), self._older.fork()
        other._ended = [replace(one, rows=[*one.rows]) for one in self._ended]
        other._turns = [turn | {"content": [*turn["content"]]} for turn in self._turns]
        return other


def _blocks(content: Iterable[Text | Image]) -> list[Block]:
    """Convert texts and pictures; the service refuses a blank text."""
    return [
        {"type": "text", "text": part.text}
        if isinstance(part, Text)
        else {"type": "image", "source": {"type": "base64", "media_type": part.mime, "data": part.data}}
        for part in content
        if isinstance(part, Image) or part.text.strip()
    ]


def _assistant_blocks(message: Assistant, maker: str, model: str, ids: CallIds) -> list[Block]:
    """Convert a model's message. Its thoughts are returned unchanged, and only to the model that made
    them.
    """
    blocks: list[Block] = []
    for part in message.content:
        if isinstance(part, ToolCall):
            blocks.append(
                {"type": "tool_use", "id": ids.of_call(part.id), "name": part.name, "input": part.arguments}
            )
        elif isinstance(part, Text):
            blocks += _blocks((part,))
        elif part.maker == maker and message.model in ("", model):
            blocks += _thought(part)
    return blocks


def _thought(thought: Thinking) -> list[Block]:
    if thought.redacted:
        return [{"type": "redacted_thinking", "data": thought.redacted}]
    if thought.signature:
        return [{"type": "thinking", "thinking": thought.text, "signature": thought.signature}]
    return []


def _thinking(request: Request, messages: list[Block]) -> dict[str, Any]:
    """Return the thinking fields; none with a forced tool, nor in the middle of a turn that began without
    thinking.
    """
    if request.thinking == "off" or (request.tools and request.tool_choice not in ("auto", "none")):
        return {}
    last = next((turn for turn in reversed(messages) if turn["role"] == "assistant"), None)
    in_a_turn = messages[-1]["content"][0]["type"] == "tool_result"
    if in_a_turn and last and last["content"][0]["type"] not in ("thinking", "redacted_thinking"):
        return {}
    if request.thinking == "adaptive":
        return {"type": "adaptive"}
    return {"type": "enabled", "budget_tokens": THINKING_TOKENS[request.thinking]}


def _mark_for_cache(wire: dict[str, Any], request: Request, turns: MessagesTurns) -> None:
    """Mark the answers before the last two messages of a person and the last user message, if enough text precedes; the
    last tool too, while that makes four marks at most: the system prompt, which follows the tools, has one.

    The current message is sent with facts about it and stored without them, so nothing behind it is read again by the
    next turn: the mark before it keeps the past of the conversation. A mark reads what was written at most 20 blocks
    before it, and a turn may have more, so the mark of the turn before is set once more.
    """
    tools = sum(len(spec.description) + len(str(spec.parameters)) for spec in request.tools)
    before, marks = tools + len(request.system.whole), int(bool(request.system.stable.strip()))
    for at, chars in turns.ended_answers():
        if before + chars >= MIN_CACHED_CHARS:
            wire["messages"][at] = _marked(wire["messages"][at])
            marks += 1
    last = wire["messages"][-1]
    if before + turns.chars >= MIN_CACHED_CHARS and last["role"] == "user":
        last["content"][-1] = last["content"][-1] | {"cache_control": _CACHE}
        marks += 1
    if tools >= MIN_CACHED_CHARS and marks < _MOST_MARKS:
        wire["tools"][-1] = wire["tools"][-1] | {"cache_control": _CACHE}


def _marked(answer: Block) -> Block:
    """Return an answer with the mark on its last block; thinking cannot bear one."""
    content = [*answer["content"]]
    places = (at for at in range(len(content) - 1, -1, -1) if content[at]["type"] in ("text", "tool_use"))
    if (at := next(places, None)) is not None:
        content[at] = content[at] | {"cache_control": _CACHE}
    return answer | {"content": content}


def _length(message: Message) -> int:
    return sum(len(getattr(part, "text", "")) for part in message.content)
