"""Waiting until a run is settled: everything is answered and nothing changes any more."""

import asyncio
import time
from dataclasses import dataclass

from rigs.platform_rig.gateway_process import STOP_SECONDS, GatewayProcess
from rigs.platform_rig.judge import judge
from rigs.platform_rig.world import World

_STILL_SECONDS = 2.0


@dataclass(frozen=True)
class Patience:
    """How long a life may take.

    :ivar most_seconds: in all.
    :ivar quiet_seconds: nothing changed for so long: it is over, though something is missing.
    """

    most_seconds: float = 180.0
    quiet_seconds: float = 30.0


async def until_settled(world: World, life: GatewayProcess, patience: Patience) -> None:
    """Wait until all is answered and nothing changes; or nothing has changed for long; or the time is over."""
    ends, changed, before = time.monotonic() + patience.most_seconds, time.monotonic(), None
    while time.monotonic() < ends and life.code is None:
        history = world.history()
        calls = [len(one.attempts) for one in history.calls]
        now = world.model.requests, len(history.effects), [one.text for one in history.visible], calls
        if now != before:
            before, changed = now, time.monotonic()
        is_open = judge(history).counts["lost"] or (world.callers and world.callers.waiting)
        if time.monotonic() - changed > (patience.quiet_seconds if is_open else _STILL_SECONDS):
            return
        await asyncio.sleep(0.25)


async def stop(world: World, life: GatewayProcess) -> None:
    """Ask a gateway to end; note it if it does not."""
    if life.code is not None:
        world.ended(life)
        return
    life.terminate()
    if not await life.wait(STOP_SECONDS):
        world.incidents["did_not_stop"] += 1
        life.kill()
        await life.wait(STOP_SECONDS)
