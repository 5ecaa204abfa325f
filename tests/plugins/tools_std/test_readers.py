"""Programs that only look: no word of theirs makes them look further, write, or start anything."""

import shutil

import pytest
from claw.security.workspace_fs import WorkspaceFiles

SECRET = "root:x:0:0:a secret of this machine"


@pytest.fixture
def home(bench):
    """A workspace with a link that leads out, lists that name what lies outside, and a rule file."""
    outside = bench.workspace.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text(f"{SECRET}\n")
    (bench.workspace / "sub").mkdir()
    (bench.workspace / "sub" / "link").symlink_to(outside)
    bench.put("names0", f"{outside}/secret\0")
    bench.put("names", f"{outside}/secret\n")
    bench.put("sums", f"{'0' * 32}  {outside}/secret\n")
    bench.put("guesses", f"{SECRET}\nother\n")
    bench.put("AGENTS.md", "mine\n")
    bench.put("-x/secret", "inside\n")
    bench.files = WorkspaceFiles([], bench.workspace, rules=(bench.workspace,))
    return bench


@pytest.mark.parametrize("command", [
    # the words that GNU programs take for another, longer option
    "sort --files=names0", "wc --files=names0", "du --files=names0", "file --files=names",
    # the letters after a digit
    "file -0f names", "grep -1R root sub", "rg -0L root sub", "rg -.L root sub", "du -0L sub", "diff -1r sub sub",
    # a value behind other letters
    "grep -nof{out}/secret guesses", "rg -nof{out}/secret guesses", "grep -nof../outside/secret guesses",
    "date -ur{out}/secret", "du -aX{out}/secret sub", "diff -qX{out}/secret names sums",
    # a first operand that only looks like an option
    "grep -v - {out}/secret", "grep -v -- -x {out}/secret", "rg -v - {out}/secret", "rg -.eroot {out}/secret",
    "cat -- {out}/secret", "cat -- -x/../../outside/secret",
    # links, and lists of sums
    "ls -LR sub", "diff --recursive sub sub", "diff sub names", "md5sum -c sums", "sha256sum -bc sums",
    # what writes, or would set the clock (an operand that is no time, lest a failing test sets it)
    "uniq - AGENTS.md", "uniq names -- AGENTS.md", "uniq -- names AGENTS.md", "date 01", "date -u 01",
    "date -- 01",
])  # fmt: skip
async def test_what_only_looks_looks_at_nothing_else_and_changes_nothing(command: str, home) -> None:
    _skip_without(command)
    said = await home.refused("exec", command=command.format(out=home.workspace.parent / "outside"))
    assert "tools.exec.allow" in said or "only look at files of this agent" in said, said
    assert (home.workspace / "AGENTS.md").read_text() == "mine\n"


@pytest.mark.parametrize("command", [
    "grep -v -- -x guesses", "grep -ie ROOT guesses", "grep -rn root names sums", "rg -tswift --files",
    "rg -g x root guesses",
    "cat - guesses", "uniq -c guesses", "uniq -", "date -d tomorrow +%F", "date -u +%F", "date -Idate", "diff names sums",
    "du -sh sub", "wc -l names", "sort -rn -k1 guesses", "md5sum guesses", "ls -la1 sub", "cut -d/ -f1 guesses",
])  # fmt: skip
async def test_what_it_is_for_needs_nobody(command: str, home) -> None:
    _skip_without(command)
    result = await home.call("exec", command=command)
    assert result.details["exitCode"] in (0, 1), result.content


async def test_a_name_is_looked_for_where_the_command_runs(home) -> None:
    home.put("sub/here", "hello\n")
    home.put("sub/say.py", "print('hi')\n")
    assert "only look at files" in await home.refused("exec", command="cat link/secret", workdir="sub")
    assert await home.ok("exec", command="cat here", workdir="sub") == "hello\n"
    assert await home.ok("exec", command="cat ../guesses", workdir="sub") == f"{SECRET}\nother\n"
    assert await home.ok("exec", command="python3 say.py", workdir="sub") == "hi\n"


@pytest.mark.parametrize(
    "command", ["cat LICENSE", "cat folder/secret", "cat sub/../LICENSE", "cat ./LICENSE"]
)
async def test_a_link_that_means_another_place_for_the_program_than_for_claw_is_refused(
    command: str, home
) -> None:
    """``/proc/self`` is claw while the words are checked, and the program when it runs."""
    (home.workspace / "LICENSE").symlink_to("/proc/self/cwd/../outside/secret")
    (home.workspace / "folder").symlink_to("/proc/self/cwd/../outside")
    assert "only look at files of this agent" in await home.refused("exec", command=command)


def _skip_without(command: str) -> None:
    program = command.partition(" ")[0]
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed here")
