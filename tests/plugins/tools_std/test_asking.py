"""exec and the person who may allow a command: asked when the settings say so, and what they allowed is what runs."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from claw.host.worker import check_and_run
from claw_tools_std.settings import ExecSettings


class Person:
    """Somebody who is asked.

    :param answer: what they say; an exception is raised, as by claw when they do not allow it.
    :param meanwhile: done between the question and the answer.
    """

    def __init__(self, answer: Any = True, meanwhile: Callable[[], Any] = lambda: None) -> None:
        self.answer, self.meanwhile = answer, meanwhile
        self.asked: list[tuple[str, str]] = []

    async def __call__(self, shown: str, title: str = "", binds: str = "") -> bool:
        self.asked.append((shown, title))
        self.meanwhile()
        if isinstance(self.answer, Exception):
            raise self.answer
        return bool(self.answer)


async def run(bench, person: Person | None, command: str, settings: dict[str, Any], **more: Any):
    written = {"mode": "allowlist", **settings}
    bench.agent = SimpleNamespace(section=lambda key, model: model.model_validate(written))
    context = replace(bench.context, ask=person) if person else bench.context
    result = await check_and_run(bench.tools["exec"], {"command": command, **more}, context)
    return result.is_error, result.blocks[0].text


# --- as shipped


@pytest.mark.parametrize("command", ["ls", "cat a.txt", "python3 a.py", "echo a > made", "git status"])
async def test_as_shipped_no_command_runs_unasked(bench, command: str) -> None:
    bench.put("a.txt", "text\n")
    bench.put("a.py", "print(1)\n")
    person = Person(False)
    failed, text = await run(bench, person, command, {"mode": "ask"})
    assert failed
    assert "tools.exec.mode" in text
    assert [shown for shown, _ in person.asked] == [command]
    assert await run(bench, None, command, {"mode": "ask", "ask": "off"}) == (failed, text)


def test_ask_is_the_mode_that_is_shipped() -> None:
    assert ExecSettings().mode == "ask"


async def test_what_the_person_allows_runs(bench) -> None:
    assert await run(bench, Person(), "echo one | tr o O", {"mode": "ask"}) == (False, "One\n")


async def test_a_list_in_the_file_is_obeyed_without_a_mode(bench) -> None:
    for settings in ({"allow": ["touch"]}, {"allow": [], "safeBins": ["cut"]}):
        person = Person(False)
        assert not (await run(bench, person, "echo fine", {"mode": "ask", **settings}))[0]
        assert person.asked == []
        assert (await run(bench, person, "mkdir made", {"mode": "ask", **settings}))[0]
        assert len(person.asked) == 1


async def test_in_a_sandbox_commands_run_unasked_and_inside(bench) -> None:
    bench.wrap = lambda argv: ["/usr/bin/env", "BOX=in", *argv]
    person = Person(False)
    assert await run(bench, person, "echo $BOX; true && pwd", {"mode": "ask"}) == (
        False,
        f"in\n{bench.workspace}\n",
    )
    assert person.asked == []
    assert (await run(bench, person, "echo a", {"mode": "ask", "ask": "always"}))[0]
    assert len(person.asked) == 1


# --- with a list


async def test_what_is_not_listed_is_asked_about_and_runs_when_allowed(bench) -> None:
    person = Person()
    assert await run(bench, person, "touch made", {}) == (False, "(no output)")
    assert (bench.workspace / "made").exists()
    [(shown, title)] = person.asked
    assert shown == "touch made"
    assert str(bench.workspace.resolve()) in title


async def test_what_is_listed_is_not_asked_about(bench) -> None:
    person = Person()
    assert await run(bench, person, "echo fine", {}) == (False, "fine\n")
    assert person.asked == []


async def test_a_line_for_a_shell_is_shown_as_it_is_and_runs_in_one_when_allowed(bench) -> None:
    person = Person()
    line = "echo one && echo two | tr t T > out; cat out"
    assert await run(bench, person, line, {}) == (False, "one\nTwo\n")
    assert person.asked[0][0] == line
    assert person.asked[0][1].startswith("shell")


@pytest.mark.parametrize("command", ["touch made", "echo a > made", "cat /etc/hostname"])
async def test_where_nobody_can_be_asked_the_refusal_stays_what_it_was(bench, command: str) -> None:
    without = await run(bench, None, command, {"ask": "off"})
    assert await run(bench, None, command, {}) == without
    assert await run(bench, Person(False), command, {}) == without
    assert without[0]
    assert not (bench.workspace / "made").exists()


async def test_ask_off_asks_nobody(bench) -> None:
    person = Person()
    assert (await run(bench, person, "touch made", {"ask": "off"}))[0]
    assert person.asked == []


async def test_ask_always_asks_about_everything_in_every_mode(bench) -> None:
    for mode in ("allowlist", "full"):
        person = Person()
        assert await run(bench, person, "echo fine", {"mode": mode, "ask": "always"}) == (False, "fine\n")
        assert len(person.asked) == 1


async def test_ask_always_runs_nothing_where_nobody_can_be_asked(bench) -> None:
    failed, text = await run(bench, None, "echo fine", {"ask": "always"})
    assert failed
    assert "tools.exec.ask" in text


async def test_deny_asks_nobody(bench) -> None:
    person = Person()
    assert (await run(bench, person, "echo fine", {"mode": "deny", "ask": "always"}))[0]
    assert person.asked == []


@pytest.mark.parametrize("command", ["no-such-program", "ls\x1b[2K", "ls\x00", " "])
async def test_nobody_is_asked_about_what_cannot_run(bench, command: str) -> None:
    person = Person()
    assert (await run(bench, person, command, {}))[0]
    assert person.asked == []


# --- P15: swaps between the answer and the start


@pytest.fixture
def program(bench, tmp_path: Path) -> Path:
    """A program on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    bench.environment["PATH"] = f"{folder}:/usr/bin:/bin"
    return put(folder / "tell", "#!/bin/sh\necho allowed\n")


