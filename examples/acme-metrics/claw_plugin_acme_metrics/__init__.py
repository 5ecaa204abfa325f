"""Counts of model calls, turns and failures: one package that answers six hooks."""

import asyncio
import contextlib
import json
from collections import Counter
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

import typer
from claw import Finding, ProviderError, Section, TurnEnded, hookimpl
from claw.runtime import FunctionCommand, replace_file
from pydantic import Field


class Metrics(Section):
    """``plugins.entries.acme-metrics.config``."""

    every_seconds: float = Field(60.0, gt=0, description="How often the counts are written to the file.")


COUNTS = Counter()
"""The counts of this process: calls, failures, turns."""


class CountedProvider:
    """A provider whose calls are counted; everything else is passed on."""

    def __init__(self, provider):
        self._provider = provider

    async def stream(self, request):
        COUNTS["calls"] += 1
        try:
            async with aclosing(self._provider.stream(request)) as events:
                async for event in events:
                    yield event
        except ProviderError:
            COUNTS["failures"] += 1
            raise

    def __getattr__(self, name):
        return getattr(self._provider, name)


class CallCounter:
    name = "acme-metrics"
    position = 950.0  # inside of the others: it counts what a service really gets

    def wrap(self, provider):
        return CountedProvider(provider)


class TurnCounter:
    def on_event(self, event):
        if isinstance(event, TurnEnded):
            COUNTS["turns"] += 1


@dataclass
class Writer:
    """Writes the counts to a file while a gateway runs."""

    path: Path
    every_seconds: float
    name: str = "acme-metrics"
    written: int = field(default=0)

    async def run(self, runtime, stop):
        while not stop.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), self.every_seconds)
            await asyncio.to_thread(self.write)

    def write(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(self.path, json.dumps(COUNTS).encode())
        self.written += 1

    def health(self):
        return {"written": self.written, **COUNTS}


class MostCallsFail:
    name = "acme-metrics"

    def __init__(self, path):
        self._path = path

    def check(self, context):
        counts = read(self._path)
        if counts.get("failures", 0) * 2 <= counts.get("calls", 0):
            return []
        problem = f"{counts['failures']} of {counts['calls']} model calls failed"
        return [Finding("acme-metrics", "calls-fail", problem, "Look into the log: claw logs", grave=False)]


def read(path):
    return json.loads(path.read_text()) if path.exists() else {}


async def metrics(arguments, conversation):
    return ", ".join(f"{name}: {count}" for name, count in sorted(COUNTS.items())) or "nothing yet"


@hookimpl
def register_provider_middleware(config):
    return [CallCounter()]


@hookimpl
def register_observers(config):
    return [TurnCounter()]


@hookimpl
def register_services(config):
    return [Writer(config.state_dir / "counts.json", config.plugin(Metrics).every_seconds)]


@hookimpl
def register_chat_commands(config):
    return [FunctionCommand("metrics", "counts of model calls and turns", metrics)]


@hookimpl
def register_diagnostics(config):
    return [MostCallsFail(config.state_dir / "counts.json")]


@hookimpl
def register_commands(app):
    @app.command("metrics")
    def show(path: Path):
        """Print the counts that a gateway wrote to PATH."""
        typer.echo(json.dumps(read(path)))
