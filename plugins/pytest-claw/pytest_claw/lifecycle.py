"""Tests of the lifecycle of a channel: its state, its reconnection, and its end when cancelled."""

import asyncio
import inspect
from typing import Any

import pytest

from pytest_claw.channel_base import ChannelSuiteBase
from pytest_claw.channel_trial import ChannelTrial, RecordingInbox, quick


class LifecycleChecks(ChannelSuiteBase):
    """Checks of ``run`` and ``state``."""

    def test_it_reconnects_after_a_lost_connection(self) -> None:
        self.needs("connection")

        async def trial(on: ChannelTrial) -> None:
            async with on.running():
                await on.does("says", "before")
                await on.received("before")
                await on.does("disconnect")
                await on.does("says", "after")
                await on.received("after")
                await on.deliver("still here", "key-after")
                assert await on.shown() == ["still here"]

        self.try_(trial)

    def test_it_reports_its_state(self) -> None:
        async def trial(on: ChannelTrial) -> None:
            if not hasattr(on.channel, "state"):
                pytest.skip("it has no state")
            assert on.channel.state.state == "starting", "before it runs"
            async with on.running():
                await on.does("says", "hello")
                await on.received("hello")
                assert on.channel.state.state == "up"
                assert on.channel.state.last_frame_at is not None, "something came from the service"
                if "connection" in self.without:
                    return
                await on.does("disconnect")
                await on.until(lambda: on.channel.state.reconnects > 0, "state.reconnects does not count")
                await on.until(lambda: on.channel.state.state == "up", "it did not come up again")

        self.try_(trial)

    def test_wrong_credentials_fail_with_a_message_for_a_person(self) -> None:
        self.needs("credentials")

        async def trial(on: ChannelTrial) -> None:
            impostor = await on.does("impostor")
            task = on.start(impostor.run(RecordingInbox()))

            def reported() -> bool:
                return task.done() or _state(impostor) == "failed"

            try:
                await on.until(reported, "with wrong credentials it neither failed nor said so")
                raised = task.exception() if task.done() else None
                said = str(raised) if raised else impostor.state.detail
                assert said.strip(), "one line says what to do"
                if hasattr(impostor, "state"):
                    assert _state(impostor) == "failed", "only a person can fix it"
                    assert impostor.state.detail.strip(), "one line says what to do"
            finally:
                task.cancel()
                await asyncio.wait({task}, timeout=self.stop_seconds)
                await _closed(impostor)

        self.try_(trial)

    def test_it_stops_when_cancelled_and_leaves_no_tasks(self) -> None:
        async def trial(on: ChannelTrial) -> None:
            async with on.running():
                await on.does("says", "hello")
                await on.received("hello")
                clock = asyncio.get_running_loop().time
                begun = clock()
            took = clock() - begun
            assert took <= self.stop_seconds, f"run went on for {took:.1f} s after it was cancelled"
            with quick(self.stop_seconds, "close"):
                await on.close()
            assert await on.left() == [], "it left tasks behind"

        self.try_(trial)


def _state(channel: Any) -> str:
    return str(channel.state.state) if hasattr(channel, "state") else ""


async def _closed(channel: Any) -> None:
    if (close := getattr(channel, "close", None)) and inspect.isawaitable(closing := close()):
        await closing