def put(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def keeping_its_time(path: Path, text: str) -> None:
    before = path.stat()
    with path.open("r+") as file:
        file.write(text)
        file.truncate()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("times", range(3))
@pytest.mark.parametrize(
    "swap", ["program", "program in place", "link", "script", "environment", "folder", "PATH"]
)
async def test_a_swap_after_the_answer_runs_nothing(
    bench, program: Path, tmp_path: Path, swap: str, times: int
) -> None:
    evil = "#!/bin/sh\ntouch ../evil\necho changed\n"
    script = put(bench.workspace / "script.sh", "echo allowed\n")
    (bench.workspace / "sub").mkdir()
    (bench.workspace / "other").mkdir()
    put(bench.workspace / "other" / "script.sh", evil)

    def meanwhile() -> None:
        if swap == "program":
            put(tmp_path / "new", evil).rename(program)
        elif swap == "program in place":
            keeping_its_time(program, evil)
        elif swap == "link":
            put(tmp_path / "real", "#!/bin/sh\necho allowed\n")
            program.unlink()
            program.symlink_to(put(tmp_path / "evil-program", evil))
        elif swap == "script":
            keeping_its_time(script, evil)
        elif swap == "environment":
            bench.environment["LD_PRELOAD"] = "evil.so"
        elif swap == "folder":
            (bench.workspace / "sub").rename(bench.workspace / "gone")
            (bench.workspace / "other").rename(bench.workspace / "sub")
        else:
            bench.environment["PATH"] = f"{tmp_path}:/usr/bin:/bin"

    person = Person(meanwhile=meanwhile)
    command = "sh ../script.sh" if swap == "script" else "tell a b"
    if times == 2:
        command = f"true && {command}"
    failed, text = await run(bench, person, command, {"strictInlineEval": False}, workdir="sub")
    assert len(person.asked) == 1
    assert failed, text
    assert "another one than was allowed" in text
    assert not list(tmp_path.rglob("evil"))


@pytest.mark.parametrize("command", [
    "diff --diff-program=./x.sh a b", "BASH_ENV=./x.sh sh -c :", "make -fx.sh", "sh x\\.sh", "sh *.sh", "cat a; sh ?.sh",
    'sh "$PWD/x.sh"', "cd d; bash y.sh", "pushd d && sh ./y.sh", "make -C d -f y.sh", "rsync -e ./x.sh a b:c",
])  # fmt: skip
async def test_a_named_file_that_is_swapped_before_the_answer_runs_nothing(bench, command: str) -> None:
    files = [put(bench.workspace / "x.sh", "echo allowed\n")]
    (bench.workspace / "d").mkdir()
    files.append(put(bench.workspace / "d" / "y.sh", "echo allowed\n"))
    bench.put("a", "")

    def meanwhile() -> None:
        for file in files:
            keeping_its_time(file, "touch evil\n")

    failed, text = await run(bench, Person(meanwhile=meanwhile), command, {"mode": "ask"})
    assert failed, text
    assert "another one than was allowed" in text or "no program" in text
    assert not list(bench.workspace.rglob("evil"))


@pytest.mark.parametrize(
    ("command", "is_bound"),
    [
        ("touch made", True),
        ("cp a b && cat b | wc -l", True),
        ("python3 a.py", False),
        ("env make all", False),
        ("sh {x,}.sh", False),
        ("echo $(cat a)", False),
    ],
)
async def test_the_question_says_when_a_command_obeys_files_that_are_not_bound(
    bench, command: str, is_bound: bool
) -> None:
    bench.put("a", "text\n")
    person = Person(False)
    await run(bench, person, command, {"mode": "ask"})
    [(_, title)] = person.asked
    assert ("are not bound" not in title) is is_bound


# --- a program that only the list allows


async def test_a_listed_program_gets_no_terminal_unasked(bench) -> None:
    settings = {"allow": ["printf"], "ask": "off"}
    failed, text = await run(bench, None, "printf hi", settings, pty=True)
    assert (failed, "gets no terminal" in text) == (True, True)
    person = Person()
    assert not (await run(bench, person, "printf hi", {"allow": ["printf"]}, pty=True))[0]
    assert "with a terminal" in person.asked[0][1]


async def test_a_listed_program_gets_no_input_in_the_background(bench) -> None:
    assert not (await run(bench, None, "sleep 20", {"allow": ["sleep"]}, background=True))[0]
    assert "without an input" in await bench.refused("process", action="write", session_id="p1", data="x\n")


async def test_a_listed_program_starts_no_pager_editor_or_hook(bench) -> None:
    bench.environment["PAGER"] = bench.environment["EDITOR"] = "evil"
    said = (await run(bench, None, "printenv", {"allow": ["printenv"]}))[1].splitlines()
    for line in (
        "PAGER=cat",
        "GIT_PAGER=cat",
        "EDITOR=false",
        "GIT_EDITOR=false",
        "GIT_CONFIG_KEY_0=core.hooksPath",
    ):
        assert line in said
    asked = (await run(bench, Person(), "printenv", {"allow": ["printenv"], "ask": "always"}))[1]
    assert "PAGER=evil" in asked


async def test_what_is_written_to_an_allowed_command_is_asked_about_too(bench) -> None:
    person = Person()
    assert not (await run(bench, person, "cat", {"mode": "ask"}, background=True))[0]
    context = replace(bench.context, ask=person)
    write = {"action": "write", "session_id": "p1", "data": "touch made\n"}
    assert not (await check_and_run(bench.tools["process"], write, context)).is_error
    assert person.asked[1] == ("touch made\n", "p1 · cat")
    refused = await check_and_run(bench.tools["process"], write, replace(bench.context, ask=Person(False)))
    assert "a person must allow what is written" in refused.blocks[0].text


async def test_without_a_swap_it_runs(bench, program: Path) -> None:
    assert await run(bench, Person(), "tell a b", {}) == (False, "allowed\n")


# --- in a whole program


async def test_in_a_gateway_the_person_sees_the_command_and_always_is_for_that_one(tmp_path: Path) -> None:
    import claw_tools_std
    from claw.contracts.messages import Sender
    from claw.testing import FakeProvider, Harness, calls, says

    lines = ["touch made", "touch made", "python3 -c 'print(1)'", "touch made && touch more"]
    model = FakeProvider(
        *(answer for line in lines for answer in (calls("exec", command=line), says("done")))
    )
    asked: list[tuple[str, tuple[str, ...]]] = []
    async with Harness(model, plugins={"tools-std": claw_tools_std}, home=tmp_path / "house") as harness:
        approvals = harness.app.registry.approver.value

        async def present(question: Any) -> bool:
            asked.append((question.request.shown, question.verdicts))
            verdict = "always" if "always" in question.verdicts else "deny"
            approvals.decide(question.id, verdict, channel="terminal", sender=Sender("local"), owner=True)
            return True

        approvals.show_request = present
        for _ in lines:
            await harness.send("go on")
        made = sorted(path.name for path in harness.workspace.iterdir())
    assert asked == [
        (lines[0], ("once", "always", "deny")),
        (lines[2], ("once", "deny")),
        (lines[3], ("once", "deny")),
    ]
    assert made == ["made"]
    assert "did not allow it" in model.requests[-1].tool_results[-1].content[0].text
