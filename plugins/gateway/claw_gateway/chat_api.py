"""Chat access of a tool: the chat that its turn answers in, and those that its agent's settings name, no
others.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from claw import Address, Channel, DeliveryError, Inbound, Outbound, Receipt, ToolError
from claw.runtime import Runtime, TurnContext, describe_exception, run_filters

from claw_gateway.attachments import copy_attachments

OUTGOING = "outgoing"
"""Folder of the home for copies of files that wait in the outbox."""


class OutboxChat:
    """Chat actions for one tool call of one turn. Sent messages go through the outbox; all other actions are
    tried once.

    :param key: prefix of the delivery keys of this call.
    :param record_sent: records, by turn and ids, a message that was sent beside the outbox.
    """

    def __init__(
        self,
        key: str,
        inbound: Inbound,
        context: TurnContext,
        runtime: Runtime,
        record_sent: Callable[[str, Outbound, Sequence[str]], None],
    ) -> None:
        self._key, self._inbound, self._stage, self._rooms = key, inbound, context, runtime
        self._record_sent = record_sent
        self._count = 0

    def resolve_address(self, target: str = "", channel: str = "", account: str = "") -> Address:
        """Return the address of a chat; without arguments, of the chat that this turn answers in.

        :param target: the id of a chat, or ``channel:chat``.
        :raises ToolError: the agent's settings do not name that chat.
        """
        here = self._inbound.address
        named, _, chat = (
            target.rpartition(":")
            if target.split(":", maxsplit=1)[0] in self._channels()
            else ("", "", target)
        )
        channel, account = channel or named or here.channel, account or here.account
        if (channel, account) == (here.channel, here.account) and chat in ("", here.chat):
            return here
        if not chat:
            raise ToolError("target is required")
        wanted = {f"{channel}/{account}:{chat}"} | ({f"{channel}:{chat}"} if account == "default" else set())
        shared, tools = self._rooms.config.settings.tools, self._stage.agent.settings.tools
        is_own = (
            tools is not None and "targets" in tools.message.model_fields_set
        )  # an empty list allows no chat
        listed = tools.message.targets if tools is not None and is_own else shared.message.targets
        if not wanted.intersection(listed):
            raise ToolError(
                "this agent may not write to {target}: tools.message.targets does not list it",
                target=f"{channel}:{chat}",
            )
        return Address(channel, chat, account)

    def answered_message_id(self, where: Address | None = None) -> str:
        """Return the id of the message that this turn answers, if it is in that chat; else empty."""
        here = self._inbound
        return here.message_id if where in (None, here.address) else ""

    async def send(
        self,
        text: str,
        paths: Sequence[str] = (),
        where: Address | None = None,
        reply_to: str | None = None,
        voice: bool = False,
    ) -> tuple[str, ...]:
        """Send a text, with files of the workspace; return the message ids.

        :raises ToolError: it cannot be sent; the text is for the model.
        """
        address = where or self._inbound.address
        channel = self._channel(address)
        key = self._next_key()
        files, refused = await copy_attachments(
            paths, self._stage.fence, self._rooms.config.home / OUTGOING, key, channel.limits.media_out_bytes
        )
        if refused:
            raise ToolError("{why}", why="; ".join(refused))
        answers = self.answered_message_id(address)
        outbound = Outbound(
            key,
            address,
            self._masked(text),
            reply_to=reply_to,
            attachments=files,
            voice=voice,
            answers=answers,
        )
        runtime = self._rooms
        allowed = await run_filters(outbound, "outbound", runtime.plugins)
        if allowed is None:
            return ()
        receipt: Receipt = await _call(runtime.deliver(allowed))
        return receipt.message_ids

    async def edit(self, message_id: str, text: str, where: Address | None = None) -> None:
        """Change the text of one of our messages."""
        address = where or self._inbound.address
        await _call(self._capable(address, "edit").edit(address, message_id, self._masked(text)))

    async def delete(self, message_id: str, where: Address | None = None) -> None:
        """Delete one of our messages."""
        address = where or self._inbound.address
        await _call(self._capable(address, "delete").delete(address, message_id))

    async def react(
        self, emoji: str, message_id: str = "", remove: bool = False, where: Address | None = None
    ) -> None:
        """Add our reaction to a message (by default the one that is answered), or remove it."""
        address = where or self._inbound.address
        message_id = message_id or self.answered_message_id(address)
        if not message_id:
            raise ToolError("message_id is required")
        await _call(self._capable(address, "react").react(address, message_id, emoji, remove))

    async def poll(
        self, question: str, options: Sequence[str], where: Address | None = None
    ) -> tuple[str, ...]:
        """Send a poll to the chat."""
        address = where or self._inbound.address
        asked, choices = self._masked(question), tuple(map(self._masked, options))
        receipt: Receipt = await _call(self._capable(address, "poll").poll(address, asked, choices))
        key = self._next_key()
        poll = Outbound(key, address, "", answers=self.answered_message_id(address))
        self._record_sent(key.partition(":")[0], poll, receipt.message_ids)
        return receipt.message_ids

    def _next_key(self) -> str:
        self._count += 1
        return self._key if self._count == 1 else f"{self._key}.{self._count}"

    def _masked(self, text: str) -> str:
        """Mask the secrets of this installation, whoever asks: they must not appear in a chat."""
        return self._rooms.redact.answer_mask.masked(text)

    def _channels(self) -> set[str]:
        return {contribution.value.name for contribution in self._rooms.registry.channels.values()}

    def _channel(self, address: Address) -> Channel:
        channel = self._rooms.registry.channel(address.channel, address.account)
        if channel is None:
            raise ToolError("there is no channel {name}", name=f"{address.channel}/{address.account}")
        return channel

    def _capable(self, address: Address, action: str) -> Any:
        channel = self._channel(address)
        if not hasattr(channel, action):
            raise ToolError("channel {name} cannot do that: {action}", name=address.channel, action=action)
        return channel


async def _call(call: Awaitable[Any]) -> Any:
    """Await a channel call; turn its errors into texts for the model."""
    try:
        return await call
    except (ToolError, TimeoutError):
        raise
    except DeliveryError as why:
        raise ToolError("the chat service rejected it: {why}", why=why) from why
    except Exception as why:
        raise ToolError("the chat service failed: {why}", why=describe_exception(why)) from why
