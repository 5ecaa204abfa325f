"""Every section of the file changes in turn under a gateway whose channels are in use: no message is lost or doubled.

Four channels, each on its platform on loopback: Telegram, Discord, Feishu (webhook through the gateway's listener) and
the HTTP API. In each chat a person writes, waits for the answer, and writes again, while the file is changed. No
connection to the listener is refused or cut meanwhile, and no caller gets a status of 500 or more.
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
from claw import ClawError
from claw.app import App, load_setup
from claw.config.models import Settings
from claw.host.manifest import installed_plugins
from claw_gateway.supervisor import ChannelServer
from claw_http.listener import try_address
from claw_testing.services import AnthropicService, ReceivedRequest, ServiceReply
from integration.channels.on_discord import Discord
from integration.channels.on_feishu import Feishu
from integration.channels.on_telegram import Telegram
from integration.channels.platforms import until

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
    "pluginIndex": {"url": "https://plugins.example.com/index.json", "key": f"{'A' * 43}="},
    "plugins": {"entries": {"memory": {"enabled": False}}},
    "prompt": {"inboundMeta": "user"},
    "providers": {"anthropic": {"apiKey": "sk-ant-EXAMPLE-2"}},
    "session": {"dmScope": "per-account-channel-peer"},
    "tools": {"profile": "minimal"},
}
"""A change for each section of the file."""
NOTHING_TO_CHANGE = {"hooks", "cron"}  # of features that do not exist


SLOW_SECONDS = 0.5


def echo(request: ReceivedRequest) -> ServiceReply:
    """Answer ``answer-NAME-N`` to the last question ``question-NAME-N`` of a request, after a moment; ``slow`` later."""
    last = re.findall(r"question-(\w+-\d+)", json.dumps(request.body["messages"]))[-1]
    return ServiceReply(f"answer-{last}.", delay_seconds=SLOW_SECONDS if last.startswith("slow") else 0.05)


@dataclass
class Traffic:
    """The persons who write on all channels, and what each chat shows.

    :ivar asked: channel → questions that were answered.
    :ivar refused: connections that were refused or cut, and requests that the listener did not serve.
    """

    stages: tuple[Any, ...]
    asked: dict[str, int] = field(default_factory=dict)
    http_answers: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    writing: list[asyncio.Task[None]] = field(default_factory=list)

    def answers(self, stage: Any) -> list[str]:
        texts = [one.text for one in stage.seen(stage.direct(stage.ann))]
        return re.findall(r"answer-\w+-\d+", "\n".join(texts))

    async def write(self, stage: Any) -> None:
        """Write on a platform, one question after the answer to the one before."""
        for number in itertools.count():
            await stage.says(f"question-{stage.name}-{number}", stage.ann)
            async with asyncio.timeout(30):
                while f"answer-{stage.name}-{number}" not in self.answers(stage):
                    await asyncio.sleep(0.02)
            self.asked[stage.name] = number + 1

    async def stop(self) -> None:
        """End the traffic."""
        for task in self.writing:
            task.cancel()
        await asyncio.gather(*self.writing, return_exceptions=True)

    async def ask_http(self, url: str, token: Any) -> None:
        """Ask over the API; repeat only a question whose token was the one before a change."""
        async with httpx2.AsyncClient(trust_env=False, timeout=30) as client:
            for number in itertools.count():
                while not (text := await self.ask_once(client, url, token(), f"http-{number}")):
                    await asyncio.sleep(0.05)
                self.http_answers += re.findall(r"answer-\w+-\d+", text)
                self.asked["http"] = number + 1

    async def ask_once(self, client: httpx2.AsyncClient, url: str, token: str, name: str) -> str:
        """Ask one question; return the answer, or nothing when it was refused."""
        question = {"role": "user", "content": f"question-{name}"}
        body = {"model": "claw", "user": name.partition("-")[0], "messages": [question]}
        head = {"Authorization": f"Bearer {token}"}
        try:
            answer = await client.post(f"{url}/v1/chat/completions", json=body, headers=head)
        except httpx2.TransportError as why:
            self.refused.append(f"{name}: {why!r}")
            return ""
        if answer.status_code == 200:
            return str(answer.json()["choices"][0]["message"]["content"])
        if answer.status_code != 401:
            self.refused.append(f"{name}: {answer.status_code} {answer.text}")
        return ""

    async def connect(self, port: int) -> None:
        """Open one connection after the other, and ask each for the health of the gateway."""
        while True:
            if problem := await health_problem(port):
                self.refused.append(problem)
            await asyncio.sleep(0.002)


async def health_problem(port: int) -> str:
    """Ask for the health of the gateway over a new connection; return what was wrong."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError as why:
        return f"health: {why!r}"
    try:
        writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        line = await reader.readline()
        return "" if line.startswith(b"HTTP/1.1 200") else f"health: {line!r}"
    except OSError as why:
        return f"health: {why!r}"
    finally:
        writer.transport.abort()


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

    @asynccontextmanager
    async def request_in_flight(self, name: str) -> AsyncIterator[None]:
        """Keep one request waiting for its answer until the end of the block, and require that answer."""
        async with httpx2.AsyncClient(trust_env=False, timeout=30) as client:
            asking = asyncio.ensure_future(self.traffic.ask_once(client, self.url, self.token, name))
            await asyncio.sleep(SLOW_SECONDS / 3)
            yield
            answer = await asking
            assert f"answer-{name}" in answer, (answer, self.traffic.refused)

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
async def served(folder: Path, *stages: Any) -> AsyncIterator[Served]:
    home, lines = folder / "home", list[str]()
    home.mkdir(exist_ok=True)
    async with AsyncExitStack() as stack:
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
        writing = made.traffic.writing
        try:
            await until(lambda: made.url and all(one.state.state == "up" for one in server.report().channels))
            for stage in stages:
                await stage.opened(made.url)
            writing += [asyncio.ensure_future(made.traffic.write(stage)) for stage in stages]
            writing.append(asyncio.ensure_future(made.traffic.ask_http(made.url, lambda: made.token)))
            writing.append(asyncio.ensure_future(made.traffic.connect(tree["gateway"]["port"])))
            yield made
        finally:
            failed = [task.exception() for task in writing if task.done() and not task.cancelled()]
            await made.traffic.stop()
            stop.set()
            await asyncio.wait_for(running, 20)
            await server.app.close()
            for problem in failed:
                raise AssertionError(lines) from problem


