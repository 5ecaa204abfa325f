"""The Telegram channel: one bot account."""

import asyncio
import contextlib
import logging
import mimetypes
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from claw import (
    Address,
    Attachment,
    ChannelLimits,
    ChannelState,
    DeliveryError,
    Finding,
    Inbound,
    Inbox,
    Outbound,
    Receipt,
    t,
)
from claw_channel_sdk import EditStream, SentSearch, StreamingReply, account_fact, delete_surplus

from claw_telegram.api import QUIET, BotApi, TelegramError
from claw_telegram.call_budget import is_group
from claw_telegram.connection import AccountConnection
from claw_telegram.drafting import DraftStream, draft_id
from claw_telegram.inbound import ALLOWED_UPDATES, Json, TelegramBot, bot_of
from claw_telegram.lost_messages import find_sent
from claw_telegram.menu import ChatMenu, menu_of
from claw_telegram.outgoing_message import OutgoingMessage, chat_id, compose, corrected, media_method
from claw_telegram.pacer import Pacer
from claw_telegram.poller import Poller, PollTimings
from claw_telegram.settings import Account
from claw_telegram.split import LIMIT, split
from claw_telegram.webhook import CONNECTIONS, Receiver

if TYPE_CHECKING:
    import httpx2

_log = logging.getLogger(__name__)

CAPABILITIES = frozenset(
    {"threads", "reactions", "edit", "delete", "polls", "buttons", "media", "typing", "streaming"}
)
PRIVATE_EDIT_SECONDS, GROUP_EDIT_SECONDS = 1.0, 3.0
"""A group takes 20 messages a minute: https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this."""
_FORM_ATTEMPTS = 4
_GENERAL_TOPIC = 1  # the General topic: sends take no thread id, sendChatAction wants this one


