"""A gateway that is killed at any moment of a streamed answer: the chat shows the whole answer once and nothing else."""

import asyncio
import json
import os
import re
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
from claw_discord.fake import FakeDiscord
from claw_telegram.fake import FakeTelegram
from claw_testing.services import OpenAIService, ReceivedRequest, ServiceReply
from rigs import ledger, script
from rigs.nursery import Nursery

LONGEST_WAIT_SECONDS = 60
LABEL = re.compile(r"m1p\dx3")

pytestmark = [pytest.mark.xdist_group("rig"), pytest.mark.timeout(240)]


class Trap:
    """Calls that the service carries out and does not answer, because they kill the gateway."""

    def __init__(self) -> None:
        self.kill: Callable[[], None] = lambda: None
        self.method, self.left = "", 0

    def carried_out(self, method: str) -> None:
        if method == self.method:
            self.left -= 1
            if self.left == 0:
                self.kill()


class Telegram(FakeTelegram):
    name, sends, edits = "telegram", "sendMessage", "editMessageText"

    def __init__(self, trap: Trap) -> None:
        super().__init__()
        self._trap = trap

    def _execute(self, call: Any) -> Any:
        try:
            return super()._execute(call)
        finally:
            self._trap.carried_out(call.method)

    def section(self) -> dict[str, Any]:
        return {
            "botToken": self.token,
            "apiBase": self.url,
            "pollSeconds": 5,
            "dmPolicy": "open",
            "allowFrom": ["*"],
        }

    async def ask(self, text: str) -> None:
        self.says(text)

    def texts(self) -> list[str]:
        return self.shown()


class Discord(FakeDiscord):
    name, sends, edits = "discord", "post", "change"

    def __init__(self, trap: Trap) -> None:
        super().__init__(heartbeat_ms=2000)
        self._trap = trap
        self._chat = self.direct_with(self.ALICE)["id"]

    def make_message(self, text: str, channel: str, author: str, **more: Any) -> dict[str, Any]:
        made = super().make_message(text, channel, author, **more)
        if author == self.ME:
            self._trap.carried_out("post")
        return made

    async def change(self, id: str, **fields: Any) -> dict[str, Any]:
        changed = await super().change(id, **fields)
        self._trap.carried_out("change")
        return changed

    def section(self) -> dict[str, Any]:
        return {
            "token": self.token, "apiBase": self.api_base, "gatewayUrl": self.gateway_url, "dmPolicy": "open",
            "allowFrom": ["*"],
        }  # fmt: skip

    async def ask(self, text: str) -> None:
        await self.until(lambda: self.gateway.connected, 20)
        await self.says(text, channel=self._chat)

    def texts(self) -> list[str]:
        return self.shown(self._chat)


def slow_answer(request: ReceivedRequest) -> ServiceReply:
    """Answer in two parts with a pause in which the first is shown."""
    return replace(script.answer(request), pause_seconds=0.8)


async def answer_of_killed_gateway(service: type[Any], point: str, tmp_path) -> list[str]:
    """Ask for a long answer, kill the gateway at a point, start it again; return what the chat shows in the end."""
    trap = Trap()
    home, work = tmp_path / "claw", tmp_path / "work"
    for path in (home, work):
        path.mkdir()
    async with AsyncExitStack() as stack:
        fake = await stack.enter_async_context(service(trap))
        model = await stack.enter_async_context(OpenAIService(slow_answer))
        config = {
            "channels": {fake.name: fake.section()},
            "providers": {"openai": {"baseUrl": model.url, "apiKey": "sk-of-the-test"}},
            "agents": {"defaults": {"model": "openai/gpt-4o"}},
        }
        (home / "config.json").write_text(json.dumps(config))
        environ = {"PATH": os.defpath, "HOME": str(tmp_path), "CLAW_HOME": str(home), "LANG": "C.UTF-8"}
        if path := os.environ.get("PYTHONPATH"):
            environ["PYTHONPATH"] = path
        nursery = await stack.enter_async_context(Nursery(work, environ, tmp_path / "said"))
        kind, _, count = point.partition(":")
        called = {"send": fake.sends, "edit": fake.edits}.get(kind)
        life = await nursery.begin(CLAW_FAILPOINT="" if called else point)
        if called:
            trap.method, trap.left, trap.kill = called, int(count), lambda: life.signal(signal.SIGKILL)
        await fake.ask(script.question(1, "long"))
        assert await life.ended(LONGEST_WAIT_SECONDS) == -signal.SIGKILL, nursery.last_words()
        life = await nursery.begin()
        async with asyncio.timeout(LONGEST_WAIT_SECONDS):
            while Counter(LABEL.findall("".join(fake.texts()))).total() < 3 or not ledger.quiet(home):
                await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)  # for what should not follow
        life.signal(signal.SIGTERM)
        await life.ended()
        return fake.texts()


POINTS = [
    "turn-began:1",  # before the first piece
    "send:1",  # the first piece is in the chat, and its id is not known
    "stream-posted:1",  # its id is known and not recorded
    "send:2",  # a second message has begun, and its id is not known
    "answer-recorded:1",
    "turn-ended:1",
    "sending-noted:1",  # before the last edit
    "service-took:1",
]
CASES = [
    *((Telegram, point) for point in (*POINTS, "edit:1")),
    *((Discord, point) for point in (*POINTS, "send:3")),
]


@pytest.mark.parametrize(("service", "point"), CASES, ids=[f"{one.name}-{point}" for one, point in CASES])
async def test_a_kill_at_any_moment_of_a_streamed_answer_leaves_the_whole_answer_alone(
    service, point, tmp_path
):
    texts = await answer_of_killed_gateway(service, point, tmp_path)

    assert LABEL.findall("\n".join(texts)) == ["m1p1x3", "m1p2x3", "m1p3x3"]
    assert all(LABEL.search(text) for text in texts), "nothing is said beside the answer"
