"""Commands that fix a Python server which does not start, from the metadata of its environment."""

from pathlib import Path

import pytest
from claw_mcp.repair import commands

OLD_API = [
    "Traceback (most recent call last):",
    "AttributeError: 'Server' object has no attribute 'list_tools'",
]


def environment(folder: Path, library: str, *requires: str) -> str:
    """The program of a server ``clock``, in an environment with a version of the library ``mcp``."""
    (folder / "bin").mkdir()
    (folder / "bin" / "python").touch()
    program = folder / "bin" / "clock"
    program.write_text(f"#!{folder}/bin/python\n")
    packages = folder / "lib" / "python3.11" / "site-packages"
    for name, version, lines in (("clock", "1.0", requires), ("mcp", library, ())):
        info = packages / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        needs = "".join(f"Requires-Dist: {line}\n" for line in lines)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
        (info / "entry_points.txt").write_text(
            "[console_scripts]\nclock = clock:main\n" if name == "clock" else ""
        )
    return str(program)


@pytest.mark.parametrize("line", ["mcp", "mcp>=1.1.0", "mcp[cli] (>=1.2)", "mcp>=1.0; python_version>'3.8'"])
def test_a_server_of_the_library_before_gets_that_library(tmp_path: Path, line: str) -> None:
    [command] = commands(environment(tmp_path, "2.3.0", "mcp-types", line), [], OLD_API)
    assert command.endswith("install 'mcp<2'") and f"{tmp_path}/bin/python" in command


@pytest.mark.parametrize(
    ("library", "line", "said"),
    [
        ("1.9.0", "mcp>=1.1.0", OLD_API),
        ("2.3.0", "mcp>=2", OLD_API),
        ("2.3.0", "mcp<3,>=1", OLD_API),
        ("2.3.0", "mcp-types", OLD_API),
        ("2.3.0", "mcp>=1.1.0", ["ValueError: no key"]),
    ],
)
def test_no_other_server_does(tmp_path: Path, library: str, line: str, said: list[str]) -> None:
    assert commands(environment(tmp_path, library, line), [], said) == []
