"""Waiting until a run is settled: everything is answered and nothing changes any more."""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from rigs.platform_rig.gateway_process import STOP_SECONDS, GatewayProcess, where_it_is
from rigs.platform_rig.judge import judge
from rigs.platform_rig.world import World

_STILL_SECONDS, _TICK_SECONDS = 2.0, 0.5
_OPEN = (
    "lost", "half_left", "half_told", "card_open", "half_explained", "file_lost", "file_told", "provider_gone",
    "channel_gone",
)  # fmt: skip
"""Counts that may still change: a message in doubt is settled when the messages of its chat have arrived."""


@dataclass(frozen=True)
class Patience:
    """Time limits of a life.

    :ivar most_seconds: in all.
    :ivar quiet_seconds: it is over, though something is missing, when the gateway was idle for so long, no service was
        called, and nothing changed. A group of Telegram's that had its 20 messages takes the next after a minute.
    """

    most_seconds: float = 900.0
    quiet_seconds: float = 75.0


async def until_settled(world: World, life: GatewayProcess, patience: Patience) -> None:
    """Wait until all is answered and nothing changes; or the gateway has done nothing for long; or the time is over.

    A call that a service refuses changes nothing in a chat, but the gateway is at work: it obeys ``retry_after``.
    """
    ends, before, quiet, busy = time.monotonic() + patience.most_seconds, None, 0.0, _busy_seconds(life.pid)
    counts: Counter[str] = Counter()
    while time.monotonic() < ends and life.code is None:
        history = world.history()
        attempts = [len(one.attempts) for one in history.calls]
        visible = [one.text for one in history.visible]
        now = world.model.requests, world.calls(), len(history.effects), visible, attempts
        if now != before:
            counts = judge(history).counts
        # a part that was left may still be deleted
        is_open = any(counts[name] for name in _OPEN) or (world.callers and world.callers.waiting)
        worked, busy = _busy_seconds(life.pid) - busy, _busy_seconds(life.pid)
        if now != before:
            before, quiet = now, 0.0
        else:
            quiet += max(0.0, _TICK_SECONDS - worked) if is_open else _TICK_SECONDS
        if quiet > (patience.quiet_seconds if is_open else _STILL_SECONDS):
            return
        await asyncio.sleep(_TICK_SECONDS)


def _busy_seconds(pid: int) -> float:
    """Return the time that a process has run or waited for a processor (Linux, proc(5)); 0 elsewhere."""
    try:
        ran, waited, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
    except (OSError, ValueError):
        return 0.0
    return (int(ran) + int(waited)) / 1e9


async def stop(world: World, life: GatewayProcess) -> None:
    """Ask a gateway to end; note it if it does not."""
    if life.code is not None:
        world.ended(life)
        return
    life.terminate()
    if not await life.wait(STOP_SECONDS):
        world.incidents["did_not_stop"] += 1
        with world.said.open("a") as said:
            said.write(f"rig: process {life.pid} did not stop: {where_it_is(life.pid)}\n")
        life.kill()
        await life.wait(STOP_SECONDS)