async def changed_under_traffic(
    folder: Path, changes: Mapping[str, Any], *, telegram_webhook: bool = False
) -> None:
    async with served(folder, Telegram(telegram_webhook), Discord(), Feishu(webhook=True)) as gateway:
        await gateway.everyone_is_answered()
        for number, (section, value) in enumerate(changes.items()):
            async with gateway.request_in_flight(f"slow-{number}"):
                await gateway.change(section, value)
                await gateway.everyone_is_answered()
        for stage in gateway.traffic.stages:
            answers = gateway.traffic.answers(stage)
            count = gateway.traffic.asked[stage.name]
            assert answers[:count] == [f"answer-{stage.name}-{number}" for number in range(count)]
        refused = [
            f"webhook of {stage.name}: {one}"
            for stage in gateway.traffic.stages
            for one in getattr(stage, "refused", ())
        ]
        assert [*gateway.traffic.refused, *refused] == []
        answered = gateway.traffic.http_answers
        assert answered == [f"answer-http-{number}" for number in range(len(answered))]


def test_each_section_of_the_file_has_a_change() -> None:
    sections = {field.alias or name for name, field in Settings.model_fields.items()}
    ours = [one.declares for one in installed_plugins() if one.is_first_party]
    sections |= {key.partition(".")[0] for one in ours for key in one.config_keys}
    assert {name.partition(".")[0] for name in CHANGES} | NOTHING_TO_CHANGE == sections
    channels = {name for one in ours for name in one.channels}
    assert {name.partition(".")[2] for name in CHANGES if "." in name} == channels


@pytest.mark.parametrize("section", ["channels.http", "channels.feishu", "gateway"])
async def test_a_change_of_the_listener_or_the_webhook_leaves_every_channel_served(
    tmp_path: Path, section: str
):
    await changed_under_traffic(tmp_path, {section: CHANGES[section]})


async def test_a_sample_of_the_sections_changes_every_channel_once(tmp_path: Path):
    """The ordinary run has this, and the three above, of the 38 changes that ``--full`` makes."""
    sample = {
        name: change for name, change in CHANGES.items() if name in ("channels.discord", "channels.telegram")
    }
    await changed_under_traffic(tmp_path, sample, telegram_webhook=True)


def states(gateway: Served) -> dict[str, str]:
    return {one.name: one.state.state for one in gateway.server.report().channels}


async def test_a_new_port_is_open_before_the_old_one_is_closed(tmp_path: Path) -> None:
    async with served(tmp_path) as gateway:
        await gateway.traffic.stop()
        old, new, gaps = gateway.tree["gateway"]["port"], _free_port(), list[str]()

        async def knock() -> None:
            while True:
                if (problem := await health_problem(old)) and await health_problem(new):
                    gaps.append(problem)

        knocking = asyncio.ensure_future(knock())
        async with gateway.request_in_flight("slow-0"):
            await gateway.change("gateway", {"port": new})
            await until(lambda: gateway.url.endswith(f":{new}"))
        await until(lambda: _is_free(old))
        knocking.cancel()
        assert gaps == []
        assert await health_problem(new) == ""


async def test_a_wider_and_a_narrower_address_on_the_same_port_refuse_no_connection(tmp_path: Path) -> None:
    async with served(tmp_path) as gateway:
        for number, address in enumerate(("0.0.0.0", "127.0.0.1")):
            async with gateway.request_in_flight(f"slow-{number}"):
                await gateway.change("gateway", {"bind": address})
                await until(lambda address=address: address in gateway.url)
                await gateway.everyone_is_answered()
        assert gateway.traffic.refused == []
        with pytest.raises(ClawError):  # the port is not shared with other processes
            try_address("127.0.0.1", gateway.tree["gateway"]["port"])


async def test_a_port_that_another_program_has_leaves_the_old_one_open(tmp_path: Path) -> None:
    async with served(tmp_path) as gateway:
        old = gateway.tree["gateway"]["port"]
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            await gateway.change("gateway", {"port": other.getsockname()[1]})
            await until(lambda: states(gateway) == {"http": "failed"})
            await gateway.everyone_is_answered()
        await gateway.change("gateway", {"port": old})
        await until(lambda: states(gateway) == {"http": "up"})
        assert gateway.traffic.refused == []


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return probe.connect_ex(("127.0.0.1", port)) != 0


async def test_every_section_is_changed_in_turn_and_no_message_is_lost_or_doubled(tmp_path: Path, full: bool):
    if not full:
        pytest.skip("--full")
    for webhook in (False, True):
        place = tmp_path / str(webhook)
        place.mkdir()
        await changed_under_traffic(place, CHANGES, telegram_webhook=webhook)
