"""exec starts what may start, within limits of time and size; only what process looks after outlives the call."""

import asyncio
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from claw.host.worker import check_and_run
from claw_tools_std.running import Output
from hypothesis import given, strategies as st

STUBBORN = """import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if len(sys.argv) == 1:
    subprocess.Popen([sys.executable, sys.argv[0], "child"])
open(f"pid{len(sys.argv)}", "w").write(str(os.getpid()))
print("up", flush=True)
time.sleep(60)
"""


def use(bench, **settings) -> None:
    """The bench's agent has written these ``tools.exec`` settings."""
    written = {"mode": "allowlist", "allow": ["python3", "python"], **settings}
    bench.agent = SimpleNamespace(section=lambda key, model: model.model_validate(written))


@pytest.fixture
def python(bench) -> str:
    """Our own interpreter, found on PATH by the name python3."""
    bench.environment["PATH"] = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    return "python3"


async def gone(workspace: Path, *names: str) -> bool:
    """Return true if these processes have ended (a zombie counts as ended)."""
    for _ in range(500):
        alive = [name for name in names if _alive(int((workspace / name).read_text()))]
        if not alive:
            return True
        await asyncio.sleep(0.02)
    return False


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def appears(*files: Path) -> None:
    for _ in range(500):
        if all(file.exists() and file.read_text() for file in files):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"not there: {files}")


# --- what may start --------------------------------------------------------------------------------------------------


async def test_a_script_that_the_agent_wrote_runs(bench, python):
    await bench.ok(
        "write", file_path="list_files.py", content="import os\nfor r, d, f in os.walk('.'):\n    print(*f)\n"
    )
    assert await bench.ok("exec", command=f"{python} list_files.py") == "list_files.py\n"


LOOKING = """
ls -la
cat a.txt
grep -rn 'one two' .
grep -n /api a.txt
head -n 1 a.txt
wc -l a.txt
find . -name '*.txt'
sort -r a.txt
cut -d/ -f1 a.txt
echo /x ../y
pwd
date +%F
stat -c %n a.txt
du -sh src
diff a.txt a.txt
"""


@pytest.mark.parametrize("command", LOOKING.strip().split("\n"))
async def test_programs_that_only_look_run_by_default(command, bench):
    bench.put("a.txt", "one two /api\n")
    bench.put("src/b.txt", "x\n")
    result = await bench.call("exec", command=command)
    assert not result.is_error, result.content


@pytest.mark.parametrize(("command", "why"), [
    ("rm -rf .", "tools.exec.allow"),
    ("git status", "tools.exec.allow"),
    ("./run.sh", "no program"),
    ("no-such-program", "no program"),
    ("ls & id", "has a special meaning in a shell"),
    ("cat /etc/passwd", "only look at files of this agent"),
    ("cat ../../secret", "only look at files of this agent"),
    ("cat out", "only look at files of this agent"),
    ("head --lines=1 /etc/passwd", "only look"),
    ("grep -e root /etc/passwd", "only look"),
    ("grep --regexp=root /etc/passwd", "more than look"),
    ("grep --file=/etc/passwd a.txt", "more than look"),
    ("grep -f/etc/passwd a.txt", "only look"),
    ("grep -Rn root .", "more than look"),
    ("find . -exec id +", "more than look"),
    ("find . -delete", "more than look"),
    ("sort -o a.txt a.txt", "more than look"),
    ("sort --out=a.txt a.txt", "more than look"),
    ("sort --compress-prog=id a.txt", "more than look"),
    ("uniq a.txt b.txt", "writes"),
    ("rg --pre id x", "more than look"),
    ("date -s tomorrow", "more than look"),
    ("wc --files0-from=a.txt", "more than look"),
    ("python3 -c 'print(1)'", "script file"),
    ("python3 -m http.server", "script file"),
    ("python3 -", "script file"),
    ("python3", "script file"),
    ("python3 /etc/hostname", "outside"),
])  # fmt: skip
async def test_other_commands_are_refused_with_the_reason(command, why, bench, python):
    bench.put("a.txt", "x\n")
    (bench.workspace / "out").symlink_to("/etc/passwd")
    assert why in await bench.refused("exec", command=command)


