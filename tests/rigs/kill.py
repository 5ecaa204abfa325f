"""One home, three platforms, and a gateway that dies many times: a history, made from a seed.

A life ends by ``kill -9`` at a random moment or at a named fail point; people write before, during and after it. At the
end one life may settle everything; then the history is put together for the checker.
"""

import asyncio
import json
import os
import random
import signal
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from claw_discord.fake import FakeDiscord
from claw_feishu.fake import FakeFeishu
from claw_gateway.process.failpoint import NAMES
from claw_telegram.fake import FakeTelegram
from claw_testing.services import OpenAIService
from third_party import installed

from rigs import ledger, script
from rigs.checker import Asked, ChatMessage, History
from rigs.nursery import Life, Nursery
from rigs.platforms import CHATS, GROUP, Discord, Feishu, Platform, Telegram

_JOT = '''
import os
from claw import hookimpl, tool

@tool(effects="once")
def jot(number: int) -> str:
    """Write a number down."""
    with open(os.environ["RIG_EFFECTS"], "a") as file:
        file.write(f"{number}\\n")
    return f"{number} is written down"

@hookimpl
def register_tools(config):
    return [jot]
'''
_NEEDS = {"effect-marked": "jot", "effect-done": "jot", "stream-posted": "long", "turn-began": "plain"}
"""Fail point → the request that passes it."""
_LONGEST_LIFE_SECONDS = 2.5
_NOTES_SECONDS = 1.3  # after which Discord's channel has noted who writes to it
_SETTLE_SECONDS = (
    75.0  # without progress: a full group of Telegram's takes the next message after 60 at the latest
)
_LONGEST_SETTLE_SECONDS = 600.0  # a machine that is very busy; alone it takes seconds
_LOST_SHARE = 0.3
_REAPED_SECONDS = 180.0  # nothing survives it; but the machine may be held up


@dataclass
class Report:
    """Counts of a run of the rig.

    :ivar fired: by fail point, how often it killed; ``time`` = killed at a random moment.
    :ivar lost: responses that a platform lost on request.
    :ivar asked: messages of people; ``marks``: sends marked as possibly repeated; ``doubts``: those not sent again.
    """

    kills: int = 0
    fired: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    asked: int = 0
    marks: int = 0
    doubts: int = 0
    seconds: float = 0.0


