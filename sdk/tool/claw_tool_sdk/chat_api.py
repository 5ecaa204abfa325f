"""The chats that a tool can reach, beside the text that every tool can send."""

from collections.abc import Sequence
from typing import Any, Protocol

from claw import Address, ToolContext, ToolError


class ChatApi(Protocol):
    """Chat actions of one tool call: in the chat that its turn answers in, and those that the agent's settings name."""

    def resolve_address(self, target: str = "", channel: str = "", account: str = "") -> Address:
        """Return the address of a chat; without arguments, of the chat that this turn answers in.

        :param target: the id of a chat, or ``channel:chat``.
        :raises ToolError: the agent may not write there; the text is for the model, as for every method here.
        """

    def answered_message_id(self, where: Address | None = None) -> str:
        """Return the id of the message that this turn answers, if it is in that chat; else empty."""

    async def send(
        self,
        text: str,
        paths: Sequence[str] = (),
        where: Address | None = None,
        reply_to: str | None = None,
        voice: bool = False,
    ) -> tuple[str, ...]:
        """Send a text, with files of the workspace; return the message ids."""

    async def edit(self, message_id: str, text: str, where: Address | None = None) -> None:
        """Change the text of one of our messages."""

    async def delete(self, message_id: str, where: Address | None = None) -> None:
        """Delete one of our messages."""

    async def react(
        self, emoji: str, message_id: str = "", remove: bool = False, where: Address | None = None
    ) -> None:
        """Add our reaction to a message (by default the one that is answered), or remove it."""

    async def poll(
        self, question: str, options: Sequence[str], where: Address | None = None
    ) -> tuple[str, ...]:
        """Send a poll to the chat."""


def chat_of(context: ToolContext) -> ChatApi:
    """Return the chat access of a tool call; when no plugin provides it, one that sends texts to this chat alone."""
    return context.talk or _ThisChat(context)


class _ThisChat:
    """The chat that the turn answers in, without the gateway: its address is not known here."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context

    def resolve_address(self, target: str = "", channel: str = "", account: str = "") -> Address:
        if target or channel:
            raise self._refused()
        return Address("", "")

    def answered_message_id(self, where: Address | None = None) -> str:
        return ""

    async def send(self, text: str, paths: Sequence[str] = (), *more: Any, **named: Any) -> tuple[str, ...]:
        return await self._context.send(text, tuple(paths))

    async def edit(self, *given: Any, **named: Any) -> Any:
        raise self._refused()

    delete = react = poll = edit

    def _refused(self) -> ToolError:
        return ToolError("only text to this chat can be sent: more needs the plugin claw-gateway")
