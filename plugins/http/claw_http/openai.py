"""The chat completions protocol, as far as claw supports it: parsing requests, formatting responses. Pure.

Facts from https://platform.openai.com/docs/api-reference/chat (create, object, streaming) and
.../models/list.
"""

import base64
import binascii
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from claw import nearest

DEFAULT_MODEL = "claw"
USER_CHARS = 512
IMAGES = 16
_DATA_URL = re.compile(r"data:(image/[a-z0-9.+-]{1,40});base64,", re.I)
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
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
    "max_tokens": (),
    "max_completion_tokens": (),
    "reasoning_effort": (),
    "verbosity": (),
}
"""Fields that change the answer and are not obeyed, with the values that ask for nothing."""
_NEVER_OURS = {
    "tools": "claw's agents have their own tools, and the policy decides about them",
    "functions": "claw's agents have their own tools, and the policy decides about them",
    "audio": "answers are text",
}


class BadRequest(Exception):
    """A request that is answered with an error.

    :param kind: the ``type`` of the error, in OpenAI's words; ``param`` the field it is about.
    """

    def __init__(
        self,
        status: int,
        message: str,
        kind: str = "invalid_request_error",
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.kind, self.param, self.code = status, kind, param, code
        self.headers = dict(headers or {})

    @property
    def body(self) -> bytes:
        """The error as the body of a response."""
        return encoded({"error": self.error_object})

    @property
    def error_object(self) -> dict[str, Any]:
        """The error object."""
        return {"message": str(self), "type": self.kind, "param": self.param, "code": self.code}


@dataclass(frozen=True, slots=True)
class Picture:
    """An image of the new message."""

    mime: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A parsed completion request.

    :param model: as written; ``agent`` the agent that it names, empty for the default agent.
    :param user: owner of the conversation; empty = a new conversation.
    :param counts: a stream ends with the usage.
    :param tool_choice: auto, none, required or the name of a tool, for the first model call; empty = the
        agent's.
    """

    text: str
    pictures: tuple[Picture, ...] = ()
    model: str = DEFAULT_MODEL
    agent: str = ""
    user: str = ""
    stream: bool = False
    counts: bool = False
    tool_choice: str = ""


def encoded(plain: Any) -> bytes:
    """Encode to JSON."""
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def read(body: bytes, agents: Collection[str], ignored: Collection[str] = ()) -> CompletionRequest:
    """Parse a request for a completion.

    Only the last message counts, and it must be a user's: claw keeps the conversation, and a caller cannot
    put an
    agent's message or a tool result into it.

    :param agents: the ids that ``model`` may name.
    :param ignored: fields that are ignored instead of refused.
    :raises BadRequest: the request is invalid or not supported.
    """
    try:
        request = json.loads(body)
        body.decode("utf-8")
    except (ValueError, RecursionError):
        raise BadRequest(400, "the body is not JSON in UTF-8", code="invalid_json") from None
    if not isinstance(request, dict):
        raise BadRequest(400, "the body must be a JSON object", code="invalid_json")
    for name, why in _NEVER_OURS.items():
        if request.get(name):
            raise BadRequest(400, f"{name} cannot be given: {why}", param=name, code="unsupported_parameter")
    _check_fields(request, ignored)
    model = _text(request, "model") or DEFAULT_MODEL
    agent = agent_of(model, agents)
    text, pictures = _new_turn(request.get("messages"))
    options = request.get("stream_options")
    return CompletionRequest(
        text,
        pictures,
        model,
        agent,
        _text(request, "user"),
        request.get("stream") is True,
        isinstance(options, dict) and options.get("include_usage") is True,
        _tool_choice(request.get("tool_choice")),
    )


def _check_fields(request: Mapping[str, Any], ignored: Collection[str]) -> None:
    """Refuse what would not be obeyed.

    :raises BadRequest: a field has another value than the one that changes nothing.
    """
    for name, kind in (("n", int), ("stream", bool)):
        value = request.get(name)
        if value is not None and type(value) is not kind:
            raise BadRequest(400, f"{name} must be of type {kind.__name__}", param=name, code="invalid_type")
    for name, neutral in _ONLY_NEUTRAL.items():
        if name not in ignored and (value := request.get(name)) is not None and value not in neutral:
            problem = f"{name} is not supported here: leave it away, or list it in channels.http.ignoreFields"
            raise BadRequest(400, problem, param=name, code="unsupported_parameter")


def agent_of(model: str, agents: Collection[str]) -> str:
    """Return the agent that ``model`` names: ``claw/ID``, ``agent:ID`` or the id; empty for ``claw``, the default
    agent.

    :raises BadRequest: it names none.
    """
    name = model.strip().lower().removeprefix("claw/").removeprefix("agent:")
    by_name = {DEFAULT_MODEL: "", "": "", **{agent.lower(): agent for agent in agents}}
    if name in by_name:
        return by_name[name]
    near = nearest(name, by_name) or DEFAULT_MODEL
    known = f"a model here is an agent: claw/ID, or {DEFAULT_MODEL} for the default one"
    problem = f"there is no model {model[:100]}: did you mean {near}? {known}"
    raise BadRequest(404, problem, param="model", code="model_not_found")


def _tool_choice(value: Any) -> str:
    """Return the tool choice. The tools are the agent's; claw refuses the name of a tool that the agent
    lacks.
    """
    if value is None:
        return ""
    named = (
        value.get("function", value) if isinstance(value, dict) and value.get("type") == "function" else None
    )
    name = named.get("name") if isinstance(named, dict) else None
    if isinstance(name, str) and _TOOL_NAME.fullmatch(name):
        return name
    if isinstance(value, str) and value in ("auto", "none", "required"):
        return value
    problem = "tool_choice must be auto, none, required, or {type: function, function: {name: TOOL}}"
    raise BadRequest(400, problem, param="tool_choice")


def _text(request: Mapping[str, Any], name: str) -> str:
    value = request.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > USER_CHARS:
        raise BadRequest(400, f"{name} must be a text of at most {USER_CHARS} characters", param=name)
    _valid_text(value, name)
    return value.strip()


def _new_turn(messages: Any) -> tuple[str, tuple[Picture, ...]]:
    if not isinstance(messages, list) or not messages or not all(isinstance(one, dict) for one in messages):
        raise BadRequest(400, "messages must be a list of messages", param="messages")
    last, at = messages[-1], f"messages[{len(messages) - 1}]"
    if last.get("role") != "user":
        problem = "the last message must be the user's: the server keeps the messages of agents and tools"
        raise BadRequest(400, problem, param=f"{at}.role")
    content = last.get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(parts, list):
        raise BadRequest(400, "content must be a text or a list of parts", param=f"{at}.content")
    texts: list[str] = []
    pictures: list[Picture] = []
    for number, part in enumerate(parts):
        here = f"{at}.content[{number}]"
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text" and isinstance(part.get("text"), str):
            texts.append(_valid_text(part["text"], here))
        elif kind == "image_url":
            pictures.append(_picture(part.get("image_url"), here))
        else:
            raise BadRequest(400, "a part must be text or image_url", param=here)
    text = "\n".join(texts)
    if not text.strip() and not pictures:
        raise BadRequest(400, "the message is empty", param=f"{at}.content")
    if len(pictures) > IMAGES:
        raise BadRequest(400, f"a message has at most {IMAGES} images", param=f"{at}.content")
    return text, tuple(pictures)


def _picture(image: Any, at: str) -> Picture:
    url = image.get("url") if isinstance(image, dict) else image
    text = url if isinstance(url, str) else ""
    match = _DATA_URL.match(text)
    if match is None:
        problem = (
            "an image must be a data: URL (data:image/png;base64,…): addresses are not fetched for callers"
        )
        raise BadRequest(400, problem, param=f"{at}.image_url", code="invalid_image_url")
    try:
        return Picture(match[1].lower(), base64.b64decode(text[match.end() :], validate=True))
    except (binascii.Error, ValueError):
        raise BadRequest(400, "the image is not base64", param=f"{at}.image_url") from None


def _valid_text(text: str, at: str) -> str:
    """Refuse unpaired surrogates: JSON can have them, but no file and no model accepts them."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise BadRequest(400, "there is half a surrogate pair in the text", param=at) from None
    return text


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
