"""The suites for each hook that the package answers, and what a person sees of the counts."""

import asyncio

import claw_plugin_acme_metrics
import pytest
from claw import ProviderError
from claw.runtime import FunctionCommand
from claw.testing import FakeProvider, Harness, says
from claw_plugin_acme_metrics import COUNTS, CallCounter, MostCallsFail, TurnCounter, Writer, metrics
from pytest_claw import (
    ChatCommandSuite,
    CommandSuite,
    DiagnosticSuite,
    MiddlewareSuite,
    ObserverSuite,
    ServiceSuite,
)

PLUGINS = {"acme-metrics": claw_plugin_acme_metrics}


@pytest.fixture(autouse=True)
def nothing_counted():
    COUNTS.clear()


class TestCallCounter(MiddlewareSuite):
    def make(self, folder):
        return CallCounter()


class TestTurnCounter(ObserverSuite):
    def make(self, folder):
        return TurnCounter()


class TestWriter(ServiceSuite):
    def make(self, folder):
        return Writer(folder / "counts.json", 0.02)


class TestMetricsCommand(ChatCommandSuite):
    def make(self, folder):
        return FunctionCommand("metrics", "counts of model calls and turns", metrics)


class TestCommands(CommandSuite):
    def make(self, folder):
        return claw_plugin_acme_metrics


class TestMostCallsFail(DiagnosticSuite):
    def make(self, folder):
        COUNTS.update(calls=3, failures=2)
        Writer(folder / "counts.json", 1).write()
        return MostCallsFail(folder / "counts.json")


def test_calls_turns_and_failures_are_counted():
    async def turns():
        model = FakeProvider(says("hi"), ProviderError("no", reason="bad_request"))
        async with Harness(model, plugins=PLUGINS) as harness:
            await harness.send("hello")
            with pytest.raises(ProviderError):
                await harness.send("hello")

    asyncio.run(turns())
    assert (COUNTS["calls"], COUNTS["failures"], COUNTS["turns"]) == (2, 1, 2)


def test_the_doctor_warns_when_most_calls_fail(tmp_path):
    check = MostCallsFail(tmp_path / "counts.json")
    assert check.check(None) == []
    COUNTS.update(calls=3, failures=2)
    Writer(tmp_path / "counts.json", 1).write()
    assert [finding.problem for finding in check.check(None)] == ["2 of 3 model calls failed"]
