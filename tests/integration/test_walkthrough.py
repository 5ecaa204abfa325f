"""The walk-through of the first source document (sections 2 to 12), here from the terminal.

The same sentence, the same skill, the same agent, four model turns played by a loopback service that speaks Anthropic's
protocol and refuses what the real one would refuse. Real plugins: anthropic, tools-std, skills.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from claw.agent.turn_context import TurnOptions
from claw.app import App, load_setup
from claw.contracts.events import TurnEnded
from claw.runtime import LOCAL_SENDER, terminal_message
from claw_testing.services import AnthropicService, ServiceReply

SENTENCE = "帮我写一个 Python 脚本,功能是遍历当前目录所有文件"
SKILL = """# create-python-script

当用户请求创建 Python 脚本时使用本 Skill。

## 步骤
1. 用 `ls` 查看当前目录结构。
2. 用 `write` 创建 `.py` 文件。
3. 文件内容应包含 shebang 和清晰的注释。
4. 创建后给用户一个简要说明。
"""
SCRIPT = '''#!/usr/bin/env python3
"""List every file below this folder."""

import os

for root, folders, files in os.walk("."):
    folders[:] = [folder for folder in folders if folder != ".git"]
    for name in files:
        print(os.path.join(root, name))
'''
CONFIG = """
agents:
  defaults:
    model: anthropic/claude-sonnet-4-6
    systemPrompt: |
      你是一个全栈开发助手,擅长编写脚本和解释代码。
      用户当前通过飞书与你对话,请用中文回复。
  list:
    - id: coder
      name: 代码助手
      model: anthropic/claude-sonnet-4-6
      workspaceDir: {workspace}
      tools:
        allow:
          - read
          - write
          - edit
          - ls
          - exec
          - message
      skills:
        allow:
          - create-python-script
prompt:
  inboundMeta: user
providers:
  anthropic:
    baseUrl: {url}
    apiKey: sk-ant-EXAMPLE
