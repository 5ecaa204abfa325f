"""Conversion of a request to the body of a ``generateContent`` request. Pure.

Facts: ai.google.dev, "Generating content", "Function calling", "Thought signatures". From Gemini 3 on, the first
call of an answer must come back with its original signature; for a call that another model made, the page names a
placeholder word. A function's name begins with a letter or ``_``.
"""

from collections.abc import Iterable
from copy import copy
from typing import Any

from claw import Assistant, Image, Message, Request, Text, Thinking, ToolCall, ToolSpec, User
from claw_provider_sdk import CallIds, JsonRows, gemini_schema, object_schema

from claw_google import thinking

UNSIGNED = "skip_thought_signature_validator"
_OPENING = "(The conversation so far was longer; what follows is how it stands.)"

Part = dict[str, Any]


def body(request: Request, turns: "GeminiTurns", max_tokens: int | None, how: str) -> dict[str, Any]:
    """Return the whole body.

    :param turns: the request's messages.
    :param how: the thinking style, of :func:`claw_google.thinking.style`.
    """
    wire: dict[str, Any] = {"contents": turns.whole}
    if system := request.system.whole.strip():
        wire["systemInstruction"] = {"parts": [{"text": system}]}
    if request.tools:
        wire["tools"] = [{"functionDeclarations": [to_function(spec) for spec in request.tools]}]
        wire["toolConfig"] = to_tool_choice(request.tool_choice)
    limits: dict[str, Any] = {}
    if thought := thinking.config(request.model, how, request.thinking):
        limits["thinkingConfig"] = thought
    if most := answer_tokens(request, max_tokens, how):
        limits["maxOutputTokens"] = most
    if limits:
        wire["generationConfig"] = limits
    return wire


def answer_tokens(request: Request, max_tokens: int | None, how: str) -> int | None:
    """Return the answer limit, with its thinking budget; None = the service decides."""
    most = request.max_tokens or max_tokens
    budget = thinking.config(request.model, how, request.thinking).get("thinkingBudget", 0)
    return most + max(0, budget) if most else None


def wire_name(name: str) -> str:
    """Return the name of a tool, as the service accepts it."""
    return name if name[:1].isalpha() or name[:1] == "_" else f"_{name}"[:64]


def to_function(spec: ToolSpec) -> Part:
    """Convert a tool; its schema in Gemini's subset, left out when it has no parameters."""
    schema = gemini_schema(object_schema(spec.parameters))
    function = {"name": wire_name(spec.name), "description": spec.description}
    return function | ({"parameters": {"type": "object"} | schema} if schema.get("properties") else {})


def to_tool_choice(choice: str) -> Part:
    """Convert auto, none, required, or the name of a tool."""
    modes = {"auto": {"mode": "AUTO"}, "none": {"mode": "NONE"}, "required": {"mode": "ANY"}}
    named = {"mode": "ANY", "allowedFunctionNames": [wire_name(choice)]}
    return {"functionCallingConfig": modes.get(choice) or named}


class GeminiTurns:
    """The messages of a conversation as alternating turns, user first; all results of an answer in one turn, in
    call order.

    :param maker: name of this provider; signatures are returned only to the ``model`` that made them.
    :param needs_signature: the model refuses calls without one.
    """

    def __init__(self, maker: str, model: str, needs_signature: bool) -> None:
        self._maker, self._model, self._needs_signature = maker, f"{maker}/{model}", needs_signature
        self._ids = CallIds(64)
        self._names: dict[str, str] = {}
        self._older = JsonRows()
        self._last: dict[str, Any] | None = None  # the next message may be merged into it

    @property
    def whole(self) -> list[Any]:
        """All turns, the older ones as JSON."""
        return [*self._older.rows, self._last or _opening()]

    def add(self, message: Message) -> None:
        """Add a message."""
        if isinstance(message, Assistant):
            role, parts = "model", self._assistant_parts(message)
        elif isinstance(message, User):
            role, parts = "user", _content_parts(message.content)
        else:
            text, call_id = message.text, self._ids.of_result(message.call_id)
            result = {
                "id": call_id,
                "name": self._names.get(call_id) or wire_name(message.tool_name),
                "response": {"error": text} if message.is_error else {"output": text},
            }
            pictures = [part for part in message.content if isinstance(part, Image)]
            role, parts = "user", [{"functionResponse": result}, *_content_parts(pictures)]
        if not parts:
            return
        last = self._last or (_opening() if role != "user" else None)
        if last and last["role"] == role:
            last["parts"] += parts
            return
        if last:
            self._older.add(last)
        self._last = {"role": role, "parts": parts}

    def _assistant_parts(self, message: Assistant) -> list[Part]:
        """Convert a model's message. A signature without a text of its own is attached to the part after
        it.
        """
        parts: list[Part] = []
        signature = ""
        own_model = message.model in ("", self._model)
        for block in message.content:
            if isinstance(block, Thinking):
                if not (block.signature and block.maker == self._maker and own_model):
                    continue
                if block.text:
                    parts.append({"text": block.text, "thought": True, "thoughtSignature": block.signature})
                    continue
                parts += _signature_part(signature)
                signature = block.signature
                continue
            if isinstance(block, Text) and not block.text.strip():
                continue
            part = {"text": block.text} if isinstance(block, Text) else self._called(block)
            parts.append(part | ({"thoughtSignature": signature} if signature else {}))
            signature = ""
        parts += _signature_part(signature)
        first = next((part for part in parts if "functionCall" in part), None)
        if self._needs_signature and first:
            first.setdefault("thoughtSignature", UNSIGNED)
        return parts

    def _called(self, call: ToolCall) -> Part:
        call_id, name = self._ids.of_call(call.id), wire_name(call.name)
        self._names[call_id] = name
        return {"functionCall": {"id": call_id, "name": name, "args": call.arguments}}

    def fork(self) -> "GeminiTurns":
        """Return an independent copy."""
        other = copy(self)
        other._ids, other._names, other._older = self._ids.fork(), {**self._names}, self._older.fork()
        other._last = self._last and self._last | {"parts": [*self._last["parts"]]}
        return other


def _opening() -> Part:
    return {"role": "user", "parts": [{"text": _OPENING}]}


def _signature_part(signature: str) -> list[Part]:
    """Return a part for a signature that came after all other parts."""
    return [{"text": "", "thoughtSignature": signature}] if signature else []


def _content_parts(content: Iterable[Text | Image]) -> list[Part]:
    """Convert texts and pictures; skip blank texts."""
    return [
        {"text": part.text}
        if isinstance(part, Text)
        else {"inlineData": {"mimeType": part.mime, "data": part.data}}
        for part in content
        if isinstance(part, Image) or part.text.strip()
    ]
