"""A machine with a gateway that runs as a process of its own, and a channel to reach it by."""

import json
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from claw_gateway.process.presence import gateway_pid
from claw_gateway.process.status import READY, read_status
from third_party import Machine, installed

CHANNEL = """
import asyncio, logging, os, time
from pathlib import Path
from claw import Address, ChannelConfig, ChannelState, Inbound, ChannelLimits, Receipt, Secret, Sender, hookimpl

class PostConfig(ChannelConfig):
    folder: str
    token: Secret | None = None
    {more}

class Post:
    "People write by putting a file into a folder, and read the files of another one."
    name, account, capabilities, limits = "post", "default", frozenset(), ChannelLimits()
    def __init__(self, config):
        self.config, self.folder = config, Path(config.folder)
        self.state = ChannelState("up")

    async def run(self, inbox):
        {body}
        while True:
            for path in sorted(self.folder.glob("in-*")):
                told = Inbound(Address("post", "chat"), path.read_text(), Sender("ann"), message_id=path.name)
                if await inbox.submit(told):
                    path.unlink()
            await asyncio.sleep(0.02)

    async def send(self, outbound):
        with open(self.folder / "out", "a") as file:
            file.write(outbound.text + "\\n")
        return Receipt(("1",))

@hookimpl
def register_channels(config):
    if settings := config.channel("post", PostConfig):
        yield Post(settings)
"""

STUBBORN = """while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                pass"""


class Home(Machine):
    """A machine with one channel, whose gateway can be watched."""

    def with_channel(self, body: str = "pass", more: str = "", **section: Any) -> "Home":
        site = self.root / "site"
        code = CHANNEL.replace("{body}", body).replace("{more}", more)
        installed(site, "post", code, {"kinds": ["channel"], "channels": ["post"]})
        self.path = [site]
        (self.root / "post").mkdir()
        self.write(**section)
        return self

    def write(self, **section: Any) -> None:
        post = {"folder": str(self.root / "post"), "dmPolicy": "open", "allowFrom": ["*"], **section}
        self.configured(json.dumps({"channels": {"post": post}}, indent=1), "config.json")

    def log(self) -> list[dict[str, Any]]:
        path = self.home / "logs" / "claw.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def said(self, part: str) -> bool:
        return any(part in line["text"] for line in self.log())

    def says(self, text: str) -> None:
        part = self.root / "post" / f"part-{time.monotonic_ns()}"
        part.write_text(text)
        part.rename(part.with_name(part.name.replace("part", "in")))

    def answers(self) -> str:
        out = self.root / "post" / "out"
        return out.read_text() if out.exists() else ""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path / "machine")
    yield made
    if pid := gateway_pid(made.home):
        os.kill(pid, signal.SIGKILL)


def until(what: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Wait until ``what`` is true; its value."""
    end = time.monotonic() + seconds
    while not (value := what()):
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)
    return value


def is_ready(home: Home) -> bool:
    reported = read_status(home.home).live_run
    return reported is not None and reported.state == READY


class Running:
    """``claw gateway run`` in the foreground.

    :param descriptors: its limit of open files; 0 = that of this process.
    """

    def __init__(self, home: Home, *words: str, descriptors: int = 0, **environ: str) -> None:
        limit = (descriptors, descriptors)
        self.process = subprocess.Popen(
            **home.command("gateway", "run", *words, **environ), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
            preexec_fn=(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limit)) if descriptors else None,  # noqa: PLW1509
        )  # fmt: skip
        self.home = home

    def __enter__(self) -> "Running":
        until(lambda: is_ready(self.home) or self.process.poll() is not None)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        """Send a signal and wait; exit code, stdout, stderr."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out, err
