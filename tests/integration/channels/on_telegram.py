"""The stage on Telegram: by polling, or by webhook through the gateway's listener."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import claw_telegram
from claw_telegram.fake import FakeRefusal, FakeTelegram, too_fast
from integration.channels.platforms import PersonMessage, PlatformChat, VisibleMessage, until

SECRET = "a-secret-of-the-webhook_1"


class Telegram:
    """A bot, and those who write to it."""

    name, plugin = "telegram", claw_telegram
    ann, ben, boss, eve = "111222333", "222333444", "333444555", "444555666"
    group, topic = PlatformChat(str(FakeTelegram.GROUP)), PlatformChat(str(FakeTelegram.GROUP), "42")
    wrong: Mapping[str, Any] = {"botToken": "1:nobody-knows-this-token"}
    fix = "BotFather"
    patience = 0.4
    largest_out = 50 << 20
    too_large_in = 21 << 20
    acknowledges = True
    drops_repeats = False

    def __init__(self, webhook: bool = False) -> None:
        self.fake, self.webhook = FakeTelegram(), webhook
        self.fake.topics[FakeTelegram.GROUP] = {42}

    async def __aenter__(self) -> Self:
        await self.fake.start()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.fake.close()

    @property
    def section(self) -> dict[str, Any]:
        known = {"botToken": self.fake.token, "apiBase": self.fake.url}
        return known | ({"mode": "webhook", "webhookSecret": SECRET} if self.webhook else {})

    @property
    def refused(self) -> list[str]:
        """The newest failure of a webhook call, as ``getWebhookInfo`` returns it."""
        return [self.fake.webhook[key] for key in ("last_error_message",) if key in self.fake.webhook]

    def quicken(self, channel: Any) -> None:
        channel.pace = replace(channel.pace, first=0.02)

    async def opened(self, url: str) -> None:
        if self.webhook:
            self.fake.webhook = {"url": f"{url}/webhook/telegram/default", "secret": SECRET}

    async def another(self) -> Self:
        made = type(self)(self.webhook)
        await made.fake.start()
        return made

    def direct(self, person: str) -> PlatformChat:
        return PlatformChat(person)

    async def says(
        self, text: str, who: str, place: PlatformChat | None = None, *, to_us: bool = False, bot: bool = False,
        file: tuple[str, bytes] | None = None, claims: int = 0,
    ) -> PersonMessage:  # fmt: skip
        place = place or self.direct(who)
        more: dict[str, Any] = {"from": {"id": int(who), "is_bot": bot, "first_name": "Somebody"}}
        if to_us:
            mention = f"@{self.fake.bot['username']}"
            text, more["entities"] = (
                f"{mention} {text}",
                [{"type": "mention", "offset": 0, "length": len(mention)}],
            )
        if place.thread:
            more |= {"message_thread_id": int(place.thread), "is_topic_message": True}
        if file:
            name, data = file
            id = self.fake.keep(data)
            more["document"] = {
                "file_id": id, "file_unique_id": f"u{id}", "file_name": name, "file_size": claims or len(data)
            }  # fmt: skip
            more, text = more | {"caption": text}, ""
        update = self.fake.says(text, chat=int(place.chat), **more)
        return PersonMessage(str(update["message"]["message_id"]), update)

    async def again(self, said: PersonMessage) -> None:
        self.fake.update(**said.raw)  # unconfirmed, as far as the service knows
        self.fake.update(message=said.raw["message"])

    def acked(self, said: PersonMessage) -> bool:
        return said.raw["update_id"] not in self.fake.pending

    async def presses(self, seen: VisibleMessage, place: PlatformChat, label: str, who: str) -> None:
        message = self.fake.messages[int(place.chat)][int(seen.id)]
        keys = [key for row in message["reply_markup"]["inline_keyboard"] for key in row]
        (data,) = [key["callback_data"] for key in keys if key["text"] == label]
        self.fake.update(callback_query={
            "id": f"query-{label}-{who}", "from": {"id": int(who), "is_bot": False, "first_name": "Somebody"},
            "chat_instance": "-377", "data": data, "message": message,
        })  # fmt: skip

    def seen(self, place: PlatformChat) -> list[VisibleMessage]:
        ours = [
            one
            for one in self.fake.messages.get(int(place.chat), {}).values()
            if one["from"] == self.fake.bot
        ]
        return [_seen(one) for one in ours if str(one.get("message_thread_id", "")) == place.thread]

    def being_written(self) -> list[str]:
        return []

    def attempts(self, place: PlatformChat) -> int:
        return sum(str(call["chat_id"]) == place.chat for call in self.fake.calls("sendMessage"))

    def press(self, place: PlatformChat) -> None:
        self.fake.fail("sendMessage", too_fast(self.patience))

    def refuse(self, place: PlatformChat) -> None:
        self.fake.fail("sendMessage", FakeRefusal(403, "Forbidden: bot was blocked by the user"), 99)

    def lose(self, place: PlatformChat, times: int = 1) -> None:
        self.fake.drop("sendMessage", times, after=True)

    async def drop(self) -> None:
        self.fake.drop("getUpdates", 2)
        polls = len(self.fake.calls("getUpdates"))
        self.fake.says(new_chat_title="Another")  # ends the poll that is held, and is nothing to hear
        await until(lambda: len(self.fake.calls("getUpdates")) > polls)


def _seen(message: dict[str, Any]) -> VisibleMessage:
    text = message.get("text", message.get("caption", ""))
    wide = text.encode("utf-16-le")
    code = [
        wide[2 * one["offset"] : 2 * (one["offset"] + one["length"])].decode("utf-16-le")
        for one in message.get("entities", ())
        if one["type"] == "pre"
    ]
    files = [message[field] for field in ("document", "audio", "video", "voice") if field in message]
    keys = [key for row in message.get("reply_markup", {}).get("inline_keyboard", ()) for key in row]
    return VisibleMessage(
        str(message["message_id"]), text, str(message.get("reply_to_message", {}).get("message_id", "")), tuple(code),
        tuple(file["file_size"] for file in files), tuple(key["text"] for key in keys),
    )  # fmt: skip
