"""Limits on the cost of a gateway, in counts that do not depend on load: modules, wakes, system calls, files.

Beside ``test_budgets.py``; the figures in time are those of ``bench/gateway.py``. Limits stand well above what was
measured (in brackets): they fall when something is done wrong, not when the machine is busy.
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from claw.host.hookspecs import hookimpl
from claw.testing import FakeChannel, FakeProvider, Harness
from claw_gateway.supervisor import ChannelInbox, ChannelServer
from claw_telegram.fake import FakeTelegram

HEAVY = {
    "openai", "anthropic", "discord", "aiohttp", "websockets", "lark_oapi", "cryptography", "mcp", "rich", "ruamel",
    "claw_discord", "claw_feishu", "claw_mcp", "claw_anthropic", "claw_llm_bridge", "claw_tools_std",
    "uvicorn", "click", "multiprocessing", "jsonschema",
}  # fmt: skip
MODULES = 800  # [660]
WAKES_PER_SECOND = 40  # [10: two looks a second at the channels and at the config file]
CPU_PERCENT = 5  # [0.3]
IDLE_MB = 60  # [42; the design allows 45]
TURN_CALLS = (
    300  # [220: two in three are SQLite's, for five commits and eight looks; two syncs, the plugin worker]
)
GROWTH = 4  # times as much for each message, where ten times as many chats wait [1.1]
RUN = """
import signal, sys
from pathlib import Path
out = Path(sys.argv[1])
def note(*_):
    out.with_suffix(".new").write_text("\\n".join(sys.modules))
    out.with_suffix(".new").rename(out)
signal.signal(signal.SIGUSR1, note)
sys.argv = ["claw", "gateway", "run"]
from claw.__main__ import main
main()
"""

STATUS_MODULES = 345  # [330]
STATUS = """
import atexit, sys
sys.argv = ["claw", "gateway", "status"]
atexit.register(lambda: print(*sys.modules, sep="\\n", file=sys.stderr))
from claw.__main__ import main
main()
"""

# Five turns warm claw up. Between the two marks the sixth one runs: from the platform's door to its receipt.
WARM_TURN = """
import asyncio, os, sys
from claw.host.hookspecs import hookimpl
from claw_gateway.supervisor import ChannelServer
from claw.testing import FakeChannel, FakeProvider, Harness, says

watching, seen = False, []
SHOWN = ("open", "os.", "sqlite3.connect", "socket.", "subprocess.", "import", "shutil.", "glob.", "tempfile.")

def watch(event, arguments):
    if watching and event.startswith(SHOWN):
        seen.append(f"{event} {arguments[:1]}")

sys.addaudithook(watch)

class Channels:
    @hookimpl
    def register_channels(self, config):
        return [channel]

async def turn(count):
    channel.says("go on")
    while len(channel.sent) < count:
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.1)

async def main():
    global watching, channel
    channel = FakeChannel()
    config = {"channels": {"fake": {"dmPolicy": "open", "allowFrom": ["*"]}}}
    model = FakeProvider(*[says("ok")] * 6)
    async with Harness(model, installed=True, config=config, plugins={"channels": Channels()}) as harness:
        stop = asyncio.Event()
        serving = asyncio.ensure_future(ChannelServer(harness.app).run(stop))
        for number in range(5):
            await turn(number + 1)
        os.access("/mark", 0)
        watching = True
        await turn(6)
        watching = False
        os.access("/mark", 0)
        stop.set()
        await serving
    print("\\n".join(seen))

