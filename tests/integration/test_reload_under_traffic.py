"""Every section of the file changes in turn under a gateway whose channels are in use: no message is lost or doubled.

Four channels, each on its platform on loopback: Telegram, Discord, Feishu (webhook through the gateway's listener) and
the HTTP API. In each chat a person writes, waits for the answer, and writes again, while the file is changed.
"""

import asyncio
import itertools
import json
import re
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from claw.app import App, load_setup
from claw.config.models import Settings
from claw_gateway.supervisor import ChannelServer
from claw_testing.services import AnthropicService, ReceivedRequest, ServiceReply
from integration.channels.on_discord import Discord
from integration.channels.on_feishu import Feishu
from integration.channels.on_telegram import Telegram
from integration.channels.stage import until

TOKEN = "a-token-of-the-reload-test-0123456789"

CHANGES: Mapping[str, Any] = {
    "agents": {"defaults": {"maxTokens": 4000}},
    "approvals": {"timeout": "90s"},
    "bindings": [{"agent": "main", "match": {"channel": "telegram"}}],
    "budgets": {"all": {"usd": 1000}},
    "channels.discord": {"historyLimit": 7},
    "channels.feishu": {"resolveNames": False},
    "channels.http": {"answerSeconds": 300},
    "channels.telegram": {"historyLimit": 7},
    "gateway": {"auth": {"token": f"{TOKEN}-2"}},
    "locale": "zh",
    "logging": {"level": "debug"},
    "messages": {"silentToken": "HUSH"},
    "models": {"wait": "5s"},
    "owners": ["telegram:111222333"],
    "plugins": {"entries": {"memory": {"enabled": False}}},
    "prompt": {"inboundMeta": "user"},
    "providers": {"anthropic": {"apiKey": "sk-ant-EXAMPLE-2"}},
    "session": {"dmScope": "per-account-channel-peer"},
    "tools": {"profile": "minimal"},
}
"""A change for each section of the file."""
NOTHING_TO_CHANGE = {"hooks", "cron"}  # of features that do not exist


def echo(request: ReceivedRequest) -> ServiceReply:
    """Answer ``answer-NAME-N`` to the last question ``question-NAME-N`` of a request, after a moment."""
    last = re.findall(r"question-(\w+-\d+)", json.dumps(request.body["messages"]))[-1]
    return ServiceReply(f"answer-{last}.", delay_seconds=0.05)


@dataclass
class Traffic:
    """The persons who write on all channels, and what each chat shows.

    :ivar asked: channel → questions that were answered.
    :ivar shown: channel → function that returns all texts of ours in that chat.
    """

    stages: tuple[Any, ...]
    asked: dict[str, int] = field(default_factory=dict)
    http_answers: list[str] = field(default_factory=list)

    def answers(self, stage: Any) -> list[str]:
        texts = [one.text for one in stage.seen(stage.direct(stage.ann))]
        return re.findall(r"answer-\w+-\d+", "\n".join(texts))

    async def write(self, stage: Any) -> None:
        """Write on a platform, one question after the answer to the one before."""
        for number in itertools.count():
            said = await stage.says(f"question-{stage.name}-{number}", stage.ann)
            async with asyncio.timeout(30):
                while f"answer-{stage.name}-{number}" not in self.answers(stage):
                    await asyncio.sleep(0.02)
                    if stage.name == "feishu" and not stage.acked(
                        said
                    ):  # the platform calls again, here at once
                        said.raw.due = [stage.fake.now()]
                        await stage.fake.advance(0)
            self.asked[stage.name] = number + 1

    async def ask_http(self, url: Any, token: Any) -> None:
        """Ask over the API; a refusal that says so is repeated, as its clients do."""
        async with httpx2.AsyncClient(trust_env=False, timeout=30) as client:
            for number in itertools.count():
                question = {"role": "user", "content": f"question-http-{number}"}
                body = {"model": "claw", "user": "ann", "messages": [question]}
                async with asyncio.timeout(30):
                    while True:
                        try:
                            head = {"Authorization": f"Bearer {token()}"}
                            answer = await client.post(
                                f"{url()}/v1/chat/completions", json=body, headers=head
                            )
                            if answer.status_code == 200:
                                break
                            assert answer.status_code in (401, 503), answer.text
                        except (httpx2.TransportError, httpx2.UnsupportedProtocol):
                            pass
                        await asyncio.sleep(0.05)
                self.http_answers += re.findall(
                    r"answer-\w+-\d+", answer.json()["choices"][0]["message"]["content"]
                )
                self.asked["http"] = number + 1


