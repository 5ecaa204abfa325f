"""One home with its services: who can write where, how a gateway is started, and the history of it all."""

import asyncio
import json
import os
import random
import socket
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

from rigs.nursery import Nursery
from rigs.platform_rig import discord_service, tool_plugin
from rigs.platform_rig.aiogram_judge import write_records
from rigs.platform_rig.discord_observer import DiscordObserver
from rigs.platform_rig.discord_service import DiscordService
from rigs.platform_rig.facts import Asked, Effect, History
from rigs.platform_rig.faults import NEWS_RATES, SEND_RATES, Faults, Rates
from rigs.platform_rig.feishu_messages import APP, SECRET
from rigs.platform_rig.feishu_push import ENCRYPT_KEY, VERIFICATION_TOKEN
from rigs.platform_rig.feishu_service import FeishuService
from rigs.platform_rig.gateway_process import STOP_SECONDS, GatewayProcess
from rigs.platform_rig.http_callers import HttpCallers
from rigs.platform_rig.labels import question_text
from rigs.platform_rig.model_service import ModelService
from rigs.platform_rig.relay import Relay
from rigs.platform_rig.telegram_service import SECOND_TOKEN, TOKEN, TelegramService

CHANNELS = ("telegram", "http", "discord", "webhook", "feishu")
"""``webhook`` is a second account of Telegram's, which is called by it."""
RECORDS = "telegram-records.jsonl"
"""File of a run with the requests of the bots and their updates."""
API_TOKEN = "rig-51d0f7a2c94be683"
_SECRET = "rig-7c41e0b9"
_PRIVATE, _BASIC_GROUP, _GROUP, _FORUM = (101, 102, 103), -501, -1001, -1002
_TOPICS = (7, 8)
_LETTERS = {"telegram": "t", "http": "h", "discord": "d", "webhook": "w", "feishu": "f"}
_USERS = ("u1", "u2", "u3", "u4")
_MOST_CALLS_OF_A_USER, _MOST_WAITING = 3, 8  # two accounts share the conversation of a person
_FEISHU_TWICE = 0.05
_FEISHU_PATH = "/webhook/feishu/default"
_WITHOUT_MESSAGE = (
    "getUpdates", "getMe", "setWebhook", "sendChatAction", "/typing", "/gateway", "/gateway/bot", "/users/@me",
    "/bot/v3/info", "/tenant_access_token/internal",
)  # fmt: skip
_RECENT, _EDITED, _EDIT = 6, 0.6, ", please"


@dataclass(frozen=True)
class Setting:
    """Conditions of a run.

    :ivar faults: lines break and services refuse now and then.
    :ivar descriptors: limit of open files of the gateway; 0 = that of this machine.
    :ivar python: interpreter of the gateway; empty = this one.
    :ivar patience_seconds: time for which HTTP callers repeat a call; a caller who gave up in a storm would be a false
        finding on a busy machine.
    """

    seed: int = 0
    channels: Collection[str] = CHANNELS
    queue: Literal["followup", "collect", "steer"] = "followup"
    faults: bool = True
    tool_seconds: float = 0.2
    import_seconds: float = 0.0
    descriptors: int = 0
    python: str = ""
    patience_seconds: float = 24 * 3600.0


