"""Several commands on one line, filters, programs that would start others: what exec starts without asking anybody."""

import random
import shlex
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from claw.contracts.errors import ToolError
from claw_tools_std import launchers, programs
from claw_tools_std.allowed import refusal
from claw_tools_std.readers import READERS
from claw_tools_std.settings import ExecSettings

FULL, SAMPLE = 100_000, 3_000


def use(bench, **settings) -> None:
    """The bench's agent has written these ``tools.exec`` settings."""
    written = {"mode": "allowlist", "allow": ["python3", "python"], **settings}
    bench.agent = SimpleNamespace(section=lambda key, model: model.model_validate(written))


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("cat a.txt | sort -r | head -n 1", "pear\n"),
        ("grep -c . a.txt && echo 'a; b | c'", "2\na; b | c\n"),
        ("false || echo no ; echo then", "no\nthen\n"),
        ("cat no\\ such.txt || echo '$HOME' \\$HOME", "$HOME $HOME\n"),
    ],
)
async def test_commands_that_are_each_allowed_run_as_one_line(command: str, said: str, bench) -> None:
    bench.put("a.txt", "apple\npear\n")
    assert (await bench.ok("exec", command=command)).endswith(said)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("ls; touch x", "touch is not among"),
        ("cat a.txt | sh", "sh is not among"),
        ("ls && cat /etc/passwd", "only look at files of this agent"),
        ("ls || python3 -c 'print(1)'", "script file"),
        ("ls | python3", "script file"),
        ("ls & touch x", "has a special meaning in a shell"),
        ("cd src && ls", "Give the folder as workdir"),
    ],
)
async def test_one_command_that_is_not_allowed_stops_the_whole_line(command: str, why: str, bench) -> None:
    bench.put("a.txt", "touch x\n")
    assert why in await bench.refused("exec", command=command)
    assert not (bench.workspace / "x").exists()


async def test_a_filter_takes_what_is_piped_and_names_no_file(bench) -> None:
    use(bench, allow=["printf"], safeBins=["tr", "cut", "grep", "python3x"])
    assert await bench.ok("exec", command="printf 'a:b\\n' | cut -d : -f2 | tr a-z A-Z") == "B\n"
    assert await bench.ok("exec", command="printf 'a\\nb\\n' | grep -e b") == "b\n"


@pytest.mark.parametrize(
    ("command", "passes"),
    [
        *(
            ("head -5", True),
            ("head -n 5", True),
            ("head -n5 -q", True),
            ("head --lines=5", True),
            ("head a", False),
        ),
        *(
            ("head --lines 5", False),
            ("head --li=5", False),
            ("head -n", False),
            ("head -Z", False),
            ("head -", False),
        ),
        *(
            ("tail -f", False),
            ("tail -n +2", True),
            ("wc -lw", True),
            ("wc --files0-from=a", False),
            ("uniq a", False),
        ),
        *(
            ("tr a b", True),
            ("tr a b c", False),
            ("tr -d a", True),
            ("sort -k2 -t ,", True),
            ("sort -oa", False),
        ),
        *(("sort --output=a", False), ("cut -d , -f 2", True), ("cut -f 2 a", False), ("grep a", False)),
        *(("grep -ie a", True), ("grep -e a b", False), ("grep -f a", False), ("grep -r -e a", False)),
        *(("grep --regexp=a -c", True), ("awk 1", False), ("sed p", False), ("tee x", False)),
        # head and tail of old: a number, its unit, and a file; and a long option that takes the next word, whatever it is
        *(("head -5c a", False), ("tail -5c a", False), ("head -5q", True), ("grep --regexp -e a", False)),
        *(("cut --output-delimiter -d a -b1", False), ("cut --output-delimiter=: -b1", True)),
    ],
)
def test_a_filter_takes_only_options_that_touch_no_file(command: str, passes: bool) -> None:
    words = command.split()
    rules = SimpleNamespace(allow=(), safe_bins=(words[0],), trusted_dirs=(), model_fields_set={"allow"})
    refused = refusal(words, rules, "/usr/bin/{}".format)
    assert (refused is None) is passes, refused