@dataclass
class Rig:
    """The world of one history."""

    home: Path
    effects: Path
    platforms: tuple[Platform, ...]
    nursery: Nursery
    dice: random.Random
    plain_share: float = 0.05
    asked: dict[int, Asked] = field(default_factory=dict)
    report: Report = field(default_factory=Report)

    def say(self, platform: Platform, chat: str, kind: str) -> None:
        """Somebody writes."""
        number = len(self.asked) + 1
        self.asked[number] = Asked(number, platform.name, chat, kind)
        aside = kind == "aside"
        text = f"aside-{number}" if aside else script.question(number, kind)
        platform.say(number, chat, text, to_us=not aside)

    def somebody_writes(self) -> None:
        """Anybody, anything, anywhere; now and then the service repeats itself, or loses what it says to an answer."""
        platform, chat = self._anywhere()
        if self.dice.random() < _LOST_SHARE:
            self.report.lost += platform.lose()
        kinds = {"plain": 5, "jot": 3, "long": 2, "hush": 1, "aside": 1 if chat in platform.groups else 0}
        self.say(platform, chat, self.dice.choices(list(kinds), list(kinds.values()))[0])
        if self.dice.random() < 0.15:
            mine = [one.number for one in self.asked.values() if one.platform == platform.name]
            platform.again(self.dice.choice(mine))

    def _anywhere(self) -> tuple[Platform, str]:
        """Return a chat of a platform: as often a group, whichever it is, as each of the private chats."""
        platform, chat = self.dice.choice(self.platforms), self.dice.choice(CHATS)
        return platform, self.dice.choice(platform.groups) if chat == GROUP else chat

    async def warm_up(self) -> None:
        """A first life that is let live: everybody has written once."""
        life = await self._begin()
        for platform in self.platforms:
            try:
                await platform.listened_to()
            except TimeoutError:
                raise AssertionError(
                    f"nobody listens on {platform.name}: {self.nursery.last_words()}"
                ) from None
            for chat in CHATS:
                self.say(platform, chat, "plain")
        await self._until_quiet(life)
        await asyncio.sleep(_NOTES_SECONDS)
        await self._end(life, "time")

    async def one_life(self, point: str = "") -> None:
        """A life that ends badly.

        :param point: fail point with its count; empty = at a random moment.
        """
        name = point.partition(":")[0]
        for _ in range(self.dice.randint(0, 2)):
            self.somebody_writes()
        if name in _NEEDS:
            self.say(*self._anywhere(), _NEEDS[name])
        life = await self._begin(point)
        left = self.dice.uniform(0.05, 0.9) if not point else _LONGEST_LIFE_SECONDS
        ends = time.monotonic() + left
        while (left := ends - time.monotonic()) > 0:
            if not await life.lives(min(left, self.dice.uniform(0.05, 0.5))):
                break
            self.somebody_writes()
        await self._end(life, name or "time")

    async def settle(self) -> int:
        """Run a process until all work is done, then stop it; return its exit code."""
        life = await self._begin()
        await self._until_quiet(life)
        life.signal(signal.SIGTERM)
        return await life.ended()

    def history(self) -> History:
        """Return the history: the view of the platforms and the content of the disk."""
        numbers, wrong = ledger.recorded(self.home)
        effects = self.effects.read_text().split() if self.effects.exists() else []
        return History(
            asked=tuple(self.asked.values()),
            acknowledged=frozenset().union(*(one.acknowledged() for one in self.platforms)),
            visible=tuple(ChatMessage(one.name, *shown) for one in self.platforms for shown in one.shown()),
            taken=tuple(ledger.taken(self.home)),
            turns=tuple(ledger.turns(self.home)),
            replies=tuple(ledger.replies(self.home)),
            effects=tuple(map(int, effects)),
            recorded=tuple(numbers),
            unreadable=tuple(wrong),
            idempotent=frozenset(one.name for one in self.platforms if one.idempotent),
            doubts=self.report.lost + self.report.kills * len(CHATS),
        )

    async def _begin(self, point: str = "") -> Life:
        # A process that dies while it loads a plugin counts that plugin as the culprit: true, and not what is tried here.
        for note in (self.home / "plugins").glob(".starting-*"):
            note.unlink()
        return await self.nursery.begin(plain=self.dice.random() < self.plain_share, CLAW_FAILPOINT=point)

    async def _end(self, life: Life, how: str) -> None:
        died = life.over.is_set()
        life.signal(signal.SIGKILL)
        code = await life.ended(_REAPED_SECONDS)
        assert code == -signal.SIGKILL, f"a gateway ended by itself with {code}: {self.nursery.last_words()}"
        self.report.kills += 1
        self.report.fired[how if died else "time"] += 1
        for platform in self.platforms:
            platform.life_ended()

    async def _until_quiet(self, life: Life) -> None:
        """Wait until all work is done, longer while anything happens: a message that is taken adds to what is left."""
        began = time.monotonic()
        ends, before, nudge = began + _SETTLE_SECONDS, None, began + 3
        while time.monotonic() < min(ends, began + _LONGEST_SETTLE_SECONDS) and await life.lives(0.05):
            left = ledger.unsettled(self.home)
            if left == 0 and self._all_acknowledged():
                return
            if left is not None and left != before:
                before, ends = left, time.monotonic() + _SETTLE_SECONDS
            if time.monotonic() > nudge:
                nudge += 3
                for platform in self.platforms:
                    if platform.name == "feishu":
                        platform.life_ended()

    def _all_acknowledged(self) -> bool:
        acknowledged = set().union(*(one.acknowledged() for one in self.platforms))
        return acknowledged == self.asked.keys() == {row.number for row in ledger.taken(self.home)}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def config(platforms: tuple[Platform, ...], model_url: str, port: int, queue: str) -> dict[str, Any]:
    """``config.json`` of a history."""
    channels = {one.name: one.section() for one in platforms}
    return {
        "channels": {**channels, **({"http": {}} if port else {})},
        "gateway": {"port": port, "auth": {"token": "tok-3f9a7c21d8e64b05"}},
        "providers": {"openai": {"baseUrl": model_url, "apiKey": "sk-of-the-rig"}},
        "agents": {"defaults": {"model": "openai/gpt-4o"}},
        "messages": {"queue": {"mode": queue, "debounce": 0.05}},
    }


@asynccontextmanager
async def rig(seed: int, folder: Path) -> AsyncIterator[Rig]:
    """The world of a seed: which way Feishu comes, whether Telegram streams, how messages wait."""
    dice = random.Random(seed)
    port = _free_port() if seed % 2 else 0
    queue = ("steer", "collect", "followup")[seed % 3]
    home, work = folder / "claw", folder / "work"
    for path in (home, work):
        path.mkdir(parents=True)
    site = installed(folder / "site", "jot", _JOT)
    async with AsyncExitStack() as stack:
        telegram = await stack.enter_async_context(FakeTelegram())
        feishu = await stack.enter_async_context(FakeFeishu(ack_seconds=0.5))
        discord = await stack.enter_async_context(FakeDiscord(heartbeat_ms=2000))
        model = await stack.enter_async_context(OpenAIService(script.answer))
        platforms = (Telegram(telegram, streaming=seed % 4 < 2), Feishu(feishu, port=port), Discord(discord))
        whole = config(platforms, model.url, port, queue)
        (home / "config.json").write_text(json.dumps(whole))
        path = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))
        environ = {
            "PATH": os.defpath, "HOME": str(folder), "CLAW_HOME": str(home), "LANG": "C.UTF-8",
            "PYTHONPATH": path, "RIG_EFFECTS": str(folder / "effects"),
        }  # fmt: skip
        nursery = await stack.enter_async_context(Nursery(work, environ, folder / "said"))
        yield Rig(home, folder / "effects", platforms, nursery, dice)


async def many_deaths(seed: int, kills: int, folder: Path) -> tuple[Rig, History]:
    """A whole history with so many kills, about half of them at fail points, in turn."""
    began = time.monotonic()
    async with rig(seed, folder) as made:
        await made.warm_up()
        names = made.dice.sample(NAMES, len(NAMES))
        for at in range(kills - made.report.kills):
            by_time = made.dice.random() < 0.4
            await made.one_life("" if by_time else f"{names[at % len(names)]}:{made.dice.choice((1, 1, 2))}")
        code = await made.settle()
        assert code == 0, f"told to stop, the gateway ended with {code}"
        history = made.history()
    made.report.seconds = time.monotonic() - began
    return made, history
