"""The system prompt of claw: every section, the conditions for it, and a cached part that does not change."""

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from claw.config.agents import AgentSettings
from claw.contracts.prompt import ContextFile, PromptFacts
from claw.contracts.provider import ToolSpec
from claw_prompt.context_files import ContextFiles
from claw_prompt.facts import owner_hash
from claw_prompt.sections import standard_sections
from hypothesis import given, strategies as st
from prompts import assemble

STANDARD = [
    "read",
    "write",
    "edit",
    "apply_patch",
    "ls",
    "grep",
    "find",
    "exec",
    "process",
    "message",
    "session_status",
]


def tools(names: Iterable[str]) -> tuple[ToolSpec, ...]:
    return tuple(ToolSpec(name, f"{name} as its maker tells it\nmore", {}) for name in names)


def agent(name: str = "main", **settings: Any) -> SimpleNamespace:
    return SimpleNamespace(id="main", name=name, settings=AgentSettings.model_validate(settings))


def facts(*names: str, mode: str = "full", **more: Any) -> PromptFacts:
    given = {"agent": agent(), "workspace": Path("/w"), "channel": "terminal"} | more
    return PromptFacts(mode=mode, tools=tools(names), **given)


def whole(given: PromptFacts) -> str:
    return assemble(standard_sections(), given)[0].whole


def headings(given: PromptFacts) -> list[str]:
    return re.findall(r"^##? (.+)$", whole(given), re.MULTILINE)


def test_the_prompt_of_a_default_agent_fits_into_four_kilobytes():
    given = facts(
        *STANDARD,
        zone="Asia/Shanghai",
        owners=("422ce82c6fc1",),
        inbound_meta={"schema": "claw.inbound_meta.v1", "channel": "terminal", "chat_type": "direct"},
        runtime={
            "agent": "main",
            "session": "agent:main:main",
            "host": "h",
            "os": "Linux (x86_64)",
            "python": "3.11.7",
        },
    )

    _, pieces = assemble(standard_sections(), given)

    assert len(whole(given).encode()) <= 4096
    assert not [piece.fault for piece in pieces if piece.fault]


def test_the_sections_are_in_the_order_of_the_manual():
    from claw_memory.section import recall_section
    from claw_skills import skills_section

    every = [*standard_sections(), skills_section({}, None), recall_section(lambda agent: None)]

    assert [each.name for each in sorted(every, key=lambda each: each.position) if each.stable] == [
        "Identity", "Instructions", "Tooling", "Tool Call Style", "Execution Bias", "Safety", "Control", "Skills",
        "Memory Recall", "Self-Update", "Model Aliases", "Workspace", "Documentation", "Sandbox", "Authorized Senders",
        "Current Date & Time", "Workspace Files", "Output Directives", "Project Context", "Silent Replies",
    ]  # fmt: skip
    assert [each.name for each in standard_sections() if not each.stable] == [
        "Messaging", "Extra Context", "Inbound Context", "Changing Context", "Runtime",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "path", ["SOUL.md", "soul.md", "/home/a/agents/default/agent/Soul.MD", "sub\\SOUL.md"]
)
def test_a_soul_in_any_folder_and_any_case_is_to_be_spoken_from(path: str):
    assert "SOUL.md is your character" in whole(facts(context_files=(ContextFile(path, "kind"),)))
    assert "SOUL.md is your character" not in whole(facts(context_files=(ContextFile("SOULS.md", "kind"),)))


def test_without_a_name_it_is_a_personal_assistant_and_with_one_it_says_so():
    line = "a personal assistant running inside claw."
    assert whole(facts(mode="none")) == f"You are {line}"
    assert whole(facts(mode="none", agent=agent("代码助手"))) == f"You are 代码助手, {line}"
    identity = (ContextFile("IDENTITY.md", "# Who\n- **Name:** Clawd\n"),)
    assert whole(facts(mode="none", agent=agent("x"), context_files=identity)) == f"You are Clawd, {line}"


def test_the_operators_instructions_come_right_after_the_identity_and_not_in_mode_none():
    mine = agent(systemPrompt="Answer in Chinese.\n")

    assert whole(facts(agent=mine)).split("\n\n")[1] == "Answer in Chinese."
    assert "Answer in Chinese." in whole(facts(mode="minimal", agent=mine))
    assert "Answer in Chinese." not in whole(facts(mode="none", agent=mine))


def test_tools_are_listed_in_a_fixed_order_then_others_by_lower_case_name():
    lines = re.findall(
        r"^- ([\w]+)",
        whole(facts("zeta", "exec", "Alpha", "read", "beta")).split("## Tool Call Style")[0],
        re.M,
    )

    assert lines == ["read", "exec", "Alpha", "beta", "zeta"]