@pytest.mark.parametrize("command", [
    "git -c core.pager=id log", "git clone ext::id x", "git rebase -x id", "git alias", "git --exec-path=. log",
    "tar xIf id a.tar", "tar -cf x --checkpoint-action=exec=id .", "tar -xf host:a.tar", "tar --use=id -xf a",
    "rsync -e id a b", "rg --pre id x", "sort --compress=id", "split --filter=id a", "zip x.zip f -TT id",
    "sed 1e", "sed -n 1p", "fdfind -x id", "xargs id", "ssh host", "vim a", "env -i id", "env A=1 id", "nice -n 5 id",
    "timeout -s KILL 5 id", "sqlite3 a.db '.shell id'", "find . -execdir id +", "wget -e use_proxy=on x",
    "sed -e '1e id' a -- --sandbox", "sed -e p -l --sandbox f", "sqlite3 a.db 'select edit(1)'", "sqlite3 a.db",
    "sqlite3 -init f a.db", "prlimit id", "choom -n 0 id", "setarch -R id", "sg x id", "prove -e id", "ssh-agent id",
    "dpkg --pre-invoke=id -i x", "apt -o DPkg::Pre-Invoke::=id install x", "start-stop-daemon -S -x id", "run-parts d",
    "gcc -wrapper id a.c", "make --eval=x", "npx -c id", "npm exec -c id", "npm --script-shell=id test",
    "sdiff --diff-program=id a b", "diff3 --diff-program=id a b c", "gpg --dirmngr-program id", "pip --python id list",
])  # fmt: skip
def test_what_would_start_another_program_is_named(command: str) -> None:
    words = shlex.split(command)
    assert launchers.find_launch(words[0], words) or (
        words[0] in launchers.FRONTS and not launchers.wrapped_command(words)
    )


@pytest.mark.parametrize("command", [
    "git -C sub --no-pager log -p", "git switch -c new", "git push -u origin main", "git commit -m x",
    "git submodule status", "tar -xzf a.tgz -C build", "tar czf a.tgz --exclude=x .", "rsync -a a b", "rg -e x",
    "sort -k 2", "sed --sandbox -n 1p a", "find . -name x -delete", "fd -e py", "zip -r x.zip f",
    "sqlite3 -safe a.db 'select 1'", "make all", "npm test", "gcc -o a a.c",
])  # fmt: skip
def test_what_starts_nothing_is_let_through(command: str) -> None:
    words = shlex.split(command)
    assert launchers.find_launch(words[0], words) == ""


async def test_a_program_in_front_of_another_needs_both_on_the_list(bench) -> None:
    use(bench, allow=["timeout", "nice", "env", "printf"])
    assert await bench.ok("exec", command="timeout 20s nice env printf hi") == "hi\n"
    assert "touch is not among" in await bench.refused("exec", command="timeout 20s nice env touch x")
    for command in ("nice -n 5 printf hi", "env A=1 printf hi", "env"):
        assert "start another program" in await bench.refused("exec", command=command), command
    use(bench, allow=["printf"])
    assert "nice is not among" in await bench.refused("exec", command="nice printf hi")


async def test_a_program_is_known_by_what_its_link_leads_to(bench, tmp_path) -> None:
    for name, real in (("tidy", "env"), ("show", "xargs")):
        (tmp_path / name).symlink_to(str(shutil.which(real)))
    use(bench, allow=["tidy", "show"])
    bench.environment["PATH"] = f"{tmp_path}:/usr/bin:/bin"
    for command in ("tidy touch x", "show touch x"):
        await bench.refused("exec", command=command)
    assert not (bench.workspace / "x").exists()


async def test_the_program_behind_another_is_not_looked_for_in_the_workspace(bench) -> None:
    """PATH may hold a relative folder: the program in front would look there."""
    use(bench, allow=["nice", "printf"])
    bench.put("printf", "#!/bin/sh\necho mine\n").chmod(0o755)
    bench.environment["PATH"] = ".:/usr/bin:/bin"
    assert await bench.ok("exec", command="nice printf hi") == "hi\n"


async def test_a_command_written_out_whole_may_do_anything_and_nothing_else(bench) -> None:
    use(bench, allow=[{"pattern": "env", "argv": ["-i", "printf", "hi"]}, {"argv": ["xargs", "echo", "hi"]}])
    assert await bench.ok("exec", command="env -i printf hi") == "hi\n"
    assert await bench.ok("exec", command="xargs echo hi") == "hi\n"
    await bench.refused("exec", command="xargs echo")
    await bench.refused("exec", command="env -i printf ho")
    await bench.refused("exec", command="env")


