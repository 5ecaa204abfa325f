"""SIGTERM ends ``claw chat`` like Ctrl-C: with what its tools have started. A model that is no model is an error."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from claw_testing.services import OpenAIService, ServiceReply


@asynccontextmanager
async def chatting(tmp_path: Path, *arguments: str, replies: list[ServiceReply]) -> AsyncIterator[Process]:
    home = tmp_path / "claw"
    home.mkdir()
    async with OpenAIService(replies) as service:
        tree = {
            "providers": {"openai": {"baseUrl": service.url, "apiKey": "k"}},
            "agents": {"defaults": {"model": "openai/gpt-4.1"}},
            "models": {"aliases": {"quick": "openai/gpt-4.1-mini"}},
            "tools": {"exec": {"mode": "full"}},
        }
        (home / "config.json").write_text(json.dumps(tree))
        environ = {"CLAW_HOME": str(home), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
        yield await asyncio.create_subprocess_exec(
            sys.executable, "-m", "claw", "chat", *arguments, cwd=tmp_path, env=environ,
            stdin=asyncio.subprocess.DEVNULL, stdout=PIPE, stderr=PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # nohup ignores it
        )  # fmt: skip


def has_processes(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
async def test_what_exec_started_ends_with_claw(tmp_path: Path, number: signal.Signals) -> None:
    mark = tmp_path / "pid"
    command = f"echo $$ > {mark}; sleep 47; true"
    reply = ServiceReply(calls=[("exec", {"command": command})])
    async with chatting(tmp_path, "go", replies=[reply]) as process:
        async with asyncio.timeout(60):
            while not (mark.exists() and mark.read_text().strip()):
                assert process.returncode is None, (await process.communicate())[1]
                await asyncio.sleep(0.05)
            process.send_signal(number)
            await process.communicate()

    assert process.returncode == 128 + number
    async with asyncio.timeout(20):  # the system may take a moment to remove ended processes
        while has_processes(int(mark.read_text())):
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("name", "near"), [("quik", "quick"), ("gpt-4.2", "openai/gpt-4.1"), ("opnai/gpt-4.1", "openai/gpt-4.1"),
     ("gpt-4o", "openai/gpt-4o"), ("gpt-5.6-lunar", "openai/gpt-5.6-luna"),
     ("opnai/my-own", "openai/my-own"), ("qwxz", "write it as provider/model")]
)  # fmt: skip
async def test_a_model_that_does_not_exist_is_an_error_with_the_nearest_name(
    tmp_path: Path, name: str, near: str
) -> None:
    async with chatting(tmp_path, "go", "--model", name, replies=[ServiceReply(text="no")]) as process:
        said, errors = await process.communicate()

    assert (process.returncode, said) == (2, b"")
    assert f"unknown model {name}" in errors.decode()
    assert near in errors.decode()
