"""grep and find answer as ripgrep does, and stop in time."""

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

RG = shutil.which("rg")


@pytest.fixture(scope="module")
def rg() -> str:
    if RG is None and os.environ.get("CI"):
        pytest.fail("rg is missing: apt-get install ripgrep")
    if RG is None:
        pytest.skip("rg is missing: apt-get install ripgrep")
    return RG


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 files with nested ignore files, binaries, links, odd names and encodings."""
    top = tmp_path_factory.mktemp("tree") / "workspace"
    chance = random.Random(7)
    folders = ["", "src", "src/app", "src/app/deep/er", "src/lib", "build", "build/out", "docs", "docs/img", "logs",
               "tests", "tests/data", "node_modules/left-pad", ".github/workflows", "vendor/inner", "vendor/inner/sub",
               "文档"]  # fmt: skip
    endings = [".py", ".md", ".txt", ".log", ".js", ".min.js", ".ts", ".json", ".tmp", "", ".cfg", ".PY"]
    words = [
        "needle",
        "Needle",
        "hay",
        "straw",
        "TODO: mend",
        "def main():",
        "价格 42 元",
        "naïve",
        "x = 'needle9'",
        "\ttab",
        "",
    ]
    for number in range(286):
        folder = top / chance.choice(folders)
        folder.mkdir(parents=True, exist_ok=True)
        stem = chance.choice(
            ["a", "b", "main", "test_it", "foo bar", "keep", "debug", "[x]", "#note", "!bang", "ünï"]
        )
        text = "\n".join(chance.choice(words) for _ in range(chance.randrange(0, 30)))
        text += chance.choice(["", "\n", "\r\n"])
        (folder / f"{stem}{number % 40}{chance.choice(endings)}").write_text(text)
    (top / "src/app/blob.bin").write_bytes(b"needle\n\0\1\2 needle\n")
    (top / "src/app/late.bin").write_bytes(b"needle early\n" + b"h" * 90_000 + b"\nneedle \0\nneedle\n")
    (top / "docs/bom.txt").write_bytes(b"\xef\xbb\xbfneedle after a mark\n")
    (top / "docs/wide.txt").write_bytes("needle in wide letters\nhay\n".encode("utf-16"))
    (top / "docs/latin.txt").write_bytes(b"caf\xe9 needle\n")
    (top / "docs/crlf.txt").write_bytes(b"one needle\r\ntwo\r\nneedle\r\n")
    (top / ".hidden").write_text("needle\n")
    (top / "link.txt").symlink_to("docs/bom.txt")
    (top / "linked").symlink_to("src")
    (top / "docs/dangling").symlink_to("nowhere")
    (top / "tests/outside").symlink_to("/etc")
    (top / ".git/info").mkdir(parents=True)
    (top / ".git/config").write_text("needle\n")
    (top / ".git/info/exclude").write_text("*.cfg\n!keep*.cfg\n")
    (top / ".gitignore").write_text(
        "# made things\n/build/\n*.log\n!keep*.log\nnode_modules\n*.min.js\n\\#note3*\n\\!bang*.md\ntests/**/a?.json\n"
        "foo\\ bar1*\n*.tmp   \ndocs/*\n!docs/img\n!docs/*.txt\n[ab]1[0-9].ts\n**/deep/**/main*.py\n*.{orig,rej}\n"
    )
    (top / "src/.gitignore").write_text("/lib/main*\n!*.log\ntest_it2?.*\n")
    (top / "src/app/.ignore").write_text("!*.tmp\n*.md\n")
    (top / "src/lib/.rgignore").write_text("*.json\n")
    (top / "vendor/inner/.git").mkdir()
    (top / "vendor/inner/.gitignore").write_text("sub/*.py\n")
    (top / ".ignore").write_text("!.github\n文档/*.txt\n")
    assert sum(len(files) for _, _, files in os.walk(top)) >= 250
    return top


@pytest.fixture
def bench_in(tree: Path, bench):
    def at(workspace: Path = tree):
        return type(bench)(workspace, bench.tools)

    return at


def lines(text: str) -> list[str]:
    return sorted(line for line in text.splitlines() if line not in ("No files.", "No matches."))


def asked(rg: str, tree: Path, *arguments: str) -> list[str]:
    done = subprocess.run(
        [rg, "--no-config", *arguments], cwd=tree, capture_output=True, text=True, errors="replace"
    )
    return sorted(
        line.rstrip("\r")
        for line in done.stdout.split("\n")
        if line and "WARNING: stopped searching" not in line
    )


GLOBS = ["*.py", "*.{py,md}", "src/**/*.ts", "/src/*.py", "main*", "**/deep/**", "*.log", "!*.py", "foo bar?.*",
         "[!a-m]*.json", "\\[x\\]*", ".hid*", "*.min.js", "docs/**", "src",
         "文档/*", "a[0-9][0-9].*", "build/*", "**/lib/**/*.txt"]  # fmt: skip


async def test_find_sees_the_files_that_rg_sees(rg, tree, bench_in):
    assert lines(await bench_in().ok("find", pattern="*", limit=1000)) == asked(rg, tree, "--files")


@pytest.mark.parametrize("glob", GLOBS)
async def test_a_glob_names_the_files_that_it_names_to_rg(glob, rg, tree, bench_in):
    assert lines(await bench_in().ok("find", pattern=glob, limit=1000)) == asked(
        rg, tree, "--files", "-g", glob
    )


@pytest.mark.parametrize("path", ["src", "src/app", "docs", "vendor/inner", "文档", "./src/../docs/"])
async def test_a_search_that_begins_lower_down_keeps_the_rules_from_above(path, rg, tree, bench_in):
    found = lines(await bench_in().ok("find", pattern="*", path=path, limit=1000))
    # Not `rg --files PATH`: before version 15 it forgets rules of higher folders that name a path.
    assert found == [
        line for line in asked(rg, tree, "--files") if line.startswith(os.path.normpath(path) + "/")
    ]


async def test_an_ignored_folder_is_searched_when_it_is_named(rg, tree, bench_in):
    found = lines(await bench_in().ok("find", pattern="*", path="build", limit=1000))
    assert found == asked(rg, tree, "--files", "build") != []


PATTERNS = [
    "needle",
    "^needle",
    "needle$",
    r"needle\d",
    "(?i)NEEDLE",
    r"\bhay\b",
    "价格 \\d+",
    "na.ve",
    "TODO|def",
    r"^\s",
    "^$",
    "ï|é",
    "caf",
]


@pytest.mark.parametrize("pattern", PATTERNS)
async def test_grep_finds_the_lines_that_rg_finds(pattern, rg, tree, bench_in):
    expected = asked(rg, tree, "-n", "--no-heading", "-e", pattern)
    found = [
        line.replace("\ufffd", "?")
        for line in lines(await bench_in().ok("grep", pattern=pattern, limit=10_000))
    ]
    assert found == [line.replace("\ufffd", "?") for line in expected]


@pytest.mark.parametrize("extra", [
    ({"glob": "*.md"}, ["-g", "*.md"]),
    ({"path": "src"}, ["src"]),
    ({"path": "docs/crlf.txt"}, ["-H", "docs/crlf.txt"]),
    ({"ignore_case": True}, ["-i"]),
    ({"glob": "!*.py", "path": "."}, ["-g", "!*.py"]),
], ids=str)  # fmt: skip
async def test_grep_narrows_as_rg_does(extra, rg, tree, bench_in):
    ours, theirs = extra
    expected = asked(rg, tree, "-n", "--no-heading", "-e", "needle", *theirs)
    found = lines(await bench_in().ok("grep", pattern="needle", limit=10_000, **ours))
    assert [f.replace("\ufffd", "?") for f in found] == [e.replace("\ufffd", "?") for e in expected]


async def test_context_lines_are_around_the_matches_as_in_rg(rg, bench):
    bench.put("a.txt", "".join(f"line {n}\n" for n in range(1, 41)))
    text = await bench.ok("grep", pattern="line (5|8|20|40|1)$", context=2)
    done = subprocess.run(
        [rg, "-n", "-H", "-C2", "line (5|8|20|40|1)$", "a.txt"],
        cwd=bench.workspace,
        capture_output=True,
        text=True,
    )
    assert text == done.stdout


async def test_git_rules_count_only_in_a_repository(rg, bench):
    bench.put(".gitignore", "*.log\n")
    bench.put("a.log", "x")
    assert lines(await bench.ok("find", pattern="*")) == asked(rg, bench.workspace, "--files") == ["a.log"]


async def test_a_search_stops_at_its_limit_and_says_how_to_go_on(bench):
    bench.put("a.txt", "needle\n" * 50)
    bench.put("b.txt", "needle\n")
    text = await bench.ok("grep", pattern="needle", limit=10)
    assert text.count("needle") == 10 and "narrow path, glob or pattern" in text
    assert "narrow" in await bench.ok("find", pattern="*", limit=1)
    assert "narrow" not in await bench.ok("grep", pattern="needle", limit=51)


async def test_nothing_found_is_said(bench):
    bench.put("a.txt", "x")
    assert await bench.ok("grep", pattern="needle") == "No matches.\n"
    assert await bench.ok("find", pattern="*.py") == "No files.\n"


async def test_a_pattern_that_would_take_for_ever_is_stopped(bench, monkeypatch):
    from claw_tools_std import search

    monkeypatch.setattr(search, "MOST_SECONDS", 0.2)
    bench.put("a.txt", "a" * 5000 + "b")
    text = await bench.ok("grep", pattern=r"(a|a?)+(a|aa)*c|^(.*a.*){25}$x")
    assert text == "No matches.\n" or "stopped after" in text


async def test_a_pattern_or_place_that_cannot_be_is_refused(bench):
    assert "no regular expression" in await bench.refused("grep", pattern="(")
    assert "nowhere" in await bench.refused("find", pattern="*", path="nowhere")
    await bench.refused("grep", pattern="root", path="/etc")
    await bench.refused("find", pattern="*", path="..")


@pytest.mark.parametrize("pattern", [
    "a{9999999,}", "(?:a{999}){999}", "(?:(?:a{99}){99}){99}", "(?x)(?:a{999}) {999}", "(?:ab){99999}",
    "a{" + "9" * 9000 + "}", "(" * 3000 + "a" + ")" * 3000, "a|" * 20_000,
])  # fmt: skip
async def test_a_pattern_that_takes_all_memory_is_reported_before(pattern: str, bench) -> None:
    bench.put("a.txt", "aaa\n")
    problem = await bench.refused("grep", pattern=pattern)
    assert "too large" in problem or "no regular expression" in problem


async def test_a_pattern_with_ordinary_counts_is_searched_for(bench) -> None:
    bench.put("a.txt", "123e4567-e89b-12d3-a456-426614174000 2026-11-22\n")
    pattern = r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12} \d{4}(?:-\d{2}){2}"
    assert "a.txt:1:" in await bench.ok("grep", pattern=pattern)


@pytest.mark.parametrize("tool", ["find", "grep"])
@pytest.mark.parametrize(
    ("glob", "answer"),
    [
        ("*a" * 12 + "*b", "No "),
        ("{a,aa,*}" * 14 + "c", "too many stars and choices"),
        ("a" * 5000, "at most 4096 characters"),
    ],
)
async def test_a_glob_that_could_be_tried_for_ever_comes_to_an_end(
    tool: str, glob: str, answer: str, bench
) -> None:
    bench.put("a" * 240 + "cd", "a\n")
    arguments = {"pattern": glob} if tool == "find" else {"pattern": "a", "glob": glob}
    assert answer in (await bench.call(tool, **arguments)).blocks[0].text


async def test_of_an_ignore_file_only_the_first_megabyte_counts(bench) -> None:
    bench.put(".ignore", "early\n" + "#" * 1_000_000 + "\nlate\n")
    for name in ("early", "late", "other"):
        bench.put(name, "x\n")
    assert await bench.ok("find", pattern="*") == "late\nother\n"
