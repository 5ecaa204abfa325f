"""The clean-up of old conversations runs as a service of the gateway."""

import asyncio
from pathlib import Path

from claw.testing import FakeProvider, Harness
from claw_sessions.retention import RetentionService

KEEP = {"session": {"keep": {"removeAfter": "1d"}}}


def archived(home: Path, stamp: str) -> Path:
    """Place a conversation that was reset at a moment."""
    folder = home / "agents" / "default" / "sessions"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"11111111-1111-4111-8111-111111111111.jsonl.reset.{stamp}Z"
    path.write_text(
        '{"type":"session","id":"11111111-1111-4111-8111-111111111111","key":"agent:default:main"}\n'
    )
    return path


async def test_it_removes_what_session_keep_names_and_ends_when_the_gateway_stops(tmp_path: Path) -> None:
    old = archived(tmp_path, "20200101T000000.000")
    stop = asyncio.Event()
    async with Harness(FakeProvider(), home=tmp_path, config=KEEP) as harness:
        running = asyncio.ensure_future(RetentionService(first_after=0.01).run(harness.app, stop))
        async with asyncio.timeout(10):
            while old.exists():
                await asyncio.sleep(0.01)
        assert not running.done(), "it waits for the next day"
        stop.set()
        await asyncio.wait_for(running, 5)


async def test_it_is_a_service_of_the_plugin() -> None:
    async with Harness(FakeProvider()) as harness:
        services = harness.app.host.on_demand("register_services")
    assert ("sessions", "session-retention") in [(one.plugin, one.value.name) for one in services]