asyncio.run(main())
"""


class Gateway:
    """A gateway as a process, looked at from outside."""

    def __init__(self, home: Path, channels: dict[str, object]) -> None:
        home.mkdir()
        config = {
            "channels": channels,
            "gateway": {"port": 0, "auth": {"token": "a-token-of-more-than-16-characters"}},
            "agents": {"defaults": {"model": "openai/none"}},
            "providers": {"openai": {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "none-needed"}},
        }
        (home / "config.json").write_text(json.dumps(config))
        (home / "config.json").chmod(0o600)
        self._modules, self._log = home / "modules", home / "logs" / "claw.jsonl"
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUN, str(self._modules)], env={**os.environ, "CLAW_HOME": str(home)},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._of = Path("/proc") / str(self.process.pid)

    def is_ready(self) -> bool:
        assert self.process.poll() is None, "it ended by itself"
        return self._log.exists() and "ready after" in self._log.read_text()

    async def modules(self) -> list[str]:
        self.process.send_signal(signal.SIGUSR1)
        await until(self._modules.exists)
        return self._modules.read_text().split()

    def wakes(self) -> int:
        lines = [line for task in self._tasks() for line in (task / "status").read_text().splitlines()]
        return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt"))

    def cpu_seconds(self) -> float:
        return sum(int((task / "schedstat").read_text().split()[0]) for task in self._tasks()) / 1e9

    def pss_mb(self) -> float:
        lines = (self._of / "smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024

    def _tasks(self) -> list[Path]:
        return list((self._of / "task").iterdir())


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.02)


@asynccontextmanager
async def running(home: Path) -> AsyncIterator[Gateway]:
    """Telegram by polling, and http: the gateway of the budget."""
    async with FakeTelegram() as fake:
        telegram = {"botToken": fake.token, "apiBase": fake.url, "dmPolicy": "open", "allowFrom": ["*"]}
        gateway = Gateway(home, {"telegram": telegram, "http": {}})
        try:
            await until(gateway.is_ready)
            await until(lambda: len(fake.calls("getUpdates")) > 1)  # the second poll is held: it listens
            yield gateway
        finally:
            gateway.process.kill()
            gateway.process.wait(10)


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="it is read from Linux's /proc")
async def test_a_gateway_that_nobody_writes_to_is_small_and_sleeps(tmp_path: Path) -> None:
    async with running(tmp_path / "idle") as gateway:
        await asyncio.sleep(0.5)  # what begins beside the serving has begun
        wakes, cpu, began = gateway.wakes(), gateway.cpu_seconds(), time.monotonic()
        await asyncio.sleep(3)
        took = time.monotonic() - began

        assert (gateway.wakes() - wakes) / took < WAKES_PER_SECOND
        assert 100 * (gateway.cpu_seconds() - cpu) / took < CPU_PERCENT
        assert gateway.pss_mb() < IDLE_MB
        modules = await gateway.modules()
    assert HEAVY.isdisjoint(name.partition(".")[0] for name in modules)
    assert {"claw_telegram.channel", "claw_http.listener"} <= set(modules)
    assert len(modules) < MODULES


def test_the_status_of_a_gateway_needs_neither_asyncio_nor_the_config_models(tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-c", STATUS], env={**os.environ, "CLAW_HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    modules = told.stderr.split()
    assert "claw_gateway.process.status" in modules
    assert {"asyncio", "claw.config.models", "claw.contracts.messages", "claw.host.manager"}.isdisjoint(
        modules
    )
    assert len(modules) < STATUS_MODULES


def test_a_warm_turn_of_a_channel_opens_no_file_and_imports_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WARM_TURN], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == []


def test_a_warm_turn_of_a_channel_makes_few_system_calls(tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if strace is None:
        why = "strace is not installed; get it with: apt install strace"
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)
    trace = tmp_path / "trace"
    command = [strace, "-f", "-qq", "-o", str(trace), sys.executable, "-c", WARM_TURN]
    subprocess.run(command, capture_output=True, check=True, timeout=100)

    _, turn, _ = trace.read_text().split('"/mark"')
    lines = [line.split(maxsplit=1)[1] for line in turn.splitlines()[1:-1] if "(" in line]
    calls = Counter(line.partition("(")[0] for line in lines if "resumed" not in line)
    assert calls.total() < TURN_CALLS, calls
    assert calls["fdatasync"] + calls["fsync"] <= 2, "one for the journal, one for the session"
    traced = ("openat(", "open(", "getdents64(", "execve(", "connect(")
    assert [line for line in lines if line.startswith(traced)] == []


class Channels:
    """A plugin that registers a channel."""

    def __init__(self, channel: FakeChannel) -> None:
        self._channel = channel

    @hookimpl
    def register_channels(self, config: object) -> list[FakeChannel]:
        return [self._channel]


class Deaf(FakeProvider):
    """A model that never answers: every turn that has begun goes on, and every further message waits."""

    async def stream(self, request):  # type: ignore[no-untyped-def]
        await asyncio.Event().wait()
        yield


async def test_what_waits_does_not_make_the_next_message_dearer(tmp_path: Path) -> None:
    few, many = await taken_in(tmp_path / "few", 100), await taken_in(tmp_path / "many", 1000)
    assert many < GROWTH * few


async def taken_in(home: Path, chats: int) -> float:
    """CPU until a message is acknowledged, the mean of 100, where a message waits in each of so many chats."""
    channel = FakeChannel()
    config = {"channels": {"fake": {"dmPolicy": "open", "allowFrom": ["*"]}}}
    async with Harness(Deaf(), config=config, plugins={"channels": Channels(channel)}, home=home) as harness:
        serving = ChannelServer(harness.app)
        inbox = ChannelInbox(serving, channel)
        for number in range(chats):
            await inbox.submit(channel.says("go on", chat=f"chat-{number}"))
        await asyncio.sleep(0.5)  # the turns that can begin have begun
        began = time.process_time()
        for number in range(100):
            assert await inbox.submit(channel.says("and on", chat=f"chat-{number}"))
        took = time.process_time() - began
        mine = asyncio.current_task()
        for task in asyncio.all_tasks() - {mine}:
            task.cancel()
        await asyncio.sleep(0.1)
    return took / 100
