"""Limits on the cost of a warm turn, in counts that do not depend on load: files, system calls, bytes.

The budgets are those of the design; time is measured by ``bench/``, module counts by ``tests/core/test_import_rules.py``.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from claw.contracts.provider import SystemPrompt
from claw.contracts.transcript import Text, User
from claw.testing import FakeProvider, Harness, says

FIRST_REQUEST_BYTES = 8192
# About a hundred: a dozen look whether a context file, a skill or a root of the fence has changed, each of the two
# plugins that bring a section takes twenty in its worker, the log, the lock and the flush take the rest; how often two
# threads wait for each other differs from run to run.
SYSTEM_CALLS = 125

# Five turns warm claw up. Between the two marks the sixth one runs.
WARM_TURN = """
import asyncio, os, sys
from claw.testing import FakeProvider, Harness, says

watching, seen = False, []
SHOWN = ("open", "os.", "sqlite3.connect", "socket.", "subprocess.", "import", "shutil.", "glob.", "tempfile.")

def watch(event, arguments):
    if watching and event.startswith(SHOWN):
        seen.append(f"{event} {arguments[:1]}")

sys.addaudithook(watch)

async def main():
    global watching
    async with Harness(FakeProvider(*[says("ok")] * 6), installed=True) as harness:
        for _ in range(5):
            await harness.send("go on")
        await asyncio.sleep(0.2)
        os.access("/mark", 0)
        watching = True
        await harness.send("once more")
        watching = False
        os.access("/mark", 0)
    print("\\n".join(seen))

asyncio.run(main())
"""


def test_a_warm_turn_opens_no_file_and_imports_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WARM_TURN], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == []


def test_a_warm_turn_makes_few_system_calls(tmp_path: Path) -> None:
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
    calls = [line.split(maxsplit=1)[1].partition("(")[0] for line in turn.splitlines()[1:-1] if "(" in line]
    assert len(calls) < SYSTEM_CALLS, {name: calls.count(name) for name in set(calls)}
    assert not {"openat", "open", "getdents64", "execve"} & set(calls)


async def steps_of_a_turn(home: Path, messages: int) -> int:
    """Count the functions that a warm turn calls, Python and built-in, after this many messages."""
    steps = 0

    def step(*_: object) -> None:
        nonlocal steps
        steps += 1

    model = FakeProvider(*[says("ok", input=100, output=2)] * 4, context_tokens=10_000_000)
    config = {"agents": {"defaults": {"compaction": {"memoryFlush": {"enabled": False}}}}}
    async with Harness(model, home=home, config=config) as harness:
        session = await harness.app.runtime.sessions.open("agent:default:main", "default")
        for n in range(messages // 2):
            session.append(User((Text(f"question {n}"),)))
            session.append(says(f"answer {n}"))
        session.release()
        for _ in range(3):
            await harness.send("go on")
        sys.setprofile(step)
        try:
            await harness.send("once more")
        finally:
            sys.setprofile(None)
        assert len(model.requests[-1].request.messages) == messages + 7
    return steps


async def test_a_turn_after_ten_thousand_messages_takes_as_many_steps_as_after_ten(tmp_path: Path) -> None:
    few = await steps_of_a_turn(tmp_path / "few", 10)
    assert await steps_of_a_turn(tmp_path / "more", 1000) <= 1.5 * few
    assert await steps_of_a_turn(tmp_path / "many", 10_000) <= 1.5 * few


async def test_a_first_request_is_small() -> None:
    model = FakeProvider(says("ok"))
    async with Harness(model, installed=True, config={"tools": {"profile": "full"}}) as harness:
        await harness.send("hi")
    request = model.requests[0].request

    tools = [
        {"name": t.name, "description": t.description, "parameters": dict(t.parameters)}
        for t in request.tools
    ]
    assert len(tools) >= 10, "the tools of tools-std are offered"
    assert isinstance(request.system, SystemPrompt)
    size = len(request.system.whole.encode()) + len(json.dumps(tools, ensure_ascii=False).encode())
    assert size <= FIRST_REQUEST_BYTES
