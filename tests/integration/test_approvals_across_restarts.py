"""An approval that was requested before a restart is decided after it, whatever ended the gateway."""

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import claw_tools_std
import pytest
from claw.contracts.messages import Sender
from claw.host.isolation import Timeouts
from claw.testing import FakeChannel, FakeProvider, Harness, calls, says
from claw_approvals.approvals import Approvals
from claw_telegram.fake import FakeTelegram
from claw_testing.services import OpenAIService, ServiceReply
from integration.served import serve

OWNED = {"owners": ["fake:boss"], "channels": {"fake": {"allowFrom": ["boss"]}}}
COMMAND = "mkdir made-once"
"""A second run of it fails."""


@asynccontextmanager
async def served(model: FakeProvider, channel: FakeChannel, home: Path, **settings):
    harness = Harness(
        model, channels=[channel], home=home, config=OWNED | settings, plugins={"tools-std": claw_tools_std}
    )
    harness.app.timeouts = Timeouts(stop_seconds=0.2, pause_seconds=0.05)
    async with serve(harness):
        yield harness


async def asked_and_stopped(channel: FakeChannel, home: Path) -> str:
    """A gateway that put the question and was stopped before anybody answered; the id of the question."""
    async with served(FakeProvider(calls("exec", command=COMMAND)), channel, home) as harness:
        channel.says("make it", "boss")
        await channel.until_shown()
        [waiting] = harness.app.registry.approver.value.pending()
    assert COMMAND in channel.sent[0].text
    return waiting.id


async def notify(channel: FakeChannel, text: str) -> None:
    async with asyncio.timeout(20):
        while text not in channel.shown:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("verdict", ["once", "deny"])
@pytest.mark.parametrize("way", ["button", "command"])
async def test_an_answer_after_a_restart_counts_for_the_command_that_waits(tmp_path, way, verdict):
    channel, model = FakeChannel(), FakeProvider(says("so be it"))
    id = await asked_and_stopped(channel, tmp_path)
    async with served(model, channel, tmp_path) as harness:
        if way == "button":
            channel.says(f"approve:{id}:{verdict}", "boss", kind="button")
        else:
            channel.says(f"/approve {id} {verdict}", "boss")
        await notify(channel, "so be it")
        made = (harness.workspace / "made-once").exists()

    [result] = model.requests[0].tool_results
    assert made is (verdict == "once")
    assert ("did not allow it" in result.content[0].text) is (verdict == "deny")
    assert "cut off" not in result.content[0].text
    assert sum("asks to run exec" in text for text in channel.shown) == 1, "it is not asked again"


@asynccontextmanager
async def asked(channel: FakeChannel, home: Path, **settings):
    """Serve a gateway that asked for approval; yield its harness, the id of the request, and that of its message."""
    model = FakeProvider(calls("exec", command=COMMAND), says("so be it"))
    async with served(model, channel, home, **settings) as harness:
        channel.says("make it", "boss")
        await channel.until_shown()
        [waiting] = harness.app.registry.approver.value.pending()
        [message] = [id for id, text in channel._messages.items() if COMMAND in text]
        assert channel.sent[0].buttons
        yield harness, waiting.id, message


async def edit_of(channel: FakeChannel, message: str) -> str:
    """Wait for the edit of the request's message; return its text. There is one edit."""
    async with asyncio.timeout(20):
        while not (edits := [act for act in channel.acts if act[0] == "edit"]):
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.2)
    assert edits == [act for act in channel.acts if act[0] == "edit"], "it is edited once"
    [(_, (_, edited, text))] = edits
    assert edited == message
    assert COMMAND in text and "press a button" not in text
    return text


@pytest.mark.parametrize("verdict", ["once", "deny"])
async def test_a_decided_request_loses_its_buttons_and_says_its_outcome(tmp_path, verdict):
    channel = FakeChannel()
    async with asked(channel, tmp_path) as (_, id, message):
        channel.says(f"approve:{id}:{verdict}", "boss", kind="button", message_id=message)
        await notify(channel, "so be it")
        assert f"already answered: {verdict}" in await edit_of(channel, message)


@pytest.mark.parametrize("verdict", ["once", "deny"])
@pytest.mark.parametrize("chat", ["chat-1", "chat-2"])
async def test_a_request_that_was_decided_by_a_typed_command_loses_its_buttons_too(tmp_path, chat, verdict):
    channel = FakeChannel()
    async with asked(channel, tmp_path) as (_, id, message):
        channel.says(f"/approve {id} {verdict}", "boss", chat=chat)
        await notify(channel, "so be it")
        assert f"already answered: {verdict}" in await edit_of(channel, message)


