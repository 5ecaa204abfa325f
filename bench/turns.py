"""Turns in one warm process, through ``claw.app``, as a gateway would run them: one JSON document on stdout.

    python bench/turns.py [--turns 30] [--history 1000] [--seconds 5] [--sessions 200]

Overhead of a turn is its time less that of the model on loopback; CPU is of this process alone.
"""

import argparse
import asyncio
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from statistics import mean
from typing import Any

import httpx2
from claw.agent.routing import terminal_message
from claw.agent.turn_context import TurnOptions
from claw.app import App, load_setup
from claw.contracts.events import Event

HERE = Path(__file__).parent


class Model:
    """The process of ``mock.py``."""

    def __init__(self) -> None:
        command = [sys.executable, str(HERE / "mock.py")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = self._line()

    def calls(self) -> list[dict[str, Any]]:
        """Return the calls since the last time."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return list(json.loads(self._line()))

    def stop(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def make_home(folder: Path, url: str) -> dict[str, str]:
    """Create a home whose agent asks ``url``, with ten files in its workspace; return the environment to
    run in.
    """
    workspace = folder / "workspace"
    workspace.mkdir(parents=True)
    for number in range(10):
        (workspace / f"f{number}.txt").write_text(f"file {number}\n" * 20)
    provider = {"baseUrl": url, "apiKey": "none-needed", "models": {"mock": {"contextTokens": 1000000}}}
    config = {
        "agents": {"defaults": {"model": "openai/mock", "workspace": str(workspace)}},
        "providers": {"openai": provider},
        "tools": {"profile": "coding"},
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "config.json").chmod(0o600)
    return {"CLAW_HOME": str(folder), "HOME": str(folder), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}


class Bench:
    """One app and the model it asks."""

    def __init__(self, app: App, model: Model) -> None:
        self.app, self.model = app, model
        self._ids = itertools.count()

    async def turn(self, session: str, rounds: int = 0, think: int = 0) -> None:
        """Run one message and its answer."""
        text = f"[[bench rounds={rounds} think={think}]] go on, {next(self._ids)}"
        reply = await self.app.handle(terminal_message(text), nothing, TurnOptions(session=session))
        assert reply is not None, "no answer"
        assert reply.text.startswith("done"), reply.text

    async def warm(self, session: str, turns: int, rounds: int = 0) -> dict[str, Any]:
        """Run turns one after the other; return overhead and CPU of each, in ms."""
        overheads, cpus, calls = [], [], []
        for _ in range(turns):
            began, cpu = time.perf_counter(), time.process_time()
            await self.turn(session, rounds)
            took, cpu = time.perf_counter() - began, time.process_time() - cpu
            calls = self.model.calls()
            overheads.append(1000 * (took - sum(call["seconds"] for call in calls)))
            cpus.append(1000 * cpu)
        return {
            "overhead_ms": spread(overheads),
            "cpu_ms": mean(cpus),
            "calls": len(calls),
            "request": calls[0],
        }

    async def throughput(self, sessions: int, think: int, seconds: float) -> dict[str, float]:
        """Run sessions in parallel, each of which sends its next message after its answer."""
        until, done = time.perf_counter() + seconds, 0

        async def talk(name: str) -> None:
            nonlocal done
            while time.perf_counter() < until:
                await self.turn(name, think=think)
                done += 1

        began, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(talk(f"t{sessions}-{think}-{number}") for number in range(sessions)))
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
        self.model.calls()
        return {"turns_per_second": done / took, "cpu_ms_per_turn": 1000 * cpu / done}

    async def history(self, *marks: int) -> dict[str, Any]:
        """Grow one session by real turns; measure its cost at 10 messages and at each mark, beside the cost
        of a bare client
        that carries a request of the same size there and back.
        """
        found, there = {}, 0
        for mark in (10, *marks):
            for _ in range(max(0, mark - there) // 2):
                await self.turn("long")
            there = max(mark, there)
            self.model.calls()
            found[f"at_{mark}"] = await self.warm("long", 20)
            there += 40
            found[f"at_{mark}"] |= await self.carried(found[f"at_{mark}"]["request"])
        return found

    async def carried(self, like: dict[str, Any], times: int = 20) -> dict[str, float]:
        """Measure a bare client that sends as many messages of the same size to the same model: overhead
        and CPU, in ms.
        """
        text = f"[[bench rounds=0 think=0]] go on, 1 {'x' * max(0, like['bytes'] // like['messages'] - 80)}"
        body = json.dumps(
            {
                "model": "mock",
                "stream": True,
                "messages": [{"role": "user", "content": text}] * like["messages"],
            }
        ).encode()
        overheads, cpus = [], []
        async with httpx2.AsyncClient() as client:
            for _ in range(times):
                began, cpu = time.perf_counter(), time.process_time()
                answer = await client.post(
                    f"{self.model.url}/chat/completions",
                    content=body,
                    headers={"authorization": "Bearer bench-key"},
                )
                took, cpu = time.perf_counter() - began, time.process_time() - cpu
                assert answer.status_code == 200, answer.text
                overheads.append(1000 * (took - sum(call["seconds"] for call in self.model.calls())))
                cpus.append(1000 * cpu)
        return {"carried_ms": spread(overheads)["median"], "carried_cpu_ms": mean(cpus)}

    async def memory(self, sessions: int) -> dict[str, float]:
        """Measure the memory that each new session of one turn leaves in this process."""
        before = pss_kb()
        for number in range(sessions):
            await self.turn(f"m{number}")
        self.model.calls()
        return {"pss_mb": pss_kb() / 1024, "kb_per_session": (pss_kb() - before) / sessions}


async def nothing(event: Event) -> None:
    """Discard the event."""


def spread(values: Iterable[float]) -> dict[str, float]:
    """Return median, minimum, maximum and 95th percentile."""
    ordered = sorted(values)
    middle, high = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.95)]
    return {"median": middle, "min": ordered[0], "max": ordered[-1], "p95": high}


def pss_kb() -> int:
    """Return the memory of this process, shared pages counted in part, in KB (Linux)."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run all phases in one process."""
    model = Model()
    with tempfile.TemporaryDirectory() as folder:
        environ = make_home(Path(folder) / "home", model.url)
        app = App(load_setup(environ), log=lambda line: print(line, file=sys.stderr))
        bench = Bench(app, model)
        try:
            began = time.perf_counter()
            await bench.turn("first")
            found: dict[str, Any] = {"first_turn_ms": 1000 * (time.perf_counter() - began)}
            found["first_request"] = model.calls()[0]
            await bench.warm("warm", 5)
            found["warm"] = await bench.warm("warm", options.turns)
            found["ten_tools"] = await bench.warm("tools", max(5, options.turns // 3), rounds=10)
            found["memory"] = await bench.memory(options.sessions)
            for sessions, think in ((1, 0), (16, 0), (64, 200)):
                found[f"sessions_{sessions}_think_{think}"] = await bench.throughput(
                    sessions, think, options.seconds
                )
            found["history"] = await bench.history(options.history, 10 * options.history)
        finally:
            await app.close()
            model.stop()
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--history", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--sessions", type=int, default=200)
    print(json.dumps(asyncio.run(measure(parser.parse_args()))))


if __name__ == "__main__":
    main()
