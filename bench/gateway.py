"""The gateway as a process, with simulated Telegram users and API callers: one JSON document on stdout.

    python bench/gateway.py [--seconds 5] [--starts 3] [--messages 10000] [--claw PATH]

Platforms (``people.py``) and model (``mock.py``) are processes of their own. Overhead of a turn is its time
less
that of the model; CPU and memory are of the gateway's process alone.
"""

import argparse
import asyncio
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

from turns import HERE, Model, make_home

TOKEN = "token-of-the-bench-0123456789"
PATIENCE_SECONDS = 60.0
WARMING_TURNS = 5


class People:
    """The process of ``people.py``."""

    def __init__(self) -> None:
        command = [sys.executable, str(HERE / "people.py")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.channels = self._line()
        """The section ``channels`` of a config file, by platform."""

    def do(self, task: str, **more: Any) -> Any:
        """Run one task."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": task, **more}) + "\n")
        self._process.stdin.flush()
        return self._line()

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait(10)

    def _line(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


class Gateway:
    """A running ``claw gateway run``, observed from outside."""

    def __init__(self, claw: list[str], environ: Mapping[str, str], port: int) -> None:
        self.claw, self.environ, self.port, self.began = claw, environ, port, time.monotonic()
        self._process = subprocess.Popen(
            [*claw, "gateway", "run"],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._of = Path("/proc") / str(self._process.pid)

    def ready(self) -> float:
        """Wait until it reports that it is ready; return seconds since its start."""
        assert self._process.stderr is not None
        while "ready" not in (line := self._process.stderr.readline()):
            if not line:
                raise SystemExit("the gateway did not come up")
        return time.monotonic() - self.began

    def answers(self) -> float:
        """Wait until its health check succeeds; return seconds since its start."""
        while time.monotonic() - self.began < PATIENCE_SECONDS:
            with suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=1).close()
                break
            time.sleep(0.002)
        return time.monotonic() - self.began

    @property
    def threads(self) -> list[Path]:
        """The ``/proc`` folders of its threads."""
        return list((self._of / "task").iterdir())

    def cpu_ms(self) -> float:
        """Return the CPU time of its threads so far."""
        return sum(int((task / "schedstat").read_text().split()[0]) for task in self.threads) / 1e6

    def wakes(self) -> int:
        """Return how often its threads have gone to sleep."""
        lines = [line for task in self.threads for line in (task / "status").read_text().splitlines()]
        return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt"))

    def pss_mb(self) -> float:
        """Return its memory, shared pages counted in part."""
        lines = (self._of / "smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024

    def stop(self) -> float:
        """Send the stop signal; return seconds until it has ended."""
        began = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        self._process.communicate(timeout=PATIENCE_SECONDS)
        return time.monotonic() - began


@contextmanager
def running(
    claw: list[str], channels: Mapping[str, Any], url: str, http: bool = True, write: People | None = None
) -> Iterator[Gateway]:
    """Run a gateway on a fresh home.

    :param write: a person who has written before it starts, in session 1.
    """
    with tempfile.TemporaryDirectory() as folder:
        environ = make_home(Path(folder) / "home", url)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        file = Path(environ["CLAW_HOME"]) / "config.json"
        config = json.loads(file.read_text())
        config["channels"] = {
            name: {**section, "dmPolicy": "open", "allowFrom": ["*"]} for name, section in channels.items()
        }
        config["session"] = {"dmScope": "per-channel-peer"}
        if http:
            config["channels"]["http"] = {}
            config["gateway"] = {"port": port, "auth": {"token": TOKEN}}
        file.write_text(json.dumps(config))
        if write:
            write.do("write", session=1)
        gateway = Gateway(claw, environ, port)
        try:
            yield gateway
        finally:
            gateway.stop()


def start(claw: list[str], people: People, model: Model, times: int) -> dict[str, float]:
    """Measure fresh homes: time until ready, until healthy, and until a waiting message is answered."""
    ready, health, cpu, reply = [], [], [], []
    only = {"telegram": people.channels["telegram"]}
    for number in range(times + 1):
        with running(claw, only, model.url, write=people) as gateway:
            seconds = gateway.ready()
            cpu_ms = gateway.cpu_ms()
            well = gateway.answers()
            replied = people.do("answered", session=1)["at"] - gateway.began
        people.do("forget")
        if number:  # the first one warms the page cache
            ready.append(1000 * seconds)
            health.append(1000 * well)
            cpu.append(cpu_ms)
            reply.append(1000 * replied)
    figures = {"ready_ms": ready, "health_ms": health, "ready_cpu_ms": cpu, "first_reply_ms": reply}
    return {name: median(values) for name, values in figures.items()}


def idle(
    claw: list[str], channels: Mapping[str, Any], url: str, seconds: float, http: bool
) -> dict[str, float]:
    """Measure a gateway without messages: memory, CPU, wakeups."""
    with running(claw, channels, url, http) as gateway:
        gateway.ready()
        time.sleep(3)
        cpu, wakes, began = gateway.cpu_ms(), gateway.wakes(), time.monotonic()
        time.sleep(seconds)
        took = time.monotonic() - began
        return {
            "pss_mb": gateway.pss_mb(),
            "threads": len(gateway.threads),
            "cpu_percent": (gateway.cpu_ms() - cpu) / took / 10,
            "wakes_per_second": (gateway.wakes() - wakes) / took,
        }


def load(
    gateway: Gateway,
    people: People,
    model: Model,
    http: bool,
    sessions: int,
    think: int,
    seconds: float,
    turns: int = 1000,
) -> dict[str, float]:
    """Run sessions in parallel for a while; measure the cost of a turn, and turns per second."""
    model.calls()
    cpu = gateway.cpu_ms()
    port = gateway.port if http else 0
    told = people.do(
        "load", port=port, token=TOKEN, sessions=sessions, think=think, seconds=seconds, turns=turns
    )
    cpu = gateway.cpu_ms() - cpu
    asked = median(call["seconds"] for call in model.calls())
    return {
        "turns_per_second": told["turns"] / told["seconds"],
        "overhead_ms": told["median_ms"] - 1000 * asked,
        "overhead_p95_ms": told["p95_ms"] - 1000 * asked,
        "cpu_ms": cpu / told["turns"],
        "turns": told["turns"],
        "model_ms": 1000 * asked,
    }


def commands(gateway: Gateway, times: int) -> dict[str, float]:
    """Measure the cost of inspecting the running gateway, in ms of CPU."""
    from run import timed

    return {
        "_".join(words): timed([*gateway.claw, *words], gateway.environ, times)["cpu_ms"]
        for words in (("gateway", "status"), ("channels", "list"), ("channels", "status"))
    }


@contextmanager
def at_most(look: Callable[[], float], every_seconds: float = 0.1) -> Iterator[list[float]]:
    """Sample ``look`` repeatedly while the block runs; the largest value is the peak."""
    seen, over = [look()], threading.Event()

    def watch() -> None:
        while not over.wait(every_seconds):
            seen.append(look())

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield seen
    finally:
        over.set()
        watching.join()


def busy(claw: list[str], people: People, model: Model, options: argparse.Namespace) -> dict[str, Any]:
    """Measure Telegram by polling and the API, in one gateway: warm turns, many sessions, a flood."""
    found: dict[str, Any] = {}
    with running(claw, {"telegram": people.channels["telegram"]}, model.url) as gateway:
        gateway.ready()
        gateway.answers()
        for name, http in (("telegram", False), ("http", True)):
            load(gateway, people, model, http, 1, 0, PATIENCE_SECONDS, WARMING_TURNS)
            found[f"{name}_warm"] = load(gateway, people, model, http, 1, 0, PATIENCE_SECONDS, options.turns)
            for sessions, think in ((16, 0), (64, 200)):
                load(gateway, people, model, http, sessions, think, 1)
                found[f"{name}_{sessions}_{think}"] = load(
                    gateway, people, model, http, sessions, think, options.seconds
                )
        found["commands"] = commands(gateway, 5)
        if options.messages:
            before, cpu = gateway.pss_mb(), gateway.cpu_ms()
            with at_most(gateway.pss_mb) as most:
                found["flood"] = people.do("flood", messages=options.messages, chats=100)
            found["flood"] |= {"growth_mb": max(most) - before, "left_mb": gateway.pss_mb() - before}
            found["flood"]["cpu_ms"] = gateway.cpu_ms() - cpu
            found["flood"]["cpu_ms_per_message"] = found["flood"]["cpu_ms"] / options.messages
    return found


async def journal(folder: Path, times: int = 200) -> dict[str, float]:
    """Measure the time until a message may be acknowledged, in µs."""
    from claw.contracts.messages import Address, Inbound, Sender
    from claw.storage.database import Database
    from claw_gateway.journal import Journal

    numbers = itertools.count()

    def told() -> Inbound:
        number = str(next(numbers))
        return Inbound(
            Address("bench", "chat"), "go on " * 20, Sender("p"), message_id=number, event_id=number
        )

    async def both(notes: Journal) -> None:
        notes.accept(told())
        await notes.durable()

    database = Database(folder / "state.db")
    try:
        notes = Journal(database)
        await both(notes)
        began = time.perf_counter()
        for _ in range(times):
            notes.accept(told())
        accepted = time.perf_counter() - began
        began = time.perf_counter()
        for _ in range(times):
            await both(notes)
        alone = time.perf_counter() - began
        began = time.perf_counter()
        for _ in range(times // 100):
            await asyncio.gather(*(both(notes) for _ in range(100)))
        together = time.perf_counter() - began
    finally:
        database.close()
    each = 1e6 / times
    return {"accept_us": accepted * each, "durable_us": alone * each, "together_us": together * each}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run all phases."""
    claw = [sys.executable, options.claw]
    model, people = Model(), People()
    try:
        found: dict[str, Any] = {"start": start(claw, people, model, options.starts)}
        with tempfile.TemporaryDirectory() as folder:
            found["journal"] = asyncio.run(journal(Path(folder)))
        found["idle"] = {
            name: idle(claw, {name: section}, model.url, options.seconds, http=name == "telegram")
            for name, section in people.channels.items()
        }
        return found | busy(claw, people, model, options)
    finally:
        people.stop()
        model.stop()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--claw", default=str(Path(sys.executable).with_name("claw")))
    print(json.dumps(measure(parser.parse_args()), indent=1))


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    main()
