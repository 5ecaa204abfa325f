"""One home with its services: who can write where, how a gateway is started, and the history of it all."""

import asyncio
import json
import os
import random
import socket
from collections import Counter
from collections.abc import Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

from rigs.platform_rig import tool_plugin
from rigs.platform_rig.facts import Asked, Effect, History
from rigs.platform_rig.faults import NEWS_RATES, SEND_RATES, Faults
from rigs.platform_rig.gateway_process import STOP_SECONDS, GatewayProcess
from rigs.platform_rig.http_callers import HttpCallers
from rigs.platform_rig.labels import question_text
from rigs.platform_rig.model_service import ModelService
from rigs.platform_rig.relay import Relay
from rigs.platform_rig.telegram_service import TOKEN, TelegramService

CHANNELS = ("telegram", "http", "discord")
API_TOKEN = "rig-51d0f7a2c94be683"
_PRIVATE, _GROUP = (101, 102, 103), -1001
_USERS = ("u1", "u2")
_MOST_CALLS_OF_A_USER = 3


@dataclass(frozen=True)
class Setting:
    """What is tried.

    :ivar faults: lines break and services refuse now and then.
    :ivar python: interpreter of the gateway; empty = this one.
    """

    seed: int = 0
    channels: Collection[str] = CHANNELS
    queue: Literal["followup", "collect", "steer"] = "followup"
    faults: bool = True
    tool_seconds: float = 0.2
    import_seconds: float = 0.0
    python: str = ""
    patience_seconds: float = 600.0


@dataclass
class World:
    """The services of one run; ``async with``."""

    folder: Path
    setting: Setting
    incidents: Counter[str] = field(default_factory=Counter)
    starts: int = 0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.setting.seed)
        self.home, self.work = self.folder / "claw", self.folder / "work"
        self.effects, self.said = self.folder / "effects", self.folder / "said"
        self._asked: list[Asked] = []
        self._numbers: Counter[str] = Counter()
        self._stack = AsyncExitStack()
        self._lines: list[Faults] = []
        self.telegram: TelegramService | None = None
        self.callers: HttpCallers | None = None
        self.gateway: GatewayProcess | None = None

    async def __aenter__(self) -> Self:
        for path in (self.home, self.work):
            path.mkdir(parents=True)
        site = tool_plugin.install(self.folder / "site")
        enter = self._stack.enter_async_context
        self.model = await enter(ModelService(self._dice_of("model")))
        config: dict[str, Any] = {
            "channels": {},
            "providers": {"openai": {"baseUrl": self.model.url, "apiKey": "sk-rig-000000000000000000000000"}},
            "agents": {"defaults": {"model": "openai/gpt-4o"}},
            "messages": {"queue": {"mode": self.setting.queue, "debounce": 0.05}},
        }
        if "telegram" in self.setting.channels:
            config["channels"]["telegram"] = await self._begin_telegram()
        if "http" in self.setting.channels:
            port = _free_port()
            config["gateway"] = {"port": port, "auth": {"token": API_TOKEN}}
            config["channels"]["http"] = {}
            relay = await enter(Relay(port, self._faults("http")))
            url = f"http://127.0.0.1:{relay.port}/v1"
            self.callers = HttpCallers(
                url, API_TOKEN, self._dice_of("callers"), self.setting.patience_seconds
            )
        (self.home / "config.json").write_text(json.dumps(config))
        self.environ = {
            "PATH": os.defpath, "HOME": str(self.folder), "CLAW_HOME": str(self.home), "LANG": "C.UTF-8",
            "PYTHONPATH": str(site), "RIG_EFFECTS": str(self.effects),
            "RIG_TOOL_SECONDS": str(self.setting.tool_seconds),
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
        for chat in (*_PRIVATE, _GROUP):
            service.add_chat(chat)
        return {
            "botToken": TOKEN, "apiBase": service.url, "pollSeconds": 10, "dmPolicy": "open", "allowFrom": ["*"],
            "groupPolicy": "open", "groups": {str(_GROUP): {}},
        }  # fmt: skip

    def services(self) -> list[TelegramService]:
        """Return the services that show messages."""
        return [service for service in (self.telegram,) if service is not None]

    def chats(self, channel: str) -> tuple[str, ...]:
        """Return the chats of a channel."""
        if channel == "http":
            return _USERS
        return tuple(map(str, (*_PRIVATE, _GROUP)))

    async def say(self, channel: str, chat: str, kind: str = "plain", *, probe: bool = False) -> str:
        """Let somebody write; return the id of the question."""
        letter = f"{channel[0]}{abs(int(chat.lstrip('u')))}"
        self._numbers[letter] += 1
        question = f"{letter}.{self._numbers[letter]}"
        if channel == "http":
            assert self.callers is not None
            self.callers.call(chat, question, kind, probe=probe)
            return question
        assert self.telegram is not None
        position = await self.telegram.say(int(chat), question, question_text(question, kind))
        self._asked.append(Asked(question, channel, chat, kind, position, taken=False, probe=probe))
        return question

    def is_busy(self, channel: str, chat: str) -> bool:
        """Return true if a caller waits for so many answers that he calls no more."""
        return channel == "http" and (
            self.callers is None or self.callers.waiting_of(chat) >= _MOST_CALLS_OF_A_USER
        )

    async def start(self) -> GatewayProcess:
        """Start a gateway."""
        self.starts += 1
        self.gateway = await GatewayProcess.start(self.work, self.environ, self.said)
        return self.gateway

    def ended(self, life: GatewayProcess) -> None:
        """Note how a process ended that nobody had asked to end."""
        if not life.killed:
            self.incidents["crashed"] += 1

    def heal(self) -> None:
        """End all faults."""
        for faults in self._lines:
            faults.heal()

    def injected(self) -> Counter[str]:
        """Return the faults of lines and responses that happened."""
        total = sum((faults.happened for faults in self._lines), Counter[str]())
        if self.telegram is not None:
            total["telegram 429"] = self.telegram.pace.refused
            total["telegram calls before retry_after"] = self.telegram.pace.impatient
        return +total

    def effect_lines(self) -> list[str]:
        """Return the lines that tools have written."""
        return self.effects.read_text().splitlines() if self.effects.exists() else []

    def history(self) -> History:
        """Return the history up to now."""
        confirmed = self.telegram.confirmed if self.telegram else set()
        incidents = Counter(self.incidents)
        if missing := self.model.missing.total():
            incidents["tools_missing"] = missing
        return History(
            asked=[replace(one, taken=one.question in confirmed) for one in self._asked],
            visible=self.telegram.visible() if self.telegram else [],
            calls=self.callers.calls() if self.callers else [],
            effects=[Effect(*line.split()) for line in self.effect_lines()],
            queue=self.setting.queue,
            illformed=self.telegram.illformed if self.telegram else [],
            incidents=incidents,
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
