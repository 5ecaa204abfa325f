"""The transcript of a conversation: messages of user, assistant and tool, their token estimates, and the
pairing of calls.

Independent of providers: ids are ours, arguments are parsed, thinking keeps the data its provider needs back.
Everything here is frozen and pure; ``session`` stores it.
"""

import re
from collections.abc import Sequence
from typing import Any

import msgspec


class Text(msgspec.Struct, frozen=True, tag="text", tag_field="type"):
    """A text block."""

    text: str


class Image(msgspec.Struct, frozen=True, tag="image", tag_field="type"):
    """An image: base64 bytes and their media type."""

    data: str
    mime: str = "image/png"


class Thinking(msgspec.Struct, frozen=True, tag="thinking", tag_field="type", omit_defaults=True):
    """A model's thinking, with the data its provider needs back unchanged.

    :param signature: the provider's signature of the text; ``redacted`` holds the opaque data of hidden
        thinking instead.
    :param maker: the provider that made it (``anthropic``): it is sent to no other.
    """

    text: str = ""
    signature: str = ""
    redacted: str = ""
    maker: str = ""


class ToolCall(msgspec.Struct, frozen=True, tag="tool_call", tag_field="type"):
    """A tool call of a model."""

    id: str
    name: str
    arguments: dict[str, Any]


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The tokens of one call; None is a number the service did not report. ``input`` excludes cached tokens."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    total: int | None = None

    @property
    def prompt_tokens(self) -> int | None:
        """Size of the prompt, cached or not; None when it is unknown."""
        return (self.input or 0) + (self.cache_read or 0) + (self.cache_write or 0) or None


class User(msgspec.Struct, frozen=True, tag="user", tag_field="role", omit_defaults=True):
    """A message of a person, or in a person's place.

    :param kind: empty for a person's message; else its origin (a notice, a heartbeat): it is sent like any
        other, and does not begin a turn of its own.
    :param source: the inbound event it came from, by its journal number; empty for the terminal.
    """

    content: tuple[Text | Image, ...]
    kind: str = ""
    source: str = ""


class Assistant(
    msgspec.Struct, frozen=True, tag="assistant", tag_field="role", omit_defaults=True, rename="camel"
):
    """The answer of a model.

    :param model: ``provider/model``.
    :param stop_reason: stop, tool_use, length, error, aborted, or max_tokens (empty because of the limit of a caller).
    :param error: the reason, when ``stop_reason`` is error.
    """

    content: tuple[Text | Thinking | ToolCall, ...]
    model: str = ""
    stop_reason: str = "stop"
    usage: Usage = Usage()
    error: str = ""

    @property
    def text(self) -> str:
        """All text of the answer, joined."""
        return "".join(block.text for block in self.content if isinstance(block, Text))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Its tool calls, in order."""
        return tuple([block for block in self.content if isinstance(block, ToolCall)])


class ToolResultMessage(
    msgspec.Struct, frozen=True, tag="tool_result", tag_field="role", omit_defaults=True, rename="camel"
):
    """The result of a tool call.

    :param content: for the model. ``details`` is for programs: never sent to a model, never counted.
    """

    call_id: str
    tool_name: str
    content: tuple[Text | Image, ...]
    details: Any = None
    is_error: bool = False

    @property
    def text(self) -> str:
        """All text of the result, joined by line ends."""
        return "\n".join(block.text for block in self.content if isinstance(block, Text))


Message = User | Assistant | ToolResultMessage


NO_RESULT = (
    "No result: the call was cut off before its answer was recorded. Whether it took effect is unknown."
)
UNREADABLE_CALL = "unreadable_call"
"""The name of a call that replaces one that could not be parsed: ``arguments`` has its text (``written``) and
the reason (``why``). No tool has this name."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")  # what the model services accept as a tool's name
_FAILED = ("error", "aborted")


class Paired(msgspec.Struct, frozen=True):
    """Messages in which each call is directly followed by its result, and each result has its call.

    :param synthetic_added: number of results that had to be invented.
    """

    messages: tuple[Message, ...]
    synthetic_added: int


