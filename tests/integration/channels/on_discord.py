"""The stage on Discord. discord.py keeps the addresses of the service on its classes: one service for a process."""

import re
from collections.abc import Mapping
from copy import copy
from typing import Any, Self

import claw_discord
from claw_discord.fake import FakeDiscord, ForcedAnswer
from claw_discord.fake.objects import THREAD
from integration.channels.platforms import PersonMessage, PlatformChat, VisibleMessage


class Discord:
    """A bot in one guild, and those who write to it."""

    name, plugin = "discord", claw_discord
    group = PlatformChat(FakeDiscord.CHANNEL)
    wrong: Mapping[str, Any] = {"token": "wrong-token-1234567"}
    fix = "does not know the bot token"
    patience = 0.4
    largest_out = 10 << 20
    too_large_in = 2 << 20
    acknowledges = False
    drops_repeats = True

    def __init__(self) -> None:
        self.fake = FakeDiscord()
        self._token = self.fake.token
        self.ann, self.ben, self.boss, self.eve = map(self.fake.person, ("ann", "ben", "boss", "eve"))
        self.topic = PlatformChat(
            FakeDiscord.CHANNEL, self.fake.place("talk", kind=THREAD, parent=FakeDiscord.CHANNEL)
        )

    async def __aenter__(self) -> Self:
        await self.fake.start()
        return self

    async def __aexit__(self, *raised: object) -> None:
        if self._token == self.fake.token:  # the other bot came to the same service
            await self.fake.stop()

    @property
    def section(self) -> dict[str, Any]:
        return {
            "token": self._token, "apiBase": self.fake.api_base, "gatewayUrl": self.fake.gateway_url,
            "mediaMaxMb": 1,
        }  # fmt: skip

    def quicken(self, channel: Any) -> None:
        """It resumes at once."""

    async def opened(self, url: str) -> None:
        """It has no webhooks."""

    async def another(self) -> Self:
        made = copy(self)
        made._token = self.fake.let_in("token-of-another-bot")
        return made

    def direct(self, person: str) -> PlatformChat:
        return PlatformChat(self.fake.direct_with(person)["id"])

    async def says(
        self, text: str, who: str, place: PlatformChat | None = None, *, to_us: bool = False, bot: bool = False,
        file: tuple[str, bytes] | None = None, claims: int = 0,
    ) -> PersonMessage:  # fmt: skip
        place = place or self.direct(who)
        said = await self.fake.says(
            f"<@{FakeDiscord.ME}> {text}" if to_us else text, channel=place.thread or place.chat,
            author=self.fake.person("robot", bot=True) if bot else who,
            files={file[0]: b"x" * claims or file[1]} if file else None,
        )  # fmt: skip
        return PersonMessage(said["id"], said)

    async def again(self, said: PersonMessage) -> None:
        await self.fake.tell("MESSAGE_CREATE", said.raw)

    def acked(self, said: PersonMessage) -> bool:
        return False

    async def presses(self, seen: VisibleMessage, place: PlatformChat, label: str, who: str) -> None:
        rows = self.fake.messages[seen.id]["components"]
        (id,) = [key["custom_id"] for row in rows for key in row["components"] if key["label"] == label]
        await self.fake.presses(seen.id, id, user=who)

    def seen(self, place: PlatformChat) -> list[VisibleMessage]:
        there = self.fake.messages_of(place.thread or place.chat)
        return [_seen(one) for one in there if one["author"]["id"] == FakeDiscord.ME]

    def being_written(self) -> list[str]:
        return []

    def attempts(self, place: PlatformChat) -> int:
        return len(self.fake.asked("POST", f"/channels/{place.chat}/messages"))

    def press(self, place: PlatformChat) -> None:
        slower = {"message": "slow", "retry_after": self.patience, "global": False}
        self.fake.fail(
            f"POST /channels/{place.chat}/messages", ForcedAnswer(429, slower, {"Via": "1.1 google"})
        )

    def refuse(self, place: PlatformChat) -> None:
        (person,) = self.fake.channels[place.chat]["recipients"]
        self.fake.deaf_users.add(person["id"])

    def lose(self, place: PlatformChat, times: int = 1) -> None:
        self.fake.fail(f"POST /channels/{place.chat}/messages", ForcedAnswer(cut=True, done=True), times)

    async def drop(self) -> None:
        await self.fake.drop()


def _seen(message: Mapping[str, Any]) -> VisibleMessage:
    keys = [key for row in message.get("components", ()) for key in row["components"]]
    return VisibleMessage(
        message["id"], message["content"], (message.get("message_reference") or {}).get("message_id", ""),
        tuple(re.findall(r"^```\w*\n(.*?)\n```$", message["content"], re.S | re.M)),
        tuple(file["size"] for file in message.get("attachments", ())), tuple(key["label"] for key in keys),
    )  # fmt: skip