class TelegramChannel:
    """The channel of one bot account.

    :param http: ``config.http``.
    :param receiver: receives the webhook calls, in webhook mode.
    """

    name = "telegram"
    capabilities = CAPABILITIES
    limits = ChannelLimits(
        LIMIT,
        utf16=True,
        media_in_bytes=20 << 20,
        media_out_bytes=50 << 20,
        edit_seconds=PRIVATE_EDIT_SECONDS,
    )

    def __init__(
        self,
        account: Account,
        http: "Callable[..., httpx2.AsyncClient]",
        *,
        receiver: Receiver | None = None,
        pace: PollTimings | None = None,
        chat_menu: ChatMenu = tuple,
    ) -> None:
        self.account, self._chat_menu = account.name, chat_menu
        self._account, self._http, self._receiver = account, http, receiver
        self.pace = pace or PollTimings(poll=account.settings.poll_seconds)
        self._connection, self._pacer = AccountConnection(account, self._log_name), Pacer()
        self._migrated, self._forums = dict[str, str](), set[str]()
        self._shared_api: BotApi | None = None  # rebuilt when its client changes
        QUIET.hide(account.token)

    @property
    def state(self) -> ChannelState:
        """The connection state."""
        return self._connection.state

    async def diagnose(self) -> Sequence[Finding]:
        """Return what Telegram reports about this bot; change nothing."""
        from claw_telegram.diagnosis import diagnose

        return await diagnose(self._account, self._api())

    async def facts(self) -> Sequence[str]:
        """Return the bot's name, how it receives, and the groups that it answers."""
        settings, bot = self._account.settings, bot_of(await self._api().call("getMe"))
        return [account_fact(f"@{bot.username}", settings.mode, settings)]

    @property
    def _log_name(self) -> str:
        return self.name if self.account == "default" else f"{self.name}/{self.account}"

    # --- inbound

    async def run(self, inbox: Inbox) -> None:
        """Listen until cancelled. A token that Telegram does not know is tried again, more and more slowly."""
        self._connection.update(state="starting", detail="")
        try:
            async with asyncio.TaskGroup() as tasks:
                bot, commands = await self._identify(), await asyncio.to_thread(self._chat_menu)
                bot = replace(bot, commands=frozenset(name for name, _, _ in commands))
                submit = self._make_submit(inbox, tasks)
                if self._account.settings.commands:
                    tasks.create_task(self._call_quietly("setMyCommands", {"commands": menu_of(commands)}))
                await (self._serve_webhook(bot, submit) if self._receiver else self._poll(bot, submit))
        except ExceptionGroup as refused:  # raise the one reason, not a group of one
            raise refused.exceptions[0] from None
        finally:
            self._connection.update(state="starting", detail=t("stopped"))

    def _make_submit(self, inbox: Inbox, tasks: asyncio.TaskGroup) -> Callable[[Inbound, Json], Any]:
        async def submit(inbound: Inbound, update: Json) -> bool:
            if inbound.around.is_forum:
                self._forums.add(inbound.address.chat)
            if inbound.kind == "migrate":
                self._redirect_chat(inbound.address.chat, inbound.text)
            accepted = await inbox.submit(inbound)
            if accepted and inbound.kind == "button":  # else the button keeps showing progress
                query = {"callback_query_id": update["callback_query"]["id"]}
                tasks.create_task(self._call_quietly("answerCallbackQuery", query))
            return accepted

        return submit

    async def _poll(self, bot: TelegramBot, submit: Callable[[Inbound, Json], Any]) -> None:
        poller = Poller(
            lambda: self._api(apart=True),
            bot,
            submit=submit,
            on_poll=self._connection.received,
            on_failure=self._connection.failed,
            pace=self.pace,
        )
        await poller.run()

    async def _serve_webhook(self, bot: TelegramBot, submit: Callable[[Inbound, Json], Any]) -> None:
        """Run webhook mode: register the webhook at Telegram and accept the gateway's calls."""
        assert self._receiver is not None

        async def receive(inbound: Inbound, update: Json) -> bool:
            self._connection.received()
            return bool(await submit(inbound, update))

        self._receiver.open(bot, receive, album_seconds=self.pace.album)
        try:
            if self._account.settings.webhook_url:
                await self._connection.call_until_success(
                    self._api,
                    self.pace,
                    "setWebhook",
                    {
                        "url": self._account.settings.webhook_url,
                        "secret_token": self._account.secret,
                        "allowed_updates": list(ALLOWED_UPDATES),
                        "max_connections": CONNECTIONS,
                    },
                )
            self._connection.received()
            await asyncio.Event().wait()
        finally:
            await self._receiver.close()

    async def _identify(self) -> TelegramBot:
        me = await self._connection.call_until_success(self._api, self.pace, "getMe")
        bot = bot_of(me, self.account)
        open_groups = [id for id, group in self._account.settings.groups.items() if not group.require_mention]
        if open_groups and not bot.hears_all:
            self._connection.note = t(
                "privacy mode is on, so in groups the bot receives only commands, mentions and replies: "
                "turn it off with @BotFather (/setprivacy), then add the bot to the group again"
            )
        return bot

    # --- outbound

    def split(self, text: str) -> tuple[str, ...]:
        """Cut a text into pieces that fit into one message each; code fences and tags stay whole."""
        return split(text)

    async def wait_for_rate_limit(self, address: Address) -> None:
        """Wait until the limits of the bot and of this chat allow a message there."""
        await self._pacer.wait_for_post(str(self._chat(address)))

    async def send(self, outbound: Outbound) -> Receipt:
        """Send a text or a file, or finish the messages that an interrupted stream left.

        :raises DeliveryError: Telegram refused the message or could not be reached.
        """
        if outbound.replaces and not outbound.attachments:
            return await self._finish_stream(outbound)
        ids: list[str] = []
        for attachment in outbound.attachments:
            carrier = replace(outbound, text="", buttons=()) if ids else outbound
            ids.append(await self._send_file(attachment, carrier))
        outgoing = self._to_message(outbound)
        if outbound.text and (not outbound.attachments or not outgoing.caption):
            ids += await self._deliver(outgoing)
        return Receipt(tuple(ids))

    def stream(self, outbound: Outbound) -> StreamingReply:
        """Return a writer that edits messages in place, or shows drafts in a direct chat where the config
        asks for it."""

        async def post(piece: Outbound) -> str:
            return (await self._deliver(self._to_message(piece)))[0]

        async def edit(id: str, text: str, last: Outbound | None) -> None:
            await self._deliver(
                replace(self._to_message(outbound), text=text, edits=id, buttons=last.buttons if last else ())
            )

        async def delete(id: str) -> None:
            await self.delete(outbound.address, id)

        def has_room() -> bool:
            return self._pacer.has_room(str(self._chat(outbound.address)), "post")

        group = is_group(outbound.address.chat)
        pause = GROUP_EDIT_SECONDS if group else PRIVATE_EDIT_SECONDS
        writer = EditStream(
            outbound,
            pieces=split,
            post=post,
            edit=edit,
            delete=delete,
            pause_seconds=pause,
            has_room=has_room,
        )
        if group or not self._account.settings.drafts:
            return writer

        async def draw(text: str) -> None:
            outgoing = replace(self._to_message(outbound), reply_to=None, draft=draft_id(outbound.key))
            for last in split(text)[-1:] if has_room() else ():
                await self._deliver(replace(outgoing, text=last))

        return DraftStream(writer, draw, pause_seconds=pause)

    async def edit(self, address: Address, message_id: str, text: str) -> None:
        """Replace the text of one of the bot's messages."""
        await self._deliver(self._to_message(Outbound("", address, text), edits=message_id))

    async def delete(self, address: Address, message_id: str) -> None:
        """Delete one of the bot's messages; do nothing when it is already gone."""
        try:
            where = {"chat_id": self._chat(address), "message_id": int(message_id)}
            await self._api().call("deleteMessage", where)
        except TelegramError as why:
            if not why.says("message to delete not found"):
                raise

    async def find_sent(self, search: SentSearch) -> tuple[str, ...]:
        """Return the bot's own messages in a range of ids; see :func:`claw_telegram.lost_messages.find_sent`."""
        chat = self._chat(search.address)
        return await find_sent(self._api(), self._account.token, chat, search, self._pacer)

    async def react(self, address: Address, message_id: str, emoji: str, remove: bool = False) -> None:
        """Add the bot's reaction to a message or remove it: one of a fixed set of emoji, one per bot."""
        reaction = [] if remove else [{"type": "emoji", "emoji": emoji.replace("\ufe0f", "")}]
        where = {"chat_id": self._chat(address), "message_id": int(message_id)}
        await self._api().call("setMessageReaction", {**where, "reaction": reaction})

    async def poll(self, address: Address, question: str, options: tuple[str, ...]) -> Receipt:
        """Send a poll to the chat, with two to twelve options."""
        await self.wait_for_rate_limit(address)
        params = {**self._to_message(Outbound("", address, "")).place, "question": question}
        choices = [{"text": option} for option in options]
        sent = await self._api().call("sendPoll", {**params, "options": choices})
        return Receipt((str(sent["message_id"]),))

    async def typing(self, address: Address, message_id: str = "") -> None:
        """Show the typing indicator for five seconds; skipped when the limits of calls are nearly used up."""
        if not self._pacer.has_room(str(self._chat(address)), "sign"):
            return
        general = _GENERAL_TOPIC if address.chat in self._forums else None
        thread = int(address.thread) if address.thread else general
        where = {"chat_id": self._chat(address), "message_thread_id": thread}
        await self._call_quietly("sendChatAction", {**where, "action": "typing"})

    async def fetch(self, inbound: Inbound, attachment: Attachment) -> AsyncIterator[bytes]:
        """Yield the bytes of a file, up to 20 MB: https://core.telegram.org/bots/api#getfile.

        :raises DeliveryError: the file is too large or cannot be downloaded.
        """
        most = self.limits.media_in_bytes
        if (attachment.size_bytes or 0) > most:
            problem = "Telegram does not give bots files over {size} MB"
            raise DeliveryError(problem, permanent=True, size=most >> 20)
        api = self._api()
        file = await api.call("getFile", {"file_id": attachment.key})
        async with contextlib.aclosing(api.download(str(file["file_path"]))) as pieces:
            async for piece in pieces:
                yield piece

    def _to_message(self, outbound: Outbound, edits: str | None = None) -> OutgoingMessage:
        outgoing = compose(outbound, preview=self._account.settings.link_preview)
        return replace(outgoing, chat=self._migrated.get(outgoing.chat, outgoing.chat), edits=edits)

    async def _deliver(self, outgoing: OutgoingMessage) -> list[str]:
        """Send one message; if Telegram refuses its form, retry in another form. Return the ids of the
        resulting messages."""
        for _ in range(_FORM_ATTEMPTS):
            try:
                sent = await self._api().call(outgoing.method, outgoing.params)
            except TelegramError as why:
                if outgoing.edits and why.says("message is not modified"):
                    return [outgoing.edits]
                if why.says("message is too long") and (halves := split(outgoing.text, LIMIT // 2))[1:]:
                    return await self._deliver_parts(outgoing, halves)
                other = corrected(outgoing, why)
                if other is None:
                    raise
                self._redirect_chat(outgoing.chat, other.chat)
                outgoing = other
            else:
                return [str(sent["message_id"]) if isinstance(sent, dict) else str(outgoing.edits)]
        raise DeliveryError("Telegram refused every form of the message", permanent=True)

    async def _deliver_parts(self, outgoing: OutgoingMessage, parts: tuple[str, ...]) -> list[str]:
        """Send a text that Telegram found too long in parts; the first part replaces the edited message."""
        ids = await self._deliver(replace(outgoing, text=parts[0], buttons=()))
        for part in parts[1:]:
            last = outgoing.buttons if part is parts[-1] else ()
            ids += await self._deliver(replace(outgoing, text=part, buttons=last, edits=None, reply_to=None))
        return ids

    def _redirect_chat(self, chat: str, now: str) -> None:
        """Redirect everything meant for a group that became a supergroup to its new id."""
        if now != self._migrated.get(chat, chat):
            detail = t("the group {old} became {new}: list it under its new id", old=chat, new=now)
            _log.warning("%s: %s", self._log_name, detail)
            self._migrated[chat] = now

    async def _finish_stream(self, outbound: Outbound) -> Receipt:
        """Put the text into the first message of a stream and delete the others; all of it may be repeated."""
        first, *others = outbound.replaces
        try:
            ids = await self._deliver(self._to_message(outbound, edits=first))
        except TelegramError as why:
            if not why.permanent:
                raise
            ids = await self._deliver(self._to_message(outbound))
            others.append(first)
        for id in others:
            await delete_surplus(self.delete(outbound.address, id))
        return Receipt(tuple(ids))

    async def _send_file(self, attachment: Attachment, outbound: Outbound) -> str:
        path = Path(attachment.path)
        size = (await asyncio.to_thread(path.stat)).st_size
        if size > self.limits.media_out_bytes:
            most = self.limits.media_out_bytes >> 20
            raise DeliveryError("Telegram does not accept files over {size} MB", permanent=True, size=most)
        mime = attachment.mime or mimetypes.guess_type(path.name)[0] or ""
        outgoing = self._to_message(outbound)
        way = media_method(attachment.kind, mime, size, voice=outbound.voice)
        for _ in range(_FORM_ATTEMPTS):
            try:
                return await self._upload(way, outgoing, attachment.name or path.name, path, mime)
            except TelegramError as why:
                if way[0] == "sendPhoto" and why.says("photo_", "image_process_failed"):
                    way = media_method("file", "", size, voice=False)
                elif (other := corrected(outgoing, why)) is not None:
                    self._redirect_chat(outgoing.chat, other.chat)
                    outgoing = other
                else:
                    raise
        raise DeliveryError("Telegram refused every form of the message", permanent=True)

    async def _upload(
        self, way: tuple[str, str], outgoing: OutgoingMessage, name: str, path: Path, mime: str
    ) -> str:
        method, field = way
        params = {**outgoing.place, **outgoing.caption}
        with await asyncio.to_thread(path.open, "rb") as data:
            sent = await self._api().upload(method, params, field, name, data, mime)
        return str(sent["message_id"])

    async def _call_quietly(self, method: str, params: dict[str, Any]) -> None:
        """Call a method and log its failure only at debug level."""
        try:
            await self._api().call(method, params)
        except DeliveryError as why:
            _log.debug("%s", why)

    def _chat(self, address: Address) -> int | str:
        return chat_id(self._migrated.get(address.chat, address.chat))

    def _api(self, *, apart: bool = False) -> BotApi:
        base = self._account.settings.api_base
        if apart:
            return BotApi(self._http(base, apart=True), self._account.token, base)
        client = self._http(base)
        if self._shared_api is None or not self._shared_api.goes_over(client):
            self._shared_api = BotApi(client, self._account.token, base, self._pacer)
        return self._shared_api
