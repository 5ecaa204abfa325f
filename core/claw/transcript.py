"""What a model reads: messages of user, assistant and tool, what they cost, and the pairing of calls with results.

Neutral between providers: ids are ours, arguments are parsed, thinking keeps what its maker wants back.
Everything here is frozen and pure; ``session`` puts it on disk.
"""

import re
from collections.abc import Sequence
from typing import Any

import msgspec


class Text(msgspec.Struct, frozen=True, tag="text", tag_field="type"):
    """Words."""

    text: str


class Image(msgspec.Struct, frozen=True, tag="image", tag_field="type"):
    """A picture: base64 bytes and their media type."""

    data: str
    mime: str = "image/png"


class Thinking(msgspec.Struct, frozen=True, tag="thinking", tag_field="type", omit_defaults=True):
    """What a model thought, with what its maker wants back unchanged.

    :param signature: the maker's seal over the text; ``redacted`` holds the opaque data of a hidden thought instead.
    :param maker: provider that made it (``anthropic``): nobody else is ever sent it.
    """

    text: str = ""
    signature: str = ""
    redacted: str = ""
    maker: str = ""


class ToolCall(msgspec.Struct, frozen=True, tag="tool_call", tag_field="type"):
    """A model asks for a tool."""

    id: str
    name: str
    arguments: dict[str, Any]


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Tokens of one call; None is what the service did not say. ``input`` leaves cached tokens out."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    total: int | None = None


class User(msgspec.Struct, frozen=True, tag="user", tag_field="role", omit_defaults=True):
    """What a person, or someone in a person's place, said.

    :param kind: empty when someone spoke to us; else what put it there (a notice, a heartbeat): it is sent like any
        other, and is no turn of its own.
    :param source: what came in that it is, by the journal's numbers; empty for a terminal's.
    """

    content: tuple[Text | Image, ...]
    kind: str = ""
    source: str = ""


