"""Services of plugins in a gateway: run from start to stop, and one that fails is quarantined alone."""

import asyncio

from claw import hookimpl
from claw.testing import FakeProvider, Harness
from claw_gateway.process.services import ServiceRunner


class Ticker:
    name = "ticker"

    def __init__(self):
        self.runtimes, self.ended = [], 0

    async def run(self, runtime, stop):
        self.runtimes.append(runtime)
        await stop.wait()
        self.ended += 1

    def health(self):
        return {"runs": len(self.runtimes)}


class Broken:
    name = "broken"

    async def run(self, runtime, stop):
        raise RuntimeError("no clock")


class PluginWith:
    def __init__(self, service):
        self._service = service

    @hookimpl
    def register_services(self):
        return [self._service]


async def until(holds):
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)


async def test_a_service_runs_until_the_gateway_stops():
    ticker = Ticker()
    async with Harness(FakeProvider(), plugins={"tick": PluginWith(ticker)}) as harness:
        runner = ServiceRunner()
        await runner.start(harness.app)
        await until(lambda: ticker.runtimes)

        assert ticker.runtimes == [harness.app]
        assert runner.health() == {"tick/ticker": {"runs": 1}}
        await runner.stop()
        assert ticker.ended == 1


async def test_a_service_that_fails_is_quarantined_and_the_others_go_on():
    ticker = Ticker()
    plugins = {"tick": PluginWith(ticker), "bad": PluginWith(Broken())}
    async with Harness(FakeProvider(), plugins=plugins) as harness:
        runner = ServiceRunner()
        await runner.start(harness.app)
        await until(lambda: any("no clock" in line for line in harness.log_lines))

        assert ticker.ended == 0
        await runner.stop()
        assert ticker.ended == 1
