"""The three services behind one shape: messages of people, their acknowledgements, and the visible messages."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, ClassVar, Protocol

from claw_discord.fake import FakeDiscord
from claw_discord.fake.rest import ForcedAnswer
from claw_feishu.fake import FakeFeishu, Pushed
from claw_telegram.fake import FakeTelegram

Shown = tuple[str, str]
"""Chat, text: one message of the bot's that stands there."""
DIRECT, OTHER, GROUP = "direct", "other", "group"
CHATS = (DIRECT, OTHER, GROUP)
"""Two people who write in private, and a group where the bot has to be named."""


class Platform(Protocol):
    """One service.

    :ivar name: of the channel.
    :ivar idempotent: it drops a message that is sent again.
    :ivar groups: its chats of the kind ``GROUP``.
    """

    name: str
    idempotent: bool
    groups: tuple[str, ...]

    def section(self) -> dict[str, Any]:
        """``channels.NAME`` of the config."""
        ...

    async def listened_to(self) -> None:
        """Wait until a gateway is connected, where the service needs that: who never met a bot cannot be asked for."""
        ...

    def say(self, number: int, chat: str, text: str, *, to_us: bool = True) -> None:
        """Somebody writes message ``number``."""
        ...

    def again(self, number: int) -> None:
        """The service delivers a message once more."""
        ...

    def lose(self) -> bool:
        """Carry out what we say next there, and break the line before we hear so; False: that will happen already."""
        ...

    def acknowledged(self) -> set[int]:
        """Messages that the service will not deliver again by itself."""
        ...

    def shown(self) -> Iterator[Shown]:
        """Return the visible messages of each chat, in order."""
        ...

    def life_ended(self) -> None:
        """The gateway is gone."""
        ...


class Losses:
    """One lost response at a time: processes live briefly, and a response that never comes delays all later messages."""

    def __init__(self) -> None:
        self._before = -1

    def is_new(self, sends: int) -> bool:
        """Return true if the last fault has happened, because a message was sent since; ``sends`` so far."""
        is_new = sends > self._before
        if is_new:
            self._before = sends
        return is_new


class Telegram:
    """Long polling: an update is acknowledged by the offset of a later poll.

    It has several groups: each takes 20 posts and edits a minute, and replies behind a full one wait up to 60 seconds.
    """

    name, idempotent = "telegram", False
    groups: tuple[str, ...] = (GROUP, "group 2", "group 3", "group 4")
    _group_ids: ClassVar = {group: FakeTelegram.GROUP - at for at, group in enumerate(groups)}
    _ids: ClassVar = {DIRECT: FakeTelegram.CHAT, OTHER: 444555666, **_group_ids}

    def __init__(self, fake: FakeTelegram, *, streaming: bool) -> None:
        self.fake, self._streaming, self._losses = fake, streaming, Losses()
        self._updates: dict[int, dict[str, Any]] = {}

    def section(self) -> dict[str, Any]:
        return {
            "botToken": self.fake.token, "apiBase": self.fake.url, "pollSeconds": 5, "dmPolicy": "open",
            "allowFrom": ["*"], "groups": {str(id): {} for id in self._group_ids.values()}, "streaming": self._streaming,
        }  # fmt: skip

    async def listened_to(self) -> None:
        pass

    def say(self, number: int, chat: str, text: str, *, to_us: bool = True) -> None:
        fields: dict[str, Any] = {}
        if chat == OTHER:
            fields["from"] = {"id": self._ids[OTHER], "is_bot": False, "first_name": "Li"}
        if chat in self.groups and to_us:
            name = f"@{self.fake.bot['username']}"
            text, fields["entities"] = (
                f"{name} {text}",
                [{"type": "mention", "offset": 0, "length": len(name)}],
            )
        self._updates[number] = self.fake.says(text, chat=self._ids[chat], **fields)

    def again(self, number: int) -> None:
        self.fake.update(message=self._updates[number]["message"])

    def lose(self) -> bool:
        if is_new := self._losses.is_new(len(self.fake.calls("sendMessage"))):
            self.fake.drop("sendMessage", after=True)
        return is_new

    def acknowledged(self) -> set[int]:
        pending = set(self.fake.pending)
        return {number for number, update in self._updates.items() if update["update_id"] not in pending}

    def shown(self) -> Iterator[Shown]:
        for chat, id in self._ids.items():
            yield from ((chat, text) for text in self.fake.shown(id))

    def life_ended(self) -> None:
        pass


