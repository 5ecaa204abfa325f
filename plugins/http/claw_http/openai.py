"""The chat completions protocol, as far as claw supports it: parsing requests, formatting responses. Pure.

Facts from https://platform.openai.com/docs/api-reference/chat (create, object, streaming) and
.../models/list.
"""

from collections.abc import Collection, Iterator, Mapping
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
from claw_http.messages import CHAT_PARTS, parse_messages

_ONLY_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "n": (1,),
    "response_format": ({"type": "text"},),
    "stop": ([],),
    "logit_bias": ({},),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "modalities": (["text"],),
    "prediction": (),
    "web_search_options": (),
    "function_call": ("none", "auto"),
    "temperature": (1,),
    "top_p": (1,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "seed": (),
    "reasoning_effort": (),
    "verbosity": (),
}
"""Fields that change the answer and are not obeyed, with the values that ask for nothing."""
_NEVER_OURS = {
    "tools": OWN_TOOLS,
    "functions": OWN_TOOLS,
    "audio": "answers are text",
}
"""Fields that cannot be given, with the reason."""


def read(body: bytes, rules: RequestRules) -> AgentRequest:
    """Parse a request for a completion.

    The last message must be a user's. The messages before it are the history of a request without ``user``; with one,
    claw keeps the conversation.

    :raises BadRequest: the request is invalid or not supported.
    """
    request = parse_object(body)
    check_types(request, {"n": int, "stream": bool, "stream_options": dict})
    check_fields(request, _ONLY_NEUTRAL, _NEVER_OURS, rules.ignored)
    model = name_field(request, "model") or DEFAULT_MODEL
    agent = agent_of(model, rules.agents)
    said = parse_messages(request.get("messages"), "messages", CHAT_PARTS, rules.max_text_chars)
    instructions = checked_instructions(said.instructions, rules, "messages")
    options = request.get("stream_options") or {}
    check_types(options, {"include_usage": bool}, "stream_options")
    return AgentRequest(
        replace(said, instructions=instructions),
        model,
        agent,
        name_field(request, "user"),
        request.get("stream") is True,
        options.get("include_usage") is True,
        tool_choice_of(request.get("tool_choice")),
        max_tokens_of(request, "max_tokens", "max_completion_tokens"),
    )


def completion(answer: Answer, created: int, asked: AgentRequest) -> dict[str, Any]:
    """Format a whole completion.

    :param created: seconds since 1970.
    """
    text = answer.text
    message = {
        "role": "assistant",
        "content": None if answer.refusal and not text else text,
        "refusal": answer.refusal or None,
    }
    return {
        "id": answer.message_id,
        "object": "chat.completion",
        "created": created,
        "model": asked.model,
        "choices": [{"index": 0, "message": message, "finish_reason": answer.stop_reason, "logprobs": None}],
        "usage": _usage(answer),
    }


def _usage(answer: Answer) -> dict[str, int]:
    """Return the tokens that the models read and wrote for the answer; zeros when the service did not
    count.
    """
    read, written = answer.tokens
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


class CompletionEvents:
    """The events of one streamed completion."""

    def __init__(self, answer: Answer, created: int, asked: AgentRequest) -> None:
        self._answer, self._created, self._asked = answer, created, asked

    def begin(self) -> Iterator[bytes]:
        """Yield the events before the first text."""
        yield self._chunk({"role": "assistant", "content": ""})

    def piece(self, text: str) -> Iterator[bytes]:
        """Yield the events for a piece of the text."""
        yield self._chunk({"content": text})

    def end(self) -> Iterator[bytes]:
        """Yield the events of the end of the answer."""
        if self._answer.refusal:
            yield self._chunk({"refusal": self._answer.refusal})
        yield self._chunk({}, self._answer.stop_reason)
        if self._asked.counts:
            yield self._chunk(None)
        yield DONE

    def failed(self, why: BadRequest) -> Iterator[bytes]:
        """Yield the events of a failure."""
        yield _event({"error": why.error_object})
        yield DONE

    def _chunk(self, delta: Mapping[str, Any] | None, end: str | None = None) -> bytes:
        """Format one event; without ``delta`` the one with the usage."""
        choices = [{"index": 0, "delta": dict(delta or {}), "finish_reason": end, "logprobs": None}]
        chunk: dict[str, Any] = {
            "id": self._answer.message_id,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self._asked.model,
            "choices": [] if delta is None else choices,
        }
        if delta is None:
            chunk["usage"] = _usage(self._answer)
        return _event(chunk)


def _event(plain: Any) -> bytes:
    return b"data: " + encoded(plain) + b"\n\n"


DONE = b"data: [DONE]\n\n"


def models(agents: Collection[str], created: int) -> dict[str, Any]:
    """Return the agents as models; ``claw`` is the default agent."""
    names = [DEFAULT_MODEL, *(f"{DEFAULT_MODEL}/{agent}" for agent in agents)]
    line = {"object": "model", "created": created, "owned_by": "claw"}
    return {"object": "list", "data": [{"id": name, **line} for name in names]}
