"""``claw gateway stop`` and SIGTERM end what ``exec`` has started for a chat: children and background commands too."""

import asyncio
import json
import signal
from pathlib import Path

import pytest
from claw_testing.services import OpenAIService, ServiceReply
from integration.gateways import Home, Running, home, is_ready, until

__all__ = ["home"]  # the fixture

FOREGROUND = "echo $$ > {0}/leader; sleep 47 & echo $! > {0}/child; wait"
BACKGROUND = "echo $$ > {0}/background; sleep 48; true"


def is_alive(pid: int) -> bool:
    """True while a process runs; one that ended and was not waited for does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def noted(folder: Path) -> list[int]:
    files = [folder / name for name in ("leader", "child", "background")]
    texts = [file.read_text().strip() if file.exists() else "" for file in files]
    return [int(text) for text in texts if text]


@pytest.mark.parametrize("way", ["SIGTERM", "stop"])
async def test_what_exec_started_ends_with_the_gateway(home: Home, tmp_path: Path, way: str) -> None:
    replies = [
        ServiceReply(calls=[("exec", {"command": BACKGROUND.format(tmp_path), "background": True})]),
        ServiceReply(calls=[("exec", {"command": FOREGROUND.format(tmp_path)})]),
    ]
    home.with_channel()
    async with OpenAIService(replies) as service:
        tree = json.loads((home.home / "config.json").read_text())
        tree |= {
            "providers": {"openai": {"baseUrl": service.url, "apiKey": "k"}},
            "agents": {"defaults": {"model": "openai/gpt-4.1"}},
            "tools": {"exec": {"mode": "full"}},
            "owners": ["post:ann"],
        }
        (home.home / "config.json").write_text(json.dumps(tree))

        def run() -> list[int]:
            with Running(home) as running:
                assert is_ready(home), running.process.communicate()
                home.says("go")
                until(lambda: len(noted(tmp_path)) == 3)
                pids = noted(tmp_path)
                assert all(map(is_alive, pids))
                if way == "stop":
                    assert home.claw("gateway", "stop").code == 0
                    running.process.wait(30)
                else:
                    assert running.end(signal.SIGTERM)[0] == 0
                return pids

        pids = await asyncio.to_thread(run)

    assert [pid for pid in pids if is_alive(pid)] == []
