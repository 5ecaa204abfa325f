"""The Discord channel: one bot account."""

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from claw import (
    Address,
    Attachment,
    ChannelLimits,
    ChannelState,
    ClawError,
    DeliveryError,
    Finding,
    Inbound,
    Inbox,
    Outbound,
    Receipt,
    Secret,
    t,
)
from claw.runtime import make_folder, replace_file
from claw_channel_sdk import EditStream, SentSearch, StreamingReply, account_fact, delete_surplus, split_text

from claw_discord import outbound as body
from claw_discord.client import Connection, ConnectionTimings, label
from claw_discord.inbound import files_of
from claw_discord.inbox import ChatMenu, DispatchReader
from claw_discord.lost_messages import find_sent
from claw_discord.outbound import DiscordError
from claw_discord.read_positions import ReadPositions
from claw_discord.rendering import render
from claw_discord.settings import DiscordSettings, token_key

if TYPE_CHECKING:
    import httpx2

_log = logging.getLogger(__name__)

_MESSAGES, _MESSAGE = "/channels/{channel_id}/messages", "/channels/{channel_id}/messages/{message_id}"
_CDN = frozenset({"https://cdn.discordapp.com", "https://media.discordapp.net"})
_NOTE_SECONDS = 30.0
_TITLES = 200
_DELETED = 1000


