"""``claw prompt``: who adds how much to a request, and whether two turns share what a provider keeps."""

import json
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from claw.cli.main import app
from claw_prompt.stability import PromptPart, parts_with_time, prompt_differences
from hypothesis import given, strategies as st
from third_party import engine_code, installed
from typer.testing import CliRunner, Result

SECTION = """
import itertools, time
from claw import PromptSection, hookimpl

counter = itertools.count()

def render(facts):
    return {text}

@hookimpl
def register_prompt_sections(config):
    return [PromptSection("Mood", 55, render{more})]
"""


def claw(*words: str) -> Result:
    return CliRunner().invoke(app, ["prompt", *words])


def document(*words: str) -> dict[str, Any]:
    answer = claw(*words, "--json")
    return {"code": answer.exit_code, **json.loads(answer.stdout)}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


def test_as_shipped_two_turns_share_every_byte_before_the_boundary() -> None:
    answer = claw("stability")
    assert answer.exit_code == 0
    assert answer.stdout.startswith("stable: two turns share all ")
    assert document("stability")["breaks"] == []


def test_a_section_that_counts_turns_is_named_with_its_plugin_and_what_differs(site: Path) -> None:
    installed(site, "counting", SECTION.format(text="f'## Mood\\nturn {next(counter)} of many'", more=""))

    printed, [broken] = claw("stability"), document("stability")["breaks"]

    assert printed.exit_code == 1
    assert "section Mood of plugin counting" in printed.stdout
    assert "## Mood turn 0 of many" in printed.stdout and "stable=False" in printed.stdout
    assert (broken["kind"], broken["name"], broken["plugin"]) == ("section", "Mood", "counting")
    assert broken["first"] != broken["second"]


def test_a_plugin_that_could_not_be_loaded_is_not_judged_to_be_stable(site: Path) -> None:
    installed(site, "moody", "import no_such_library_anywhere")

    answer = claw("stability")

    assert answer.exit_code == 1
    assert "not judged" in answer.stdout and "moody" in answer.stdout
    assert "stable: two turns" not in answer.stdout
    assert document("stability")["stable"] is False


def test_a_section_that_fails_is_not_judged_to_be_stable(site: Path) -> None:
    installed(site, "failing", SECTION.format(text="{}['mood']", more=""))

    answer = claw("stability")

    assert answer.exit_code == 1
    assert "not judged: section Mood of plugin failing: it failed: KeyError: 'mood'" in answer.stdout
    assert "stable: two turns" not in answer.stdout
    assert document("stability")["stable"] is False


FILTER = """
from claw import hookimpl

class Silent:
    def inbound(self, message):
        return None

@hookimpl
def register_filters(config):
    return [Silent()]
"""


FAILING = """
from claw import hookimpl

turns = []

class Filter:
    def inbound(self, message):
        turns.append(message)
        if len(turns) in {fails}:
            raise LookupError("no list of words")
        return message

@hookimpl
def register_filters(config):
    return [Filter()]
"""


@pytest.mark.parametrize(("plugin", "fails"), [("always", "(1, 2, 3)"), ("once", "(2,)")])
def test_a_filter_that_fails_in_a_turn_is_not_judged_to_be_stable(
    site: Path, plugin: str, fails: str
) -> None:
    installed(
        site, plugin, FAILING.format(fails=fails)
    )  # a module stays imported, so each has a name of its own

    answer = claw("stability")

    assert answer.exit_code == 1
    assert answer.stdout == f"not judged: plugin {plugin}: its filter failed: LookupError: no list of words\n"


LATER = """
async def ask(messages, choice):
    raise LookupError('no list')
    yield
return ask
"""


@pytest.mark.parametrize(("plugin", "body"), [("wraps", "raise LookupError('no list')"), ("calls", LATER)])
def test_a_context_engine_that_fails_is_not_judged_to_be_stable(
    site: Path, tmp_path: Path, plugin: str, body: str
) -> None:
    installed(site, plugin, engine_code("odd", body))
    home = tmp_path / "home" / ".claw"
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text("plugins: {slots: {context: odd}}\n")

    answer, as_data = claw("stability"), document("stability")

    assert answer.exit_code == 1
    assert f"not judged: plugin {plugin}: its context engine failed: LookupError: no list\n" in answer.stdout
    assert "stable: two turns" not in answer.stdout and as_data["stable"] is False
    assert as_data["unloaded"].count(f"plugin {plugin}: its context engine failed: LookupError: no list") == 1


