"""A request to an agent, and the parsing that all protocols share: fields, model, tool choice, instructions. Pure."""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from claw import nearest

from claw_http.failures import BadRequest
from claw_http.messages import CallerMessages, valid_text

DEFAULT_MODEL = "claw"
OWN_TOOLS = "claw's agents have their own tools, and the policy decides about them"
USER_CHARS = 512
MAX_TEXT_CHARS = 400_000
"""About 100,000 tokens of English text: the window of most models holds it beside prompt and tools."""
_MAX_TOKENS = 10_000_000
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

Instructions = Literal["refuse", "ignore", "allow"]


@dataclass(frozen=True, slots=True)
class RequestRules:
    """The rules of one configuration for requests.

    :param agents: the ids that ``model`` may name.
    :param ignored: fields that are ignored instead of refused.
    :param instructions: the treatment of a caller's instructions.
    :param max_text_chars: limit of all texts of a request.
    """

    agents: Collection[str] = ()
    ignored: Collection[str] = ()
    instructions: Instructions = "refuse"
    max_text_chars: int = MAX_TEXT_CHARS


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """A parsed request: one turn of an agent.

    :param messages: the new message and what was sent before it.
    :param model: as written; ``agent`` the agent that it names, empty for the default agent.
    :param user: owner of the conversation; empty = a new conversation.
    :param stream: the answer comes as events; ``counts``: they end with the usage.
    :param tool_choice: auto, none, required or the name of a tool, for the first model call; empty = the
        agent's.
    :param max_tokens: of each model call of the turn; None = the agent's.
    :param previous: the response that it continues; ``kept``: its own response can be continued.
    """

    messages: CallerMessages
    model: str = DEFAULT_MODEL
    agent: str = ""
    user: str = ""
    stream: bool = False
    counts: bool = False
    tool_choice: str = ""
    max_tokens: int | None = None
    previous: str = ""
    kept: bool = False

    @property
    def text(self) -> str:
        """The new message."""
        return self.messages.text

    @property
    def dropped(self) -> int:
        """The number of earlier messages that are not used, because claw keeps the conversation that it continues."""
        return len(self.messages.earlier) if self.user else 0


class Answer(Protocol):
    """The end of a turn, as all protocols format it.

    :ivar message_id: the id of the completion or response.
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


def parse_object(body: bytes) -> dict[str, Any]:
    """Return the object that a body is.

    :raises BadRequest: it is none.
    """
    try:
        request = json.loads(body)
        body.decode("utf-8")
    except (ValueError, RecursionError):
        raise BadRequest(400, "the body is not JSON in UTF-8", code="invalid_json") from None
    if not isinstance(request, dict):
        raise BadRequest(400, "the body must be a JSON object", code="invalid_json")
    return request


def check_types(request: Mapping[str, Any], types: Mapping[str, type], place: str = "") -> None:
    """Refuse fields of a wrong type.

    :param place: the field whose value this is; empty = the request itself.
    :raises BadRequest: a field has one.
    """
    for name, kind in types.items():
        value, where = request.get(name), f"{place}.{name}" if place else name
        if value is not None and type(value) is not kind:
            type_name = "object" if kind is dict else kind.__name__
            raise BadRequest(400, f"{where} must be of type {type_name}", param=where, code="invalid_type")


def check_fields(
    request: Mapping[str, Any],
    neutral: Mapping[str, tuple[Any, ...]],
    never: Mapping[str, str],
    ignored: Collection[str],
) -> None:
    """Refuse what would not be obeyed.

    :param neutral: fields that are not obeyed, each with the values that ask for nothing.
    :param never: fields that cannot be given, each with the reason.
    :raises BadRequest: a field asks for something.
    """
    for name, why in never.items():
        if request.get(name):
            raise BadRequest(400, f"{name} cannot be given: {why}", param=name, code="unsupported_parameter")
    for name, values in neutral.items():
        if name not in ignored and not _asks_for_nothing(request.get(name), values):
            problem = f"{name} is not supported here: leave it away, or list it in channels.http.ignoreFields"
            raise BadRequest(400, problem, param=name, code="unsupported_parameter")


def _asks_for_nothing(value: Any, values: tuple[Any, ...]) -> bool:
    """Return true if the value is absent or one of these; true and 1 differ, as in JSON."""
    return value is None or any(
        value == one and isinstance(value, bool) is isinstance(one, bool) for one in values
    )


def max_tokens_of(request: Mapping[str, Any], *names: str) -> int | None:
    """Return the smallest limit of an answer that the fields ``names`` give.

    :raises BadRequest: one of them is no positive number.
    """
    found = []
    for name in names:
        value = request.get(name)
        if value is None:
            continue
        if type(value) is not int or not 0 < value <= _MAX_TOKENS:
            problem = f"{name} must be a number from 1 to {_MAX_TOKENS}"
            raise BadRequest(400, problem, param=name, code="invalid_type")
        found.append(value)
    return min(found, default=None)


def checked_instructions(text: str, rules: RequestRules, name: str) -> str:
    """Return the caller's instructions, as far as the operator accepts them.

    :param name: the field that holds them.
    :raises BadRequest: they are not accepted.
    """
    if text.strip() and rules.instructions == "refuse":
        problem = (
            "instructions of a caller (system and developer messages) are not accepted here: leave them away, or set "
            "channels.http.callerInstructions to allow, or to ignore"
        )
        raise BadRequest(400, problem, param=name, code="instructions_not_allowed")
    return text if rules.instructions == "allow" else ""


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


def tool_choice_of(value: Any) -> str:
    """Return the tool choice. The tools are the agent's; claw refuses the name of a tool that the agent
    lacks.

    :raises BadRequest: it is none.
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


def name_field(request: Mapping[str, Any], name: str) -> str:
    """Return the value of a field that holds a name; empty when it is absent.

    :raises BadRequest: it is no text, or too long.
    """
    value = request.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > USER_CHARS:
        raise BadRequest(400, f"{name} must be a text of at most {USER_CHARS} characters", param=name)
    return valid_text(value, name).strip()
