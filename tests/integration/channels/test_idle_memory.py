"""Memory of an idle gateway: the real process, Telegram polled and the listener open."""

import asyncio
import json
import re
from pathlib import Path

import pytest
from claw_telegram.fake import FakeTelegram
from integration.channels.platforms import until
from integration.gateways import Home, Running, home  # noqa: F401

pytestmark = pytest.mark.xdist_group("telegram")

MOST_MB = 100  # [46 with one answered turn; idle, the design allows 45 and test_gateway_budgets holds 60]


def pss_mb(pid: int) -> float:
    """Return the memory of a process in MiB, its share of shared pages included (proc_pid_smaps(5))."""
    (kib,) = re.findall(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)
    return int(kib) / 1024


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="only Linux tells")
async def test_a_gateway_that_waits_for_telegram_and_for_callers_stays_small(home: Home) -> None:  # noqa: F811
    async with FakeTelegram() as telegram:
        section = {"botToken": telegram.token, "apiBase": telegram.url, "allowFrom": [str(telegram.CHAT)]}
        tree = {
            "channels": {"telegram": section, "http": {}},
            "gateway": {"port": 0, "auth": {"token": "t" * 24}},
        }
        home.configured(json.dumps(tree), "config.json")
        running = Running(home)
        try:
            await asyncio.to_thread(running.__enter__)
            telegram.says("what time is it?")
            await until(telegram.shown, 20)
            await asyncio.sleep(0.3)
            takes = pss_mb(running.process.pid)
            code, _, output = await asyncio.to_thread(running.end)
        finally:
            await asyncio.to_thread(running.__exit__)
    assert code == 0 and "telegram" in output and "http" in output
    assert takes < MOST_MB, f"{takes:.0f} MB"
