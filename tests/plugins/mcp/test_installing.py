"""``claw mcp install``: a Python server in an environment of its own, added, reached and removed with it."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from claw_mcp.commands import mcp_app
from typer.testing import CliRunner

SERVER = """
import json, sys

TOOLS = [{"name": "when", "description": "Say when.", "inputSchema": {"type": "object", "properties": {}}}]


def main():
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        result = {}
        if asked["method"] == "initialize":
            about = {"name": "x", "version": "1"}
            result = {"capabilities": {"tools": {}}, "serverInfo": about}
            result["protocolVersion"] = asked["params"]["protocolVersion"]
        elif asked["method"] == "tools/list":
            result = {"tools": TOOLS}
        elif asked["method"] == "tools/call":
            result = {"content": [{"type": "text", "text": sys.argv[1] if sys.argv[1:] else "never"}]}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


def wheel(folder: Path, name: str, *programs: str) -> Path:
    """A wheel of a server without dependencies."""
    module = name.replace("-", "_")
    file = folder / f"{module}-1.0-py3-none-any.whl"
    info, entries = f"{module}-1.0.dist-info", "".join(f"{one} = {module}:main\n" for one in programs)
    with zipfile.ZipFile(file, "w") as made:
        made.writestr(f"{module}.py", SERVER)
        made.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        made.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        if entries:
            made.writestr(f"{info}/entry_points.txt", f"[console_scripts]\n{entries}")
        made.writestr(f"{info}/RECORD", "")
    return file


def claw(*words: str) -> Any:
    return CliRunner().invoke(mcp_app, words)


@pytest.fixture(autouse=True)
def _no_index(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")


def test_a_server_has_an_environment_of_its_own_until_it_is_removed(home: Path, tmp_path: Path) -> None:
    done = claw(
        "install",
        "clock",
        str(wheel(tmp_path, "mcp-server-clock", "mcp-server-clock")),
        "--yes",
        "--",
        "noon",
    )
    assert (done.exit_code, "clock: 1 tools, 0 withheld" in done.output) == (0, True), done.output
    folder = home / "plugins/mcp/servers/clock"
    text = (home / "config.yaml").read_text()
    assert f"command: {folder}/bin/mcp-server-clock" in text and "- noon" in text

    assert claw("remove", "clock").exit_code == 0
    assert not folder.exists() and "clock" not in (home / "config.yaml").read_text()


@pytest.mark.parametrize(
    ("programs", "option", "chosen"),
    [
        (("other",), (), "other"),
        (("mcp-server-clock", "admin"), (), "mcp-server-clock"),
        (("serve", "admin"), ("--program", "serve"), "serve"),
    ],
)
def test_its_program_is_the_only_one_the_one_of_its_name_or_the_named_one(
    home: Path, tmp_path: Path, programs: tuple[str, ...], option: tuple[str, ...], chosen: str
) -> None:
    package = str(wheel(tmp_path, "mcp-server-clock", *programs))
    assert claw("install", "clock", package, "--yes", *option).exit_code == 0
    assert f"/bin/{chosen}" in (home / "config.yaml").read_text()


@pytest.mark.parametrize(
    ("programs", "option", "problem"),
    [
        ((), (), "mcp-server-clock has no program, so it is no MCP server"),
        (("serve", "admin"), (), "several programs. choose with --program: admin, serve"),
        (
            ("serve", "admin"),
            ("--program", "nope"),
            "has no program nope. choose with --program: admin, serve",
        ),
    ],
)
def test_a_package_without_its_program_leaves_nothing(
    home: Path, tmp_path: Path, programs: tuple[str, ...], option: tuple[str, ...], problem: str
) -> None:
    done = claw("install", "clock", str(wheel(tmp_path, "mcp-server-clock", *programs)), "--yes", *option)
    assert problem in str(done.exception)
    assert not (home / "plugins/mcp/servers/clock").exists() and not (home / "config.yaml").exists()


def test_a_package_that_pip_cannot_install_is_one_line_with_its_cause(home: Path) -> None:
    done = claw("install", "clock", "mcp-server-nowhere", "--yes")
    said = str(done.exception)
    assert said.startswith("mcp-server-nowhere cannot be installed: ") and "No matching distribution" in said
    assert not (home / "plugins/mcp/servers/clock").exists()


def test_a_package_for_another_python_is_named_with_the_versions(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = wheel(tmp_path, "mcp-server-clock", "clock").name
    page = tmp_path / "index.html"  # as an index says it, before pip fetches the wheel
    page.write_text(f'<a href="{name}" data-requires-python="&gt;=3.99">{name}</a>')
    monkeypatch.setenv("PIP_FIND_LINKS", str(page))
    said = str(claw("install", "clock", "mcp-server-clock", "--yes").exception)
    assert said.startswith("mcp-server-clock needs Python >=3.99, and this is Python 3.")


def test_nobody_there_to_be_asked_means_no(home: Path, tmp_path: Path) -> None:
    done = claw("install", "clock", str(wheel(tmp_path, "mcp-server-clock", "mcp-server-clock")))
    assert "add --yes" in str(done.exception) and not (home / "plugins").exists()


def test_a_name_that_is_taken_is_refused_before_anything_is_installed(home: Path, tmp_path: Path) -> None:
    (home / "config.json").write_text(json.dumps({"mcpServers": {"clock": {"command": "clock"}}}))
    done = claw("install", "clock", str(wheel(tmp_path, "mcp-server-clock", "mcp-server-clock")), "--yes")
    assert "is configured already" in str(done.exception)


def test_a_variable_that_is_none_leaves_no_environment(home: Path, tmp_path: Path) -> None:
    package = str(wheel(tmp_path, "mcp-server-clock", "mcp-server-clock"))
    assert "has no name and value" in str(claw("install", "clock", package, "--yes", "--env", "=1").exception)
    assert not (home / "plugins/mcp/servers/clock").exists()