class DiscordChannel:
    """The channel of one bot account.

    :param http: makes a client for an address; used to download attachments.
    :param notes: the file that stores the last received message id of each chat.
    :param pace: time limits.
    :param chat_menu: returns name, summary and arguments of each chat command; it blocks.
    """

    name = "discord"
    capabilities = frozenset(
        [
            "buttons",
            "delete",
            "edit",
            "idempotent",
            "media",
            "polls",
            "reactions",
            "streaming",
            "threads",
            "typing",
        ]
    )

    def __init__(
        self,
        account: str,
        settings: DiscordSettings,
        token: Secret,
        *,
        http: "Callable[[str], httpx2.AsyncClient]",
        notes: Path,
        pace: ConnectionTimings = ConnectionTimings(),  # noqa: B008 - frozen
        chat_menu: ChatMenu = tuple,
    ) -> None:
        self.account = account
        self.limits = ChannelLimits(
            text_chars=body.TEXT_CHARS,
            media_in_bytes=settings.media_max_mb << 20,
            media_out_bytes=body.FILE_BYTES,
            edit_seconds=1.2,
            repeat_seconds=body.NONCE_SECONDS,
        )
        self._settings, self._http, self._notes, self._pace = settings, http, notes, pace
        self._token = token.reveal
        self._seen = ReadPositions(_read_notes(notes))
        self._note, self._written_note, self._writing = 0, 0, threading.Lock()
        self._connection = Connection(account, settings, token.reveal, self._receive, pace)
        self._inbox = DispatchReader(account, settings, self._connection.call, self._seen, pace, chat_menu)
        self._direct: dict[str, str] = {}
        self._titles: dict[str, str] = {}
        self._deleted: dict[tuple[str, str], None] = {}

    # --- inbound

    @property
    def state(self) -> ChannelState:
        """The connection state."""
        return self._connection.state

    async def diagnose(self) -> Sequence[Finding]:
        """Return what Discord reports about this bot; change nothing."""
        from claw_discord.diagnosis import diagnose

        http = self._http(self._settings.api_base)
        return await diagnose(self._settings, token_key(self.account), self._token(), http)

    async def facts(self) -> Sequence[str]:
        """Return the bot's name and the channels that it answers; events come by the gateway connection."""
        from claw_discord.diagnosis import bot_name

        name = await bot_name(self._settings, self._token(), self._http(self._settings.api_base))
        return [account_fact(name, "websocket", self._settings)]

    async def run(self, inbox: Inbox) -> None:
        """Listen until cancelled; messages missed in between are fetched at the next start."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._inbox.run(inbox))
                tasks.create_task(self._connection.run())
                tasks.create_task(self._keep_notes())
        finally:
            if noted := self._encode_notes():
                self._write_notes(self._next_note(), noted)

    def _receive(self, frame: dict[str, Any]) -> None:
        data = frame.get("d") or {}
        if self._settings.auto_thread and frame.get("t") == "MESSAGE_CREATE":
            self._titles[str(data.get("id"))] = str(data.get("content") or "")[:500]
            while len(self._titles) > _TITLES:
                del self._titles[next(iter(self._titles))]
        self._inbox.receive(frame)

    async def _keep_notes(self) -> None:
        since = 0.0
        while True:
            await asyncio.sleep(self._pace.note)
            since += self._pace.note
            if (self._seen.pressing or since >= _NOTE_SECONDS) and (noted := self._encode_notes()):
                self._seen.pressing, since = False, 0.0
                await asyncio.to_thread(self._write_notes, self._next_note(), noted)

    def _next_note(self) -> int:
        self._note += 1
        return self._note

    def _encode_notes(self) -> bytes:
        """Return the positions to store for the next start; an outdated file only causes more to be fetched."""
        if not self._seen.alive:
            return b""
        if self.state.last_frame_at and self._inbox.idle():
            self._seen.alive = self.state.last_frame_at
        return json.dumps(self._seen.noted()).encode()

    def _write_notes(self, number: int, noted: bytes) -> None:
        """Write the positions, unless later ones are written: a thread may be late, also after the end of the channel."""
        with self._writing:
            if number < self._written_note:
                return
            self._written_note = number
            try:
                make_folder(self._notes.parent)
                replace_file(self._notes, noted)
            except (OSError, ClawError) as why:
                message = t("{file} cannot be written: {why}", file=self._notes.name, why=why)
                _log.warning("%s: %s", label(self.account), message)

    async def fetch(self, inbound: Inbound, attachment: Attachment) -> AsyncIterator[bytes]:
        """Yield the bytes of an attachment.

        :raises DeliveryError: too large, gone, not on Discord's file host, or the connection broke.
        """
        import httpx2

        most = self.limits.media_in_bytes
        if (attachment.size_bytes or 0) > most:
            raise _too_large(attachment.name, most)
        parts = urlsplit(await self._url_of(inbound, attachment))
        origin = f"{parts.scheme}://{parts.netloc}"
        api = urlsplit(self._settings.api_base)
        if origin not in _CDN and origin != f"{api.scheme}://{api.netloc}":
            raise DeliveryError(
                "{origin} is no place where Discord keeps files", permanent=True, origin=origin
            )
        count, place = 0, parts._replace(scheme="", netloc="").geturl()
        try:
            async with self._http(origin).stream("GET", place) as answer:
                if answer.status_code != 200:
                    raise body.refusal(answer.status_code, 0, attachment.name)
                async for piece in answer.aiter_bytes():
                    count += len(piece)
                    if count > most:
                        raise _too_large(attachment.name, most)
                    yield piece
        except httpx2.HTTPError as broken:  # its own text may contain the signed address
            raise DeliveryError("Discord did not answer: {why}", why=type(broken).__name__) from None

    async def _url_of(self, inbound: Inbound, attachment: Attachment) -> str:
        """Return the current URL of a file: URLs are signed for a day, so the message is read again for a fresh one."""
        kind, _, name = attachment.key.partition(":")
        if kind == "sticker":
            host = "https://media.discordapp.net" if name.endswith(".gif") else "https://cdn.discordapp.com"
            return f"{host}/stickers/{name}"
        address = inbound.address
        starter = address.thread == inbound.message_id  # the thread under it is opened only by the answer
        channel = address.chat if starter else address.thread or address.chat
        message = await self._connection.call(
            "GET", _MESSAGE, channel_id=channel, message_id=inbound.message_id
        )
        url = files_of(message).get(attachment.key)
        if url is None:
            raise DeliveryError(
                "the message no longer has the file {name}", permanent=True, name=attachment.name
            )
        return url

    # --- outbound

    def split(self, text: str) -> tuple[str, ...]:
        """Split a text into messages in Discord's Markdown."""
        return tuple(split_text(render(text), self.limits))

    async def send(self, outbound: Outbound) -> Receipt:
        """Send one message, or finish the messages that an interrupted stream left.

        :raises DeliveryError: as in the channel contract; a repeat with the same key within minutes shows one message.
        """
        channel = await self._channel_of(outbound.address)
        if outbound.replaces and not outbound.attachments:
            return Receipt((await self._replace(channel, outbound),))
        files = self._files(outbound.attachments)
        reply_to = outbound.reply_to if outbound.reply_to != outbound.address.thread else None
        new = body.message(outbound, reply_to=reply_to)
        return Receipt((await self._post(channel, outbound.address, new, files),))

    def stream(self, outbound: Outbound) -> StreamingReply:
        """Return a writer that edits messages in place."""

        async def post(piece: Outbound) -> str:
            return (await self.send(piece)).message_ids[0]

        async def rewrite(id: str, text: str, last: Outbound | None) -> None:
            channel = await self._channel_of(outbound.address)
            await self._edit(channel, id, body.edited(text, last.buttons if last and last.buttons else None))

        async def take_back(id: str) -> None:
            await self.delete(outbound.address, id)

        return EditStream(
            outbound,
            pieces=self.split,
            post=post,
            edit=rewrite,
            delete=take_back,
            pause_seconds=self.limits.edit_seconds,
        )

    async def edit(self, address: Address, message_id: str, text: str) -> None:
        """Replace the text of one of the bot's messages; its buttons go, as on the other services.

        :raises DeliveryError: the message is not the bot's, is gone, or the text is too long.
        """
        if len(text) > body.TEXT_CHARS:
            problem = "a Discord message holds {most} characters, and this text has {count}"
            raise DeliveryError(problem, permanent=True, most=body.TEXT_CHARS, count=len(text))
        await self._edit(await self._channel_of(address), message_id, body.edited(text, ()))

    async def delete(self, address: Address, message_id: str) -> None:
        """Delete one of the bot's messages; do nothing when it is already gone.

        A message that was deleted is not asked for again: who deletes several, and repeats that after a rate limit, gets
        further each time.
        """
        channel = await self._channel_of(address)
        if (channel, message_id) in self._deleted:
            return
        try:
            await self._connection.call("DELETE", _MESSAGE, channel_id=channel, message_id=message_id)
        except DiscordError as why:
            if why.code != body.UNKNOWN_MESSAGE:
                raise
        self._deleted[channel, message_id] = None
        while len(self._deleted) > _DELETED:
            del self._deleted[next(iter(self._deleted))]

    async def find_sent(self, search: SentSearch) -> tuple[str, ...]:
        """Return the bot's own messages in a range; see :func:`claw_discord.lost_messages.find_sent`."""
        return await find_sent(self._connection, await self._channel_of(search.address), search)

    async def react(self, address: Address, message_id: str, emoji: str, remove: bool = False) -> None:
        """Add the bot's reaction to a message or remove it; a custom server emoji is ``name:id``."""
        await self._connection.call(
            "DELETE" if remove else "PUT",
            _MESSAGE + "/reactions/{emoji}/@me",
            channel_id=await self._channel_of(address, message_id),
            message_id=message_id,
            emoji=body.emoji(emoji),
        )

    async def poll(self, address: Address, question: str, options: tuple[str, ...]) -> Receipt:
        """Send a poll of one day to the chat; one answer per person."""
        made = body.poll(question, options)
        return Receipt((await self._post(await self._channel_of(address), address, made, []),))

    async def typing(self, address: Address, message_id: str = "") -> None:
        """Show the typing indicator for ten seconds; a failure is ignored."""
        try:
            channel = await self._channel_of(address, message_id)
            await self._connection.call("POST", "/channels/{channel_id}/typing", channel_id=channel)
        except DeliveryError as why:
            _log.debug("%s: %s", label(self.account), why)

    async def settled(self, address: Address, message_id: str = "") -> None:
        """End the "thinking" state of an application command; the typing indicator ends by itself."""
        self._inbox.interactions.settled(message_id)

    # --- addresses

    async def _channel_of(self, address: Address, message_id: str = "") -> str:
        """Return the channel id for REST: of the thread, the channel, or the direct channel with ``user:ID``.

        :param message_id: the message concerned. A thread that an answer opens under it does not contain it.
        """
        if address.thread and address.thread != message_id:
            return address.thread
        kind, _, id = address.chat.rpartition(":")
        if kind != "user":
            return id
        if id not in self._direct:
            opened = await self._connection.call("POST", "/users/@me/channels", json={"recipient_id": id})
            self._direct[id] = str(opened["id"])
        return self._direct[id]

    async def _post(self, channel: str, address: Address, new: Any, files: list[tuple[str, str]]) -> str:
        async def once() -> str:
            made = await self._connection.call("POST", _MESSAGES, json=new, files=files, channel_id=channel)
            if not files and str(made.get("content") or "").strip() != str(new.get("content") or "").strip():
                # A nonce that an interrupted stream has used: Discord answers with that earlier message.
                await self._edit(channel, str(made["id"]), body.edited(new["content"]))
            return str(made["id"])

        try:
            return await once()
        except DiscordError as why:
            may_open = self._settings.auto_thread and address.thread is not None
            if why.code != body.UNKNOWN_CHANNEL or not may_open:
                raise
        await self._open_thread(address)
        return await once()

    async def _open_thread(self, address: Address) -> None:
        """Open the thread for the answer to a mention: it gets the id of its starter message."""
        starter = address.thread or ""
        try:
            await self._connection.call(
                "POST",
                _MESSAGE + "/threads",
                json=body.thread(self._titles.get(starter, "")),
                channel_id=address.chat,
                message_id=starter,
            )
        except DiscordError as why:
            if why.code != body.THREAD_IS_THERE:
                raise

    async def _edit(self, channel: str, id: str, changed: dict[str, Any]) -> None:
        await self._connection.call("PATCH", _MESSAGE, json=changed, channel_id=channel, message_id=id)

    async def _replace(self, channel: str, outbound: Outbound) -> str:
        """Put the whole text into the first message of a stream and delete the others."""
        first, *others = outbound.replaces
        new = body.message(outbound)  # checks the text
        try:
            await self._edit(channel, first, body.edited(outbound.text, outbound.buttons))
        except DiscordError as why:
            if why.code != body.UNKNOWN_MESSAGE:
                raise
            first = await self._post(channel, outbound.address, new, [])
        for id in others:
            await delete_surplus(self.delete(outbound.address, id))
        return first

    def _files(self, attachments: tuple[Attachment, ...]) -> list[tuple[str, str]]:
        """Return the path and name of each file that can be sent.

        :raises DeliveryError: permanent; one is missing or too large.
        """
        found = []
        for one in attachments:
            path = Path(one.path)
            if not one.path or not path.is_file():
                raise DeliveryError("the file {name} is not there", permanent=True, name=one.name or one.path)
            if path.stat().st_size > self.limits.media_out_bytes:
                raise _too_large(one.name or path.name, self.limits.media_out_bytes)
            found.append((one.path, one.name or path.name))
        return found


def _too_large(name: str, most: int) -> DeliveryError:
    problem = "the file {name} is larger than {most} MB"
    return DeliveryError(problem, permanent=True, name=name, most=most >> 20)


def _read_notes(file: Path) -> dict[str, Any]:
    try:
        noted = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return noted if isinstance(noted, dict) else {}