async def test_an_operator_lets_further_programs_run(bench):
    use(bench, allow=["touch", "/bin/mkd*", {"argv": ["rm", "a"]}])
    bench.environment["PATH"] = "/bin"
    await bench.ok("exec", command="touch a")
    await bench.ok("exec", command="rm a")
    await bench.refused("exec", command="rm b")


async def test_an_empty_allow_list_takes_scripts_away_and_leaves_the_readers(bench, python):
    use(bench, allow=[])
    bench.put("a.py", "print(1)")
    assert "tools.exec.allow" in await bench.refused("exec", command="python3 a.py")
    await bench.ok("exec", command="ls")


async def test_a_program_that_lies_in_the_workspace_is_not_run_by_name(bench):
    bench.put("bin/ls", "#!/bin/sh\necho mine\n").chmod(0o755)
    bench.environment["PATH"] = f"{bench.workspace}/bin:bin:/usr/bin:/bin"
    assert "lies in the workspace" in await bench.refused("exec", command="ls")


@pytest.mark.parametrize("line", ["ls ;" * 15_000 + "ls", "ls " + "a " * 49_000])
async def test_a_long_line_is_judged_while_others_go_on(bench, line):
    longest, running = 0.0, True

    async def beat() -> None:
        nonlocal longest
        while running:
            began = time.monotonic()
            await asyncio.sleep(0.01)
            longest = max(longest, time.monotonic() - began)

    beating = asyncio.create_task(beat())
    assert "too many for one line" in await bench.refused("exec", command=line)
    running = False
    await beating
    assert longest < 1


async def test_full_mode_runs_a_shell_and_deny_nothing(bench):
    use(bench, mode="full")
    assert await bench.ok("exec", command="for i in 1 2; do echo $i; done | tail -1") == "2\n"
    use(bench, mode="deny")
    assert "tools.exec.mode" in await bench.refused("exec", command="ls")


# --- how it runs -----------------------------------------------------------------------------------------------------


async def test_the_exit_code_and_both_streams_are_reported(bench):
    use(bench, mode="full")
    result = await bench.call("exec", command="echo out; echo err >&2; exit 3")
    assert (result.content, result.is_error, result.details["exitCode"]) == (
        "out\nerr\n[exit code 3]",
        True,
        3,
    )
    assert await bench.ok("exec", command="true") == "(no output)"


async def test_a_child_sees_only_the_given_environment_reads_nothing_and_starts_in_the_workspace(bench):
    use(bench, mode="full")
    bench.put("sub/a", "x")
    bench.environment["LANG"] = "C"
    os.environ["CLAW_TEST_SECRET"] = "s3cret"
    try:
        text = await bench.ok("exec", command="env; cat; pwd", workdir="sub")
    finally:
        del os.environ["CLAW_TEST_SECRET"]
    assert "LANG=C" in text and "s3cret" not in text and "HOME" not in text
    assert text.splitlines()[-1] == str(bench.workspace / "sub")
    await bench.refused("exec", command="pwd", workdir="..")


async def test_long_output_is_handed_over_whole_with_how_much_of_it_to_show_and_how_it_ended(bench):
    use(bench, mode="full", maxOutputChars=1000)
    result = await bench.call("exec", command="seq 1 100000")
    text = result.blocks[0].text
    assert text.startswith("1\n2\n") and "\n50000\n" in text and text.endswith("100000\n[exit code 0]")
    assert result.most_chars == 1000


async def test_output_beyond_all_measure_loses_its_middle(bench):
    use(bench, mode="full")
    text = await bench.ok("exec", command="yes 123456789 | head -n 500000; echo end")
    assert 850_000 < len(text) < 950_000 and "bytes left out" in text and "end\n[exit code 0]" in text
    assert text.endswith("[500001 lines in all; the middle was dropped: write to a file to keep it]")


async def test_output_that_is_kept_whole_counts_no_lines(bench):
    use(bench, mode="full")
    assert "lines in all" not in await bench.ok("exec", command="seq 1 100000")


async def test_with_a_pty_the_program_sees_a_terminal_and_its_colours_are_taken_off(bench):
    use(bench, mode="full")
    script = "test -t 0 && test -t 1 && printf '\\033[31mred\\033[0m\\n'; stty size"
    assert await bench.ok("exec", command=script, pty=True) == "red\n40 120\n"
    assert "red" not in (await bench.call("exec", command=script)).content


