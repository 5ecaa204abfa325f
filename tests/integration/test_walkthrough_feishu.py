"""The walk-through of the first source document (sections 2 to 12) whole: a signed and encrypted webhook comes in through
the gateway's listener, the agent *coder* works in four model turns with six tools, the answer is in the same chat.

Real plugins: feishu, http, anthropic, tools-std, skills. Around them the platform and the model service on loopback, each
of which refuses what the real one would. The figures (ids, name, time, sentence, skill) are the document's.

Where claw differs from the document, on purpose:

- The session is ``agent:coder:feishu:direct:ou_…``, one for each person on each channel, not one for each message.
- The first line names the agent; ``systemPrompt`` is a section of its own behind it. Sentences of the prompt, tools'
  descriptions and results are claw's; headings and their order are the document's (*OpenClaw Control* is *Control*). The
  cache boundary is where the first of two system blocks ends.
- The silent token is ``NO_REPLY`` unless a setting names another.
- The metadata says ``claw.inbound_meta.v1``; it is at the head of the user message because ``prompt.inboundMeta`` is
  ``user`` here (without that setting behind the cache boundary of the system prompt), and falsehoods
  (``is_group_chat: false``) are left out.
- A skill's file is read as it lies there; ``ls`` marks folders, ``write`` counts bytes first.
- The answer grows on a card while it is written, and a reaction on the question shows that work is going on.
"""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from claw.app import App, load_setup
from claw_feishu.fake import FakeFeishu, Shown, events
from claw_feishu.inbound import FeishuBot, to_inbound
from claw_gateway.supervisor import ChannelServer
from claw_testing.services import AnthropicService, ServiceReply
from integration.test_walkthrough import SCRIPT, SENTENCE, SIX, SKILL, TURNS

PERSON, CHAT = "ou_881e8247625e31527b4d15a31471504c", "oc_7654321098765432109876543210"
MESSAGE, SENT_AT = "om_6123456789abcdefghijklmnopqrstu", 1781533860.0  # Mon 2026-06-15 14:31 UTC
INSTRUCTIONS = "你是一个全栈开发助手,擅长编写脚本和解释代码。\n用户当前通过飞书与你对话,请用中文回复。\n"
ANSWER = (
    "已经帮你创建了 `list_files.py`。\n\n功能:遍历当前目录下所有文件,自动跳过 `.git` 目录,并打印每个文件的相对路径。\n\n"
    "运行方式:\n```bash\npython list_files.py\n```"
)
STABLE = [
    "Tooling", "Tool Call Style", "Execution Bias", "Safety", "Control", "Skills", "Workspace", "Documentation",
 "Workspace Files (injected)", "Assistant Output Directives", "Silent Replies",
]  # fmt: skip
VOLATILE = ["Messaging", "Runtime"]


@dataclass
class Scene:
    """A gateway that serves, and the two services that it connects.

    :ivar posted: status of each webhook, and how many model requests had been made when it was answered.
    """

    app: App
    feishu: FakeFeishu
    model: AnthropicService
    workspace: Path
    posted: list[tuple[int, int]]
    complaints: list[str]

    async def writes(self, text: str, message_id: str = MESSAGE) -> dict[str, Any]:
        """张三 writes; the event that went out. Returns when the turn is over and no reply is pending."""
        self.feishu.messages[message_id] = Shown(
            message_id, CHAT, "text", {"text": text}, PERSON, "user", SENT_AT
        )
        said = events.message(message_id, CHAT, PERSON, "text", {"text": text}, at=SENT_AT)
        event = self.feishu.event("im.message.receive_v1", said)
        done = len(self.ended) + 1
        await self.feishu.push(event)
        await self.feishu.until(lambda: len(self.ended) == done and not self.feishu.reactions, 20)
        return event

    @property
    def ended(self) -> list[dict[str, Any]]:
        """Turns that are over, and whose answers were delivered, as the journal has them."""
        return [turn for turn in self.turns if turn["endedAtMs"] and not turn["owed"]]

    @property
    def requests(self) -> list[Any]:
        return [request.body for request in self.model.requests]

    @property
    def turns(self) -> list[dict[str, Any]]:
        return self.app.runtime.turn_log.turns()