@dataclass
class World:
    """The services of one run; ``async with``.

    :param nursery: forks gateways; None = every gateway imports what it needs.
    """

    folder: Path
    setting: Setting
    nursery: Nursery | None = None
    incidents: Counter[str] = field(default_factory=Counter)
    starts: int = 0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.setting.seed)
        self.home, self.work = self.folder / "claw", self.folder / "work"
        self.port = 0
        self.relay_faults = Faults(self.dice)
        self.imported = self.folder / "imported"
        self.effects, self.said = self.folder / "effects", self.folder / "said"
        self.abandoned: frozenset[str] = frozenset()
        self._asked: list[Asked] = []
        self._numbers: Counter[str] = Counter()
        self._stack = AsyncExitStack()
        self._lines: list[Faults] = []
        self.telegram: TelegramService | None = None
        self.webhook: TelegramService | None = None
        self.discord: DiscordService | None = None
        self.observer: DiscordObserver | None = None
        self.feishu: FeishuService | None = None
        self.callers: HttpCallers | None = None
        self.gateway: GatewayProcess | None = None

    async def __aenter__(self) -> Self:
        for path in (self.home, self.work):
            path.mkdir(parents=True)
        site = tool_plugin.install(self.folder / "site")
        enter = self._stack.enter_async_context
        self.model = await enter(
            ModelService(self._dice_of("model"), only_newest=self.setting.queue == "followup")
        )
        config: dict[str, Any] = {
            "channels": {},
            "providers": {"openai": {"baseUrl": self.model.url, "apiKey": "sk-rig-000000000000000000000000"}},
            "agents": {"defaults": {"model": "openai/gpt-4o"}},
            "messages": {"queue": {"mode": self.setting.queue, "debounce": 0.05}},
        }
        if "telegram" in self.setting.channels:
            config["channels"]["telegram"] = await self._begin_telegram()
        if {"http", "webhook", "feishu"} & set(self.setting.channels):
            self.port = _free_port()
            config["gateway"] = {"port": self.port, "auth": {"token": API_TOKEN}}
            config["channels"]["http"] = {}  # it listens, also for webhooks
        if "webhook" in self.setting.channels:
            section = config["channels"].setdefault("telegram", {})
            section["accounts"] = {"second": await self._begin_webhook()}
        if "discord" in self.setting.channels:
            config["channels"]["discord"] = await self._begin_discord()
        if "feishu" in self.setting.channels:
            config["channels"]["feishu"] = await self._begin_feishu()
        if "http" in self.setting.channels:
            self.relay_faults = self._faults("http")
            relay = await enter(Relay(self.port, self.relay_faults))
            url = f"http://127.0.0.1:{relay.port}/v1"
            self.callers = HttpCallers(
                url, API_TOKEN, self._dice_of("callers"), self.setting.patience_seconds
            )
        (self.home / "config.json").write_text(json.dumps(config))
        self.environ = {
            "PATH": os.defpath, "HOME": str(self.folder), "CLAW_HOME": str(self.home), "LANG": "C.UTF-8",
            "PYTHONPATH": str(site), "RIG_EFFECTS": str(self.effects), "RIG_IMPORTED": str(self.imported),
            "RIG_TOOL_SECONDS": str(self.setting.tool_seconds),
            "RIG_FILES": str(self.home / "workspace-default"),
            "RIG_IMPORT_SECONDS": str(self.setting.import_seconds), "RIG_PYTHON": self.setting.python,
        }  # fmt: skip
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.gateway is not None:
            self.gateway.kill()
            await self.gateway.wait(STOP_SECONDS)
        if self.callers is not None:
            await self.callers.end()
        await self._stack.aclose()
        for bot in self.bots:
            write_records(self.folder / RECORDS, bot.records)

    def _dice_of(self, name: str) -> random.Random:
        return random.Random(f"{self.setting.seed}-{name}")

    def _faults(self, name: str) -> Faults:
        faults = Faults(self._dice_of(name))
        if self.setting.faults:
            faults.send, faults.news = replace(SEND_RATES), replace(NEWS_RATES)
        self._lines.append(faults)
        return faults

    async def _begin_telegram(self) -> dict[str, Any]:
        service = TelegramService(self._faults("telegram"))
        self.telegram = await self._stack.enter_async_context(service)
        for chat in (*_PRIVATE, _BASIC_GROUP, _GROUP):
            service.add_chat(chat)
        service.add_chat(_FORUM, _TOPICS)
        return {
            "botToken": TOKEN, "apiBase": service.url, "pollSeconds": 10, "dmPolicy": "open", "allowFrom": ["*"],
            "groupPolicy": "open", "groups": {"*": {}},
        }  # fmt: skip

    async def _begin_webhook(self) -> dict[str, Any]:
        service = TelegramService(self._faults("webhook"), name="webhook", token=SECOND_TOKEN)
        self.webhook = await self._stack.enter_async_context(service)
        service.push.port = self.port
        for chat in (*_PRIVATE[:2], _GROUP):
            service.add_chat(chat)
        return {
            "botToken": SECOND_TOKEN, "apiBase": service.url, "mode": "webhook", "webhookSecret": _SECRET,
            "webhookUrl": "https://claw.example/webhook/telegram/second", "dmPolicy": "open", "allowFrom": ["*"],
            "groupPolicy": "open", "groups": {"*": {}},
        }  # fmt: skip

    @property
    def bots(self) -> list[TelegramService]:
        """The accounts of Telegram's."""
        return [one for one in (self.telegram, self.webhook) if one is not None]

    async def _begin_discord(self) -> dict[str, Any]:
        self.discord = await self._stack.enter_async_context(DiscordService(self._faults("discord")))
        self.observer = await self._stack.enter_async_context(DiscordObserver(self.discord))
        return {
            "token": discord_service.TOKEN, "apiBase": self.discord.url, "gatewayUrl": self.discord.gateway.url,
            "dmPolicy": "open", "allowFrom": ["*"], "groupPolicy": "open",
        }  # fmt: skip

    async def _begin_feishu(self) -> dict[str, Any]:
        self.feishu = await self._stack.enter_async_context(FeishuService(self._faults("feishu")))
        self.feishu.push.port, self.feishu.push.path = self.port, _FEISHU_PATH
        self.feishu.push.twice = _FEISHU_TWICE if self.setting.faults else 0.0
        return {
            "appId": APP, "appSecret": SECRET, "domain": self.feishu.url, "mode": "webhook",
            "encryptKey": ENCRYPT_KEY, "verificationToken": VERIFICATION_TOKEN, "dmPolicy": "open",
            "allowFrom": ["*"], "groupPolicy": "open", "groups": {"*": {}},
        }  # fmt: skip

    def watch(
        self, on_shown: Callable[[str, bool], None], on_called: Callable[[str, bool], None] | None = None
    ) -> None:
        """Call this with each text that a service shows, before its response (false) and after it (true).

        :param on_called: is called so with the name of each method.
        """
        rest = [self.discord.rest] if self.discord is not None else []
        for one in [*self.bots, *rest, *([self.feishu] if self.feishu is not None else [])]:
            one.on_shown = on_shown
            if on_called is not None:
                one.on_called = on_called

    def chats(self, channel: str) -> tuple[str, ...]:
        """Return the chats of a channel."""
        if channel == "http":
            return _USERS
        if channel == "discord":
            return tuple(self.discord.chats) if self.discord else ()
        if channel == "feishu":
            return self.feishu.chats if self.feishu else ()
        if channel == "webhook":
            return tuple(map(str, (*_PRIVATE[:2], _GROUP)))
        topics = (f"{_FORUM}/{topic}" for topic in _TOPICS)
        return (*map(str, (*_PRIVATE, _BASIC_GROUP, _GROUP)), *topics)

    async def say(self, channel: str, chat: str, kind: str = "plain", *, probe: bool = False) -> str:
        """Let somebody write; return the id of the question."""
        letter = f"{_LETTERS[channel]}{chat.lstrip('u-').replace('/', '')}"
        self._numbers[letter] += 1
        question = f"{letter}.{self._numbers[letter]}"
        if channel == "http":
            assert self.callers is not None
            self.callers.call(chat, question, kind, probe=probe)
            return question
        text = question_text(question, kind)
        if channel == "discord":
            assert self.discord is not None
            position = await self.discord.say(chat, text)
        elif channel == "feishu":
            assert self.feishu is not None
            position = await self.feishu.say(chat, question, text)
        else:
            bot = self.webhook if channel == "webhook" else self.telegram
            assert bot is not None
            position = await bot.say(chat, question, text, person=self.dice.choice(_PRIVATE))
        self._asked.append(Asked(question, channel, chat, kind, position, taken=False, probe=probe))
        return question

    async def reconsider(self) -> None:
        """Let somebody edit a message of the last minutes; or delete it, if the model has seen it."""
        mine = [one for one in self._asked[-_RECENT:] if not one.probe]
        if not mine:
            return
        one = self.dice.choice(mine)
        is_edit = one.question not in self.model.seen or self.dice.random() < _EDITED
        await self.change_message(one.channel, one.chat, one.position, _EDIT if is_edit else "")

    async def change_message(self, channel: str, chat: str, position: int, more: str) -> None:
        """Let somebody add words to a message; empty = delete it."""
        service = {
            "telegram": self.telegram, "webhook": self.webhook, "discord": self.discord, "feishu": self.feishu,
        }[channel]  # fmt: skip
        assert service is not None
        if more:
            await service.change(chat, position, more)
        elif isinstance(service, TelegramService):
            service.remove(chat, position)
        else:
            await service.remove(chat, position)

    def is_busy(self, channel: str, chat: str) -> bool:
        """Return true if people wait for so many answers there that they write no more: fewer than a queue holds (20)."""
        if channel == "http":
            return self.callers is None or self.callers.waiting_of(chat) >= _MOST_CALLS_OF_A_USER
        mine = (one for one in self._asked if (one.channel, one.chat) == (channel, chat))
        return sum(one.question not in self.model.seen for one in mine) >= _MOST_WAITING

    async def start(self, *, forked: bool = False) -> GatewayProcess:
        """Start a gateway.

        :param forked: without its imports, if there is a process to fork.
        """
        self.starts += 1
        if forked and self.nursery is not None:
            self.gateway = await GatewayProcess.fork(self.nursery, self.work, self.environ, self.said)
            return self.gateway
        self.gateway = await GatewayProcess.start(
            self.work, self.environ, self.said, self.setting.descriptors
        )
        return self.gateway

    def ended(self, life: GatewayProcess) -> None:
        """Note how a process ended that nobody had asked to end."""
        if not life.killed:
            self.incidents["crashed"] += 1

    @contextmanager
    def without_faults(self) -> Iterator[None]:
        """Inject no drawn fault in this block."""
        before = [(faults, faults.send, faults.news) for faults in self._lines]
        for faults, _, _ in before:
            faults.send, faults.news = Rates(), Rates()
        yield
        for faults, send, news in before:
            faults.send, faults.news = send, news

    def heal(self) -> None:
        """End all faults."""
        for faults in self._lines:
            faults.heal()

    def injected(self) -> Counter[str]:
        """Return the faults of lines and responses that happened."""
        total = sum((faults.happened for faults in self._lines), Counter[str]())
        for bot in self.bots:
            total[f"{bot.name} 429"] = bot.pace.refused
            total[f"{bot.name} calls before retry_after"] = bot.pace.impatient
        if self.discord is not None:
            total["discord 429"] = self.discord.rest.pace.refused
        if self.feishu is not None:
            total["feishu 429"] = self.feishu.pace.refused
            total["feishu pushes again"] = self.feishu.push.repeats
        return +total

    def calls(self) -> int:
        """Return how often services were called for messages: to send, edit, delete or search one."""
        rest = [self.discord.rest] if self.discord is not None else []
        services = [*self.bots, *rest, *([self.feishu] if self.feishu is not None else [])]
        counts = (item for one in services for item in one.calls.items())
        return sum(count for name, count in counts if not name.endswith(_WITHOUT_MESSAGE))

    def effect_lines(self) -> list[str]:
        """Return the lines that tools have written."""
        return self.effects.read_text().splitlines() if self.effects.exists() else []

    def imports(self) -> int:
        """Return how often the plugin of the rig began to be imported."""
        return len(self.imported.read_text().splitlines()) if self.imported.exists() else 0

    def history(self) -> History:
        """Return the history up to now."""
        confirmed = {question for bot in self.bots for question in bot.confirmed}
        incidents = Counter(self.incidents)
        if missing := self.model.missing.total():
            incidents["tools_missing"] = missing
        services = [*self.bots, *(one for one in (self.discord, self.feishu) if one is not None)]
        if self.feishu is not None:
            confirmed |= self.feishu.confirmed
            incidents["card_open"] = self.feishu.messages.open_cards()
            incidents["reactions_left"] = self.feishu.reactions_left
        wrong = [wrong for service in services for wrong in service.illformed]
        return History(
            asked=[
                replace(one, taken=one.channel == "discord" or one.question in confirmed)
                for one in self._asked
            ],
            visible=[shown for service in services for shown in service.visible()],
            calls=self.callers.calls() if self.callers else [],
            effects=[Effect(*line.split()) for line in self.effect_lines()],
            abandoned=self.abandoned,
            asked_of_model=self.model.seen,
            queue=self.setting.queue,
            illformed=wrong + (self.observer.differences() if self.observer else []),
            incidents=+incidents,
        )


async def until(true: Any, seconds: float, every: float = 0.02) -> bool:
    """Wait until a condition holds, at most so long; return true if it holds."""
    ends = asyncio.get_running_loop().time() + seconds
    while not true():
        if asyncio.get_running_loop().time() > ends:
            return False
        await asyncio.sleep(every)
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
