"""Sandboxes in whole turns: which one is used, that it was tested, and which turns are left outside."""

from dataclasses import replace
from typing import Any

import pytest
from claw import ClawError, hookimpl
from claw.testing import FakeProvider, FakeTool, Harness, calls, says


class LimitSandbox:
    """A sandbox that writes its name before each command line."""

    def __init__(self, name: str, fault: str | Exception = "") -> None:
        self.name, self.fault, self.probes = name, fault, 0

    async def probe(self) -> str:
        self.probes += 1
        if isinstance(self.fault, Exception):
            raise self.fault
        return self.fault

    def wrap(self, argv: list[str], *, workspace: Any, environment: Any) -> list[str]:
        return [self.name, *argv]


class Plugin:
    def __init__(self, *sandbox: LimitSandbox) -> None:
        self.sandbox = sandbox

    @hookimpl
    def register_sandboxes(self) -> list[LimitSandbox]:
        return [*self.sandbox]


def harness_with(*sandbox: LimitSandbox, mode: str = "all", seen: list[Any], turns: int = 1) -> Harness:
    async def start(arguments: Any, context: Any) -> str:
        seen.append(context.wrap(["ls"]) if context.wrap else None)
        return "ok"

    config = {
        "agents": {"defaults": {"sandbox": {"mode": mode}}},
        "tools": {"sandbox": {"tools": {"allow": ["start"]}}},
    }
    answers = [answer for _ in range(turns) for answer in (calls("start"), says("ok"))]
    tool = replace(FakeTool("start").tool, run=start)
    return Harness(FakeProvider(*answers), tools=[tool], config=config, plugins={"sandbox": Plugin(*sandbox)})


async def test_a_sandbox_is_tested_once_before_it_is_used() -> None:
    sandbox, seen = LimitSandbox("walls"), list[Any]()
    async with harness_with(sandbox, seen=seen, turns=2) as harness:
        await harness.send("go")
        await harness.send("go")
    assert (sandbox.probes, seen) == (1, [["walls", "ls"], ["walls", "ls"]])


@pytest.mark.parametrize("fault", ["user namespaces are refused", OSError("no bwrap")], ids=str)
async def test_a_sandbox_that_does_not_work_here_stops_the_turn(fault: str | Exception) -> None:
    sandbox, seen = LimitSandbox("walls", fault), list[Any]()
    async with harness_with(sandbox, seen=seen) as harness:
        with pytest.raises(ClawError, match=f"walls: .*{fault}"):
            await harness.send("go")
        sandbox.fault = ""
        await harness.send("go")
    assert seen == [["walls", "ls"]], "a failure is tested again at the next turn"


async def test_the_first_sandbox_that_works_is_used() -> None:
    seen = list[Any]()
    async with harness_with(LimitSandbox("alpha", "no"), LimitSandbox("beta"), seen=seen) as harness:
        await harness.send("go")
    assert seen == [["beta", "ls"]]


async def test_non_main_leaves_the_main_session_outside() -> None:
    seen = list[Any]()
    async with harness_with(LimitSandbox("walls"), mode="non-main", seen=seen, turns=2) as harness:
        await harness.send("go")
        await harness.send("go", session="other")
    assert seen == [None, ["walls", "ls"]]