async def test_a_request_that_was_decided_at_a_terminal_loses_its_buttons(tmp_path):
    channel = FakeChannel()
    async with asked(channel, tmp_path) as (harness, id, message):
        at_terminal = Approvals(harness.app.database)  # as another process has it
        assert at_terminal.decide(id, "deny", channel="terminal", sender=Sender("local"), owner=True).accepted
        await notify(channel, "so be it")
        assert "already answered: deny" in await edit_of(channel, message)


async def test_an_expired_request_loses_its_buttons(tmp_path):
    channel = FakeChannel()
    async with asked(channel, tmp_path, approvals={"timeout": "1s"}) as (_, id, message):
        assert f"request {id} expired without an answer" in await edit_of(channel, message)


@pytest.mark.parametrize("command", ["/stop", "/new"])
async def test_a_request_of_a_stopped_turn_loses_its_buttons(tmp_path, command):
    channel = FakeChannel()
    async with asked(channel, tmp_path) as (_, id, message):
        channel.says(command, "boss")
        assert f"request {id} was stopped before an answer" in await edit_of(channel, message)


async def test_a_request_that_expired_while_no_gateway_ran_loses_its_buttons_at_the_next_start(tmp_path):
    channel = FakeChannel()
    async with asked(channel, tmp_path, approvals={"timeout": "2s"}) as (_, id, message):
        assert not [act for act in channel.acts if act[0] == "edit"]
    await asyncio.sleep(2)
    async with served(FakeProvider(says("so be it")), channel, tmp_path):
        assert f"request {id} expired without an answer" in await edit_of(channel, message)


async def test_a_request_that_still_waits_after_a_restart_keeps_its_buttons(tmp_path):
    channel = FakeChannel()
    async with asked(channel, tmp_path) as (_, id, message):
        pass
    async with served(FakeProvider(says("so be it")), channel, tmp_path):
        await asyncio.sleep(0.5)
        assert not [act for act in channel.acts if act[0] == "edit"]
        channel.says(f"/approve {id} deny", "boss")
        assert "already answered: deny" in await edit_of(channel, message)


async def test_a_press_in_another_chat_edits_nothing_there(tmp_path):
    channel = FakeChannel()
    async with asked(channel, tmp_path) as (_, id, message):
        channel.says("hello", "boss", chat="chat-2")
        channel.says(f"approve:{id}:deny", "boss", kind="button", chat="chat-2", message_id="message-99")
        assert "already answered: deny" in await edit_of(channel, message)


async def test_a_typed_decision_counts_where_no_message_can_be_edited(tmp_path):
    class Fixed(FakeChannel):
        async def edit(self, *_: object) -> None:
            raise OSError("the message is too old")

    channel, model = Fixed(), FakeProvider(calls("exec", command=COMMAND), says("so be it"))
    async with served(model, channel, tmp_path) as harness:
        channel.says("make it", "boss")
        await channel.until_shown()
        [waiting] = harness.app.registry.approver.value.pending()
        channel.says(f"/approve {waiting.id} deny", "boss")
        await notify(channel, "so be it")
        assert any("not allowed" in text for text in channel.shown)
        assert any("buttons of a decided request" in line for line in harness.log_lines)


async def test_a_program_that_is_another_one_after_the_restart_is_asked_about_again(tmp_path):
    script = tmp_path / "tool.sh"
    script.write_text("#!/bin/sh\nmkdir allowed\n")
    script.chmod(0o755)
    channel, model = FakeChannel(), FakeProvider(says("so be it"))
    async with served(
        FakeProvider(calls("exec", command=str(script))), channel, tmp_path / "home"
    ) as harness:
        channel.says("go", "boss")
        await channel.until_shown()
        [old] = harness.app.registry.approver.value.pending()
    script.write_text("#!/bin/sh\nmkdir smuggled\n")
    async with served(model, channel, tmp_path / "home") as harness:
        await channel.until_shown(2)
        assert "asks to run exec" in channel.shown[1]
        channel.says(f"/approve {old.id} once", "boss")
        await channel.until_shown(3)
        assert "has expired" in channel.shown[2]
        [new] = harness.app.registry.approver.value.pending()
        channel.says(f"/approve {new.id} deny", "boss")
        await notify(channel, "so be it")
        assert not (harness.workspace / "smuggled").exists()


