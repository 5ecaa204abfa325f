"""Telegram as a place to talk."""

import asyncio
import contextlib
import logging
import mimetypes
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from claw import (
    Address,
    Attachment,
    ChannelState,
    ConfigError,
    DeliveryError,
    Door,
    EditWriter,
    Finding,
    Inbound,
    Limits,
    Outbound,
    Receipt,
    Writer,
    say,
)

from claw_telegram.api import QUIET, Api, Refused
from claw_telegram.drafting import DraftWriter, draft_id
from claw_telegram.inbound import ALLOWED_UPDATES, Bot, Json, bot_of
from claw_telegram.menu import menu
from claw_telegram.poller import Pace, Poller, Trouble, trouble
from claw_telegram.saying import Saying, chat_id, media_method, mended, saying
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
_MENDS = 4
_GENERAL = 1  # the General topic: no id to send to, but the one that typing wants


class TelegramChannel:
    """One bot.

    :param http: ``config.http``.
    :param receiver: the end of its webhook, in webhook mode.
    """

    name = "telegram"
    capabilities = CAPABILITIES
    limits = Limits(
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
        pace: Pace | None = None,
    ) -> None:
        self.account = account.name
        self._of, self._http, self._receiver = account, http, receiver
        self.pace = pace or Pace(poll=account.settings.poll_seconds)
        self._state = ChannelState()
        self._moved: dict[str, str] = {}
        self._forums: set[str] = set()
        self._shared: Api | None = None  # it knows its addresses once it has read them
        self._deaf = self._trouble = ""
        QUIET.hide(account.token)

    @property
    def state(self) -> ChannelState:
        """How it is doing."""
        return self._state

    async def diagnose(self) -> Sequence[Finding]:
        """What Telegram says of this bot; nothing is changed."""
        from claw_telegram.diagnosis import diagnose

        return await diagnose(self._of, self._api())

    @property
    def _who(self) -> str:
        """How a line of the log names this account."""
        return self.name if self.account == "default" else f"{self.name}/{self.account}"

    # listening

    async def run(self, door: Door) -> None:
        """Listen until cancelled.

        :raises ConfigError: Telegram does not know the token.
        """
        self._note(state="starting", detail="")
        try:
            async with asyncio.TaskGroup() as beside:
                bot = await self._introduced()
                submit = self._into(door, beside)
                beside.create_task(self._show_menu())
                await (self._hear(bot, submit) if self._receiver else self._poll(bot, submit))
        except ExceptionGroup as refused:  # the one reason, not a group of one
            raise refused.exceptions[0] from None
        finally:
            if self._state.state != "failed":
                self._note(state="starting", detail=say("stopped"))

    def _into(self, door: Door, beside: asyncio.TaskGroup) -> Callable[[Inbound, Json], Any]:
        async def submit(inbound: Inbound, update: Json) -> bool:
            if inbound.around.is_forum:
                self._forums.add(inbound.address.chat)
            if inbound.kind == "migrate":
                self._follow(inbound.address.chat, inbound.text)
            taken = await door.submit(inbound)
            if taken and inbound.kind == "button":  # else the button keeps turning; nobody waits for this
                query = {"callback_query_id": update["callback_query"]["id"]}
                beside.create_task(self._try("answerCallbackQuery", query))
            return taken

        return submit

    async def _poll(self, bot: Bot, submit: Callable[[Inbound, Json], Any]) -> None:
        poller = Poller(
            lambda: self._api(apart=True),
            bot,
            submit=submit,
            came=self._came,
            troubled=self._troubled,
            pace=self.pace,
        )
        try:
            await poller.run()
        except Refused:
            raise self._no_such_token() from None

    async def _hear(self, bot: Bot, submit: Callable[[Inbound, Json], Any]) -> None:
        """Webhook mode: tell Telegram where to call, and let the gateway's calls in."""
        assert self._receiver is not None

        async def heard(inbound: Inbound, update: Json) -> bool:
            self._came()
            return bool(await submit(inbound, update))

        self._receiver.open(bot, heard, album_seconds=self.pace.album)
        try:
            if self._of.settings.webhook_url:
                await self._until_done("setWebhook", {
                    "url": self._of.settings.webhook_url, "secret_token": self._of.secret,
                    "allowed_updates": list(ALLOWED_UPDATES), "max_connections": CONNECTIONS,
                })  # fmt: skip
            self._came()
            await asyncio.Event().wait()
        finally:
            await self._receiver.close()

    async def _introduced(self) -> Bot:
        bot = bot_of(await self._until_done("getMe"), self.account)
        listens = [id for id, group in self._of.settings.groups.items() if not group.require_mention]
        if listens and not bot.hears_all:
            self._deaf = say(
                "privacy mode is on, so in groups it hears commands, mentions and replies only: "
                "switch it off at @BotFather (/setprivacy), then add the bot to the group again"
            )
        return bot

    async def _until_done(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """A call without which there is no start: again and again, unless the token is not good."""
        failures = 0
        while True:
            try:
                return await self._api().call(method, params)
            except DeliveryError as why:
                failures += 1
                found = trouble(why, failures, self.pace)
                if found.kind == "fatal":
                    self._troubled(found, why)
                    raise self._no_such_token() from None
                self._troubled(found, why)
                await asyncio.sleep(found.seconds)

    async def _show_menu(self) -> None:
        if self._of.settings.commands:
            await self._try("setMyCommands", {"commands": menu()})

    def _no_such_token(self) -> ConfigError:
        fix = "Take the token that @BotFather shows for this bot: claw config set {name}.botToken TOKEN"
        return ConfigError(
            f"{self._of.key}.botToken", "no bot at Telegram has this token", fix, name=self._of.key
        )

    def _came(self, undisturbed: bool = True) -> None:
        again = self._state.state == "waiting"
        if self._trouble and undisturbed:
            self._trouble = ""
            _log.info("%s: %s", self._who, say("hears again"))
        self._note(
            state="up",
            detail=self._deaf,
            last_frame_at=time.time(),
            reconnects=self._state.reconnects + (1 if again else 0),
        )

    def _troubled(self, found: Trouble, why: DeliveryError) -> None:
        if found.kind == "fatal":
            told = str(self._no_such_token())
        elif found.kind == "conflict":
            told = say("another process polls with this bot's token, and this one waits until you stop it")
        elif found.kind == "webhook":
            told = say("a webhook was set for this bot; it is taken away, nothing that waits is lost")
        else:
            told = str(why)
        if found.kind not in ("fatal", self._trouble):  # of what is fatal the house tells
            self._trouble = found.kind
            _log.warning("%s: %s", self._who, told)
        self._note(state="failed" if found.kind == "fatal" else "waiting", detail=told, last_error=told)

    def _note(self, **changes: Any) -> None:
        self._state = replace(self._state, **changes)

    # talking

    def split(self, text: str) -> tuple[str, ...]:
        """Pieces that fit into one message each, fences and tags whole."""
        return split(text)

    async def send(self, outbound: Outbound) -> Receipt:
        """Say it: a text, a file, or a text in the place of what a stream left.

        :raises DeliveryError: Telegram did not take it.
        """
        if outbound.replaces and not outbound.attachments:
            return await self._rewrite(outbound)
        ids: list[str] = []
        for attachment in outbound.attachments:
            first = not ids
            ids.append(
                await self._send_file(
                    attachment, outbound if first else replace(outbound, text="", buttons=())
                )
            )
        said = self._saying(outbound)
        if outbound.text and (not outbound.attachments or not said.caption):
            ids += await self._say(said)
        return Receipt(tuple(ids))

    def stream(self, outbound: Outbound) -> Writer:
        """A reply that grows by edits, or in a direct chat, where that is wished, as a draft."""

        async def post(piece: Outbound) -> str:
            return (await self._say(self._saying(piece)))[0]

        async def edit(id: str, text: str, last: Outbound | None) -> None:
            await self._say(
                replace(self._saying(outbound), text=text, edits=id, buttons=last.buttons if last else ())
            )

        async def delete(id: str) -> None:
            await self.delete(outbound.address, id)

        group = outbound.address.chat.startswith(("-", "@"))
        pause = GROUP_EDIT_SECONDS if group else PRIVATE_EDIT_SECONDS
        writer = EditWriter(outbound, pieces=split, post=post, edit=edit, delete=delete, pause_seconds=pause)
        if group or not self._of.settings.drafts:
            return writer

        async def draw(text: str) -> None:
            said = replace(self._saying(outbound), reply_to=None, draft=draft_id(outbound.key))
            for last in split(text)[-1:]:
                await self._say(replace(said, text=last))

        return DraftWriter(writer, draw, pause_seconds=pause)

    async def edit(self, address: Address, message_id: str, text: str) -> None:
        """Put another text in the place of one of our messages."""
        await self._say(self._saying(Outbound("", address, text), edits=message_id))

    async def delete(self, address: Address, message_id: str) -> None:
        """Take one of our messages back; one that is gone is no error."""
        try:
            await self._api().call(
                "deleteMessage", {"chat_id": self._chat(address), "message_id": int(message_id)}
            )
        except Refused as why:
            if not why.says("message to delete not found"):
                raise

    async def react(self, address: Address, message_id: str, emoji: str, remove: bool = False) -> None:
        """Put our reaction on a message (Telegram takes a fixed set of emoji, and one of a bot), or take it off."""
        reaction = [] if remove else [{"type": "emoji", "emoji": emoji.replace("\ufe0f", "")}]
        where = {"chat_id": self._chat(address), "message_id": int(message_id)}
        await self._api().call("setMessageReaction", {**where, "reaction": reaction})

    async def poll(self, address: Address, question: str, options: tuple[str, ...]) -> Receipt:
        """Ask everybody in the chat; two to twelve options."""
        params = {**self._saying(Outbound("", address, "")).place, "question": question}
        sent = await self._api().call(
            "sendPoll", {**params, "options": [{"text": option} for option in options]}
        )
        return Receipt((str(sent["message_id"]),))

    async def typing(self, address: Address, message_id: str = "") -> None:
        """Show for five seconds that an answer is coming."""
        general = _GENERAL if address.chat in self._forums else None
        thread = int(address.thread) if address.thread else general
        await self._try("sendChatAction", {
            "chat_id": self._chat(address), "message_thread_id": thread, "action": "typing",
        })  # fmt: skip

    async def fetch(self, inbound: Inbound, attachment: Attachment) -> AsyncIterator[bytes]:
        """The bytes of a file, up to 20 MB: https://core.telegram.org/bots/api#getfile.

        :raises DeliveryError: it cannot be had.
        """
        most = self.limits.media_in_bytes
        if (attachment.size_bytes or 0) > most:
            raise DeliveryError(
                "Telegram hands out no file over {size} MB to bots", permanent=True, size=most >> 20
            )
        api = self._api()
        file = await api.call("getFile", {"file_id": attachment.key})
        async with contextlib.aclosing(api.download(str(file["file_path"]))) as pieces:
            async for piece in pieces:
                yield piece

    def _saying(self, outbound: Outbound, edits: str | None = None) -> Saying:
        said = saying(outbound, preview=self._of.settings.link_preview)
        return replace(said, chat=self._moved.get(said.chat, said.chat), edits=edits)

    async def _say(self, said: Saying) -> list[str]:
        """Say one message; refused for its form, say it in another form. The ids of what stands then."""
        for _ in range(_MENDS):
            try:
                sent = await self._api().call(said.method, said.params)
            except Refused as why:
                if said.edits and why.says("message is not modified"):
                    return [said.edits]
                if why.says("message is too long") and (halves := split(said.text, LIMIT // 2))[1:]:
                    return await self._say_parts(said, halves)
                other = mended(said, why)
                if other is None:
                    raise
                self._follow(said.chat, other.chat)
                said = other
            else:
                return [str(sent["message_id"]) if isinstance(sent, dict) else str(said.edits)]
        raise DeliveryError("Telegram refused every form of the message", permanent=True)

    async def _say_parts(self, said: Saying, parts: tuple[str, ...]) -> list[str]:
        """What was too long after all: in parts, the first in the place of the whole."""
        ids = await self._say(replace(said, text=parts[0], buttons=()))
        for part in parts[1:]:
            last = said.buttons if part is parts[-1] else ()
            ids += await self._say(replace(said, text=part, buttons=last, edits=None, reply_to=None))
        return ids

    def _follow(self, chat: str, now: str) -> None:
        """What is meant for a group that became a supergroup goes there from now on."""
        if now != self._moved.get(chat, chat):
            told = say("the group {old} became {new}: list it under its new id", old=chat, new=now)
            _log.warning("%s: %s", self._who, told)
            self._moved[chat] = now

    async def _rewrite(self, outbound: Outbound) -> Receipt:
        """The first message of a stream becomes the text; the others go."""
        first, *others = outbound.replaces
        try:
            ids = await self._say(self._saying(outbound, edits=first))
        except Refused as why:
            if not why.permanent:
                raise
            ids = await self._say(self._saying(outbound))
            others.append(first)
        for id in others:
            with contextlib.suppress(DeliveryError):
                await self.delete(outbound.address, id)
        return Receipt(tuple(ids))

    async def _send_file(self, attachment: Attachment, outbound: Outbound) -> str:
        path = Path(attachment.path)
        size = (await asyncio.to_thread(path.stat)).st_size
        if size > self.limits.media_out_bytes:
            most = self.limits.media_out_bytes >> 20
            raise DeliveryError("Telegram takes no file over {size} MB from bots", permanent=True, size=most)
        mime = attachment.mime or mimetypes.guess_type(path.name)[0] or ""
        said = self._saying(outbound)
        way = media_method(attachment.kind, mime, size, voice=outbound.voice)
        for _ in range(_MENDS):
            try:
                return await self._upload(way, said, attachment.name or path.name, path, mime)
            except Refused as why:
                if way[0] == "sendPhoto" and why.says("photo_", "image_process_failed"):
                    way = media_method("file", "", size, voice=False)
                elif (other := mended(said, why)) is not None:
                    self._follow(said.chat, other.chat)
                    said = other
                else:
                    raise
        raise DeliveryError("Telegram refused every form of the message", permanent=True)

    async def _upload(self, way: tuple[str, str], said: Saying, name: str, path: Path, mime: str) -> str:
        method, field = way
        params = {**said.place, **said.caption}
        with await asyncio.to_thread(path.open, "rb") as data:
            sent = await self._api().upload(method, params, field, name, data, mime)
        return str(sent["message_id"])

    async def _try(self, method: str, params: dict[str, Any]) -> None:
        """A call whose failure nobody needs to hear of."""
        try:
            await self._api().call(method, params)
        except DeliveryError as why:
            _log.debug("%s", why)

    def _chat(self, address: Address) -> int | str:
        return chat_id(self._moved.get(address.chat, address.chat))

    def _api(self, *, apart: bool = False) -> Api:
        base = self._of.settings.api_base
        if apart:
            return Api(self._http(base, apart=True), self._of.token, base)
        client = self._http(base)
        if self._shared is None or not self._shared.goes_over(client):
            self._shared = Api(client, self._of.token, base)
        return self._shared
