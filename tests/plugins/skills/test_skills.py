"""Skills: where they are found, which one wins, what keeps one out, and what a prompt says of them."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from claw.config.models import Settings
from claw.contracts.prompt import PromptFacts
from claw.contracts.provider import ToolSpec
from claw.host.manifest import parse_manifest
from claw_skills import SkillCatalogue, catalogue, key_is_set, register_commands, skills_section
from claw_skills.prompt_section import usable
from claw_skills.settings import SkillSettings
from claw_skills.skill import Machine, Requirements, Skill, obstacle, parse_skill
from claw_skills.skill_index import SkillFolder, SkillIndex, SkillSource
from hypothesis import given, strategies as st
from typer.testing import CliRunner

READ = (ToolSpec("read", "", {}),)
LINUX = Machine("linux", {"TOKEN": "x"}, {"git": "/bin/git"}.get, {"channels.telegram"}.__contains__)
FactsBuilder = Callable[..., PromptFacts]


@pytest.fixture
def harness(tmp_path: Path) -> FactsBuilder:
    """The facts of an agent with these skill settings; its workspace is ``tmp_path/ws``, the home ``tmp_path/claw``."""

    def build(**skills: Any) -> PromptFacts:
        workspace = tmp_path / "ws"
        workspace.mkdir(exist_ok=True)
        agent = SimpleNamespace(
            id="coder",
            dir=tmp_path / "claw" / "agents" / "coder",
            workspace=workspace,
            section=lambda key, model: model.model_validate(skills if key == "skills" else {}),
        )
        return PromptFacts(agent, "full", READ, workspace)

    return build


def skill(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(text, encoding="utf-8")
    return folder


def front(name: str, **more: str) -> str:
    return (
        "---\n"
        + "\n".join(f"{key}: {value}" for key, value in {"name": name, **more}.items())
        + "\n---\n# Body\n"
    )


def section(environ: dict[str, str] | None = None) -> SkillCatalogue:
    return SkillCatalogue(SkillIndex(environ or {}, key_is_set(None)))


def test_the_skill_of_the_walk_through_has_no_frontmatter_and_is_described_by_folder_and_first_paragraph(
    tmp_path: Path, harness: FactsBuilder
):
    skill(
        tmp_path / "ws/skills/create-python-script",
        "# create-python-script\n当用户请求时使用本 Skill。\n## 步骤\n1. ls\n",
    )

    text = section().render(harness())

    assert text.startswith("## Skills\n")
    assert text.endswith(
        "<available_skills>\n<skill>\n<name>create-python-script</name>\n"
        "<description>当用户请求时使用本 Skill。</description>\n"
        "<location>./skills/create-python-script/SKILL.md</location>\n</skill>\n</available_skills>"
    )


def test_a_version_is_reported_when_there_is_one(tmp_path: Path, harness: FactsBuilder):
    skill(tmp_path / "ws/skills/a", front("a", description="does a", version="1.2"))

    assert "<version>1.2</version>" in section().render(harness())


def test_of_one_name_the_higher_place_wins(tmp_path: Path, harness: FactsBuilder):
    people = tmp_path / "people"
    skill(tmp_path / "ws/skills/x", front("one", description="of the workspace"))
    skill(people / ".agents/skills/y", front("one", description="of the person"))
    skill(people / ".agents/skills/z", front("two", description="of the person"))
    skill(tmp_path / "claw/skills/two", front("two", description="of the house"))
    skill(tmp_path / "claw/agents/coder/agent/skills/three", front("three", description="of the agent"))
    skill(tmp_path / "claw/skills/three", front("three", description="of the house"))

    text = section({"HOME": str(people)}).render(harness())

    descriptions = [line for line in text.splitlines() if line.startswith("<description>")]
    assert descriptions == [
        f"<description>of the {who}</description>" for who in ("workspace", "agent", "person")
    ]


def test_extra_folders_come_last(tmp_path: Path, harness: FactsBuilder):
    skill(tmp_path / "more/one", front("one", description="extra"))

    assert "<description>extra</description>" in section().render(harness(extraDirs=[str(tmp_path / "more")]))


def test_a_skill_outside_of_the_workspace_is_named_by_its_whole_path_and_may_be_read(
    tmp_path: Path, harness: FactsBuilder
):
    folder = skill(tmp_path / "claw/skills/a", front("a", description="x"))
    skill(tmp_path / "ws/skills/b", front("b", description="x"))
    facts = harness()

    assert f"<location>{folder.resolve()}/SKILL.md</location>" in section().render(facts)
    assert section().readable(facts.agent) == (folder.resolve(),)


def test_without_skills_or_without_the_read_tool_there_is_no_section(tmp_path: Path, harness: FactsBuilder):
    facts = harness()
    assert section().render(facts) == ""

    skill(tmp_path / "ws/skills/a", front("a", description="x"))
    bare = PromptFacts(facts.agent, "full", (), facts.workspace)
    assert section().render(bare) == ""
    assert section().render(facts) != ""


def test_an_agent_that_lists_skills_has_only_those_and_with_an_empty_list_none(
    tmp_path: Path, harness: FactsBuilder
):
    for name in ("a", "b"):
        skill(tmp_path / f"claw/skills/{name}", front(name, description=name))

    skills = section()
    assert "<name>b</name>" not in skills.render(harness(allow=["a"]))
    assert "<name>a</name>" in skills.render(harness(allow=["a"]))
    assert skills.render(harness(allow=[])) == ""
    assert skills.readable(harness(allow=[]).agent) == ()
    assert [path.name for path in skills.readable(harness(allow=["a"]).agent)] == ["a"]


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        ({}, ""),
        ({"requires": {"bins": ["git"]}}, ""),
        ({"requires": {"bins": ["git", "gh"]}}, "not on PATH: gh"),
        ({"requires": {"anyBins": ["hub", "git"]}}, ""),
        ({"requires": {"anyBins": ["hub", "gh"]}}, "none of these is on PATH: hub, gh"),
        ({"requires": {"env": ["TOKEN"]}}, ""),
        ({"requires": {"env": ["KEY"]}}, "not set in the environment: KEY"),
        ({"requires": {"config": ["channels.telegram"]}}, ""),
        ({"requires": {"config": ["channels.discord"]}}, "not set in the config file: channels.discord"),
        ({"os": ["macos"]}, "it is for darwin"),
        ({"os": ["linux", "darwin"]}, ""),
        ({"always": True, "requires": {"bins": ["gh"]}, "os": ["darwin"]}, ""),
    ],
)
def test_a_gate_says_what_is_missing(metadata: dict[str, Any], why: str):
    for written in (metadata, {"claw": metadata}, {"openclaw": metadata}):
        text = front("a", description="x", metadata=json.dumps(written))
        assert obstacle(parse_skill(text, "a"), LINUX, {}) == why


def test_an_operator_may_switch_one_off_by_its_key():
    assert "skills.entries.a.enabled" in obstacle(parse_skill("# a", "a"), LINUX, {"enabled": False})


def test_a_skill_that_no_model_may_choose_is_not_listed(tmp_path: Path, harness: FactsBuilder):
    skill(tmp_path / "ws/skills/a", "---\nname: a\ndescription: x\ndisable-model-invocation: true\n---\n")

    assert section().render(harness()) == ""


def test_frontmatter_that_is_no_yaml_is_read_line_by_line():
    found = parse_skill(
        "---\nname: weather\ndescription: Use when: user asks [for] weather: now\n---\nbody", "w"
    )

    assert (found.name, found.description) == ("weather", "Use when: user asks [for] weather: now")


@given(st.text(max_size=300), st.booleans())
def test_any_file_is_some_skill(text: str, fenced: bool):
    found = parse_skill(f"---\n{text}\n---\n" if fenced else text, "folder")

    assert found.name and "\n" not in found.name + found.description + found.version
    assert obstacle(found, LINUX, {}) is not None


@given(
    st.lists(st.text("a<&>\n\u2028\x00", min_size=1, max_size=6), min_size=1, max_size=4),
    st.integers(300, 2000),
)
def test_no_name_can_end_its_element_and_the_list_stays_within_its_size(names: list[str], most: int):
    text = catalogue([Skill(name, name, location=f"./{name}") for name in names], most)

    inside = text.partition("<available_skills>\n")[2].partition("</available_skills>")[0]
    assert len(inside) <= most
    assert inside.count("<name>") == inside.count("</skill>")


def test_too_many_skills_are_cut_from_the_end(tmp_path: Path, harness: FactsBuilder):
    for number in range(5):
        skill(tmp_path / f"claw/skills/s{number}", front(f"s{number}", description="x"))

    text = section().render(harness(maxInPrompt=2))

    assert "<name>s1</name>" in text and "<name>s2</name>" not in text


def test_a_link_out_of_the_workspace_is_no_skill(tmp_path: Path, harness: FactsBuilder):
    secret = tmp_path / "secret"
    secret.write_text("the key")
    folder = tmp_path / "ws/skills/evil"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").symlink_to(secret)

    assert section().render(harness()) == ""


def _age(path: Path) -> None:
    """Make it old enough that its time can be trusted."""
    for each in (path, *path.rglob("*")):
        os.utime(each, (time.time() - 60, time.time() - 60))


def test_a_second_search_of_unchanged_folders_reads_nothing_and_a_change_is_seen(
    tmp_path: Path, harness: FactsBuilder
):
    folder = skill(tmp_path / "ws/skills/a", front("a", description="old"))
    _age(tmp_path / "ws")
    skills, facts = section(), harness()
    first = skills.render(facts)

    assert skills.render(facts) is first
    (folder / "SKILL.md").write_text(front("a", description="new words"))
    assert "new words" in skills.render(facts)
    skill(tmp_path / "ws/skills/b", front("b", description="x"))
    assert "<name>b</name>" in skills.render(facts)
    (folder / "SKILL.md").unlink()
    assert "<name>a</name>" not in skills.render(facts)


def test_an_unreadable_place_is_an_empty_one(tmp_path: Path):
    from claw_skills.skill_index import SkillFolder

    (tmp_path / "file").write_text("no folder")

    assert SkillSource(SkillFolder("x", tmp_path / "file")).find() == ()
    assert SkillSource(SkillFolder("x", tmp_path / "absent")).find() == ()


def test_a_program_that_is_installed_later_opens_its_gate(tmp_path: Path, harness: FactsBuilder):
    bins = tmp_path / "bin"
    bins.mkdir()
    metadata = json.dumps({"requires": {"bins": ["gh-of-tests"]}})
    skill(tmp_path / "ws/skills/a", front("a", description="x", metadata=metadata))
    skills, facts = section({"PATH": str(bins)}), harness()
    assert skills.render(facts) == ""

    (bins / "gh-of-tests").write_text("#!/bin/sh\n")
    (bins / "gh-of-tests").chmod(0o755)
    os.utime(bins, (time.time() + 5, time.time() + 5))

    assert "<name>a</name>" in skills.render(facts)


def test_a_config_key_is_set_when_it_has_a_value():
    settings = Settings.model_validate({"channels": {"telegram": {"token": "abc"}}})

    assert key_is_set(settings)("channels.telegram.token")
    assert not key_is_set(settings)("channels.discord.token")
    assert not key_is_set(settings)("channels.telegram.token.more")


def test_the_manifest_says_what_the_plugin_provides():
    import claw_skills

    folder = Path(claw_skills.__file__).parent
    manifest = parse_manifest((folder / "claw-plugin.json").read_text(encoding="utf-8"), "skills")

    assert manifest.prompt_sections == (skills_section({}).name,)
    assert tuple(manifest.commands) == ("skills",)
    assert manifest.loads_at_start


def test_usable_keeps_what_nothing_refuses():
    from claw_skills.skill_index import FoundSkill

    shelved = [
        FoundSkill(Skill("a", ""), ""),
        FoundSkill(Skill("b", ""), "not on PATH: x"),
        FoundSkill(Skill("c", "", gates=Requirements()), ""),
    ]

    assert [one.name for one in usable(shelved, SkillSettings())] == ["a", "c"]


def test_the_command_lists_each_skill_with_where_it_is_and_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    home, work = tmp_path / "claw", tmp_path / "here"
    monkeypatch.setenv("CLAW_HOME", str(home))
    work.mkdir()
    monkeypatch.chdir(work)
    skill(home / "skills/good", front("good", description="fine"))
    skill(
        work / "skills/bad",
        front("bad", description="x", metadata='{"requires": {"bins": ["no-such-program"]}}'),
    )
    app = typer.Typer()
    register_commands(app)

    listed = CliRunner().invoke(app, ["skills", "list", "--json"])
    checked = CliRunner().invoke(app, ["skills", "check"])

    rows = {row["name"]: row for row in json.loads(listed.stdout)["skills"]}
    assert rows["good"]["listed"] and rows["good"]["source"] == "managed"
    assert not rows["bad"]["listed"] and rows["bad"]["why"] == "not on PATH: no-such-program"
    assert checked.exit_code == 1
    assert "bad" in checked.stdout and "good" not in checked.stdout


def test_a_skill_cannot_steer_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAW_HOME", str(tmp_path / "claw"))
    file = tmp_path / "claw" / "skills" / "sly" / "SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text('---\nname: sly\ndescription: "a\\e]0;owned\\ab\\u202E"\n---\n# Title\n')

    app = typer.Typer()
    register_commands(app)
    for words in (["list"], ["check"], ["list", "--json"]):
        assert not set(CliRunner().invoke(app, ["skills", *words]).stdout) & set("\x1b\x07")
    assert "a⟨U+001B⟩]0;owned⟨U+0007⟩b⟨U+202E⟩" in CliRunner().invoke(app, ["skills", "list"]).stdout


def bomb(levels: int) -> str:
    """Front matter whose aliases double with each level: 504 bytes took gigabytes."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    for level in range(1, levels):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]")
    return "\n".join(lines)


