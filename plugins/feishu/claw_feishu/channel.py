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
    ChannelState,
    ClawError,
    ConfigError,
    DeliveryError,
    Door,
    Finding,
    Inbound,
    Limits,
    Outbound,
    Receipt,
    WebRoute,
    Writer,
    say,
)

from claw_feishu import media
from claw_feishu.cards import Card, CardWriter
from claw_feishu.directory import Directory
from claw_feishu.inbound import CHANNEL, Bot, to_inbound
from claw_feishu.longconn import LongConnection, Pace, Telling
from claw_feishu.outbound import ONCE_SECONDS, Form, card_pieces, forms, once, post_form, receiver
from claw_feishu.reactions import Reactions
from claw_feishu.richtext import harmless
from claw_feishu.settings import FeishuSettings, secret
from claw_feishu.tenant import RECALLED, FeishuError, Tenant
from claw_feishu.webhook import Lock, route

if TYPE_CHECKING:
    import httpx2

MESSAGES = "/open-apis/im/v1/messages"
_log = logging.getLogger(__name__)


class FeishuChannel(Telling):
    """One account of Feishu or Lark.

    :param http: gives the HTTP client for the platform's address.
    :ivar now: seconds since 1970; ``pace`` how patient it is.
    """

    name = CHANNEL
    capabilities = frozenset(
        {
            "threads",
            "reactions",
            "edit",
            "delete",
            "buttons",
            "media",
            "typing",
            "streaming",
            "idempotent",
            "names",
        }
    )
    limits = Limits(
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
        pace: Pace | None = None,
    ) -> None:
        self.settings, self.account, self.now, self.pace = settings, account, now, pace or Pace()
        self.tenant = Tenant(http, settings.app_id, self._secret("app_secret", "appSecret"), time.monotonic)
        self.bot = Bot("", settings.app_id, account)
        self.directory = Directory(self.tenant)
        self._reactions = Reactions(self.tenant, settings.app_id)
        self._state = ChannelState()
        self._door: Door | None = None
        self._lanes: dict[str, tuple[asyncio.Lock, int]] = {}

    @property
    def state(self) -> ChannelState:
        """How the account is doing."""
        return self._state

    # --- in

    async def run(self, door: Door) -> None:
        """Learn who we are, then listen until cancelled."""
        self._state = replace(self._state, state="starting", detail="")
        try:
            await self._meet()
            self._door = door
            if self.settings.mode == "webhook":
                self.up()
                await asyncio.Event().wait()
            connection = LongConnection(self.tenant, self.receive, self, self.pace)
            await connection.run(self.settings.base_url)
        finally:
            self._door = None

    async def _meet(self) -> None:
        """Our own open id: without it nobody can say whether a group message is meant for us."""
        pause = self.pace.pause_seconds
        while True:
            try:
                self.bot = replace(self.bot, open_id=await self.who_we_are())
            except ClawError as why:
                fatal = isinstance(why, ConfigError) or (isinstance(why, FeishuError) and why.permanent)
                self.down(_advice(why), fatal=fatal)
                await asyncio.sleep(self.pace.rest_seconds if fatal else pause)
                pause = min(pause * 2, self.pace.most_seconds)
            else:
                return

    async def who_we_are(self) -> str:
        """The bot's open id.

        :raises FeishuError: the credentials are wrong, the app has no bot, or the service cannot be reached.
        """
        bot = (await self.tenant.call("GET", "/open-apis/bot/v3/info")).get("bot")
        if not isinstance(bot, Mapping) or not bot.get("open_id"):
            raise FeishuError(
                "the app has no bot", permanent=True, fix="Add the bot feature in the developer console"
            )
        return str(bot["open_id"])

    async def receive(self, event: dict[str, Any]) -> dict[str, Any] | None:
        """Take one event; what to answer the service, or None: not taken, so it may be pushed again.

        Events of one chat go through in the order in which they came.
        """
        door = self._door
        if door is None:
            return None
        inbound = to_inbound(event, self.bot)
        if inbound is None:
            return {}
        async with self._lane(inbound.address.chat):
            try:
                dressed: Inbound | None = inbound
                if self.settings.resolve_names or inbound.kind in ("reaction", "button"):
                    dressed = await self.directory.dressed(inbound, self.bot)
                taken = dressed is None or await door.submit(dressed)
            except Exception as why:  # noqa: BLE001 - one message that we choke on must not end the connection
                _log.exception("feishu: an event was not taken")
                self._state = replace(self._state, last_error=str(why))
                return None
        if not taken:
            return None
        return {"toast": {"type": "info", "content": say("Received")}} if inbound.kind == "button" else {}

    @asynccontextmanager
    async def _lane(self, chat: str) -> AsyncIterator[None]:
        lock, users = self._lanes.get(chat, (asyncio.Lock(), 0))
        self._lanes[chat] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._lanes[chat]
            if users == 1:
                del self._lanes[chat]
            else:
                self._lanes[chat] = lock, users - 1

    def webhook(self) -> WebRoute:
        """The place where the platform calls this account."""
        path = self.settings.webhook_path or f"/webhook/{CHANNEL}/{self.account}"
        return route(path, self._lock, self._receive_webhook, self._time, self._refused)

    async def _receive_webhook(self, event: dict[str, Any]) -> dict[str, Any] | None:
        self.heard()
        self._state = replace(self._state, last_error="")
        return await self.receive(event)

    def _refused(self, mend: str) -> None:
        """A request that may be the platform's was refused: without a word nobody would know why nothing comes."""
        if mend != self._state.last_error:
            _log.warning("feishu: %s", mend)
        self._state = replace(self._state, last_error=mend)

    def _time(self) -> float:
        return self.now()

    def _lock(self) -> Lock:
        try:
            key, token = self._secret("encrypt_key", "encryptKey")(), self._secret("verification_token", "")()
        except ConfigError:
            key = token = ""
        return Lock(key, token, self.settings.max_skew_seconds)

    def fetch(self, inbound: Inbound, attachment: Attachment) -> AsyncIterator[bytes]:
        """The bytes of a file that came with a message."""
        return media.download(self.tenant, inbound, attachment)

    # --- out

    async def send(self, outbound: Outbound) -> Receipt:
        """One attempt to say it; a card that is refused becomes a post, then text, in the same attempt."""
        ids = [
            await self._post(
                outbound, await media.upload(self.tenant, outbound, attachment), once(outbound.key, at)
            )
            for at, attachment in enumerate(outbound.attachments)
        ]
        if outbound.replaces:
            ids += await self._replace(outbound)
        elif outbound.text or outbound.buttons:
            ids.append(await self._say(outbound))
        return Receipt(tuple(ids))

    def stream(self, outbound: Outbound) -> Writer:
        """A reply that grows on a card; as plain messages it is shown when it is whole."""

        async def post(form: Form, uuid: str) -> str:
            return await self._post(outbound, form, uuid)

        async def recall(message_id: str) -> None:
            await self._recall(message_id)

        pace = self.pace.card_seconds
        return CardWriter(
            self.tenant, outbound, post=post, send=self._send_whole, recall=recall, pace_seconds=pace
        )

    async def edit(self, address: Address, message_id: str, text: str) -> None:
        """Put another text into one of our messages: a post anew, or the card's contents.

        :raises FeishuError: it stands in another chat, or nowhere.
        """
        await self._demand(address, message_id)
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
        """Recall one of our messages.

        :raises FeishuError: it stands in another chat, or nowhere.
        """
        await self._demand(address, message_id)
        await self._recall(message_id)

    async def react(self, address: Address, message_id: str, emoji: str, remove: bool = False) -> None:
        """Put a reaction on a message, or take ours off.

        :raises FeishuError: it stands in another chat, or nowhere.
        """
        await self._demand(address, message_id)
        await (self._reactions.take_off if remove else self._reactions.put)(message_id, emoji)

    async def typing(self, address: Address, message_id: str = "") -> None:
        """Feishu shows nobody typing: a reaction on the message stands for it until ``settled``."""
        if message_id and self.settings.typing_reaction:
            await self._reactions.begin(message_id, self.settings.typing_reaction)

    async def settled(self, address: Address, message_id: str = "") -> None:
        """Take that reaction off."""
        await self._reactions.end(message_id)

    async def _send_whole(self, outbound: Outbound) -> Receipt:
        """A streamed answer that no card took, cut into messages."""
        from claw import split_text

        ids: list[str] = []
        parts = split_text(outbound.text, self.limits)
        for at, part in enumerate(parts):
            last = at == len(parts) - 1
            piece = replace(
                outbound,
                key=later_key(outbound.key, at),
                reply_to=outbound.reply_to if at == 0 else None,
                text=part,
                attachments=outbound.attachments if last else (),
                buttons=outbound.buttons if last else (),
            )
            ids += (await self.send(piece)).message_ids
        return Receipt(tuple(ids))

    async def _say(self, outbound: Outbound) -> str:
        mode = "text" if outbound.plain else self.settings.render_mode
        ways = forms(outbound.text, outbound.buttons, mode)
        for form in ways[:-1]:
            try:
                return await self._post(outbound, form, once(outbound.key, form.msg_type))
            except FeishuError as why:
                if not why.is_about_form:
                    raise
        return await self._post(outbound, ways[-1], once(outbound.key, ways[-1].msg_type))

    async def _post(self, outbound: Outbound, form: Form, uuid: str) -> str:
        """Send one form: as an answer where there is something to answer, in its thread, else as a new message."""
        address, answered = outbound.address, outbound.reply_to
        if answered not in (None, outbound.answers) and not await self._is_here(address, str(answered)):
            answered = None  # a model names what it likes, and the service would say it there
        if answered is None and address.thread:
            answered = outbound.answers or await self.directory.in_thread(address.thread)
        body: dict[str, Any] = {"msg_type": form.msg_type, "content": form.content, "uuid": uuid}
        answer = None
        if answered:
            try:
                answer = await self.tenant.call(
                    "POST", f"{MESSAGES}/{answered}/reply", {**body, "reply_in_thread": bool(address.thread)}
                )
            except FeishuError as why:
                if why.code != RECALLED:
                    raise
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

    async def _is_here(self, address: Address, message_id: str) -> bool:
        try:
            return await self.directory.stands_in(message_id, address.chat)
        except FeishuError as why:
            if not why.permanent:
                raise
            return False

    async def _demand(self, address: Address, message_id: str) -> None:
        if not await self._is_here(address, message_id):
            raise FeishuError("there is no message {id} in this chat", permanent=True, id=message_id)

    async def _recall(self, message_id: str) -> None:
        await self.tenant.call("DELETE", f"{MESSAGES}/{message_id}")

    async def _replace(self, outbound: Outbound) -> list[str]:
        """Finish what another writer left: its cards take the text, spare ones go."""
        kept: list[str] = []
        pieces = list(card_pieces(outbound.text))
        for message_id in outbound.replaces:
            if not pieces:
                with suppress(DeliveryError):
                    await self._recall(message_id)
            elif await self._finish(outbound, message_id, pieces[0], last=len(pieces) == 1):
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
            kept.append(await self._say(left))
        return kept

    async def _finish(self, outbound: Outbound, message_id: str, text: str, *, last: bool) -> bool:
        """Put a text into a message that shows a part of it; False when that message cannot take it."""
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

    # --- how it is doing

    async def diagnose(self) -> Sequence[Finding]:
        """What the platform says of this account; nothing is sent."""
        from claw_feishu.diagnosis import diagnose

        return await diagnose(self)

    def up(self) -> None:
        """It works now."""
        if self._state.state in ("waiting", "failed"):
            _log.info("feishu: %s", say("hears again"))
        self._state = replace(self._state, state="up", detail="")

    def heard(self) -> None:
        """Something came."""
        self._state = replace(self._state, last_frame_at=self.now())

    def down(self, why: str, *, fatal: bool) -> None:
        """It does not work, for this reason."""
        again = 1 if self._state.state == "up" else 0
        if not fatal and self._state.state != "waiting":  # the house tells of what failed for good
            _log.warning("feishu: %s", why)
        self._state = replace(
            self._state,
            state="failed" if fatal else "waiting",
            detail=why,
            last_error=why,
            reconnects=self._state.reconnects + again,
        )

    def _secret(self, field: str, key: str) -> Callable[[], str]:
        """Reads a secret anew each time, so that a changed file or a new value holds at once."""
        where = "channels.feishu" if self.account == "default" else f"channels.feishu.accounts.{self.account}"
        return lambda: secret(getattr(self.settings, field), f"{where}.{key}")


def later_key(key: str, at: int) -> str:
    """The delivery key of a later piece of an answer whose first piece has ``key``. Pure.

    The house numbers pieces ``TURN:0``, ``TURN:1`` …: with the same keys, what it sends again is dropped as a repeat.
    """
    base, colon, number = key.rpartition(":")
    if colon and number.isdecimal():
        return f"{base}:{int(number) + at}"
    return f"{key}:{at}" if at else key


def _advice(why: ClawError) -> str:
    if isinstance(why, FeishuError) and why.is_credentials:
        return say("{why}. Check appId and appSecret in the developer console", why=why.problem)
    return str(why)