@dataclass
class Served:
    """A gateway that serves all channels, its file, and the traffic on it."""

    home: Path
    tree: dict[str, Any]
    server: ChannelServer
    traffic: Traffic
    lines: list[str]

    @property
    def url(self) -> str:
        channel = self.server.app.registry.channel("http")
        return getattr(channel, "url", "")

    @property
    def token(self) -> str:
        return str(self.tree["gateway"]["auth"]["token"])

    async def change(self, section: str, value: Any) -> None:
        """Merge ``value`` into a section of the file, and let the gateway take the new file."""
        target, *rest = section.split(".")
        if rest:
            merged = _merged(self.tree["channels"].get(rest[0]) or {}, value)
            self.tree = {**self.tree, "channels": {**self.tree["channels"], rest[0]: merged}}
        else:
            self.tree = {**self.tree, target: _merged(self.tree.get(target), value)}
        (self.home / "config.json").write_text(json.dumps(self.tree), encoding="utf-8")
        await self.server.reload(load_setup({"CLAW_HOME": str(self.home), "HOME": str(self.home)}))

    async def everyone_is_answered(self, times: int = 1) -> None:
        """Wait until every channel has had so many further answers."""
        names = [*(stage.name for stage in self.traffic.stages), "http"]
        goal = {name: self.traffic.asked.get(name, 0) + times for name in names}
        try:
            await until(
                lambda: all(self.traffic.asked.get(name, 0) >= count for name, count in goal.items()), 30
            )
        except TimeoutError:
            raise AssertionError(f"{goal} wanted, {self.traffic.asked} answered; {self.lines}") from None


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _merged(old: Any, new: Any) -> Any:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return {**old, **{key: _merged(old.get(key), value) for key, value in new.items()}}
    return deepcopy(new)


@asynccontextmanager
async def served(folder: Path, *, telegram_webhook: bool) -> AsyncIterator[Served]:
    home, lines = folder / "home", list[str]()
    home.mkdir(exist_ok=True)
    async with AsyncExitStack() as stack:
        stages = [Telegram(telegram_webhook), Discord(), Feishu(webhook=True)]
        for stage in stages:
            await stack.enter_async_context(stage)
        model = await stack.enter_async_context(AnthropicService(echo))
        tree = {
            "agents": {"defaults": {"model": "anthropic/claude-sonnet-4-6"}, "list": [{"id": "main"}]},
            "channels": {stage.name: {**stage.section, "allowFrom": [stage.ann]} for stage in stages}
            | {"http": {}},
            "gateway": {"port": _free_port(), "auth": {"token": TOKEN}},
            "providers": {"anthropic": {"baseUrl": model.url, "apiKey": "sk-ant-EXAMPLE"}},
        }
        (home / "config.json").write_text(json.dumps(tree), encoding="utf-8")
        app = App(load_setup({"CLAW_HOME": str(home), "HOME": str(home)}), log=lines.append)
        server, stop = ChannelServer(app), asyncio.Event()
        made = Served(home, tree, server, Traffic(tuple(stages)), lines)
        running = asyncio.ensure_future(server.run(stop))
        writing: list[asyncio.Task[None]] = []
        try:
            await until(lambda: made.url and all(one.state.state == "up" for one in server.report().channels))
            for stage in stages:
                await stage.opened(made.url)
            writing += [asyncio.ensure_future(made.traffic.write(stage)) for stage in stages]
            writing.append(asyncio.ensure_future(made.traffic.ask_http(lambda: made.url, lambda: made.token)))
            yield made
        finally:
            failed = [task.exception() for task in writing if task.done()]
            for task in writing:
                task.cancel()
            stop.set()
            await asyncio.wait_for(running, 20)
            await server.app.close()
            for problem in failed:
                raise AssertionError(lines) from problem


async def changed_under_traffic(
    folder: Path, changes: Mapping[str, Any], *, telegram_webhook: bool = False
) -> None:
    async with served(folder, telegram_webhook=telegram_webhook) as gateway:
        await gateway.everyone_is_answered()
        for section, value in changes.items():
            await gateway.change(section, value)
            await gateway.everyone_is_answered()
        for stage in gateway.traffic.stages:
            answers = gateway.traffic.answers(stage)
            count = gateway.traffic.asked[stage.name]
            assert answers[:count] == [f"answer-{stage.name}-{number}" for number in range(count)]
        answered = gateway.traffic.http_answers
        assert answered == [f"answer-http-{number}" for number in range(len(answered))]


def test_each_section_of_the_file_has_a_change() -> None:
    sections = {field.alias or name for name, field in Settings.model_fields.items()}
    assert {name.partition(".")[0] for name in CHANGES} - {"budgets"} | NOTHING_TO_CHANGE >= sections


@pytest.mark.parametrize("section", ["channels.http", "channels.feishu", "gateway"])
async def test_a_change_of_the_listener_or_the_webhook_leaves_every_channel_served(
    tmp_path: Path, section: str
):
    await changed_under_traffic(tmp_path, {section: CHANGES[section]})


async def test_every_section_is_changed_in_turn_and_no_message_is_lost_or_doubled(tmp_path: Path, full: bool):
    if not full:
        pytest.skip("--full")
    for webhook in (False, True):
        place = tmp_path / str(webhook)
        place.mkdir()
        await changed_under_traffic(place, CHANGES, telegram_webhook=webhook)
