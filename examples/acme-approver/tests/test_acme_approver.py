"""The suite for approvers, and a turn of a claw that asks this one."""

import asyncio

import claw_plugin_acme_approver
from claw import Address, ApprovalRequest, Review, hookimpl
from claw.testing import FakeProvider, FakeTool, Harness, calls, says
from claw_plugin_acme_approver import FolderApprover
from pytest_claw import ApproverSuite


async def write_answer(folder, word):
    async with asyncio.timeout(20):
        while not (questions := list(folder.glob("*.question"))):  # noqa: ASYNC110 - a file sends no event
            await asyncio.sleep(0.02)
    questions[0].with_suffix(".answer").write_text(word)


class TestFolderApprover(ApproverSuite):
    def make(self, folder):
        self.folder = folder
        return FolderApprover(folder)

    async def answer(self, approver, allow):
        await write_answer(self.folder, "yes" if allow else "no")


class AskAlways:
    @hookimpl
    def register_reviewers(self):
        return [self]

    def before(self, call, context):
        return Review("ask", "a person decides")


def test_a_call_runs_once_a_person_wrote_yes(tmp_path):
    tool = FakeTool("ring")
    entry = {"config": {"folder": str(tmp_path)}}
    config = {"plugins": {"slots": {"approvals": "acme-approver"}, "entries": {"acme-approver": entry}}}
    plugins = {"acme-approver": claw_plugin_acme_approver, "ask": AskAlways()}

    async def turn():
        model = FakeProvider(calls("ring"), says("done"))
        async with Harness(model, tools=[tool], config=config, plugins=plugins) as harness:
            await asyncio.gather(harness.send("ring the bell"), write_answer(tmp_path, "yes"))

    asyncio.run(turn())
    assert tool.calls == [{}]
    assert list(tmp_path.iterdir()) == []


def test_what_only_an_owner_may_allow_is_denied_at_once(tmp_path):
    request = ApprovalRequest(
        "agent:a:main", "a", "t", "write", "", "SOUL.md", "digest", Address("terminal", "me"), for_owners=True
    )
    decision = asyncio.run(FolderApprover(tmp_path).ask(request))
    assert decision.verdict == "deny"
    assert list(tmp_path.iterdir()) == []