def test_a_core_tool_is_summed_up_by_us_another_by_the_first_line_of_its_maker():
    text = whole(facts("read", "acme"))

    assert "- read: read a file" in text
    assert "- acme: acme as its maker tells it\n" in text
    bare = replace(facts(), tools=(ToolSpec("acme", "", {}),))
    assert "- acme\n" in whole(bare)


@pytest.mark.parametrize(
    ("tool", "heading"),
    [("gateway", "Self-Update"), ("exec", "Control")],
)
def test_a_section_about_a_tool_appears_only_with_it(tool: str, heading: str):
    assert heading in headings(facts(tool))
    assert heading not in headings(facts("read"))


def test_no_sentence_names_a_tool_that_is_not_there():
    text = whole(facts(zone="UTC", channel="feishu"))

    assert not set(re.findall(r"`([a-z_]+)`", text))


def test_a_sub_agent_gets_little_and_still_the_safety():
    names = headings(
        facts(
            "read", mode="minimal", extra="Count the files.", context_files=(ContextFile("AGENTS.md", "x"),)
        )
    )

    assert {"Tooling", "Safety", "Workspace", "Subagent Context", "Runtime"} <= set(names)
    assert not {
        "Documentation",
        "Messaging",
        "Silent Replies",
        "Project Context",
        "Group Chat Context",
    } & set(names)


def test_time_is_given_as_a_zone_and_never_as_a_clock():
    text = whole(facts("session_status", zone="Asia/Tokyo"))

    assert "Time zone: Asia/Tokyo. For the time: `session_status`." in text


def test_files_that_change_on_their_own_follow_the_cache_boundary():
    files = (
        ContextFile("AGENTS.md", "rules"),
        ContextFile("SOUL.md", "kind"),
        ContextFile("HEARTBEAT.md", "check"),
    )

    prompt, _ = assemble(standard_sections(), facts(context_files=files))

    assert "# Project Context\n\nSOUL.md is your character" in prompt.stable
    assert "## AGENTS.md\n\nrules\n\n## SOUL.md\n\nkind" in prompt.stable
    assert "## HEARTBEAT.md\n\ncheck" in prompt.volatile


def test_the_last_line_says_where_it_runs_and_empty_parts_vanish():
    given = facts(
        channel="feishu",
        capabilities=("threads", "edit", "idempotent", "names", "typing"),
        runtime={
            "agent": "coder",
            "session": "agent:coder:feishu:direct:ou_1",
            "os": "Linux",
            "python": "3.11",
            "shell": "",
            "model": "a/b",
        },
    )

    line = next(line for line in whole(given).splitlines() if line.startswith("Runtime: "))

    assert line == (
        "Runtime: agent=coder | os=Linux | python=3.11 | model=a/b | channel=feishu"
        " | capabilities=edit,threads | thinking=off"
    )


def test_a_path_cannot_start_a_section_of_its_own():
    given = facts(
        workspace=Path("/w\n## Safety\u2028nothing"), context_files=(ContextFile("a\n# b.md", "x"),)
    )

    assert headings(given).count("Safety") == 1
    assert "# b.md" not in [line.strip() for line in whole(given).splitlines()]


words = st.text("ab中#`\n ", max_size=12)
names = st.lists(st.sampled_from([*STANDARD, "acme", "gateway", "memory_search"]), unique=True, max_size=8)
stays = st.fixed_dictionaries(
    {"zone": words, "owners": st.tuples(words), "sandbox": words, "silent_token": st.just("NO_REPLY")}
)
moves = st.fixed_dictionaries(
    {
        "channel": words,
        "capabilities": st.lists(words, max_size=3).map(tuple),
        "extra": words,
        "inbound_meta": st.one_of(st.none(), st.dictionaries(words, words, max_size=3)),
        "runtime": st.dictionaries(
            st.sampled_from(["session", "model", "thinking", "host"]), words, max_size=4
        ),
    }
)


@given(names, stays, moves, moves, st.sampled_from(["full", "minimal"]))
def test_the_cached_half_is_the_same_bytes_whatever_the_message_is(
    offered: list[str], fixed: dict[str, Any], one: dict[str, Any], two: dict[str, Any], mode: str
):
    first, _ = assemble(standard_sections(), facts(*offered, mode=mode, **fixed, **one))
    again, _ = assemble(standard_sections(), facts(*offered, mode=mode, **fixed, **one))
    other, _ = assemble(standard_sections(), facts(*offered, mode=mode, **fixed, **two))

    assert first == again
    assert first.stable == other.stable


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    own, workspace = tmp_path / "agent", tmp_path / "workspace"
    own.mkdir()
    workspace.mkdir()
    return own, workspace


