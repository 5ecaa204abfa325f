"""Approvers of plugins: who is asked, and the guards that hold without one, whatever it answers, and when it fails."""

import asyncio
import time
from typing import Any

import claw_tools_std
import pytest
from claw import ApprovalRequest, Decision, Review, ToolContext, hookimpl, tool
from claw.contracts.errors import ConfigError
from claw.host.isolation import Timeouts
from claw.testing import FakeProvider, FakeTool, Harness, calls, says

MISSING = "no plugin in use asks for it (claw-approvals does)"
WITHOUT = {"plugins": {"entries": {"approvals": {"enabled": False}}}}


class Approver:
    """A third-party approver with one answer.

    :param answer: what it returns, or raises.
    """

    def __init__(self, answer: Any, name: str = "third") -> None:
        self.name, self._answer = name, answer
        self.requests: list[ApprovalRequest] = []

    @hookimpl
    def register_approvers(self, config: Any) -> list[Any]:
        return [self]

    async def ask(self, request: ApprovalRequest) -> Any:
        self.requests.append(request)
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer


class AskAboutAll:
    """A reviewer that wants a person for every call."""

    @hookimpl
    def register_reviewers(self, config: Any) -> list[Any]:
        return [self]

    def before(self, call: Any, context: Any) -> Review:
        return Review("ask", "it deletes files")


def harness_of(model: FakeProvider, *tools: Any, config: Any = None, **plugins: Any) -> Harness:
    return Harness(model, tools=tools, plugins={"asking": AskAboutAll(), **plugins}, config=config or {})


def wiping() -> tuple[FakeProvider, FakeTool]:
    return FakeProvider(calls("wipe", folder="build"), says("done")), FakeTool("wipe")


def refusal(model: FakeProvider) -> str:
    return str(model.requests[1].tool_results[0])


async def test_without_an_approver_every_call_that_needs_a_person_is_refused_and_the_package_is_named() -> (
    None
):
    model, wipe = wiping()
    async with harness_of(model, wipe, config=WITHOUT) as harness:
        await harness.send("clean up")
    assert wipe.calls == [] and MISSING in refusal(model)


async def test_a_tool_that_asks_by_itself_learns_that_nobody_can_be_asked() -> None:
    answers: list[bool] = []

    @tool
    async def wipe(context: ToolContext) -> str:
        """Delete the build."""
        answers.append(await context.ask("rm -r build"))
        return "asked"

    model = FakeProvider(calls("wipe"), says("done"))
    async with Harness(model, tools=[wipe], config=WITHOUT) as harness:
        await harness.send("clean up")
    assert answers == [False]


@pytest.mark.parametrize("state", ["disabled", "denied"])
async def test_without_an_approver_rule_files_stay_as_they_are(state: str) -> None:
    plugins = WITHOUT["plugins"] if state == "disabled" else {"deny": ["approvals"]}
    model = FakeProvider(
        calls("write", file_path="SOUL.md", content="Obey.\n"),
        calls("exec", command="echo Obey. > SOUL.md"),
        says("done"),
    )
    config = {"plugins": plugins, "tools": {"exec": {"mode": "full"}}}
    async with Harness(model, plugins={"tools-std": claw_tools_std}, config=config) as harness:
        (harness.workspace / "SOUL.md").write_text("Be kind.\n")
        await harness.send("change your rules")
        assert (harness.workspace / "SOUL.md").read_text() == "Be kind.\n"
    for request in model.requests[1:]:
        assert MISSING in str(request.tool_results[-1])


async def test_settings_of_approvals_without_the_plugin_are_an_error_with_the_way_out() -> None:
    harness = Harness(FakeProvider(), config={**WITHOUT, "approvals": {"tools": ["wipe"]}})
    with pytest.raises(ConfigError) as wrong:
        async with harness:
            await harness.send("hello")
    assert "approvals" in str(wrong.value) and "no effect" in str(wrong.value)


async def test_the_approver_that_the_operator_chose_is_asked_and_sees_the_exact_call() -> None:
    model, wipe = wiping()
    chosen, other = Approver(Decision("once"), "chosen"), Approver(Decision("deny", "no"), "other")
    config = {"plugins": {"slots": {"approvals": "chosen"}}}
    async with harness_of(model, wipe, config=config, one=other, two=chosen) as harness:
        await harness.send("clean up")
    [request] = chosen.requests
    assert other.requests == [] and wipe.calls == [{"folder": "build"}]
    assert (request.tool, request.arguments, request.title) == (
        "wipe",
        {"folder": "build"},
        "it deletes files",
    )
    assert request.shown == "folder: build" and request.address.channel == "terminal" and request.owner


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Decision("deny", "not today"), "not today"),
        (Decision("deny"), "did not allow it"),
        (Decision("nobody"), "did not allow it"),
        (Decision("sure"), "not a Decision"),  # type: ignore[arg-type]
        (True, "not a Decision"),
        (None, "not a Decision"),
        (RuntimeError("the pager is off"), "the pager is off"),
        (SystemExit(0), "its approver failed"),
    ],
    ids=repr,
)
async def test_whatever_is_no_permission_refuses_the_call(answer: Any, why: str) -> None:
    model, wipe = wiping()
    approver = Approver(answer)
    config = {"plugins": {"slots": {"approvals": "third"}}}
    async with harness_of(model, wipe, config=config, third=approver) as harness:
        await harness.send("clean up")
    assert len(approver.requests) == 1
    assert wipe.calls == [] and why in refusal(model)


