"""The chat completions protocol, as far as claw supports it: parsing requests, formatting responses. Pure.

Facts from https://platform.openai.com/docs/api-reference/chat (create, object, streaming) and
.../models/list.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Protocol

from claw_http.agent_request import (
    DEFAULT_MODEL,
    AgentRequest,
    RequestRules,
    agent_of,
    check_fields,
    checked_instructions,
    max_tokens_of,
    name_field,
    parse_object,
    tool_choice_of,
)
from claw_http.failures import encoded
from claw_http.messages import CHAT_PARTS, parse_messages

_OWN_TOOLS = "claw's agents have their own tools, and the policy decides about them"
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
    "tools": _OWN_TOOLS,
    "functions": _OWN_TOOLS,
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
    check_fields(request, _ONLY_NEUTRAL, _NEVER_OURS, {"n": int, "stream": bool}, rules.ignored)
    model = name_field(request, "model") or DEFAULT_MODEL
    agent = agent_of(model, rules.agents)
    said = parse_messages(request.get("messages"), "messages", CHAT_PARTS, rules.max_text_chars)
    instructions = checked_instructions(said.instructions, rules, "messages")
    options = request.get("stream_options")
    return AgentRequest(
        replace(said, instructions=instructions),
        model,
        agent,
        name_field(request, "user"),
        request.get("stream") is True,
        isinstance(options, dict) and options.get("include_usage") is True,
        tool_choice_of(request.get("tool_choice")),
        max_tokens_of(request, "max_tokens", "max_completion_tokens"),
    )


class Answer(Protocol):
    """The end of a turn, as a completion needs it.

    :ivar message_id: the id of the completion.
    :ivar refusal: the text of a model that refused to answer.
    :ivar stop_reason: the ``finish_reason``: stop, length or content_filter.
    :ivar tokens: what the models read and wrote.
    """

    message_id: str
    refusal: str
    stop_reason: str
    tokens: tuple[int, int]

    @property
    def text(self) -> str:
        """The whole text."""
        ...


def completion(answer: Answer, created: int, model: str) -> dict[str, Any]:
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
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": answer.stop_reason, "logprobs": None}],
        "usage": _usage(answer),
    }


def _usage(answer: Answer) -> dict[str, int]:
    """Return the tokens that the models read and wrote for the answer; zeros when the service did not
    count.
    """
    read, written = answer.tokens
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def chunk(
    answer: Answer,
    created: int,
    model: str,
    delta: Mapping[str, Any] | None,
    end: str | None = None,
) -> bytes:
    """Format one event of a stream; without ``delta`` the one with the usage."""
    choices = (
        [] if delta is None else [{"index": 0, "delta": dict(delta), "finish_reason": end, "logprobs": None}]
    )
    chunk: dict[str, Any] = {
        "id": answer.message_id,
        "object": "chat.completion.chunk",
        "created": created,
        "model": model,
        "choices": choices,
    }
    if delta is None:
        chunk["usage"] = _usage(answer)
    return event(chunk)


def event(plain: Any) -> bytes:
    """Format a server-sent event."""
    return b"data: " + encoded(plain) + b"\n\n"


DONE = b"data: [DONE]\n\n"
STILL_HERE = b": still working\n\n"


def models(agents: Collection[str], created: int) -> dict[str, Any]:
    """Return the agents as models; ``claw`` is the default agent."""
    names = [DEFAULT_MODEL, *(f"{DEFAULT_MODEL}/{agent}" for agent in agents)]
    line = {"object": "model", "created": created, "owned_by": "claw"}
    return {"object": "list", "data": [{"id": name, **line} for name in names]}