class Assistant(
    msgspec.Struct, frozen=True, tag="assistant", tag_field="role", omit_defaults=True, rename="camel"
):
    """What a model answered.

    :param model: ``provider/model``.
    :param stop_reason: stop, tool_use, length, error or aborted.
    :param error: why, when ``stop_reason`` is error.
    """

    content: tuple[Text | Thinking | ToolCall, ...]
    model: str = ""
    stop_reason: str = "stop"
    usage: Usage = Usage()
    error: str = ""

    @property
    def text(self) -> str:
        """All words of the answer, joined."""
        return "".join(block.text for block in self.content if isinstance(block, Text))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tools it asks for, in order."""
        return tuple([block for block in self.content if isinstance(block, ToolCall)])


class ToolResult(
    msgspec.Struct, frozen=True, tag="tool_result", tag_field="role", omit_defaults=True, rename="camel"
):
    """What a tool answered.

    :param content: for the model. ``details`` is for programs: never sent to a model, never counted.
    """

    call_id: str
    tool_name: str
    content: tuple[Text | Image, ...]
    details: Any = None
    is_error: bool = False

    @property
    def text(self) -> str:
        """All words of the result, joined by line ends."""
        return "\n".join(block.text for block in self.content if isinstance(block, Text))


Message = User | Assistant | ToolResult


NO_RESULT = (
    "No result: the call was cut off before its answer was recorded. Whether it took effect is unknown."
)
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")  # what the model services accept as a tool's name
_FAILED = ("error", "aborted")


class Paired(msgspec.Struct, frozen=True):
    """Messages in which every call has its result right behind it, and every result its call.

    :param synthetic_added: how many results had to be invented.
    """

    messages: tuple[Message, ...]
    synthetic_added: int


def pair(messages: Sequence[Message]) -> Paired:
    """Put each result behind its call, in call order; invent the missing ones, drop those that nobody asked for.

    A late result moves up to its call, whatever stands between. When one id is called twice, a result belongs to the
    nearest earlier call that still lacks one. Calls without id, arguments or a usable name are taken out, and so is an
    answer left empty by that. An answer that failed or was aborted keeps the calls that were answered, loses the others
    (nothing will ever answer them), and stays even when that leaves it empty. Pairing twice changes nothing more.
    """
    kept = [clean for message in messages if (clean := _with_usable_calls(message)) is not None]
    answers = _answers(kept)
    paired: list[Message] = []
    synthetic = 0
    for place, message in enumerate(kept):
        if isinstance(message, ToolResult):
            continue
        if (given := answers.get(place)) is None:
            paired.append(message)
            continue
        assert isinstance(message, Assistant)
        if None in given and message.stop_reason in _FAILED:
            message = _without(message, {slot for slot, result in enumerate(given) if result is None})  # noqa: PLW2901
            given = [result for result in given if result is not None]
        paired.append(message)
        if None in given:
            synthetic += given.count(None)
            given = [result or _lost(call) for call, result in zip(message.tool_calls, given, strict=True)]
        paired.extend(result for result in given if result)
    return Paired(tuple(paired), synthetic)


def sendable(messages: Sequence[Message]) -> tuple[Message, ...]:
    """What a model service takes: paired, without blank text blocks, without messages that then say nothing.

    An answer of thoughts alone says nothing either: services refuse it.
    """
    sent: list[Message] = []
    for message in pair(messages).messages:
        content = [block for block in message.content if not (isinstance(block, Text) and _blank(block.text))]
        if len(content) != len(message.content):
            message = msgspec.structs.replace(message, content=tuple(content))  # noqa: PLW2901
        if isinstance(message, ToolResult) or not all(isinstance(block, Thinking) for block in content):
            sent.append(message)
    return tuple(sent)


def _blank(text: str) -> bool:
    return not text or text.isspace()


def _with_usable_calls(message: Message) -> Message | None:
    if not isinstance(message, Assistant):
        return message
    calls = message.tool_calls
    bad = {slot for slot, call in enumerate(calls) if not _usable(call)} if calls else None
    if not bad:
        return message
    rest = _without(message, bad)
    return rest if rest.content else None


def _usable(call: ToolCall) -> bool:
    return bool(call.id) and isinstance(call.arguments, dict) and bool(_NAME.match(call.name))


def _without(message: Assistant, slots: set[int]) -> Assistant:
    """The answer without its n-th calls."""
    content, slot = [], -1
    for block in message.content:
        slot += isinstance(block, ToolCall)
        if not isinstance(block, ToolCall) or slot not in slots:
            content.append(block)
    return msgspec.structs.replace(message, content=tuple(content))


def _answers(messages: Sequence[Message]) -> dict[int, list[ToolResult | None]]:
    """For each answer with calls, by its place: the result of each call, None where there is none."""
    answers: dict[int, list[ToolResult | None]] = {}
    waiting: dict[str, list[tuple[int, int, str]]] = {}  # call id -> (place, slot, tool name), oldest first
    for place, message in enumerate(messages):
        if isinstance(message, Assistant):
            if calls := message.tool_calls:
                answers[place] = [None] * len(calls)
                for slot, call in enumerate(calls):
                    waiting.setdefault(call.id, []).append((place, slot, call.name))
        elif isinstance(message, ToolResult) and (open_calls := waiting.get(message.call_id)):
            nearest = min(open_calls, key=lambda call: (-call[0], call[1]))
            open_calls.remove(nearest)
            asked, slot, name = nearest
            answers[asked][slot] = (
                message if message.tool_name else msgspec.structs.replace(message, tool_name=name)
            )
    return answers


def _lost(call: ToolCall) -> ToolResult:
    return ToolResult(call_id=call.id, tool_name=call.name, content=(Text(NO_RESULT),), is_error=True)


CHARS_PER_TOKEN = 4
IMAGE_CHARS = 4800  # the flat price that the seeds' systems put on any picture


def estimate_tokens(message: Message) -> int:
    """Tokens of a message, guessed from its characters: four to a token, rounded up. Details do not count."""
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
    """The newest ``turns`` turns: from the n-th last word of a user on. None, 0 and below keep everything."""
    if turns is None or turns <= 0:
        return tuple(messages)
    starts = [
        place for place, message in enumerate(messages) if isinstance(message, User) and not message.kind
    ]
    return tuple(messages[starts[-turns] :] if len(starts) > turns else messages)
