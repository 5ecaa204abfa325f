"""The Feishu channel: one account, by long connection or webhook."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from claw import (
    Address,
    Attachment,
    ChannelLimits,
    ChannelState,
    ClawError,
    ConfigError,
    DeliveryError,
    Finding,
    Inbound,
    Inbox,
    Outbound,
    Receipt,
    t,
)
from claw_channel_sdk import StreamingReply, WebRoute, account_fact

from claw_feishu import media
from claw_feishu.cards import Card, CardStream
from claw_feishu.directory import Directory
from claw_feishu.inbound import CHANNEL, FeishuBot, to_inbound
from claw_feishu.longconn import ConnectionEvents, LongConnection, LongConnectionTimings
from claw_feishu.outbound import ONCE_SECONDS, Form, card_pieces, forms, once, post_form, receiver
from claw_feishu.reactions import Reactions
from claw_feishu.richtext import harmless
from claw_feishu.settings import FeishuSettings, secret
from claw_feishu.tenant import RECALLED, FeishuError, Tenant
from claw_feishu.webhook import WebhookCredentials, route

if TYPE_CHECKING:
    import httpx2

MESSAGES = "/open-apis/im/v1/messages"
_log = logging.getLogger(__name__)


class FeishuChannel(ConnectionEvents):
    """The channel of one Feishu or Lark account.

    :param http: makes the HTTP client for the platform's address.
    :ivar now: clock, seconds since 1970; ``pace``: time limits.
    """

    name = CHANNEL
    capabilities = frozenset(
        {"threads", "reactions", "edit", "delete", "buttons", "media"}
        | {"typing", "streaming", "idempotent", "names"}
    )
    limits = ChannelLimits(
        text_chars=4000,
        media_in_bytes=media.FETCH_BYTES,
        media_out_bytes=media.FILE_BYTES,
        edit_seconds=0.3,
        repeat_seconds=ONCE_SECONDS,
    )

    def __init__(
        self,
        settings: FeishuSettings,
        http: "Callable[[], httpx2.AsyncClient]",
        account: str = "default",
        *,
        now: Callable[[], float] = time.time,
        pace: LongConnectionTimings | None = None,
    ) -> None:
        self.settings, self.account, self.now = settings, account, now
        self.pace = pace or LongConnectionTimings()
        self.tenant = Tenant(http, settings.app_id, self._secret("app_secret", "appSecret"), time.monotonic)
        self.bot = FeishuBot("", settings.app_id, account)
        self.directory = Directory(self.tenant)
        self._reactions = Reactions(self.tenant, settings.app_id, settings.typing_reaction)
        self._state = ChannelState()
        self._inbox: Inbox | None = None
        self._chat_locks: dict[str, tuple[asyncio.Lock, int]] = {}

    @property
    def state(self) -> ChannelState:
        """The connection state."""
        return self._state

    # --- inbound

    async def run(self, inbox: Inbox) -> None:
        """Fetch the bot's identity, then receive until cancelled."""
        self._state = replace(self._state, state="starting", detail="")
        try:
            await self._identify()
            self._inbox = inbox
            if self.settings.mode == "webhook":
                self.up()
                await asyncio.Event().wait()
            connection = LongConnection(self.tenant, self.receive, self, self.pace)
            await connection.run(self.settings.base_url)
        finally:
            self._inbox = None

    async def _identify(self) -> None:
        """Fetch the bot's open id: without it, mentions in group messages cannot be recognised."""
        pause = self.pace.pause_seconds
        while True:
            try:
                self.bot = replace(self.bot, open_id=await self.who_we_are())
            except ClawError as why:
                refused = isinstance(why, FeishuError) and why.permanent and not why.is_page
                fatal = refused or isinstance(why, ConfigError)
                self.down(_advice(why), fatal=fatal)
                await asyncio.sleep(self.pace.rest_seconds if fatal else pause)
                pause = min(pause * 2, self.pace.most_seconds)
            else:
                return

    async def who_we_are(self) -> str:
        """Return the bot's open id.

        :raises FeishuError: the credentials are wrong, the app has no bot, or the service cannot be reached.
        """
        bot = (await self.tenant.call("GET", "/open-apis/bot/v3/info")).get("bot")
        if not isinstance(bot, Mapping) or not bot.get("open_id"):
            raise FeishuError(
                "the app has no bot", permanent=True, fix="Add the bot feature in the developer console"
            )
        return str(bot["open_id"])

    async def receive(self, event: dict[str, Any]) -> dict[str, Any] | None:
        """Handle one event; return the answer for the service, or None if it was not accepted and may be pushed again.

        Events of one chat are handled in order of arrival.
        """
        inbox = self._inbox
        if inbox is None:
            return None
        inbound = to_inbound(event, self.bot)
        if inbound is None:
            return {}
        async with self._chat_lock(inbound.address.chat):
            try:
                detailed: Inbound | None = inbound
                if self.settings.resolve_names or inbound.kind in ("reaction", "button"):
                    detailed = await self.directory.with_details(inbound, self.bot)
                accepted = detailed is None or await inbox.submit(detailed)
            except Exception as why:  # noqa: BLE001 - one bad message must not end the connection
                _log.exception("feishu: an event was not taken")
                self._state = replace(self._state, last_error=str(why))
                return None
        if not accepted:
            return None
        return {"toast": {"type": "info", "content": t("Received")}} if inbound.kind == "button" else {}

    @asynccontextmanager
    async def _chat_lock(self, chat: str) -> AsyncIterator[None]:
        lock, users = self._chat_locks.get(chat, (asyncio.Lock(), 0))
        self._chat_locks[chat] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._chat_locks[chat]
            if users == 1:
                del self._chat_locks[chat]
            else:
                self._chat_locks[chat] = lock, users - 1

    def webhook(self) -> WebRoute:
        """Return the webhook route of this account."""
        path = self.settings.webhook_path or f"/webhook/{CHANNEL}/{self.account}"
        return route(path, self._webhook_secrets, self._receive_webhook, self._time, self._report_refusal)

    async def _receive_webhook(self, event: dict[str, Any]) -> dict[str, Any] | None:
        self.frame_received()
        self._state = replace(self._state, last_error="")
        return await self.receive(event)

    def _report_refusal(self, fix: str) -> None:
        """Report a refused request that may be the platform's; otherwise nothing would show why no events arrive."""
        if fix != self._state.last_error:
            _log.warning("feishu: %s", fix)
        self._state = replace(self._state, last_error=fix)

    def _time(self) -> float:
        return self.now()

    def _webhook_secrets(self) -> WebhookCredentials:
        try:
            key, token = self._secret("encrypt_key", "encryptKey")(), self._secret("verification_token", "")()
        except ConfigError:
            key = token = ""
        return WebhookCredentials(key, token, self.settings.max_skew_seconds)

    def fetch(self, inbound: Inbound, attachment: Attachment) -> AsyncIterator[bytes]:
        """Return the bytes of an attachment."""
        return media.download(self.tenant, inbound, attachment)

    # --- outbound

    async def send(self, outbound: Outbound) -> Receipt:
        """Send a message in one attempt; a refused card falls back to a post, then to text."""
        ids = [
            await self._post(
                outbound, await media.upload(self.tenant, outbound, attachment), once(outbound.key, at)
            )
            for at, attachment in enumerate(outbound.attachments)
        ]
        if outbound.replaces:
            ids += await self._finish_stream(outbound)
        elif outbound.text or outbound.buttons:
            ids.append(await self._send_text(outbound))
        return Receipt(tuple(ids))

    def stream(self, outbound: Outbound) -> StreamingReply:
        """Return a writer that streams on a card; without cards, the text is sent when complete."""

        async def post(form: Form, uuid: str) -> str:
            return await self._post(outbound, form, uuid)

        async def recall(message_id: str) -> None:
            await self._recall(message_id)

        pace = self.pace.card_seconds
        return CardStream(
            self.tenant, outbound, post=post, send=self._send_whole, recall=recall, pace_seconds=pace
        )

    async def edit(self, address: Address, message_id: str, text: str) -> None:
        """Replace the text of one of the bot's messages: the post, or the card's contents.

        :raises FeishuError: the message is in another chat, or does not exist.
        """
        await self._require_in_chat(address, message_id)
        item = (await self.tenant.call("GET", f"{MESSAGES}/{message_id}"))["data"]["items"][0]
        if item.get("msg_type") == "interactive":
            card = await Card.found(self.tenant, message_id)
            await card.replace(harmless(text))
            return
        form = post_form(harmless(text))
        await self.tenant.call(
            "PUT", f"{MESSAGES}/{message_id}", {"msg_type": form.msg_type, "content": form.content}
        )

    async def delete(self, address: Address, message_id: str) -> None:
        """Recall one of the bot's messages.

        :raises FeishuError: the message is in another chat, or does not exist.
        """
        await self._require_in_chat(address, message_id)
        await self._recall(message_id)

    async def react(self, address: Address, message_id: str, emoji: str, remove: bool = False) -> None:
        """Add the bot's reaction to a message or remove it.

        :raises FeishuError: the message is in another chat, or does not exist.
        """
        await self._require_in_chat(address, message_id)
        await (self._reactions.take_off if remove else self._reactions.put)(message_id, emoji)

    async def typing(self, address: Address, message_id: str = "") -> None:
        """Add a reaction to the message until ``settled``: Feishu has no typing indicator."""
        await self._reactions.begin(message_id)

    async def settled(self, address: Address, message_id: str = "") -> None:
        """Remove the typing reaction."""
        await self._reactions.end(message_id)

    async def remove_left_typing(self, address: Address, message_id: str) -> None:
        """Remove the typing reactions that a process before left at a message."""
        await self._reactions.remove_left(message_id)

    async def _send_whole(self, outbound: Outbound) -> Receipt:
        """Send a streamed answer that cards could not take, split into messages."""
        from claw_channel_sdk import split_text

        ids: list[str] = []
        parts = split_text(outbound.text, self.limits)
        for at, part in enumerate(parts):
            last = at == len(parts) - 1
            piece = replace(
                outbound, key=later_key(outbound.key, at), text=part,
                reply_to=outbound.reply_to if at == 0 else None,
                attachments=outbound.attachments if last else (), buttons=outbound.buttons if last else (),
            )  # fmt: skip
            ids += (await self.send(piece)).message_ids
        return Receipt(tuple(ids))

    async def _send_text(self, outbound: Outbound) -> str:
        mode = "text" if outbound.plain else self.settings.render_mode
        candidates = forms(outbound.text, outbound.buttons, mode)
        for form in candidates[:-1]:
            try:
                return await self._post(outbound, form, once(outbound.key, form.msg_type))
            except FeishuError as why:
                if not why.is_about_form:
                    raise
        return await self._post(outbound, candidates[-1], once(outbound.key, candidates[-1].msg_type))

    async def _post(self, outbound: Outbound, form: Form, uuid: str) -> str:
        """Send one form: as a reply where there is a message to reply to, in its thread, else as a new message."""
        address, answered, answer = outbound.address, outbound.reply_to, None
        if answered not in (None, outbound.answers) and not await self._is_in_chat(address, str(answered)):
            answered = None  # a model may name a message id of another chat
        if answered is None and address.thread:
            answered = outbound.answers or await self.directory.in_thread(address.thread)
        body: dict[str, Any] = {"msg_type": form.msg_type, "content": form.content, "uuid": uuid}
        if answered:
            answer = await self._reply(address, str(answered), body)
            if (
                answer is None and address.thread
            ):  # its topic has other messages, and the chat is not the place
                beside = await self.directory.beside(address.thread, str(answered))
                answer = await self._reply(address, beside, body) if beside else None
        if answer is None:
            query = {"receive_id_type": receiver(address.chat)}
            answer = await self.tenant.call(
                "POST", MESSAGES, {"receive_id": address.chat, **body}, query=query
            )
        sent = answer["data"]
        self.directory.sent(
            str(sent["message_id"]), address.chat, str(sent.get("chat_id") or ""), address.thread
        )
        return str(sent["message_id"])

    async def _reply(self, address: Address, answered: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """Send a reply to a message; return None when that message was recalled."""
        in_thread = {"reply_in_thread": bool(address.thread)}
        try:
            return await self.tenant.call("POST", f"{MESSAGES}/{answered}/reply", {**body, **in_thread})
        except FeishuError as why:
            if why.code != RECALLED:
                raise
        return None

    async def _is_in_chat(self, address: Address, message_id: str) -> bool:
        try:
            return await self.directory.is_in_chat(message_id, address.chat)
        except FeishuError as why:
            if not why.permanent:
                raise
            return False

    async def _require_in_chat(self, address: Address, message_id: str) -> None:
        if not await self._is_in_chat(address, message_id):
            raise FeishuError("there is no message {id} in this chat", permanent=True, id=message_id)

    async def _recall(self, message_id: str) -> None:
        await self.tenant.call("DELETE", f"{MESSAGES}/{message_id}")

    async def _finish_stream(self, outbound: Outbound) -> list[str]:
        """Finish what an interrupted stream left: put the text into its cards and delete unused ones."""
        kept: list[str] = []
        pieces = list(card_pieces(outbound.text))
        for message_id in outbound.replaces:
            if not pieces:
                with suppress(DeliveryError):
                    await self._recall(message_id)
            elif await self._finish_message(outbound, message_id, pieces[0], last=len(pieces) == 1):
                kept.append(message_id)
                del pieces[0]
        for at, piece in enumerate(pieces):
            left = replace(
                outbound,
                key=f"{outbound.key}+{at}" if at else outbound.key,
                text=piece,
                attachments=(),
                replaces=(),
                buttons=outbound.buttons if at == len(pieces) - 1 else (),
            )
            kept.append(await self._send_text(left))
        return kept

    async def _finish_message(self, outbound: Outbound, message_id: str, text: str, *, last: bool) -> bool:
        """Put the text into a message that shows a part of it; return False when that message cannot take it."""
        try:
            card = await Card.found(self.tenant, message_id)
            await card.write(text)
            await card.close()
            if last and outbound.buttons:
                await card.replace(text, outbound.buttons)
        except FeishuError as why:
            if not why.permanent:
                raise
            with suppress(DeliveryError):
                await self._recall(message_id)
            return False
        return True

    # --- state

    async def diagnose(self) -> Sequence[Finding]:
        """Return what the platform reports about this account; send nothing."""
        from claw_feishu.diagnosis import diagnose

        return await diagnose(self)

    async def facts(self) -> Sequence[str]:
        """Return the bot's name, how it receives, and the groups that it answers."""
        bot = (await self.tenant.call("GET", "/open-apis/bot/v3/info")).get("bot") or {}
        return [
            account_fact(str(bot.get("app_name") or self.settings.app_id), self.settings.mode, self.settings)
        ]

    def up(self) -> None:
        """Record that the connection works."""
        if self._state.state in ("waiting", "failed"):
            _log.info("feishu: %s", t("receiving messages again"))
        self._state = replace(self._state, state="up", detail="")

    def frame_received(self) -> None:
        """Record that a frame or event arrived."""
        self._state = replace(self._state, last_frame_at=self.now())

    def down(self, why: str, *, fatal: bool) -> None:
        """Record that the connection failed, with the reason."""
        again = 1 if self._state.state == "up" else 0
        if not fatal and self._state.state != "waiting":  # the gateway reports fatal errors itself
            _log.warning("feishu: %s", why)
        self._state = replace(
            self._state,
            state="failed" if fatal else "waiting",
            detail=why,
            last_error=why,
            reconnects=self._state.reconnects + again,
        )

    def _secret(self, field: str, key: str) -> Callable[[], str]:
        """Return a function that reads a secret at each call, so that a changed file or value takes effect at once."""
        where = "channels.feishu" if self.account == "default" else f"channels.feishu.accounts.{self.account}"
        return lambda: secret(getattr(self.settings, field), f"{where}.{key}")


def later_key(key: str, at: int) -> str:
    """Return the delivery key of a later piece of an answer whose first piece has ``key``; pure.
    Core numbers pieces ``TURN:0``, ``TURN:1`` …: with the same keys, a repeated piece is dropped by the service."""
    base, colon, number = key.rpartition(":")
    if colon and number.isdecimal():
        return f"{base}:{int(number) + at}"
    return f"{key}:{at}" if at else key


def _advice(why: ClawError) -> str:
    if isinstance(why, FeishuError) and why.is_credentials:
        return t("{why}. Check appId and appSecret in the developer console", why=why.problem)
    return str(why)