@pytest.mark.parametrize(
    "front",
    [
        pytest.param(f"name: kept\n{bomb(12)}\nmetadata: {{openclaw: {{os: *a11}}}}", id="aliases"),
        pytest.param(f"name: kept\nmetadata: {'[' * 100_000}", id="levels"),
        pytest.param(f"name: kept\nversion: {'1' * 5_000}", id="digits"),
        pytest.param("name: kept\n" + "a: b\n" * 50_000, id="many lines"),
    ],
)
def test_front_matter_that_would_fill_the_memory_costs_nothing_but_itself(front: str) -> None:
    began = time.monotonic()
    skill = parse_skill(f"---\n{front}\n---\n# Title\n\nDoes it.\n", "folder")
    assert (skill.name, skill.description) == ("kept", "Does it.")
    assert time.monotonic() - began < 5


def test_a_skill_that_cannot_be_read_leaves_the_others(tmp_path: Path) -> None:
    skill(tmp_path / "ws/skills/a", f"---\nname: {'1:' * 3_000}1\n---\n")
    skill(tmp_path / "ws/skills/b", "---\nname: b\ndescription: x\n---\n")
    place = SkillFolder("workspace", tmp_path / "ws" / "skills", tmp_path / "ws")
    assert [one.name for one in SkillSource(place).find()] == ["b"]