def pair(messages: Sequence[Message]) -> Paired:
    """Put each result behind its call, in call order; invent missing ones, drop those without a call.

    A late result moves up to its call, whatever is between. When one id is called twice, a result belongs to
    the nearest earlier call that still lacks one. Calls without id, arguments or a usable name are removed,
    and so is an answer that this leaves empty. An answer that failed or was aborted keeps the calls with
    results, loses the others (they will never be answered), and stays even if that leaves it empty. Pairing
    twice changes nothing more.
    """
    kept: list[tuple[Message, list[ToolResultMessage | None]]] = []
    waiting: dict[str, list[tuple[int, int, str]]] = {}  # call id -> (place, slot, tool name), oldest first
    for message in messages:
        if isinstance(message, ToolResultMessage):
            if open_calls := waiting.get(message.call_id):
                nearest = min(open_calls, key=lambda call: (-call[0], call[1]))
                open_calls.remove(nearest)
                place, slot, name = nearest
                named = message if message.tool_name else msgspec.structs.replace(message, tool_name=name)
                kept[place][1][slot] = named
            continue
        usable = _with_usable_calls(message)
        if usable is None:
            continue
        calls = usable.tool_calls if isinstance(usable, Assistant) else ()
        for slot, call in enumerate(calls):
            waiting.setdefault(call.id, []).append((len(kept), slot, call.name))
        kept.append((usable, [None] * len(calls)))
    paired: list[Message] = []
    synthetic = 0
    for message, results in kept:
        paired.append(message)
        if not isinstance(message, Assistant) or not results:
            continue
        if None in results and message.stop_reason in _FAILED:
            paired[-1] = _without(message, {slot for slot, result in enumerate(results) if result is None})
        else:
            synthetic += results.count(None)
            calls = message.tool_calls
            results = [result or _stub(call) for call, result in zip(calls, results, strict=True)]  # noqa: PLW2901
        paired.extend(result for result in results if result)
    return Paired(tuple(paired), synthetic)


def sendable(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages in a form that services accept: paired, without blank text blocks, without empty
    messages.

    An answer of thinking alone counts as empty: services refuse it.
    """
    sent: list[Message] = []
    for message in pair(messages).messages:
        content = [block for block in message.content if not (isinstance(block, Text) and _blank(block.text))]
        if len(content) != len(message.content):
            message = msgspec.structs.replace(message, content=tuple(content))  # noqa: PLW2901
        if isinstance(message, ToolResultMessage) or not all(
            isinstance(block, Thinking) for block in content
        ):
            sent.append(message)
    return tuple(sent)


def _blank(text: str) -> bool:
    return not text or text.isspace()


def _with_usable_calls(message: Message) -> Message | None:
    if not isinstance(message, Assistant):
        return message
    bad = {slot for slot, call in enumerate(message.tool_calls) if not _usable(call)}
    rest = _without(message, bad) if bad else message
    return rest if rest.content or not bad else None


def _usable(call: ToolCall) -> bool:
    return bool(call.id) and isinstance(call.arguments, dict) and bool(_NAME.match(call.name))


def _without(message: Assistant, slots: set[int]) -> Assistant:
    """Return the answer without the calls in these slots."""
    content, slot = [], -1
    for block in message.content:
        slot += isinstance(block, ToolCall)
        if not isinstance(block, ToolCall) or slot not in slots:
            content.append(block)
    return msgspec.structs.replace(message, content=tuple(content))


def _stub(call: ToolCall) -> ToolResultMessage:
    return ToolResultMessage(call_id=call.id, tool_name=call.name, content=(Text(NO_RESULT),), is_error=True)


CHARS_PER_TOKEN = 4
IMAGE_CHARS = 4800  # the flat size that the seeds' systems assume for any image


def estimate_tokens(message: Message) -> int:
    """Estimate the tokens of a message: four characters each, rounded up. Details do not count."""
    chars = 0
    for block in message.content:
        match block:
            case Text():
                chars += len(block.text)
            case Thinking():
                chars += len(block.text) + len(block.redacted)
            case ToolCall():
                chars += len(block.name) + len(msgspec.json.encode(block.arguments).decode())
            case Image():
                chars += IMAGE_CHARS
    return -(-chars // CHARS_PER_TOKEN)


def limit_turns(messages: Sequence[Message], turns: int | None) -> tuple[Message, ...]:
    """Return the newest ``turns`` turns: from the n-th last user message on. None, 0 and below keep
    everything.
    """
    if turns is None or turns <= 0:
        return tuple(messages)
    starts = [place for place, one in enumerate(messages) if isinstance(one, User) and not one.kind]
    return tuple(messages[starts[-turns] :] if len(starts) > turns else messages)


class FittingTurns(msgspec.Struct, frozen=True):
    """The part of a history that fits a budget.

    :param messages: the newest whole turns that fit.
    :param omitted: number of older messages left out.
    :param tokens: estimated tokens of ``messages``.
    """

    messages: tuple[Message, ...]
    omitted: int
    tokens: int


def newest_turns_within(
    messages: Sequence[Message], costs: Sequence[int], budget_tokens: int
) -> FittingTurns:
    """Select the newest whole turns (a user message and all that answers it) within the budget.

    The newest turn is kept even when it alone is larger: then the provider accepts or refuses it.

    :param costs: tokens of each message.
    """
    total = sum(costs)
    if total <= budget_tokens:
        return FittingTurns(tuple(messages), 0, total)
    starts = [index for index, message in enumerate(messages) if isinstance(message, User)]
    start = 0
    for following in starts[1:]:
        total -= sum(costs[start:following])
        start = following
        if total <= budget_tokens:
            break
    return FittingTurns(tuple(messages[start:]), start, total)
