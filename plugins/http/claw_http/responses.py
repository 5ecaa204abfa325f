"""The Responses protocol, as far as claw supports it: parsing requests, formatting responses and events. Pure.

Facts from https://platform.openai.com/docs/api-reference/responses (create, object) and .../responses-streaming.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from claw_http.agent_request import (
    DEFAULT_MODEL,
    OWN_TOOLS,
    AgentRequest,
    Answer,
    RequestRules,
    agent_of,
    check_fields,
    check_types,
    checked_instructions,
    max_tokens_of,
    name_field,
    parse_object,
    tool_choice_of,
)
from claw_http.failures import BadRequest, encoded
from claw_http.messages import RESPONSE_PARTS, CallerMessages, check_length, parse_messages, valid_text

_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "background": (False,),
    "context_management": ([],),
    "conversation": (),
    "image": (),
    "include": ([],),
    "max_tool_calls": (),
    "moderation": (),
    "parallel_tool_calls": (True,),
    "prompt": (),
    "reasoning": ({},),
    "temperature": (1,),
    "text": ({}, {"format": {"type": "text"}}),
    "top_logprobs": (0,),
    "top_p": (1,),
    "truncation": ("disabled",),
    "user": (),
}
"""Fields that change the response and are not obeyed, with the values that ask for nothing."""
_NEVER = {"tools": OWN_TOOLS}
_TYPES = {"stream": bool, "store": bool}


def read(body: bytes, rules: RequestRules) -> AgentRequest:
    """Parse a request for a response.

    :raises BadRequest: the request is invalid or not supported.
    """
    request = parse_object(body)
    check_types(request, _TYPES)
    check_fields(request, _NEUTRAL, _NEVER, rules.ignored)
    model = name_field(request, "model") or DEFAULT_MODEL
    agent = agent_of(model, rules.agents)
    said = _messages(request, rules)
    previous = name_field(request, "previous_response_id")
    if previous and said.earlier:
        problem = "with previous_response_id, input is one message of the user: claw has the earlier ones"
        raise BadRequest(400, problem, param="input", code="unsupported_message")
    return AgentRequest(
        said,
        model,
        agent,
        stream=request.get("stream") is True,
        tool_choice=tool_choice_of(request.get("tool_choice")),
        max_tokens=max_tokens_of(request, "max_output_tokens"),
        previous=previous,
        kept=request.get("store") is not False and not said.earlier,
    )


def _messages(request: Mapping[str, Any], rules: RequestRules) -> CallerMessages:
    """Return the messages of ``input``, with the instructions of both places."""
    given, own = request.get("input"), request.get("instructions")
    if own is not None and not isinstance(own, str):
        raise BadRequest(400, "instructions must be a text", param="instructions", code="invalid_type")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    for number, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, dict) and item.get("type", "message") != "message":
            problem = "an item of input must be a message: agents have their own tools"
            raise BadRequest(400, problem, param=f"input[{number}].type", code="unsupported_message")
    said = parse_messages(items, "input", RESPONSE_PARTS, rules.max_text_chars)
    first = checked_instructions(valid_text(own or "", "instructions"), rules, "instructions")
    check_length((said.text, said.instructions, first), "instructions", rules.max_text_chars)
    more = checked_instructions(said.instructions, rules, "input")
    return replace(said, instructions="\n\n".join(filter(str.strip, (first, more))))


def response(answer: Answer, created: int, asked: AgentRequest, status: str = "") -> dict[str, Any]:
    """Format a response.

    :param created: seconds since 1970.
    :param status: in_progress for one without output; by default that of the ended answer.
    """
    cut = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(answer.stop_reason)
    ended = not status
    choice = asked.tool_choice or "auto"
    named = choice not in ("auto", "none", "required")
    return {
        "id": answer.message_id,
        "object": "response",
        "created_at": created,
        "status": status or ("incomplete" if cut else "completed"),
        "error": None,
        "incomplete_details": {"reason": cut} if ended and cut else None,
        "instructions": asked.messages.instructions or None,
        "max_output_tokens": asked.max_tokens,
        "metadata": {},
        "model": asked.model,
        "output": [_item(answer)] if ended else [],
        "parallel_tool_calls": True,
        "previous_response_id": asked.previous or None,
        "store": asked.kept,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": {"type": "function", "name": choice} if named else choice,
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": _usage(answer) if ended else None,
    }


def whole(answer: Answer, created: int, asked: AgentRequest) -> dict[str, Any]:
    """Format the response of an ended answer."""
    return response(answer, created, asked)


def _usage(answer: Answer) -> dict[str, Any]:
    read, written = answer.tokens
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": read + written,
    }


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _item_id(answer: Answer) -> str:
    return f"msg_{answer.message_id.partition('_')[2]}"


def _item(answer: Answer, text: str | None = None) -> dict[str, Any]:
    """Format the message of a response.

    :param text: its text, where that is not the answer's.
    """
    text = answer.text if text is None else text
    parts = [_text_part(text)] if text or not answer.refusal else []
    if answer.refusal:
        parts.append({"type": "refusal", "refusal": answer.refusal})
    status = "incomplete" if answer.stop_reason in ("length", "content_filter") else "completed"
    return {
        "id": _item_id(answer), "type": "message", "status": status, "role": "assistant", "content": parts,
    }  # fmt: skip


class ResponseEvents:
    """The events of one streamed response, numbered."""

    def __init__(self, answer: Answer, created: int, asked: AgentRequest) -> None:
        self._answer, self._created, self._asked = answer, created, asked
        self._number, self._text, self._has_item, self._has_text = 0, "", False, False

    def begin(self) -> Iterator[bytes]:
        """Yield the events before the first text."""
        for name in ("created", "in_progress"):
            unfinished = response(self._answer, self._created, self._asked, "in_progress")
            yield self._event(f"response.{name}", response=unfinished)

    def piece(self, text: str) -> Iterator[bytes]:
        """Yield the events for a piece of the text."""
        if not self._has_text:
            yield from self._open_item()
            self._has_text = True
            yield self._part_event("response.content_part.added", 0, part=_text_part(""))
        if text:
            self._text += text
            yield self._part_event("response.output_text.delta", 0, delta=text, logprobs=[])

    def end(self) -> Iterator[bytes]:
        """Yield the events of the end of the answer."""
        answer, item = self._answer, _item(self._answer, self._text)
        if not answer.refusal:
            yield from self.piece("")
        if self._has_text:
            yield self._part_event("response.output_text.done", 0, text=self._text, logprobs=[])
            yield self._part_event("response.content_part.done", 0, part=_text_part(self._text))
        if answer.refusal:
            yield from self._refusal(1 if self._has_text else 0)
        yield self._event("response.output_item.done", output_index=0, item=item)
        done = response(answer, self._created, self._asked) | {"output": [item]}
        yield self._event(f"response.{done['status']}", response=done)

    def failed(self, why: BadRequest) -> Iterator[bytes]:
        """Yield the event of a failure."""
        unfinished = response(self._answer, self._created, self._asked, "failed")
        code = "rate_limit_exceeded" if why.status == 429 else "server_error"
        error = {"code": code, "message": f"{why} ({why.code})" if why.code else str(why)}
        yield self._event("response.failed", response=unfinished | {"error": error})

    def _open_item(self) -> Iterator[bytes]:
        if not self._has_item:
            self._has_item = True
            item = _item(self._answer, "") | {"status": "in_progress", "content": []}
            yield self._event("response.output_item.added", output_index=0, item=item)

    def _refusal(self, at: int) -> Iterator[bytes]:
        words = self._answer.refusal
        yield from self._open_item()
        yield self._part_event("response.content_part.added", at, part={"type": "refusal", "refusal": ""})
        yield self._part_event("response.refusal.delta", at, delta=words)
        yield self._part_event("response.refusal.done", at, refusal=words)
        yield self._part_event("response.content_part.done", at, part={"type": "refusal", "refusal": words})

    def _part_event(self, kind: str, at: int, **facts: Any) -> bytes:
        return self._event(kind, item_id=_item_id(self._answer), output_index=0, content_index=at, **facts)

    def _event(self, kind: str, **facts: Any) -> bytes:
        number, self._number = self._number, self._number + 1
        data = encoded({"type": kind, "sequence_number": number, **facts})
        return b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n"
