"""Both READMEs say the same, and every command, config and program in them works unchanged.

A block is left out only with its reason in front of it: ``<!-- not run: needs a key -->``; it is shown as skipped.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
from config_files import load_config
from core.source import ROOT

PAGES = ("README.md", "README.zh-CN.md")
BLOCK = re.compile(
    r"(?:<!-- not run: (?P<why>[^>]*?) -->\n+)?^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.S | re.M
)
SHELL = ("console", "sh", "bash")

# ``python3 run.py`` here is claw itself, and ``test`` only finds the tests: run.py has its own specification.
PYTHON3 = """#!/bin/sh
if [ "$1" = run.py ] && [ "$2" = test ]; then shift 2; cd {root} && exec {python} -m pytest --collect-only -qq "$@"; fi
if [ "$1" = run.py ]; then shift; exec {claw} "$@"; fi
exec {python} "$@"
"""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    kind: str
    text: str
    why_not: str | None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(*kinds: str) -> list[Block]:
    found = []
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8") if (ROOT / page).exists() else ""
        for match in BLOCK.finditer(text):
            line = text.count("\n", 0, match.start("text"))
            found.append(Block(page, line, match["kind"], match["text"], match["why"]))
    return [block for block in found if block.kind in kinds]


def commands(block: Block) -> str:
    """The script of a block: all of it, or in a ``console`` the text after ``$`` and ``>``."""
    if block.kind != "console":
        return block.text
    return "\n".join(line[2:] for line in block.text.splitlines() if line.startswith(("$ ", "> ")))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A clone, as far as a command needs it, with the commands of this environment on the path."""
    clone, bin_ = tmp_path / "claw", tmp_path / "bin"
    shutil.copytree(ROOT / "examples", clone / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    for name in (*PAGES, "run.py", "LICENSE"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, clone)
    bin_.mkdir()
    installed = Path(sys.executable).with_name("claw")
    (bin_ / "python3").write_text(PYTHON3.format(root=ROOT, python=sys.executable, claw=installed))
    (bin_ / "python3").chmod(0o755)
    (bin_ / "claw").symlink_to(installed)
    return clone


@pytest.mark.timeout(120)
@pytest.mark.xdist_group("readme")  # one at a time: both pages start a gateway, on the same port
@pytest.mark.parametrize("block", blocks(*SHELL), ids=str)
def test_every_command_works(block: Block, folder: Path) -> None:
    if block.why_not is not None:
        assert block.why_not.strip(), "say why"
        pytest.skip(f"{block}: {block.why_not}")
    home = folder.parent / "home"
    home.mkdir(exist_ok=True)
    environment = {
        "PATH": f"{folder.parent / 'bin'}:/usr/bin:/bin",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": os.environ.get("PYTHONDONTWRITEBYTECODE", ""),
        **dict.fromkeys(
            re.findall(r"\$\{(\w+_API_KEY)\}", block.text), "sk-something"
        ),  # the block before exports it
    }
    script = f"set -euo pipefail\n{commands(block)}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("block", blocks("yaml"), ids=str)
def test_every_config_is_sound(block: Block, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(block.text, encoding="utf-8")
    (tmp_path / "config.yaml").chmod(0o600)
    named = dict.fromkeys(re.findall(r"\$\{(\w+)\}", block.text), "sk-something")
    load_config(tmp_path, named)


@pytest.mark.parametrize("block", blocks("python", "toml"), ids=str)
def test_every_program_and_project_file_can_be_read(block: Block) -> None:
    if block.kind == "toml":
        tomllib.loads(block.text)
    else:
        compile(block.text, str(block), "exec")


def test_both_languages_show_the_same_blocks() -> None:
    shown = {
        page: [(b.kind, commands(b)) for b in blocks(*SHELL, "yaml", "toml") if b.page == page]
        for page in PAGES
    }
    plain = {
        page: [(kind, re.sub(r"#.*|\"[^\"]*\"", "", text)) for kind, text in rows]
        for page, rows in shown.items()
    }
    assert plain["README.md"] == plain["README.zh-CN.md"], "apart from comments and quoted words"


@pytest.mark.parametrize("page", PAGES)
def test_every_link_to_a_file_leads_to_one(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    assert [link for link in links if link and not (ROOT / link).exists()] == []