async def test_a_timeout_kills_the_whole_group_also_when_it_ignores_sigterm(bench, python, monkeypatch):
    monkeypatch.setattr("claw_tools_std.running.KILL_AFTER_SECONDS", 0.3)
    bench.put("stubborn.py", STUBBORN)
    began = time.monotonic()
    text = await bench.refused("exec", command="python3 stubborn.py", timeout=3)
    assert "up" in text and "stopped after 3 s" in text
    assert time.monotonic() - began < 20
    assert await gone(bench.workspace, "pid1", "pid2")


async def test_cancelling_gives_the_prompt_back_and_leaves_no_process(bench, python):
    bench.put("stubborn.py", STUBBORN)
    running = asyncio.ensure_future(
        check_and_run(bench.tools["exec"], {"command": "python3 stubborn.py"}, bench.context)
    )
    await appears(bench.workspace / "pid1", bench.workspace / "pid2")
    began = time.monotonic()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert 1.5 < time.monotonic() - began < 20
    assert await gone(bench.workspace, "pid1", "pid2")


async def test_what_a_command_leaves_running_ends_with_it(bench):
    use(bench, mode="full")
    began = time.monotonic()
    assert await bench.ok("exec", command="sleep 60 & echo $! > pid; echo done") == "done\n"
    assert time.monotonic() - began < 20
    assert await gone(bench.workspace, "pid")


# --- in the background -----------------------------------------------------------------------------------------------


async def test_a_background_command_is_polled_written_to_and_killed(bench):
    use(bench, mode="full")
    text = await bench.ok(
        "exec", command="echo ready; while read x; do echo got $x; done; sleep 60", background=True
    )
    assert text.startswith("Session p1 (pid ") and text.endswith("running\nready\n")

    assert "got it" in await bench.ok("process", action="write", session_id="p1", data="it\n")
    assert await bench.ok("process", action="poll", session_id="p1") == "p1: running\n(nothing new)"
    assert (await bench.ok("process", action="log", session_id="p1")) == "[lines 1 to 2 of 2]\nready\ngot it"
    assert (await bench.ok("process", action="log", session_id="p1", offset=2, limit=1)).endswith("\ngot it")
    assert "echo ready" in await bench.ok("process", action="list")
    assert "ended by signal" in await bench.ok("process", action="kill", session_id="p1")
    assert "has ended" in await bench.refused("process", action="write", session_id="p1", data="x")


async def test_a_background_command_that_fails_at_once_says_so(bench):
    use(bench, mode="full")
    assert "exit code 7\noops\n" in await bench.ok("exec", command="echo oops; exit 7", background=True)


async def test_the_commands_of_one_conversation_are_hidden_from_another(bench):
    use(bench, mode="full")
    await bench.ok("exec", command="sleep 60", background=True)
    bench.session_key = "agent:a:other"
    assert await bench.ok("process", action="list") == "No background commands."
    assert "no background command" in await bench.refused("process", action="kill", session_id="p1")


async def test_closing_ends_what_runs_in_the_background(bench):
    use(bench, mode="full")
    await bench.ok("exec", command="echo $$ > pid; sleep 60", background=True)
    await bench.tools["exec"].close()
    assert await gone(bench.workspace, "pid")


async def test_background_can_be_switched_off(bench):
    use(bench, mode="full", background=False)
    assert "tools.exec.background" in await bench.refused("exec", command="sleep 60", background=True)


# --- its output ------------------------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=50)), st.integers(2, 60), st.integers(0, 200))
def test_output_is_whole_up_to_its_limit_and_then_keeps_both_ends(pieces, limit, start):
    whole = bytes(byte % 26 + 97 for piece in pieces for byte in piece)
    output, at = Output(limit), 0
    for piece in pieces:
        output.add(whole[at : at + len(piece)])
        at += len(piece)
    text = output.text()
    if len(whole) <= 2 * (limit // 2):
        assert text == whole.decode()
        assert output.text(start) == whole[start:].decode()
    else:
        assert text.startswith(whole[: limit // 2].decode()) and text.endswith(
            whole[-(limit // 2) :].decode()
        )
        assert f"{len(whole) - 2 * (limit // 2)} bytes left out" in text


async def test_a_command_longer_than_any_program_takes_is_reported(bench) -> None:
    assert "at most 100000 characters" in await bench.refused("exec", command="echo " + "a" * 100_000)