async def test_trusted_folders_bind_names_and_filters_and_a_path_in_the_list_is_its_own_word(
    bench, tmp_path
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "tool").write_text("#!/bin/sh\necho mine\n")
    (mine / "tool").chmod(0o755)
    bench.environment["PATH"] = f"{mine}:/usr/bin:/bin"
    use(bench, allow=["tool", "printf"], trustedDirs=["/usr/bin", "/bin"])
    assert await bench.ok("exec", command="printf hi") == "hi\n"
    assert "not in a trusted folder" in await bench.refused("exec", command="tool")
    for name in ("cat", "tr"):  # one that may look, and a filter
        (mine / name).symlink_to(mine / "tool")
    use(bench, allow=[], safeBins=["tr"], trustedDirs=["/usr/bin"])
    for command in ("cat", "tr a b"):
        assert "not in a trusted folder" in await bench.refused("exec", command=command)
    use(bench, allow=[str(mine.resolve() / "to*")], trustedDirs=["/usr/bin"])
    assert await bench.ok("exec", command="tool") == "mine\n"


# --- against a real shell --------------------------------------------------------------------------------------------

ALLOWED = ("git", "nice", "env", "timeout")
PLAIN = (
    "git",
    "ls",
    "cat",
    "head",
    "nice ",
    "env ",
    "timeout ",
    "5s ",
    "-n",
    "'a;rm b'",
    "\\;",
    ";",
    "&&",
    "||",
    "|",
    "x",
)
STRANGE = (
    *(
        "rm",
        "evil",
        "sh",
        "-c",
        "A=1",
        "PATH=.",
        "a b",
        "&",
        "\n",
        "#",
        "!",
        "{",
        "}",
        "(",
        ")",
        "<",
        ">",
        "'",
        '"',
        "\\",
    ),
    *(
        "`",
        "$(evil)",
        "$IFS",
        "'rm'",
        '"rm"',
        "r\\m",
        "\\rm",
        "''rm",
        "\\|",
        "x=~",
        "*",
        "=",
        "\t",
        "then",
        "time",
    ),
    *("`", "exec", "eval", "command", "&>", "\\\n", "{rm,x}", "~", "[", "coproc", "\\"),
)


@pytest.fixture
def stage(bench, tmp_path: Path) -> Path:
    """A folder of programs that only write down their names; those that stand in front of others are the real ones."""
    stage, log = tmp_path / "stage", tmp_path / "started"
    stage.mkdir()
    for name in ("git", "rm", "evil", "sh", *sorted(READERS)):
        (stage / name).write_text(f"#!/bin/sh\necho {name} >> {log}\n")
        (stage / name).chmod(0o755)
    for name in ("nice", "env", "timeout"):
        (stage / name).symlink_to(str(shutil.which(name)))
    bench.environment["PATH"] = str(stage)
    return log


@pytest.mark.timeout(1200)
def test_no_line_that_nobody_was_asked_about_starts_a_program_outside_of_the_list(
    bench, stage: Path, full: bool
) -> None:
    use(bench, allow=list(ALLOWED))
    dice, ran, context = random.Random(7), 0, bench.context
    for _ in range(FULL if full else SAMPLE):
        pieces = [dice.choice(PLAIN if dice.random() < 0.8 else STRANGE) for _ in range(dice.randint(1, 6))]
        line = dice.choice(("git ", "ls ", "nice git ", "env ls ", "git; ", "ls | "))
        line += "".join(piece + dice.choice(("", " ", " ")) for piece in pieces)
        try:
            command = programs.command_of(line, ExecSettings(allow=ALLOWED), context)
        except ToolError:
            continue
        ran += 1
        subprocess.run(
            command.argv, executable=command.program, cwd=bench.workspace, env=bench.environment,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False,
        )  # fmt: skip
        started = set(stage.read_text().split()) if stage.exists() else set()
        stage.unlink(missing_ok=True)
        assert started <= {*ALLOWED, *READERS}, line
        assert started, line
    assert ran > SAMPLE / 20
