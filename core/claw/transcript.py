"""What a model reads: messages of user, assistant and tool, what they cost, and the pairing of calls with results.

Neutral between providers: ids are ours, arguments are parsed, thinking keeps what its maker wants back.
Everything here is frozen and pure; ``session`` puts it on disk.
"""

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
    """What a person, or someone in a person's place, said."""

    content: tuple[Text | Image, ...]


class Assistant(msgspec.Struct, frozen=True, tag="assistant", tag_field="role", omit_defaults=True, rename="camel"):
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
        return tuple(block for block in self.content if isinstance(block, ToolCall))


class ToolResult(msgspec.Struct, frozen=True, tag="tool_result", tag_field="role", omit_defaults=True, rename="camel"):
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