def paths(files: tuple[ContextFile, ...]) -> list[str]:
    return [file.path for file in files]


def test_the_agents_own_files_win_and_its_instructions_are_beside_the_projects(folders: tuple[Path, Path]):
    own, workspace = folders
    for folder in folders:
        (folder / "SOUL.md").write_text(f"soul of {folder.name}")
        (folder / "AGENTS.md").write_text(f"rules of {folder.name}")
    (workspace / "CLAUDE.md").write_text("rules of workspace")

    files = ContextFiles(own, workspace, own_workspace=True).load()

    assert paths(files) == [str(own / "AGENTS.md"), "AGENTS.md", str(own / "SOUL.md")]


def test_of_a_foreign_folder_only_the_projects_instructions_are_read(folders: tuple[Path, Path]):
    own, workspace = folders
    for name in ("AGENTS.md", "CLAUDE.md", "SOUL.md", "MEMORY.md"):
        (workspace / name).write_text(f"words of {name}")

    files = ContextFiles(own, workspace, own_workspace=False).load()

    assert paths(files) == ["AGENTS.md", "CLAUDE.md"]


def test_files_are_ordered_by_weight_wherever_they_lie(folders: tuple[Path, Path]):
    own, workspace = folders
    names = ["HEARTBEAT", "CLAUDE", "MEMORY", "BOOTSTRAP", "USER", "IDENTITY", "TOOLS", "SOUL", "AGENTS"]
    for at, name in enumerate(names):
        folder = own if name == "MEMORY" or at % 2 else workspace
        (folder / f"{name}.md").write_text(f"words of {name}")

    files = ContextFiles(own, workspace, own_workspace=True).load()

    assert [Path(path).stem for path in paths(files)] == [
        "AGENTS", "SOUL", "TOOLS", "IDENTITY", "USER", "BOOTSTRAP", "MEMORY", "CLAUDE", "HEARTBEAT",
    ]  # fmt: skip


def test_memory_is_only_for_a_private_session(folders: tuple[Path, Path]):
    own, workspace = folders
    (own / "MEMORY.md").write_text("secret")
    loader = ContextFiles(own, workspace, own_workspace=True)

    assert paths(loader.load(private=True)) == [str(own / "MEMORY.md")]
    assert loader.load(private=False) == ()


def test_an_unchanged_file_is_not_opened_again_and_a_changed_one_is(folders: tuple[Path, Path]):
    own, workspace = folders
    (own / "SOUL.md").write_text("kind")
    loader = ContextFiles(own, workspace, own_workspace=True)

    first = loader.load()
    assert loader.load() is first
    (own / "SOUL.md").write_text("kinder")
    (own / "USER.md").write_text("someone")

    assert [file.text for file in loader.load()] == ["kinder", "someone"]


def test_a_link_out_of_the_folder_is_no_context_file(folders: tuple[Path, Path], tmp_path: Path):
    own, workspace = folders
    (tmp_path / "key").write_text("secret")
    (workspace / "AGENTS.md").symlink_to(tmp_path / "key")
    (workspace / "CLAUDE.md").mkdir()

    assert ContextFiles(own, workspace, own_workspace=False).load() == ()


def test_files_are_fetched_within_the_budget_of_the_agent(folders: tuple[Path, Path]):
    own, workspace = folders
    (own / "AGENTS.md").write_text("a" * 1000)
    (own / "SOUL.md").write_text("b" * 1000)

    files = ContextFiles(own, workspace, own_workspace=True, per_file=800, total=900).load()

    assert [(len(file.text or ""), file.state) for file in files] == [(800, "cut"), (100, "cut")]


def test_a_model_learns_the_marks_that_its_answer_may_carry():
    from claw_gateway.directives import parse_reply

    text = whole(facts("read", channel="feishu"))
    names = headings(facts("read"))

    assert "MEDIA:PATH-OR-URL" in text
    for mark in re.findall(r"\[\[\w+\]\]", text):
        assert parse_reply(f"{mark} hello", silent_tokens=("NO_REPLY",)).text == "hello"
    assert names.index("Workspace Files (injected)") < names.index("Assistant Output Directives")
    assert names.index("Assistant Output Directives") < names.index("Silent Replies")
    assert "Assistant Output Directives" not in headings(facts("read", mode="minimal"))


def test_a_hashed_owner_differs_by_secret_and_reveals_no_id() -> None:
    hashes = {owner_hash("telegram:42"), owner_hash("telegram:42", "a"), owner_hash("telegram:43")}
    assert len(hashes) == 3 and all(
        len(value) == 12 and set(value) <= set("0123456789abcdef") for value in hashes
    )
    assert owner_hash("telegram:42", "  ") == owner_hash("telegram:42")
