"""What a tool may do in chats: the one it answers in, and those that its agent's settings name, nowhere else."""

from collections.abc import Awaitable, Sequence
from typing import Any

from claw.channel import Channel
from claw.errors import DeliveryError, ToolError
from claw.guests import filtered
from claw.media import carried_out
from claw.message import Address, Inbound, Outbound, Receipt
from claw.stage import Rooms, Stage
from claw.wall import name_of

OUTGOING = "outgoing"
"""Folder of the home where copies of files lie that are owed."""


class Talk:
    """Chats, for one call of one turn. What is said goes through the ledger; everything else is tried once.

    :param key: begins the delivery keys of this call.
    """

    def __init__(self, key: str, inbound: Inbound, stage: Stage, rooms: Rooms) -> None:
        self._key, self._inbound, self._stage, self._rooms = key, inbound, stage, rooms
        self._count = 0

    def place(self, target: str = "", channel: str = "", account: str = "") -> Address:
        """Where something shall be said; nothing named = the chat that this turn answers in.

        :param target: the id of a chat, or ``channel:chat``.
        :raises ToolError: the agent's settings do not name that chat.
        """
        here = self._inbound.address
        named, _, chat = (
            target.rpartition(":") if target.split(":", maxsplit=1)[0] in self._names() else ("", "", target)
        )
        channel, account = channel or named or here.channel, account or here.account
        if (channel, account) == (here.channel, here.account) and chat in ("", here.chat):
            return here
        if not chat:
            raise ToolError("name the chat too: target")
        wanted = {f"{channel}/{account}:{chat}"} | ({f"{channel}:{chat}"} if account == "default" else set())
        house, tools = self._rooms.config.settings.tools, self._stage.agent.settings.tools
        is_own = (
            tools is not None and "targets" in tools.message.model_fields_set
        )  # an empty list names nobody
        listed = tools.message.targets if tools is not None and is_own else house.message.targets
        if not wanted.intersection(listed):
            raise ToolError(
                "this agent may not write to {target}: tools.message.targets does not name it",
                target=f"{channel}:{chat}",
            )
        return Address(channel, chat, account)

    def answered(self, where: Address | None = None) -> str:
        """Id of the message that this turn answers, when it stands there; else empty."""
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
        """Say something, with files of the workspace; answers with the message ids.

        :raises ToolError: it cannot be said, in words for the model.
        """
        address = where or self._inbound.address
        channel = self._channel(address)
        self._count += 1
        key = self._key if self._count == 1 else f"{self._key}.{self._count}"
        files, refused = await carried_out(
            paths, self._stage.fence, self._rooms.config.home / OUTGOING, key, channel.limits.media_out_bytes
        )
        if refused:
            raise ToolError("{why}", why="; ".join(refused))
        answers = self.answered(address)
        outbound = Outbound(
            key,
            address,
            self._masked(text),
            reply_to=reply_to,
            attachments=files,
            voice=voice,
            answers=answers,
        )
        rooms = self._rooms
        let_out = await filtered(outbound, "outbound", rooms.kit.filters, rooms.yard, rooms.complain)
        if let_out is None:
            return ()
        receipt: Receipt = await _told(rooms.deliver(let_out))
        return receipt.message_ids

    async def edit(self, message_id: str, text: str, where: Address | None = None) -> None:
        """Rewrite one of our messages."""
        address = where or self._inbound.address
        await _told(self._able(address, "edit").edit(address, message_id, self._masked(text)))

    async def delete(self, message_id: str, where: Address | None = None) -> None:
        """Take one of our messages back."""
        address = where or self._inbound.address
        await _told(self._able(address, "delete").delete(address, message_id))

    async def react(
        self, emoji: str, message_id: str = "", remove: bool = False, where: Address | None = None
    ) -> None:
        """Put our reaction on a message (the one that is answered, when none is named), or take it off."""
        address = where or self._inbound.address
        message_id = message_id or self.answered(address)
        if not message_id:
            raise ToolError("name the message too: message_id")
        await _told(self._able(address, "react").react(address, message_id, emoji, remove))

    async def poll(
        self, question: str, options: Sequence[str], where: Address | None = None
    ) -> tuple[str, ...]:
        """Ask everybody in the chat."""
        address = where or self._inbound.address
        asked, choices = self._masked(question), tuple(map(self._masked, options))
        receipt: Receipt = await _told(self._able(address, "poll").poll(address, asked, choices))
        return receipt.message_ids

    def _masked(self, text: str) -> str:
        """Without the secrets of this house: a chat is no place for them, whoever asks."""
        return self._rooms.redact.said.masked(text)

    def _names(self) -> set[str]:
        return {brought.thing.name for brought in self._rooms.kit.channels.values()}

    def _channel(self, address: Address) -> Channel:
        channel = self._rooms.kit.channel(address.channel, address.account)
        if channel is None:
            raise ToolError("there is no channel {name}", name=f"{address.channel}/{address.account}")
        return channel

    def _able(self, address: Address, talent: str) -> Any:
        channel = self._channel(address)
        if not hasattr(channel, talent):
            raise ToolError("channel {name} cannot do that: {action}", name=address.channel, action=talent)
        return channel


async def _told(asked: Awaitable[Any]) -> Any:
    """What the service says; its refusal in words for the model."""
    try:
        return await asked
    except (ToolError, TimeoutError):
        raise
    except DeliveryError as why:
        raise ToolError("the chat service did not take it: {why}", why=why) from why
    except Exception as why:
        raise ToolError("the chat service failed: {why}", why=name_of(why)) from why