def test_messages_of_turns_without_a_request_are_not_judged_to_be_stable(site: Path) -> None:
    installed(site, "silent", FILTER)

    answer = claw("stability")

    assert answer.exit_code == 1
    assert "not judged: the messages: " in answer.stdout and "stable: two turns" not in answer.stdout


MIDDLEWARE = """
import dataclasses, itertools
from claw import Text, User, hookimpl

counter = itertools.count()

class Stamped:
    def __init__(self, provider):
        self._provider = provider

    def __getattr__(self, name):
        return getattr(self._provider, name)

    def stream(self, request):
        turn = next(counter)
        past = [User((Text(f"turn {turn}"),)) if isinstance(one, User) else one for one in request.messages[:-1]]
        return self._provider.stream(dataclasses.replace(request, messages=(*past, request.messages[-1])))

class Stamp:
    name = "stamp"

    def wrap(self, provider):
        return Stamped(provider)

@hookimpl
def register_provider_middleware(config):
    return [Stamp()]
"""


def test_a_plugin_that_changes_earlier_messages_in_each_request_breaks_it(site: Path) -> None:
    installed(site, "stamping", MIDDLEWARE)

    printed, broken = claw("stability"), document("stability")["breaks"]

    assert printed.exit_code == 1
    assert "message 1 of the next request" in printed.stdout
    assert [(one["kind"], one["name"]) for one in broken] == [("message", "1")]
    assert "turn " in broken[0]["first"] and broken[0]["first"] != broken[0]["second"]


def test_the_turns_that_it_plays_leave_nothing_in_the_home(tmp_path: Path) -> None:
    assert claw("stability").exit_code == 0
    home = tmp_path / "home" / ".claw"
    assert list(home.glob("agents/*/sessions/*")) == []


def test_a_section_that_says_so_may_change(site: Path) -> None:
    installed(site, "honest", SECTION.format(text="f'turn {next(counter)}'", more=", stable=False"))
    assert claw("stability").exit_code == 0


def test_a_section_that_reads_the_clock_is_found_though_both_turns_come_within_a_second(site: Path) -> None:
    installed(site, "clocked", SECTION.format(text="time.strftime('## Mood\\nIt is %H:%M.')", more=""))
    answer = claw("stability")
    assert answer.exit_code == 1
    assert "section Mood of plugin clocked" in answer.stdout and "contains the time" in answer.stdout


def test_an_operator_fixes_it_by_a_position_behind_the_boundary(site: Path, tmp_path: Path) -> None:
    installed(site, "restless", SECTION.format(text="f'turn {next(counter)}'", more=""))
    assert claw("stability").exit_code == 1
    home = tmp_path / "home" / ".claw"
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text("prompt: {positions: {Mood: 200}}\n")
    assert claw("stability").exit_code == 0


FAKE = """
from claw import hookimpl
from claw.testing import FakeChannel

@hookimpl
def register_channels(config):
    return [FakeChannel()]
"""


@pytest.fixture
def club(site: Path, tmp_path: Path) -> None:
    """A channel with a group, whose rules are the operator's."""
    installed(site, "fakes", FAKE)
    home = tmp_path / "home" / ".claw"
    home.mkdir(exist_ok=True)
    group = "{club: {requireMention: true, systemPrompt: Speak of gardens.}}"
    (home / "config.yaml").write_text(f"channels: {{fake: {{groups: {group}}}}}\n")


@pytest.mark.usefixtures("club")
def test_the_prompt_of_a_group_is_shown_and_held_to_be_stable_as_any_other() -> None:
    there = ("--channel", "fake", "--group", "club", "--sender", "8")
    shown = {line["section"]: line for line in document("show", *there)["sections"]}
    assert shown["Extra Context"]["stable"] is False
    assert "Speak of gardens." in claw("show", "--text", *there).stdout
    assert claw("stability", *there).exit_code == 0


@pytest.mark.usefixtures("club")
def test_where_nobody_would_answer_there_is_no_prompt_to_show() -> None:
    answer = claw("show", "--channel", "fake", "--sender", "8")
    assert answer.exit_code == 1
    assert "claw route explain --channel fake --sender ID shows why" in str(answer.exception)


def test_a_prompt_is_shown_in_each_mode() -> None:
    assert (
        claw("show", "--text", "--mode", "none").stdout
        == "You are a personal assistant running inside claw.\n"
    )
    names = [
        [line["section"] for line in document("show", "--mode", mode)["sections"]]
        for mode in ("minimal", "full")
    ]
    assert set(names[0]) < set(names[1]) and "Safety" in names[0] and "Documentation" not in names[0]