"""
TURNS = (
    ServiceReply(calls=[("read", {"file_path": "./skills/create-python-script/SKILL.md"})]),
    ServiceReply(calls=[("ls", {"path": "."})]),
    ServiceReply(calls=[("write", {"file_path": "list_files.py", "content": SCRIPT})]),
    ServiceReply("已经帮你创建了 `list_files.py`。"),
)
SIX = ["read", "write", "edit", "ls", "exec", "message"]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "coder"
    skill = folder / "skills" / "create-python-script"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(SKILL, encoding="utf-8")
    (folder / "README.md").write_text("# Scripts\n")
    (folder / "tests").mkdir()
    return folder


async def a_conversation(
    workspace: Path, home: Path, *sentences: str, turns=TURNS, config=CONFIG, asked: list[str] | None = None
):
    """Say the sentences one after the other; the answers, the requests that arrived, the events.

    :param asked: gets what a person is asked, who allows it once; None: nobody is there.
    """
    home.mkdir(exist_ok=True)
    events = []

    async def note(event):
        events.append(event)

    async with AnthropicService(turns) as service:
        (home / "config.yaml").write_text(
            config.format(workspace=workspace, url=service.url), encoding="utf-8"
        )
        app = App(load_setup({"CLAW_HOME": str(home), "HOME": str(home), "PATH": "/usr/bin:/bin"}))
        if asked is not None:
            approvals = app.registry.approver.value

            async def allow(question):
                asked.append(question.request.shown)
                approvals.decide(question.id, "once", channel="terminal", sender=LOCAL_SENDER, owner=True)
                return True

            approvals.show_request = allow
        try:
            answers = [
                await app.handle(terminal_message(text), note, TurnOptions(agent="coder"))
                for text in sentences
            ]
        finally:
            await app.close()
    return (
        [answer and answer.text for answer in answers],
        [request.body for request in service.requests],
        events,
    )


async def test_the_four_model_turns_end_in_the_script_and_it_runs(workspace, tmp_path):
    answers, requests, events = await a_conversation(workspace, tmp_path / "home", SENTENCE)

    assert answers == ["已经帮你创建了 `list_files.py`。"]
    assert len(requests) == 4
    assert isinstance(events[-1], TurnEnded)
    assert events[-1].outcome == "delivered"
    script = workspace / "list_files.py"
    assert script.read_text(encoding="utf-8") == SCRIPT
    listed = subprocess.run(
        [sys.executable, script], cwd=workspace, capture_output=True, text=True, check=True
    ).stdout
    assert set(listed.split()) >= {"./README.md", "./list_files.py", "./skills/create-python-script/SKILL.md"}


async def test_every_request_has_the_six_tools_of_the_agent_and_the_instructions_apart(workspace, tmp_path):
    _, requests, _ = await a_conversation(workspace, tmp_path / "home", SENTENCE)

    for request in requests:
        assert sorted(tool["name"] for tool in request["tools"]) == sorted(SIX)
        assert request["model"] == "claude-sonnet-4-6"
        assert all(message["role"] in ("user", "assistant") for message in request["messages"])
        system = "\n".join(block["text"] for block in request["system"])
        assert "running inside claw" in system.splitlines()[0]
        assert "你是一个全栈开发助手" in system
        assert "<name>create-python-script</name>" in system
        assert (
            "当用户请求创建 Python 脚本时使用本 Skill。" in system
        )  # without frontmatter, the first paragraph
        assert "./skills/create-python-script/SKILL.md" in system
        assert SENTENCE not in system
        assert (
            system.index("## Tooling")
            < system.index("## Safety")
            < system.index("## Skills")
            < system.index("## Runtime")
        )
    stable = [request["system"][0] for request in requests]
    assert all(block == stable[0] for block in stable)
    assert stable[0]["cache_control"] == {"type": "ephemeral"}


async def test_calls_and_results_are_paired_in_order_and_grow_by_one_step_each(workspace, tmp_path):
    _, requests, _ = await a_conversation(workspace, tmp_path / "home", SENTENCE)

    assert [len(request["messages"]) for request in requests] == [1, 3, 5, 7]
    last = requests[-1]["messages"]
    assert [message["role"] for message in last] == ["user", "assistant"] * 3 + ["user"]
    for call, result in ((last[1], last[2]), (last[3], last[4]), (last[5], last[6])):
        [use] = [block for block in call["content"] if block["type"] == "tool_use"]
        [answer] = [block for block in result["content"] if block["type"] == "tool_result"]
        assert answer["tool_use_id"] == use["id"]
        assert not answer.get("is_error")
    names = [b["name"] for m in last for b in m["content"] if b["type"] == "tool_use"]
    assert names == ["read", "ls", "write"]
    texts = [str(m["content"]) for m in last]
    assert "创建后给用户一个简要说明" in texts[2]
    assert "README.md" in texts[4]
    assert "list_files.py" in texts[6]


async def test_the_metadata_is_at_the_head_of_this_turn_and_is_not_repeated_in_the_next(workspace, tmp_path):
    turns = (*TURNS, ServiceReply("不客气。"))
    _, requests, _ = await a_conversation(workspace, tmp_path / "home", SENTENCE, "谢谢", turns=turns)

    for request in requests[:4]:
        head = request["messages"][0]["content"]
        assert "Inbound Context (trusted metadata)" in head[0]["text"]
        assert head[-1]["text"].endswith(SENTENCE)
    later = requests[4]["messages"]
    assert "Inbound Context" not in str(later[:-1])
    assert later[0]["content"][-1]["text"] == SENTENCE
    assert "Inbound Context" in str(later[-1])


async def test_the_model_runs_what_it_wrote_after_one_approval(workspace, tmp_path):
    turns = (
        ServiceReply(calls=[("write", {"file_path": "list_files.py", "content": SCRIPT})]),
        ServiceReply(calls=[("exec", {"command": "python3 list_files.py"})]),
        ServiceReply("完成。"),
    )
    asked: list[str] = []
    _, requests, _ = await a_conversation(workspace, tmp_path / "home", SENTENCE, turns=turns, asked=asked)

    assert asked == ["python3 list_files.py"]
    assert "./README.md" in str(requests[2]["messages"][-1])


async def test_a_tool_that_the_agent_does_not_have_is_refused_with_the_key(workspace, tmp_path):
    turns = (ServiceReply(calls=[("grep", {"pattern": "x"})]), ServiceReply("好吧。"))
    _, requests, _ = await a_conversation(workspace, tmp_path / "home", SENTENCE, turns=turns)

    refusal = str(requests[1]["messages"][-1])
    assert "agents.list[0].tools.allow" in refusal
    assert "is_error" in refusal
