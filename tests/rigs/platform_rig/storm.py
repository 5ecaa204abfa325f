"""A whole run: lives of a gateway that end at all moments while people write; then one life that settles everything."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rigs.nursery import Nursery
from rigs.platform_rig.facts import History
from rigs.platform_rig.gateway_process import STOP_SECONDS, GatewayProcess
from rigs.platform_rig.judge import Verdict, judge
from rigs.platform_rig.labels import notice, pieces
from rigs.platform_rig.settling import Patience, stop, until_settled
from rigs.platform_rig.world import Setting, World, until

ENDS = {
    "start": 5, "ready": 4, "life": 4, "words": 4, "response": 2, "whole": 3, "notice": 2, "search": 3, "delete": 2,
    "effect": 3, "term": 2, "stop": 3, "long": 3,
}  # fmt: skip
"""Weights of the moments at which a life ends.

``start``: within 4 s of the start; ``ready``: within 0.6 s of the first request for news; ``life``: within 8 s;
``words``: a service has shown the beginning of an answer and has not responded; ``response``: it has responded;
``whole``: it has shown the end of an answer; ``notice``: a text that is no answer; ``search``: it is asked for messages
of the bot; ``delete``: it deletes one; ``effect``: a tool has written its line; ``term``: SIGTERM instead of a kill;
``stop``: a kill within 3 s of SIGTERM; ``long``: late, so that work gets done.
"""
_SEARCHES = ("editMessageReplyMarkup", "GET /channels/{channel}/messages", "POST /cards/id_convert")
_DELETES = ("deleteMessage", "DELETE /channels/{channel}/messages/{message}", "DELETE /messages/{message}")
_NEWS = ("getUpdates", "GET /bot/v3/info")
_KINDS = {"plain": 6, "long": 2, "longest": 1, "once": 2, "idempotent": 1, "undeclared": 2, "file": 1}
_RECONSIDERED = 0.15
_FORKED_STARTS, _RESPONDED = 0.4, 0.5
_START_SECONDS, _LIFE_SECONDS, _EVENT_SECONDS, _LONG_SECONDS = 4.0, 8.0, 9.0, 14.0
_READY_SECONDS, _STOPPING_SECONDS = 0.6, 3.0


@dataclass
class Plan:
    """Settings of a run.

    :ivar kills: number of lives before the last one.
    :ivar ends: weights of ``ENDS``.
    :ivar pause_seconds: mean time between two messages of people, over all chats of a channel.
    :ivar patience: time for the last life.
    """

    kills: int = 100
    ends: dict[str, int] = field(default_factory=lambda: dict(ENDS))
    pause_seconds: float = 2.1
    patience: Patience = field(default_factory=Patience)


@dataclass
class Storm:
    """The driver of a run.

    :ivar done: by moment, how many lives ended there.
    """

    world: World
    plan: Plan
    done: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._dice = random.Random(f"{self.world.setting.seed}-storm")
        self._on_moment: Callable[[str, bool], None] = lambda moment, responded: None

    async def run(self) -> History:
        """Run all lives; return the history."""
        self.world.watch(self._shown, self._called)
        with self.world.without_faults():
            await self._meet()
        writers = [asyncio.create_task(self._write(channel)) for channel in self.world.setting.channels]
        writers.append(asyncio.create_task(self._reconsider()))
        try:
            for _ in range(self.plan.kills):
                await self._one_life()
                if self._dice.random() < 0.3:
                    await asyncio.sleep(self._dice.uniform(0.2, 2.5))
        finally:
            for writer in writers:
                writer.cancel()
            await asyncio.gather(*writers, return_exceptions=True)
        await self._settle()
        return self.world.history()

    async def _meet(self) -> None:
        """Let everybody on Discord write once without a kill or a fault.

        A bot cannot ask for messages of a person it never met, so it cannot find what was said behind an invalid session.
        """
        if self.world.discord is None:
            return
        discord, life = self.world.discord, await self.world.start(forked=True)
        if not await until(lambda: discord.is_connected, 180):
            self.world.incidents["not_connected"] += 1
        for chat in self.world.chats("discord"):
            await self.world.say("discord", chat)
        await until_settled(self.world, life, self.plan.patience)
        await stop(self.world, life)

    async def _write(self, channel: str) -> None:
        dice = random.Random(f"{self.world.setting.seed}-{channel}-people")
        while True:
            await asyncio.sleep(dice.expovariate(1 / self.plan.pause_seconds))
            chats = self.world.chats(channel)
            chat = dice.choices(chats, [1 if one.startswith("-") else 3 for one in chats])[0]
            kind = dice.choices(list(_KINDS), list(_KINDS.values()))[0]
            if kind == "file" and channel == "http":
                kind = "plain"  # a caller of the API gets no files
            if not self.world.is_busy(channel, chat):
                await self.world.say(channel, chat, kind)

    async def _reconsider(self) -> None:
        """Let people edit and delete messages, at any moment."""
        dice = random.Random(f"{self.world.setting.seed}-reconsider")
        while any(channel != "http" for channel in self.world.setting.channels):
            await asyncio.sleep(dice.expovariate(_RECONSIDERED / self.plan.pause_seconds))
            await self.world.reconsider()

    def _shown(self, text: str, responded: bool) -> None:
        """Note that a service shows a text: the beginning or the end of an answer, or a notice."""
        found = pieces(text)
        if found:
            self._on_moment("whole" if any(piece.part == 0 for piece in found) else "words", responded)
        if notice(text):
            self._on_moment("notice", responded)

    def _called(self, method: str, responded: bool) -> None:
        """Note that a service is asked for the messages of the bot, or to delete one, or for news."""
        if method.endswith(_SEARCHES):
            self._on_moment("search", responded)
        elif method.endswith(_DELETES):
            self._on_moment("delete", responded)
        elif method in _NEWS and responded:
            self._on_moment("ready", responded)

    async def _one_life(self) -> None:
        end = self._dice.choices(list(self.plan.ends), list(self.plan.ends.values()))[0]
        # To die in an import is one of the moments of a start; the others need none.
        life = await self.world.start(forked=end != "start" or self._dice.random() < _FORKED_STARTS)
        if end in ("words", "response"):
            await self._until_moment(life, "words", responded=end == "response")
        elif end in ("whole", "notice", "search", "delete"):
            await self._until_moment(life, end, responded=self._dice.random() < _RESPONDED)
        elif end == "ready":
            await self._until_moment(life, end, responded=True, seconds=self._dice.uniform(0, _READY_SECONDS))
        elif end == "effect":
            await self._until_effect(life)
        else:
            low, high = {
                "start": (0.0, _START_SECONDS), "long": (_LIFE_SECONDS, _LONG_SECONDS),
            }.get(end, (0.0, _LIFE_SECONDS))  # fmt: skip
            await life.wait(self._dice.uniform(low, high))
        if life.code is not None:
            self.world.ended(life)
        self.done[end] += 1
        if end == "term":
            await stop(self.world, life)
        else:
            if end == "stop":
                life.terminate()
                await life.wait(self._dice.uniform(0, _STOPPING_SECONDS))
            life.kill()
            await life.wait(STOP_SECONDS)

    async def _until_moment(
        self, life: GatewayProcess, moment: str, *, responded: bool, seconds: float = 0.0
    ) -> None:
        """Kill a life at a moment, or so many seconds after it."""
        times = self._dice.choice((1, 1, 2)) if moment != "ready" else 1

        def die(name: str, has_responded: bool) -> None:
            nonlocal times
            if name == moment and has_responded == responded:
                times -= 1
                if times == 0:
                    asyncio.get_running_loop().call_later(seconds, life.kill) if seconds else life.kill()

        self._on_moment = die
        try:
            await life.wait(_EVENT_SECONDS)
        finally:
            self._on_moment = lambda moment, responded: None

    async def _until_effect(self, life: GatewayProcess) -> None:
        before = len(self.world.effect_lines())
        await until(
            lambda: len(self.world.effect_lines()) > before or life.code is not None, _EVENT_SECONDS, 0.01
        )

    async def _settle(self) -> None:
        """Let one life do all that is left, in part still with faults, then ask everybody once more."""
        life = await self.world.start(forked=True)
        await life.wait(3.0)
        self.world.heal()
        await until_settled(self.world, life, self.plan.patience)
        self.world.abandoned = judge(self.world.history()).lost
        for channel in self.world.setting.channels:
            for chat in self.world.chats(channel):
                await self.world.say(channel, chat, probe=True)
        await until_settled(self.world, life, self.plan.patience)
        await stop(self.world, life)


async def run(
    folder: Path, setting: Setting, plan: Plan, nursery: Nursery | None = None
) -> tuple[Verdict, dict[str, Any]]:
    """Run in a new folder; return the verdict and the facts of the run for the report.

    :param nursery: forks most of the gateways; None = each imports what it needs.
    """
    began = time.monotonic()
    async with World(folder, setting, nursery) as world:
        storm = Storm(world, plan)
        history = await storm.run()
        facts: dict[str, Any] = {
            "seed": setting.seed, "channels": ",".join(setting.channels), "queue": setting.queue,
            "kills": plan.kills, "seconds": round(time.monotonic() - began), "moments": dict(storm.done),
            "injected": dict(world.injected()), "model requests": world.model.requests,
        }  # fmt: skip
    verdict = judge(history)
    if verdict.broken:  # for whoever looks for the cause
        places = sorted((*history.asked, *history.visible), key=lambda one: (one.chat, one.position))
        (folder / "history").write_text("\n".join(map(str, places)) + "\n")
    return verdict, facts