@dataclass(frozen=True)
class Played:
    """The observations of a scene that is over."""

    feishu: FakeFeishu
    workspace: Path
    posted: list[tuple[int, int]]
    complaints: list[str]
    requests: list[Any]
    refusals: list[str]
    turns: list[dict[str, Any]]


def config(feishu: FakeFeishu, model: AnthropicService, workspace: Path) -> dict[str, Any]:
    """The document's file, and where things are here."""
    coder = {
        "id": "coder", "name": "代码助手", "model": "anthropic/claude-sonnet-4-6", "workspaceDir": str(workspace),
        "tools": {"allow": SIX}, "skills": {"allow": ["create-python-script"]},
    }  # fmt: skip
    defaults = {"model": "anthropic/claude-sonnet-4-6", "systemPrompt": INSTRUCTIONS}
    return {
        "agents": {"defaults": defaults, "list": [coder]},
        "prompt": {"inboundMeta": "user"},
        "channels": {"feishu": {**feishu.config, "mode": "webhook", "allowFrom": [PERSON]}, "http": {}},
        "gateway": {"port": 0, "auth": {"token": "a-token-for-the-walk-through-0123456789"}},
        "providers": {"anthropic": {"baseUrl": model.url, "apiKey": "sk-ant-EXAMPLE"}},
    }


