"""The stage on Feishu: by long connection, or by webhook through the gateway's listener."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import claw_feishu
import httpx2
from claw_feishu.fake import RETRY_SECONDS, FakeAnswer, FakeCall, FakeFeishu, events, refusal
from claw_feishu.longconn import LongConnectionTimings
from integration.channels.platforms import PersonMessage, PlatformChat, VisibleMessage

GROUP = "oc_820faa21d7ed275b"
_MESSAGES = "/open-apis/im/v1/messages"


class Feishu:
    """An app, and those who write to it."""

    name, plugin = "feishu", claw_feishu
    ann, ben, boss, eve = "ou_ann", "ou_ben", "ou_boss", "ou_eve"
    group, topic = PlatformChat(GROUP), PlatformChat(GROUP, "omt_1")
    wrong: Mapping[str, Any] = {"appSecret": "wrong-secret"}
    fix = "appSecret in the developer console"
    patience = 1.0
    largest_out = 30 << 20
    too_large_in = 200 << 20
    acknowledges = True
    drops_repeats = True

    def __init__(self, webhook: bool = False) -> None:
        self.fake = FakeFeishu(
            ack_seconds=3.0 if webhook else 0.3
        )  # a webhook comes again by the fake's clock alone
        self.webhook = webhook
        self.refused: list[str] = []
        """The webhook calls that were not answered with 200."""
        self.remembers: float | None = None
        """Seconds after which claw takes a key for forgotten, in place of the hour that it is."""

    async def __aenter__(self) -> Self:
        await self.fake.start()
        for person in (self.ann, self.ben, self.boss, self.eve):
            self.fake.chats[self.direct(person).chat] = {"chat_mode": "p2p"}
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.fake.stop()

    @property
    def section(self) -> dict[str, Any]:
        return self.fake.config | ({"mode": "webhook"} if self.webhook else {})

    def quicken(self, channel: Any) -> None:
        channel.pace = LongConnectionTimings(connect_seconds=2, pause_seconds=0.02, most_seconds=0.1)
        if self.remembers is not None:
            channel.limits = replace(channel.limits, repeat_seconds=self.remembers)

    async def opened(self, url: str) -> None:
        async def call(headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
            async with httpx2.AsyncClient(trust_env=False) as http:
                try:
                    answer = await http.post(f"{url}/webhook/feishu/default", headers=headers, content=body)
                except httpx2.TransportError as away:
                    self.refused.append(repr(away))
                    raise ConnectionError from away
                if answer.status_code != 200:
                    self.refused.append(f"{answer.status_code} {answer.text}")
                return answer.status_code, answer.content

        if self.webhook:
            self.fake.webhook = call
            await self.fake.advance(RETRY_SECONDS[0] + 1)  # what nobody took is due again

    async def another(self) -> Self:
        return await type(self)(self.webhook).__aenter__()

    def direct(self, person: str) -> PlatformChat:
        return PlatformChat(f"oc_{person}")

    async def says(
        self, text: str, who: str, place: PlatformChat | None = None, *, to_us: bool = False, bot: bool = False,
        file: tuple[str, bytes] | None = None, claims: int = 0,
    ) -> PersonMessage:  # fmt: skip
        group, place = place is not None, place or self.direct(who)
        if bot:
            return await self._says_as_a_bot(text, who, place, to_us)
        more: dict[str, Any] = {}
        if file:
            key = self.fake.fresh("file_")
            self.fake.files[key] = file[1]
            more = {"msg_type": "file", "content": {"file_key": key, "file_name": file[0]}}
        if claims:
            self.fake.fail("/resources/", FakeAnswer(body=b"x", headers={"Content-Length": str(claims)}))
        said = await self.fake.says(
            text, who, chat=place.chat, group=group, mention=to_us, thread=place.thread, **more
        )
        return PersonMessage(said.event["event"]["message"]["message_id"], said)

    async def _says_as_a_bot(self, text: str, who: str, place: PlatformChat, to_us: bool) -> PersonMessage:
        id, mentions = self.fake.fresh("om_"), ((self.fake.bot_open_id, "claw"),) if to_us else ()
        event = events.message(
            id, place.chat, who, "text", {"text": f"@_user_1 {text}" if to_us else text}, at=self.fake.now(), group=True,
            mentions=mentions, sender_type="app",
        )  # fmt: skip
        return PersonMessage(id, await self.fake.push(self.fake.event("im.message.receive_v1", event)))

    async def again(self, said: PersonMessage) -> None:
        await self.fake.push(said.raw.event)

    def acked(self, said: PersonMessage) -> bool:
        return bool(said.raw.acked)

    async def presses(self, seen: VisibleMessage, place: PlatformChat, label: str, who: str) -> None:
        await self.fake.presses(seen.id, label, who)

    def seen(self, place: PlatformChat) -> list[VisibleMessage]:
        ours = [one for one in self.fake.ours if (one.chat_id, one.thread_id) == (place.chat, place.thread)]
        return [self._seen(one) for one in ours]

    def _seen(self, one: Any) -> VisibleMessage:
        text = self.fake.text_of(one.message_id)
        files = (len(self.fake.files[one.content["file_key"]]),) if one.msg_type == "file" else ()
        buttons = (
            re.findall(r'"button".*?"content": "([^"]+)"', _json(self.fake, one))
            if one.msg_type == "interactive"
            else ()
        )
        code = tuple(re.findall(r"^```\w*\n(.*?)\n```$", text, re.S | re.M))
        return VisibleMessage(
            one.message_id, "" if files else text, one.reply_to, code, files, tuple(buttons)
        )

    def being_written(self) -> list[str]:
        shown = (one.message_id for one in self.fake.ours if one.msg_type == "interactive")
        cards = [card.text for id in shown if (card := self.fake.card_of(id)).streaming]
        return cards + [kind for _, kind, who in self.fake.reactions.values() if who == self.fake.app_id]

    def attempts(self, place: PlatformChat) -> int:
        return sum(self._goes_to(place, call) for call in self.fake.log)

    def press(self, place: PlatformChat) -> None:
        slower = refusal(99991400, "request trigger frequency limit", 429, {"x-ogw-ratelimit-reset": "1"})
        self.fake.fail(lambda call: self._goes_to(place, call), slower)

    def refuse(self, place: PlatformChat) -> None:
        gone = refusal(230002, "Bot/User can NOT be out of the chat.")
        self.fake.fail(lambda call: self._goes_to(place, call), gone, times=99)

    def _goes_to(self, place: PlatformChat, call: FakeCall) -> bool:
        if call.method != "POST" or not call.path.startswith(_MESSAGES):
            return False
        if call.path == _MESSAGES:
            return bool(call.body["receive_id"] == place.chat)
        id, _, what = call.path.removeprefix(f"{_MESSAGES}/").partition("/")
        return what == "reply" and self.fake.messages[id].chat_id == place.chat

    def lose(self, place: PlatformChat, times: int = 1) -> None:
        self.fake.fail(lambda call: self._goes_to(place, call), FakeAnswer(cut_after=5), times)

    async def drop(self) -> None:
        self.fake.drop()


def _json(fake: FakeFeishu, one: Any) -> str:
    return json.dumps(fake.card_of(one.message_id).data, ensure_ascii=False)