class Feishu:
    """Long connection or webhook: an event comes until it is answered with 200.

    :param port: where the gateway hears webhooks; 0 = long connection.
    """

    name, idempotent = "feishu", True
    groups: tuple[str, ...] = (GROUP,)
    _chats: ClassVar = {DIRECT: "oc_direct", OTHER: "oc_other", GROUP: "oc_group"}
    _people: ClassVar = {DIRECT: "ou_direct", OTHER: "ou_other", GROUP: "ou_direct"}

    def __init__(self, fake: FakeFeishu, *, port: int = 0) -> None:
        self.fake, self._port, self._losses = fake, port, Losses()
        if port:
            fake.webhook = self._call
        self._events: dict[int, list[Pushed]] = {}
        self._writing: set[asyncio.Task[None]] = set()

    def section(self) -> dict[str, Any]:
        return {
            **self.fake.config, "mode": "webhook" if self._port else "websocket", "dmPolicy": "open", "allowFrom": ["*"],
            "groups": {self._chats[GROUP]: {}}, "resolveNames": False,
        }  # fmt: skip

    async def listened_to(self) -> None:
        pass

    def say(self, number: int, chat: str, text: str, *, to_us: bool = True) -> None:
        group = chat == GROUP
        said = self.fake.event(
            "im.message.receive_v1", self._message(number, chat, text, mention=group and to_us, group=group)
        )
        self._events[number] = [Pushed(said)]
        self._push(number, said)

    def _message(self, number: int, chat: str, text: str, *, mention: bool, group: bool) -> dict[str, Any]:
        from claw_feishu.fake import events
        from claw_feishu.fake.service import Shown as Standing

        id, content = f"om_{number:06d}", {"text": f"@_user_1 {text}" if mention else text}
        chat_id, sender = self._chats[chat], self._people[chat]
        self.fake.messages[id] = Standing(id, chat_id, "text", content, sender, "user", self.fake.now())
        who = ((self.fake.bot_open_id, "claw"),) if mention else ()
        return events.message(
            id, chat_id, sender, "text", content, at=self.fake.now(), group=group, mentions=who
        )

    def again(self, number: int) -> None:
        self._push(number, self._events[number][0].event)

    def lose(self) -> bool:
        path = "POST /open-apis/im/v1/messages"
        if is_new := self._losses.is_new(len(self.fake.calls(path))):
            self.fake.cut(path, after=5)
        return is_new

    def _push(self, number: int, event: dict[str, Any]) -> None:
        async def push() -> None:
            self._events[number].append(await self.fake.push(event))

        task = asyncio.ensure_future(push())
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    def acknowledged(self) -> set[int]:
        return {number for number, pushed in self._events.items() if any(one.acked for one in pushed)}

    def shown(self) -> Iterator[Shown]:
        places = {**{id: name for name, id in self._chats.items()}, "ou_direct": DIRECT, "ou_other": OTHER}
        for one in self.fake.ours:
            yield places[one.chat_id], self.fake.text_of(one.message_id)

    def life_ended(self) -> None:
        """Repeat unanswered calls at once, not after 15 seconds as the real service does."""
        if self._port:
            for number in self._events.keys() - self.acknowledged():
                self.again(number)

    async def _call(self, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        for _ in range(40):  # the gateway may be between two lives
            with suppress(OSError, asyncio.IncompleteReadError, ValueError, IndexError):
                return await _post(self._port, "/webhook/feishu/default", headers, body)
            await asyncio.sleep(0.1)
        raise OSError("nobody listens")


class Discord:
    """The gateway: nothing is acknowledged by itself, everything can be asked for later."""

    name, idempotent = "discord", True
    groups: tuple[str, ...] = (GROUP,)

    def __init__(self, fake: FakeDiscord) -> None:
        self.fake, self._losses = fake, Losses()
        self._people = {DIRECT: fake.ALICE, OTHER: fake.person("bob"), GROUP: fake.ALICE}
        self._chats = {chat: fake.direct_with(self._people[chat])["id"] for chat in (DIRECT, OTHER)}
        self._chats[GROUP] = fake.CHANNEL
        self._made: dict[int, dict[str, Any]] = {}
        self._writing: set[asyncio.Task[None]] = set()

    def section(self) -> dict[str, Any]:
        return {
            "token": self.fake.token, "apiBase": self.fake.api_base, "gatewayUrl": self.fake.gateway_url,
            "dmPolicy": "open", "allowFrom": ["*"], "groups": {self.fake.GUILD: {}, self.fake.CHANNEL: {}},
        }  # fmt: skip

    async def listened_to(self) -> None:
        await self.fake.until(lambda: self.fake.gateway.connected, 20)

    def say(self, number: int, chat: str, text: str, *, to_us: bool = True) -> None:
        if chat == GROUP and to_us:
            text = f"<@{self.fake.ME}> {text}"
        self._made[number] = self.fake.make_message(text, self._chats[chat], self._people[chat])
        self.again(number)

    def again(self, number: int) -> None:
        task = asyncio.ensure_future(self.fake.tell("MESSAGE_CREATE", self._made[number]))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    def lose(self) -> bool:
        if is_new := self._losses.is_new(len(self.fake.asked("POST", "/messages"))):
            self.fake.fail("POST /channels/*/messages", ForcedAnswer(cut=True, done=True))
        return is_new

    def acknowledged(self) -> set[int]:
        """All: what was said is the bot's to ask for."""
        return set(self._made)

    def shown(self) -> Iterator[Shown]:
        for chat, id in self._chats.items():
            yield from ((chat, text) for text in self.fake.shown(id))

    def life_ended(self) -> None:
        self.fake.gateway.forget()


async def _post(port: int, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        lines = {
            "Host": f"127.0.0.1:{port}",
            "Content-Length": str(len(body)),
            "Connection": "close",
            **headers,
        }
        head = f"POST {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        writer.write(head.encode() + b"\r\n" + body)
        await writer.drain()
        answer = await reader.read()
        head_end = answer.index(b"\r\n\r\n")
        return int(answer.split(b" ", 2)[1]), answer[head_end + 4 :]
    finally:
        writer.close()