def through(url: Callable[[], str], posted: list[tuple[int, int]], model: AnthropicService) -> Any:
    """Posts webhooks to the gateway's listener over a socket, as the platform does."""

    async def post(headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        assert SENTENCE.encode() not in body, "it is encrypted"
        async with httpx2.AsyncClient(trust_env=False) as http:
            answer = await http.post(f"{url()}/webhook/feishu/default", headers=headers, content=body)
        posted.append((answer.status_code, len(model.requests)))
        return answer.status_code, answer.content

    return post


@asynccontextmanager
async def scene(folder: Path, *turns: ServiceReply) -> AsyncIterator[Scene]:
    workspace, home, log_lines = folder / "coder", folder / "home", []
    skill = workspace / "skills" / "create-python-script"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(SKILL, encoding="utf-8")
    for name in ("README.md", "requirements.txt"):
        (workspace / name).touch()
    for name in ("scripts", "tests"):
        (workspace / name).mkdir()
    home.mkdir(exist_ok=True)
    async with FakeFeishu() as feishu, AnthropicService(turns) as model:
        feishu.people[PERSON] = "张三"
        (home / "config.json").write_text(json.dumps(config(feishu, model, workspace)), encoding="utf-8")
        environ = {"CLAW_HOME": str(home), "HOME": str(home), "PATH": "/usr/bin:/bin"}
        app = App(load_setup(environ), log=log_lines.append)
        stop = asyncio.Event()
        running = asyncio.ensure_future(ChannelServer(app).run(stop))
        try:
            listener, channel = app.registry.channel("http"), app.registry.channel("feishu")
            await feishu.until(lambda: listener.url and channel.state.state == "up", 10)
            posted: list[tuple[int, int]] = []
            feishu.webhook = through(lambda: listener.url, posted, model)
            yield Scene(app, feishu, model, workspace, posted, log_lines)
        finally:
            stop.set()
            await asyncio.wait_for(running, 20)
            await app.close()


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """The four turns of the document, played to their end."""

    async def play() -> Played:
        async with scene(tmp_path_factory.mktemp("walk"), *TURNS[:3], ServiceReply(ANSWER)) as stage:
            await stage.writes(SENTENCE)
            seen = stage.requests, stage.model.refusals, stage.turns
        return Played(stage.feishu, stage.workspace, stage.posted, stage.complaints, *seen)

    return asyncio.run(play())


def headings(text: str) -> list[str]:
    return re.findall(r"^## (.+)$", text, re.M)


def test_step_1_the_event_becomes_one_neutral_message():
    said = events.message(MESSAGE, CHAT, PERSON, "text", {"text": SENTENCE}, at=SENT_AT)
    event = events.envelope(
        "im.message.receive_v1", said, event_id="e1", app_id="cli_1", token="t", at=SENT_AT
    )

    inbound = to_inbound(event, FeishuBot("ou_bot", "cli_1", "default"))

    assert inbound is not None
    assert (inbound.address.channel, inbound.address.chat, inbound.address.thread) == ("feishu", CHAT, None)
    assert (inbound.message_id, inbound.sender.id, inbound.chat_type) == (MESSAGE, PERSON, "direct")
    assert (inbound.text, inbound.sent_at, inbound.kind) == (SENTENCE, SENT_AT, "message")


def test_step_1_a_webhook_that_is_signed_and_encrypted_is_acknowledged_before_the_model_is_asked(
    played: Played,
):
    assert played.posted == [(200, 0)]
    assert played.feishu.pushed[0].times == 1, "acknowledged in time: it did not come again"
    assert played.complaints == []


async def test_step_1_what_is_signed_with_another_key_comes_to_nothing(tmp_path: Path):
    async with scene(tmp_path) as stage:
        stage.feishu.encrypt_key = "another-key"
        said = events.message(MESSAGE, CHAT, PERSON, "text", {"text": SENTENCE}, at=SENT_AT)
        await stage.feishu.push(stage.feishu.event("im.message.receive_v1", said))
        assert stage.posted[0][0] == 401
        assert stage.app.runtime.turn_log.counts() == (0, 0) and stage.requests == []


def test_step_2_the_person_is_admitted_to_a_session_of_their_own(played: Played):
    [turn] = played.turns
    assert turn["session"] == f"agent:coder:feishu:direct:{PERSON}"


def test_step_3_the_system_prompt_has_the_sections_in_order_and_ends_with_the_runtime(played: Played):
    stable, volatile = (block["text"] for block in played.requests[0]["system"])

    assert stable.splitlines()[0] == "You are 代码助手, a personal assistant running inside claw."
    assert stable.index(INSTRUCTIONS.strip()) < stable.index("## Tooling")
    assert (headings(stable), headings(volatile)) == (STABLE, VOLATILE)
    tooling = stable.partition("## Tooling")[2].partition("\n## ")[0]
    assert re.findall(r"^- (\w+): ", tooling, re.M) == SIX
    assert "<name>create-python-script</name>" in stable
    assert "<location>./skills/create-python-script/SKILL.md</location>" in stable
    assert str(played.workspace) in stable
    [runtime] = re.findall(r"^Runtime: (.+)$", volatile, re.M)
    facts = dict(part.split("=", 1) for part in runtime.split(" | "))
    expected = {
        "agent": "coder", "channel": "feishu", "thinking": "off",
        "model": "anthropic/claude-sonnet-4-6",
    }  # fmt: skip
    assert expected.items() <= facts.items()
    assert volatile.splitlines()[-1].startswith("Reasoning: hidden")


def test_step_3_nothing_of_the_message_is_in_the_system_prompt(played: Played):
    system = "\n".join(block["text"] for block in played.requests[0]["system"])
    for foreign in (SENTENCE, "张三", MESSAGE, CHAT, PERSON):
        assert foreign not in system


def test_step_4_metadata_blocks_the_id_and_the_name_precede_the_sentence(played: Played):
    [message] = played.requests[0]["messages"]
    text = "".join(block["text"] for block in message["content"])

    parts = ["## Inbound Context (trusted metadata)", "Conversation info (untrusted metadata):",
             "Sender (untrusted metadata):", f"[message_id: {MESSAGE}]\n张三: {SENTENCE}"]  # fmt: skip
    assert [text.index(part) for part in parts] == sorted(text.index(part) for part in parts)
    assert text.startswith(parts[0]) and text.endswith(parts[-1])
    trusted, conversation, sender = (
        json.loads(block) for block in re.findall(r"```json\n(.+?)\n```", text, re.S)
    )
    assert trusted == {
        "schema": "claw.inbound_meta.v1", "channel": "feishu", "provider": "feishu", "surface": "feishu",
        "chat_type": "direct",
    }  # fmt: skip
    assert conversation == {
        "chat_id": CHAT, "message_id": MESSAGE, "sender_id": PERSON, "sender": "张三",
        "timestamp": "Mon 2026-06-15 14:31 UTC",
    }  # fmt: skip
    assert sender == {"id": PERSON, "name": "张三"}


def test_steps_5_to_11_four_requests_with_six_tools_grow_by_one_call_and_its_result(played: Played):
    requests = played.requests
    assert len(requests) == 4
    assert [len(request["messages"]) for request in requests] == [1, 3, 5, 7]
    for request in requests:
        assert request["model"] == "claude-sonnet-4-6"
        assert [tool["name"] for tool in request["tools"]] == SIX
        assert request["system"] == requests[0]["system"]
    required = {tool["name"]: tool["input_schema"].get("required", []) for tool in requests[0]["tools"]}
    assert required["read"] == ["file_path"] and required["write"] == ["file_path", "content"]

    calls = [block for message in requests[3]["messages"][1::2] for block in message["content"]]
    results = [block for message in requests[3]["messages"][2::2] for block in message["content"]]
    assert [call["name"] for call in calls] == ["read", "ls", "write"]
    assert [call["input"] for call in calls] == [turn.calls[0][1] for turn in TURNS[:3]]
    assert [result["tool_use_id"] for result in results] == [call["id"] for call in calls]
    texts = [result["content"][0]["text"] for result in results]
    assert texts[0] == SKILL
    assert texts[1] == "README.md\nrequirements.txt\nscripts/\nskills/\ntests/\n"
    assert texts[2] == f"Wrote {len(SCRIPT.encode())} bytes to list_files.py"
    assert played.refusals == []


def test_step_10_the_script_is_in_the_workspace_and_runs(played: Played):
    script = played.workspace / "list_files.py"
    assert script.read_text(encoding="utf-8") == SCRIPT
    run = subprocess.run(
        [sys.executable, script], cwd=played.workspace, capture_output=True, text=True, check=True
    )
    assert "./list_files.py" in run.stdout.split()


def test_step_12_the_answer_appears_once_in_the_same_chat_and_the_journal_says_delivered(played: Played):
    [answer] = played.feishu.ours
    assert (answer.chat_id, answer.msg_type) == (CHAT, "interactive")
    assert played.feishu.text_of(answer.message_id) == ANSWER
    card = played.feishu.card_of(answer.message_id)
    assert not card.streaming and card.jumps == 0
    assert played.feishu.reactions == {}, "the sign of work was taken off"
    [turn] = played.turns
    assert (turn["outcome"], turn["owed"], turn["possiblyRepeated"]) == ("delivered", 0, 0)


async def test_the_same_event_again_is_acknowledged_and_answered_no_more(tmp_path: Path):
    async with scene(tmp_path, ServiceReply("好的。")) as stage:
        event = await stage.writes("你好")
        again = await stage.feishu.push(event)
        assert again.acked
        await asyncio.sleep(0.1)
        assert len(stage.requests) == len(stage.feishu.ours) == 1


async def test_the_next_message_sees_the_past_without_its_metadata(tmp_path: Path):
    async with scene(tmp_path, *TURNS[:3], ServiceReply(ANSWER), ServiceReply("不客气。")) as stage:
        await stage.writes(SENTENCE)
        await stage.writes("谢谢", "om_second")

        *past, now = stage.requests[4]["messages"]
        assert past[0]["content"][-1]["text"] == f"张三: {SENTENCE}"
        assert "Inbound Context" not in json.dumps(past)
        assert "[message_id: om_second]\n张三: 谢谢" in now["content"][-1]["text"]
        assert [stage.feishu.text_of(one.message_id) for one in stage.feishu.ours] == [ANSWER, "不客气。"]


async def test_where_cards_are_not_allowed_the_answer_comes_as_text_in_the_same_chat(tmp_path: Path):
    async with scene(tmp_path, ServiceReply("好的。")) as stage:
        stage.feishu.missing_scopes.add("cardkit:card:write")
        await stage.writes("你好")
        [answer] = stage.feishu.ours
        assert (answer.chat_id, answer.msg_type) == (CHAT, "text")
        assert stage.feishu.text_of(answer.message_id) == "好的。"
