"""The channels that we ship keep to what pytest-claw asks of everybody's, each against its own service."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from claw import Address, ChannelLimits
from claw.testing import FakeChannel
from claw_discord.channel import DiscordChannel
from claw_discord.fake import FakeDiscord, ForcedAnswer
from claw_feishu.channel import FeishuChannel
from claw_feishu.fake import CHAT, GROUP, PERSON, FakeAnswer as FeishuAnswer, FakeFeishu, events, refusal
from claw_telegram.channel import TelegramChannel
from claw_telegram.fake import FakeRefusal, FakeTelegram, too_fast
from pytest_claw import ChannelSuite

from plugins.discord import living as discord
from plugins.feishu import places as feishu
from plugins.telegram import bench as telegram


class TestFakeChannel(ChannelSuite):
    limits = ChannelLimits(text_chars=500)

    @asynccontextmanager
    async def place(self) -> AsyncIterator[FakeChannel]:
        yield FakeChannel(limits=self.limits, streaming=True)


class TestFakeChannelInCodeUnits(TestFakeChannel):
    limits = ChannelLimits(text_chars=300, utf16=True)


class TelegramPlace:
    """A bot that polls, and the Bot API on loopback."""

    def __init__(self, fake: FakeTelegram, channel: TelegramChannel, impostor: TelegramChannel) -> None:
        self.fake, self.channel, self._impostor = fake, channel, impostor
        self._told: list[dict[str, Any]] = []

    def address(self) -> Address:
        return Address("telegram", str(FakeTelegram.CHAT))

    def shown(self) -> list[str]:
        return self.fake.shown()

    def acknowledged(self) -> list[int]:
        pending = self.fake.pending
        return [one["update_id"] for one in self._told if one["update_id"] not in pending]

    def says(self, text: str, **fields: Any) -> None:
        self._told.append(self.fake.says(text, **fields))

    def again(self) -> None:
        self._told.append(self.fake.update(message=self._told[-1]["message"]))

    def says_in_group(self, text: str, mention: str) -> None:
        ours = {"type": "mention", "offset": 0, "length": 9}
        other = {"id": 77, "is_bot": False, "first_name": "claw_bot"}
        theirs = {"type": "text_mention", "offset": 0, "length": 8, "user": other}
        name, marks = {"us": ("@claw_bot ", [ours]), "namesake": ("claw_bot ", [theirs])}.get(
            mention, ("", [])
        )
        self.says(name + text, chat=FakeTelegram.GROUP, entities=marks)

    def bot_says(self, text: str) -> None:
        self.says(text, **{"from": {"id": 78, "is_bot": True, "first_name": "Other"}})

    def disconnect(self) -> None:
        self.fake.drop("getUpdates")

    def fail_next(self, how: str, seconds: float, *, edit: bool) -> None:
        method = "editMessageText" if edit else "sendMessage"
        if how == "lost":
            self.fake.drop(method, after=True)
            return
        refusals = {
            "refused": FakeRefusal(403, "Forbidden: bot was blocked by the user"),
            "busy": too_fast(seconds),
            "down": FakeRefusal(502, "Bad Gateway"),
        }
        self.fake.fail(method, refusals[how])

    def hang_next(self) -> None:
        self.fake.hang("sendMessage")

    def impostor(self) -> TelegramChannel:
        return self._impostor


class TestTelegram(ChannelSuite):
    @asynccontextmanager
    async def place(self) -> AsyncIterator[TelegramPlace]:
        pace = replace(telegram.QUICK, poll=1)
        async with (
            FakeTelegram() as fake,
            telegram.channel_at(fake.url, pace) as channel,
            telegram.channel_at(fake.url, pace, botToken="1:nobody-knows-this") as impostor,
        ):
            yield TelegramPlace(fake, channel, impostor)


class FeishuPlace:
    """An app with a long connection, and the platform on loopback."""

    _SEND, _REWRITE = "POST /open-apis/im/v1/messages", "PUT /open-apis/cardkit"

    def __init__(self, fake: FakeFeishu, channel: FeishuChannel, impostor: FeishuChannel) -> None:
        self.fake, self.channel, self._impostor = fake, channel, impostor

    def address(self) -> Address:
        return Address("feishu", CHAT)

    def shown(self) -> list[str]:
        return feishu.shown(self.fake)

    def acknowledged(self) -> list[str]:
        return self.fake.acked

    async def says(self, text: str) -> None:
        await self.fake.says(text)

    async def again(self) -> None:
        await self.fake.push(self.fake.pushed[-1].event)

    async def says_in_group(self, text: str, mention: str) -> None:
        who = {"us": ((self.fake.bot_open_id, "claw"),), "namesake": (("ou_other", "claw"),)}.get(mention, ())
        await self._says(f"@_user_1 {text}" if who else text, GROUP, group=True, mentions=who)

    async def bot_says(self, text: str) -> None:
        await self._says(text, CHAT, sender_type="app")

    def disconnect(self) -> None:
        self.fake.drop()

    def fail_next(self, how: str, seconds: float, *, edit: bool) -> None:
        match = self._REWRITE if edit else self._SEND
        pause = {"x-ogw-ratelimit-reset": str(seconds)}
        answers = {
            "refused": refusal(230002, "Bot is not in the chat"),
            "busy": refusal(99991400, "limit", 429, pause),
            "down": FeishuAnswer(500, {"code": 1, "msg": "internal error"}),
        }
        if how == "lost":
            self.fake.cut(match, 5)
        else:
            self.fake.fail(match, answers[how])

    def hang_next(self) -> None:
        self.fake.hang(self._SEND)

    def impostor(self) -> FeishuChannel:
        return self._impostor

    async def _says(self, text: str, chat: str, **more: Any) -> None:
        said = events.message(
            self.fake.fresh("om_"), chat, PERSON, "text", {"text": text}, at=self.fake.now(), **more
        )
        await self.fake.push(self.fake.event("im.message.receive_v1", said))


class TestFeishu(ChannelSuite):
    @asynccontextmanager
    async def place(self) -> AsyncIterator[FeishuPlace]:
        async with (
            FakeFeishu(ack_seconds=0.1) as fake,
            feishu.channel(fake) as channel,
            feishu.channel(fake, appSecret="wrong") as impostor,
        ):
            yield FeishuPlace(fake, channel, impostor)


class DiscordPlace:
    """A bot that listens at the gateway, and Discord on loopback. Its gateway knows no acknowledgement."""

    def __init__(self, fake: FakeDiscord, channel: DiscordChannel, impostor: DiscordChannel) -> None:
        self.fake, self.channel, self._impostor = fake, channel, impostor
        self._chat = fake.direct_with(FakeDiscord.ALICE)["id"]
        self._namesake = fake.person(str(fake.me["username"]))
        self._last: dict[str, Any] = {}

    def address(self) -> Address:
        return Address("discord", self._chat)

    def shown(self) -> list[str]:
        return self.fake.shown(self._chat)

    async def says(self, text: str) -> None:
        self._last = await self.fake.says(text, channel=self._chat)

    async def again(self) -> None:
        await self.fake.tell("MESSAGE_CREATE", self._last)

    async def says_in_group(self, text: str, mention: str) -> None:
        who = {"us": f"<@{FakeDiscord.ME}> ", "namesake": f"<@{self._namesake}> "}.get(mention, "")
        await self.fake.says(who + text)

    async def bot_says(self, text: str) -> None:
        await self.fake.says(text, author=self.fake.person("robot", bot=True))

    async def disconnect(self) -> None:
        await self.fake.drop()

    def fail_next(self, how: str, seconds: float, *, edit: bool) -> None:
        answers = {
            "refused": ForcedAnswer(403, {"code": 50007, "message": "Cannot send messages to this user"}),
            "busy": ForcedAnswer(429, {"retry_after": seconds, "global": False}, {"Via": "1.1 google"}),
            "down": ForcedAnswer(503, {"code": 0, "message": "upstream"}),
            "lost": ForcedAnswer(cut=True, done=True),
        }
        self.fake.fail("PATCH /channels/*/messages/*" if edit else "POST /channels/*/messages", answers[how])

    def hang_next(self) -> None:
        self.fake.fail("POST /channels/*/messages", ForcedAnswer(status=500, hang_seconds=600))

    def impostor(self) -> DiscordChannel:
        return self._impostor


@pytest.mark.xdist_group("discordpy")  # discord.py has one address for a whole process
class TestDiscord(ChannelSuite):
    without = ("acknowledgement",)

    @pytest.fixture(autouse=True)
    def _at_home(self, tmp_path: Path) -> None:
        self.home = tmp_path

    @asynccontextmanager
    async def place(self) -> AsyncIterator[DiscordPlace]:
        async with FakeDiscord() as fake:
            channel = discord.channel_of(fake, self.home)
            impostor = discord.channel_of(fake, self.home, token="wrong-token-1234567")
            yield DiscordPlace(fake, channel, impostor)
            for one in (channel, impostor):
                await discord._NETWORKS.pop(one).aclose()
