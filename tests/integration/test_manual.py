"""The manual is true: what its pages show is executed, and comes out as they show it."""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import claw.testing
import msgspec
import pytest
from claw.cli.main import app
from claw.contracts.diagnostics import BLOCKED, DISABLED, IDLE, INCOMPATIBLE, LOADED, QUARANTINED
from claw.contracts.events import Event
from claw.host.manifest import KINDS, Manifest, parse_manifest
from claw.policy.engine import CLOSING_CHECKS, OPENING_CHECKS
from claw.policy.layers import LAYERS
from core.source import ROOT
from typer.testing import CliRunner

STATES = (LOADED, IDLE, DISABLED, BLOCKED, QUARANTINED, INCOMPATIBLE)
FENCED = re.compile(
    r"^(?:<!-- (?P<situation>[\w ,.]+) -->\n\n?)?```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.S | re.M
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page of ``docs``."""

    page: str
    line: int
    kind: str
    text: str
    situation: str = ""  # of the comment above it

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: str) -> list[Block]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return [
        Block(
            page,
            text.count("\n", 0, match.start("text")),
            match["kind"],
            match["text"],
            match["situation"] or "",
        )
        for match in FENCED.finditer(text)
    ]


# --- policy.md and missing-tool.md: a config, then commands and what they print


@dataclass(frozen=True)
class Example:
    """A config file, and commands with the lines that are shown below each."""

    config: Block
    commands: tuple[tuple[str, tuple[str, ...]], ...]

    def __str__(self) -> str:
        return str(self.config)


def examples(page: str) -> list[Example]:
    found: list[Example] = []
    for block in blocks(page):
        if block.kind == "yaml":
            found.append(Example(block, ()))
        elif block.kind == "console":
            last = found.pop()
            found.append(Example(last.config, (*last.commands, *_commands(block.text))))
    return found


def _commands(text: str) -> list[tuple[str, tuple[str, ...]]]:
    parts = re.split(r"^\$ ", text, flags=re.M)[1:]
    return [(part.splitlines()[0], tuple(part.splitlines()[1:])) for part in parts]


TOOLS = """
from claw import Tool, hookimpl


async def run(arguments, context):
    return "fine"


@hookimpl
def register_tools():
    return [Tool(name, name, {{"type": "object", "properties": {{}}}}, run) for name in {names}]
"""
"""The code of a plugin whose tools answer "fine"."""


def installed(site: Path, plugin: str, *tools: dict[str, Any], **fields: Any) -> None:
    """A plugin that is in ``site`` as pip would leave it; with ``tools`` they are all of its package."""
    package = f"claw_plugin_{plugin}"
    if tools:
        (site / package).mkdir()
        (site / package / "__init__.py").write_text(TOOLS.format(names=[one["name"] for one in tools]))
        manifest = {"id": plugin, "kinds": ["tool"], "tools": tools, **fields}
        (site / package / "claw-plugin.json").write_text(json.dumps(manifest))
    metadata = site / f"{package}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: claw-plugin-{plugin}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[claw.plugins]\n{plugin} = {package}\n")


@pytest.fixture
def neighbours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The two plugins that policy.md speaks of are installed."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "claw_plugin_acme").symlink_to(ROOT / "examples" / "acme-status" / "claw_plugin_acme")
    installed(site, "acme")
    hone = {"name": "hone", "description": "Sharpen.", "optional": True, "ownerOnly": True}
    installed(site, "sharp", {"name": "grep", "description": "Search, sharper."}, hone)
    monkeypatch.syspath_prepend(site)
    return site


@pytest.fixture
def crowd(neighbours: Path) -> None:
    """Further ones, most of them with a fault, as missing-tool.md has them."""
    town = {"type": "object", "properties": {"homeTown": {"type": "string"}}, "additionalProperties": False}
    installed(neighbours, "weather", {"name": "forecast"}, configSchema=town)
    installed(neighbours, "speaker", {"name": "tts"})
    installed(neighbours, "old", {"name": "old_times"}, api=">=0,<1")
    installed(neighbours, "lame", {"name": "lame_walk"}, requires=["crutch"])
    installed(neighbours, "ls", {"name": "ls_deep"})


def home_with(config: Block, tmp_path: Path) -> Path:
    home = tmp_path / "home" / ".claw"
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    (home / "config.yaml").write_text(config.text, encoding="utf-8")
    return home


@pytest.mark.usefixtures("neighbours")
@pytest.mark.parametrize("example", examples("policy.md"), ids=str)
def test_policy_decides_as_its_page_says(example: Example, tmp_path: Path) -> None:
    home_with(example.config, tmp_path)
    assert example.commands, "an example shows what comes out"
    for command, shown in example.commands:
        words = shlex.split(command)[1:]
        if words[:2] == ["tools", "list"]:
            answer = CliRunner().invoke(app, [*words, "--json"])
            names = [tool["name"] for tool in json.loads(answer.stdout)["tools"]]
            assert names == " ".join(shown).split(), command
            continue
        answer = CliRunner().invoke(app, words)
        printed = iter(line.strip() for line in answer.stdout.splitlines())
        assert answer.exception is None or isinstance(answer.exception, SystemExit), command
        assert all(line in printed for line in shown), f"{command}\n{answer.stdout}\n{answer.stderr}"


NO_COMMAND_HELPS = ("fix: ", "run: claw plugins install ")


@pytest.mark.usefixtures("crowd")
@pytest.mark.parametrize("example", examples("missing-tool.md"), ids=str)
def test_a_tool_is_missing_for_the_reason_of_the_page_and_back_after_its_fix(
    example: Example, tmp_path: Path
) -> None:
    home = home_with(example.config, tmp_path)
    for command, shown in example.commands:
        answer = CliRunner().invoke(app, shlex.split(command)[1:])
        assert answer.exception is None or isinstance(answer.exception, SystemExit), command
        output = answer.stdout.replace(str(home), "~/.claw")
        printed = iter(line.strip() for line in output.splitlines())
        assert all(line in printed for line in shown), f"{command}\n{output}\n{answer.stderr}"
    command, shown = example.commands[-1]
    assert "tools explain" in command
    assert answer.exit_code == 0 or shown[-1].startswith(NO_COMMAND_HELPS), "it is back, or says what to do"


@pytest.mark.usefixtures("crowd")
def test_the_page_on_missing_tools_shows_every_cause_that_explain_can_name(tmp_path: Path) -> None:
    shown: set[str] = set()
    for at, example in enumerate(examples("missing-tool.md")):
        home = home_with(example.config, tmp_path / str(at))
        for command, _ in example.commands:
            words = [*shlex.split(command)[1:], *(["--json"] if "explain" in command else [])]
            answer = CliRunner().invoke(app, words, env={"CLAW_HOME": str(home)})
            shown |= {json.loads(answer.stdout)["stage"]} if "explain" in command else set()
    unused = {"missing-setting", "provider-schema"}
    nobody = {"unknown", "not-installed", "no-supplier", "not-brought"}
    assert shown - {""} == {*OPENING_CHECKS, *LAYERS, *CLOSING_CHECKS, *nobody, *STATES} - unused - {
        LOADED,
        IDLE,
    }


# --- plugins.md, ten-minutes.md and channel-plugins.md: a plugin, then its test


def pairs(page: str) -> list[tuple[Block | None, Block]]:
    """Each test of the page, with the plugin above it; None when it needs none."""
    programs = [block for block in blocks(page) if block.kind == "python"]
    is_test = ["async def test_" in block.text for block in programs]
    above = [None, *programs]
    return [
        (above[at] if at and not is_test[at - 1] else None, block)
        for at, block in enumerate(programs)
        if is_test[at]
    ]


@pytest.mark.parametrize(
    ("plugin", "test"),
    [*pairs("plugins.md"), *pairs("ten-minutes.md"), *pairs("channel-plugins.md")],
    ids=str,
)
async def test_a_plugin_of_the_page_does_what_its_test_says(plugin: Block | None, test: Block) -> None:
    module = ModuleType("plugin_of_the_page")
    if plugin:
        exec(compile(plugin.text, str(plugin), "exec"), vars(module))
    names: dict[str, Any] = {"plugin": module}
    exec(compile(test.text, str(test), "exec"), names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert tests, "below a plugin stands its test"
    for each in tests:
        await each()


def test_the_manifest_of_the_page_is_one_and_every_field_kind_and_state_is_named() -> None:
    shown = [block for block in blocks("plugins.md") if block.kind == "json"]
    manifest, skills, servers = [parse_manifest(block.text, "acme") for block in shown]
    assert skills.skills and servers.mcp_servers
    page = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    reference = (ROOT / "docs" / "manifest.md").read_text(encoding="utf-8")
    assert [tool.name for tool in manifest.tools] == ["acme_status", "acme_restart"]
    fields = [field.encode_name for field in msgspec.structs.fields(Manifest)]
    assert [name for name in fields if f"| `{name}` |" not in reference] == []
    assert [kind for kind in KINDS if kind not in reference] == []
    assert [state for state in STATES if f"| `{state}` |" not in page] == []


def test_every_fake_that_we_ship_is_named() -> None:
    page = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    assert [name for name in claw.testing.__all__ if not re.search(rf"\b{name}\b", page)] == []


# --- pages of commands: all of a page run in one folder, in order


def script_of(page: str) -> str:
    """The commands of a page; a program whose first line is the comment ``# PATH`` is written to that path."""
    parts = []
    for block in blocks(page):
        path = re.match(r"# (\S+\.py)\n", block.text)
        if block.kind == "sh":
            parts.append(block.text)
        elif path:
            parts.append(f"cat > {path[1]} <<'END'\n{block.text}END\n")
    return "".join(parts)


READER = """claw() {
  local keys=()
  if [ "$*" = "config validate" ]; then keys=(OPENAI_API_KEY=sk-x ANTHROPIC_API_KEY=sk-x); fi
  env "${keys[@]}" claw "$@"
}
"""
"""The judge of the file is asked with the keys that a reader of these pages has; nothing else may reach a service."""


def run(page: str, folder: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", READER + script_of(page)],
        cwd=folder,
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(folder), "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_every_command_of_the_page_on_chat_works(tmp_path: Path) -> None:
    assert run("chat.md", tmp_path).stderr.splitlines()[-1].startswith("/etc/passwd is outside")


@pytest.mark.parametrize(
    "page",
    [
        "index.md",
        "ten-minutes.md",
        "approvals.md",
        "channel-plugins.md",
        "prompt.md",
        "rule-files.md",
        "calling-tools.md",
        "money.md",
        "models.md",
    ],
)
def test_every_command_of_a_page_works(page: str, tmp_path: Path) -> None:
    assert script_of(page)
    run(page, tmp_path)


def test_a_plugin_is_published_as_its_page_says(tmp_path: Path) -> None:
    assert "claw_plugin_wind_chime/claw-plugin.json" in run("publishing.md", tmp_path).stdout
    project = tmp_path / "claw-plugin-wind-chime"
    shown = {block.kind: block.text for block in blocks("publishing.md")}
    assert (project / ".github/workflows/test.yml").read_text() == shown["yaml"]
    written = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    assert tomllib.loads(shown["toml"])["project"].items() <= written.items()


def test_the_package_in_ten_minutes_is_a_project_of_that_plugin() -> None:
    [shown] = [block for block in blocks("ten-minutes.md") if block.kind == "toml"]
    project = tomllib.loads(shown.text)["project"]
    assert project["entry-points"]["claw.plugins"] == {"dice": "claw_plugin_dice"}


def test_every_event_of_a_turn_is_named() -> None:
    page = (ROOT / "docs" / "chat.md").read_text(encoding="utf-8")
    assert [
        kind.__name__
        for kind in Event.__subclasses__()
        if kind.__module__ == Event.__module__ and f"`{kind.__name__}`" not in page
    ] == []


@pytest.mark.parametrize("page", sorted(path.name for path in (ROOT / "docs").glob("*.md")))
def test_every_link_of_a_page_leads_to_a_file(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text)]
    assert [link for link in links if link and not (ROOT / "docs" / link).exists()] == []