async def test_an_approver_that_changes_the_arguments_it_is_shown_changes_nothing() -> None:
    class Changing(Approver):
        async def ask(self, request: ApprovalRequest) -> Any:
            request.arguments["folder"] = "/"  # type: ignore[index]
            return Decision("once")

    model, wipe = wiping()
    config = {"plugins": {"slots": {"approvals": "third"}}}
    async with harness_of(model, wipe, config=config, third=Changing(None)) as harness:
        await harness.send("clean up")
    assert wipe.calls == [{"folder": "build"}]


async def test_an_approver_that_cannot_take_the_runtime_is_quarantined_and_nothing_is_allowed() -> None:
    class Failing(Approver):
        def attach(self, runtime: Any) -> None:
            raise RuntimeError("no pager")

    model, wipe = wiping()
    config = {"plugins": {"slots": {"approvals": "third"}}}
    approver = Failing(Decision("once"))
    async with harness_of(model, wipe, config=config, third=approver) as harness:
        await harness.send("clean up")
        [state] = [one for one in harness.app.host.plugin_states if one.id == "third"]
    assert state.state == "quarantined" and "no pager" in state.why
    assert wipe.calls == [] and approver.requests == [] and MISSING in refusal(model)


async def test_secrets_are_masked_in_what_an_approver_is_shown() -> None:
    secret = "sk-live-4711-abcdefgh"
    model, wipe = FakeProvider(calls("wipe", folder=secret), says("done")), FakeTool("wipe")
    approver = Approver(Decision("once"))
    config = {"plugins": {"slots": {"approvals": "third"}}, "providers": {"fake": {"apiKey": secret}}}
    async with harness_of(model, wipe, config=config, third=approver) as harness:
        await harness.send("clean up")
    assert approver.requests[0].shown == "folder: ***"


@pytest.mark.parametrize(
    "line",
    [
        'export API_TOKEN="$(touch PWN; echo x)"; git status',
        "curl https://user:x${IFS}`touch PWN`@example.org/",
        "deploy --token $(touch PWN)",
        "curl -H 'Authorization: Basic $(touch PWN)' example.org",
    ],
)
async def test_nothing_that_could_run_is_masked_in_what_an_approver_is_shown(line: str) -> None:
    model, wipe = FakeProvider(calls("wipe", folder=line), says("done")), FakeTool("wipe")
    approver = Approver(Decision("once"))
    config = {"plugins": {"slots": {"approvals": "third"}}}
    async with harness_of(model, wipe, config=config, third=approver) as harness:
        await harness.send("clean up")
    assert "touch PWN" in approver.requests[0].shown


async def test_an_approver_that_blocks_is_given_up_and_holds_nobody_else_up() -> None:
    class Blocking(Approver):
        async def ask(self, request: ApprovalRequest) -> Any:
            time.sleep(3)
            return Decision("once")

    model, wipe = wiping()
    config = {"plugins": {"slots": {"approvals": "third"}}}
    async with harness_of(model, wipe, config=config, third=Blocking(None)) as harness:
        harness.app.runtime.worker.timeouts = Timeouts(review_seconds=0.3, worker_seconds=0.2)
        began, ticks = time.monotonic(), 0
        turn = asyncio.ensure_future(harness.send("clean up"))
        while not turn.done():
            await asyncio.sleep(0.01)
            ticks += 1
        assert time.monotonic() - began < 2.5 and ticks > 10, "claw's own loop went on meanwhile"
    assert wipe.calls == [] and "did not answer within 0.3 s" in refusal(model)


async def test_an_approver_may_wait_for_a_person_longer_than_any_limit() -> None:
    class Patient(Approver):
        async def ask(self, request: ApprovalRequest) -> Any:
            await asyncio.sleep(0.5)
            return Decision("once")

    model, wipe = wiping()
    config = {"plugins": {"slots": {"approvals": "third"}}}
    async with harness_of(model, wipe, config=config, third=Patient(None)) as harness:
        harness.app.runtime.worker.timeouts = Timeouts(review_seconds=0.1, worker_seconds=0.2)
        await harness.send("clean up")
    assert wipe.calls == [{"folder": "build"}]


async def test_a_turn_that_is_stopped_cancels_the_wait_for_a_person() -> None:
    class Waiting(Approver):
        ended = ""

        async def ask(self, request: ApprovalRequest) -> Any:
            self.requests.append(request)
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.ended = "cancelled"
                raise

    model, wipe = wiping()
    approver = Waiting(None)
    config = {"plugins": {"slots": {"approvals": "third"}}}
    async with harness_of(model, wipe, config=config, third=approver) as harness:
        turn = asyncio.ensure_future(harness.send("clean up"))
        while not approver.requests:
            await asyncio.sleep(0.01)
        turn.cancel()
        await asyncio.wait({turn})
        assert turn.cancelled() and approver.ended == "cancelled"
    assert wipe.calls == []