def test_each_file_has_its_price_and_a_cut_one_says_so(tmp_path: Path) -> None:
    own = tmp_path / "home" / ".claw" / "agents" / "default" / "agent"
    own.mkdir(parents=True)
    (own / "SOUL.md").write_text("kind")
    (own / "USER.md").write_text("x" * 30_000)

    lines = {Path(line["file"]).name: line for line in document("show")["byFile"]}

    assert (lines["SOUL.md"]["state"], lines["SOUL.md"]["bytes"]) == ("whole", 4)
    assert (lines["USER.md"]["state"], lines["USER.md"]["bytes"]) == ("cut", 20_000)
    rows = claw("show", "--by", "file").stdout.splitlines()
    assert rows[0].split() == ["file", "state", "bytes", "tokens,", "about"] and "USER.md  cut" in rows[1]
    assert document("show", "--mode", "minimal")["byFile"] == []


def part(name: str, text: str = "", plugin: str = "acme", kind: str = "section") -> PromptPart:
    return PromptPart(kind, name, plugin, text or name)


def test_what_comes_goes_or_moves_breaks_it_too() -> None:
    a, b, c = part("a"), part("b"), part("c")
    assert [(each.part.name, each.first, each.second) for each in prompt_differences([a], [a, b])] == [
        ("b", "nothing", "b")
    ]
    assert [each.part.name for each in prompt_differences([a, b], [a])] == ["b"]
    assert [each.part.name for each in prompt_differences([a, b, c], [a, c, b])] == ["b"]
    assert [
        each.part.kind
        for each in prompt_differences([part("x", "1", kind="tool")], [part("x", "2", kind="tool")])
    ] == ["tool"]


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.text(max_size=8)), unique_by=lambda pair: pair[0]),
    st.data(),
)
def test_there_is_a_break_exactly_when_the_bytes_differ(
    pairs: list[tuple[str, str]], data: st.DataObject
) -> None:
    first = [PromptPart("section", name, "acme", text) for name, text in pairs]
    second = data.draw(st.permutations(first))
    if first and data.draw(st.booleans()):
        second = [*second[1:], PromptPart("section", second[0].name, "acme", data.draw(st.text(max_size=8)))]
    assert bool(list(prompt_differences(first, second))) == (first != list(second))


@pytest.mark.parametrize(
    ("text", "caught"),
    [("It is 14:31 now", True), ("at 14:31:07", True), ("2:31 PM", True), (f"t={1_781_533_877}", True),
     ("ratio 114:31", False), ("14:310", False), ("opens at 09:00", False), ("id 1234567890", False)],
)  # fmt: skip
def test_the_present_time_is_known_when_it_is_said(
    text: str, caught: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    now = datetime.fromisoformat("2026-06-15T14:31:17+00:00").timestamp()
    assert bool(list(parts_with_time([part("s", text)], now))) is caught
    monkeypatch.undo()
    time.tzset()


def test_a_price_is_reported_for_each_plugin_skill_and_tool(tmp_path: Path) -> None:
    skill = tmp_path / "home" / ".claw" / "workspace-default" / "skills" / "doors"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: doors\ndescription: Open & shut doors.\n---\n# Doors\n")
    (tmp_path / "home" / ".claw" / "config.yaml").write_text(
        f"agents: {{defaults: {{workspace: {skill.parents[1]}}}}}\n"
    )
    body = document("show")

    by_tool = {line["tool"]: line for line in body["byTool"]}
    assert by_tool["read"]["plugin"] == "tools-std" and by_tool["read"]["tokens"] > 0
    assert [line["bytes"] for line in body["byTool"]] == sorted(
        (line["bytes"] for line in body["byTool"]), reverse=True
    )
    assert [(line["skill"], line["plugin"]) for line in body["bySkill"]] == [("doors", "skills")]
    plugins = {line["plugin"]: line for line in body["byPlugin"]}
    mine = [line for line in body["byTool"] if line["plugin"] == "tools-std"]
    assert plugins["tools-std"]["tools"] == len(mine) and plugins["skills"]["sections"] == 1
    assert plugins["tools-std"]["bytes"] == sum(line["bytes"] for line in mine)
    for by, first in (("plugin", "plugin"), ("skill", "doors"), ("tool", "tool")):
        assert any(line.startswith(first) for line in claw("show", "--by", by).stdout.splitlines())