async def test_a_decision_that_nobody_waits_for_says_so(tmp_path):
    channel = FakeChannel()
    id = await asked_and_stopped(channel, tmp_path)
    harness = Harness(FakeProvider(), channels=[channel], home=tmp_path, config=OWNED)
    [cut] = harness.app.runtime.turn_log.unfinished()
    harness.app.runtime.turn_log.ended(cut.turn, "failed")
    assert harness.app.registry.approver.value.pending() == ()
    await harness.close()
    [message] = [id for id, text in channel._messages.items() if COMMAND in text]
    async with served(FakeProvider(), channel, tmp_path):
        assert f"request {id} was stopped before an answer" in await edit_of(channel, message)
        channel.says(f"/approve {id} once", "boss")
        await notify(channel, f"request {id} has expired or was stopped")


# --- a process that is killed


@asynccontextmanager
async def gateway(folder: Path):
    """``claw gateway run`` as a process of its own; killed with -9 at the end of the block."""
    environ = {"PATH": os.defpath, "HOME": str(folder), "CLAW_HOME": str(folder / "claw"), "LANG": "C.UTF-8"}
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "claw", "gateway", "run", cwd=folder, env=environ, stdin=quiet, stdout=quiet, stderr=quiet,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        await process.wait()


async def until(holds, seconds: float = 20.0):
    async with asyncio.timeout(seconds):
        while not (now := holds()):
            await asyncio.sleep(0.02)
    return now


def answers(request):
    """The command first; once its result is there, words about it."""
    results = [one["content"] for one in request.body["messages"] if one["role"] == "tool"]
    return (
        ServiceReply(f"it said: {results[-1]}")
        if results
        else ServiceReply(calls=[("exec", {"command": COMMAND})])
    )


@pytest.mark.xdist_group("telegram")
@pytest.mark.parametrize(("verdict", "typed"), [("once", False), ("deny", False), ("once", True)])
async def test_a_question_of_a_killed_gateway_is_decided_in_the_next_one_and_runs_no_more_than_once(
    tmp_path, verdict, typed
):
    boss = 333444555
    (tmp_path / "claw").mkdir()
    async with FakeTelegram() as service, OpenAIService(answers) as model:
        tree = {
            "channels": {"telegram": {"botToken": service.token, "apiBase": service.url, "allowFrom": [str(boss)]}},
            "owners": [f"telegram:{boss}"], "providers": {"openai": {"baseUrl": model.url, "apiKey": "sk-of-a-test"}},
            "agents": {"defaults": {"model": "openai/gpt-4o"}},
        }  # fmt: skip
        (tmp_path / "claw" / "config.json").write_text(json.dumps(tree))
        person = {"from": {"id": boss, "is_bot": False, "first_name": "Boss"}}

        def ours():
            chat = service.messages.get(boss, {}).values()
            return [one for one in chat if one["from"] == service.bot]

        def questions():
            return [one for one in ours() if one.get("reply_markup")]

        async with gateway(tmp_path):
            service.says("make it", chat=boss, **person)
            [question] = await until(questions)
            await asyncio.sleep(1)  # what a restart must know of it is on disk
        async with gateway(tmp_path):
            keys = [key for row in question["reply_markup"]["inline_keyboard"] for key in row]
            data = next(key["callback_data"] for key in keys if key["callback_data"].endswith(verdict))
            if typed:
                _, id, _ = data.split(":")
                service.says(f"/approve {id} {verdict}", chat=boss, **person)
            else:
                service.update(callback_query={"id": "q1", "data": data, "message": question, **person})
            whole = (
                "did not allow it" if verdict == "deny" else "it said"
            )  # it grows by edits, and may be half there
            await until(lambda: [one for one in ours() if whole in one.get("text", "")])
            await until(lambda: not questions())  # the decided one has lost its buttons
        [said] = [one["text"] for one in ours() if "it said" in one.get("text", "")]

    made = list(tmp_path.rglob("made-once"))
    assert sum("asks to run exec" in one.get("text", "") for one in ours()) == 1, "it is not asked again"
    assert len(made) == (verdict == "once")
    assert ("did not allow it" in said) is (verdict == "deny") and "unknown" not in said, said
