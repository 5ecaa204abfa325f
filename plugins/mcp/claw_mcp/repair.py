"""Diagnosis of a Python server that does not start: the commands that fix it.

It reads pip's metadata of the environment of the program: the owner of a file, and the files changed since.
Sources: packaging.python.org, "Recording installed projects" (RECORD) and "Entry points".
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

from claw_tool_sdk import changed_files, pip_command

_NO_MODULE = re.compile(r"No module named '(\w+)|No package metadata was found for (\w+)")
_API_ERROR = re.compile(r"(Attribute|Import|Type)Error\b")
_FILE = re.compile(r'File "([^"]+)"')


@dataclass(frozen=True)
class ServerEnvironment:
    """The environment of a Python program: its interpreter, and its package folders."""

    python: str
    packages: Path

    def owner(self, script: str = "", module: str = "", file: str = "") -> Distribution | None:
        """Return the distribution that installed a command, a module or a file; None when there is none."""
        for one in distributions(path=[str(self.packages)]):
            if script and any(e.group == "console_scripts" and e.name == script for e in one.entry_points):
                return one
            for path in one.files or ():
                top = path.parts[0].removesuffix(".py")
                if (module and top == module) or (file and str(one.locate_file(path)) == file):
                    return one
        return None


def commands(program: str, args: Sequence[str], said: Sequence[str]) -> list[str]:
    """Return the commands that fix a program that did not start; empty when the cause is unknown.

    :param program: its full path.
    :param said: the last lines it wrote to stderr.
    """
    home = home_of(Path(program))
    if home is None:
        return []
    module = args[1].partition(".")[0] if list(args[:1]) == ["-m"] and len(args) > 1 else ""
    main = home.owner(script="" if module else Path(program).name, module=module)
    if main is None:
        return []
    files = [found[1] for line in said if (found := _FILE.search(line))]
    blamed = home.owner(file=files[-1]) if files else None
    suspects = {one.name: one for one in (main, blamed) if one is not None}
    broken = [one for one in suspects.values() if next(changed_files(one), None)]
    if broken:
        pins = [f"{one.name}=={one.version}" for one in broken]
        return [install_words(home.python, "--force-reinstall", "--no-deps", *pins)]
    missing = [
        name for line in said for found in _NO_MODULE.finditer(line) for name in found.groups() if name
    ]
    if any(not list(home.packages.glob(f"{name}*")) for name in missing):
        return [install_words(home.python, f"{main.name}=={main.version}")]
    if any(_API_ERROR.match(line) for line in said) and (older := _older_library(home, main)):
        return [install_words(home.python, older)]
    return []


def _older_library(home: ServerEnvironment, main: Distribution) -> str:
    """Return the requirement of an MCP library that a server was written for; empty when the installed one is it.

    Most servers of 2024 and 2025 require ``mcp`` without an upper bound, and cannot be imported with its version 2
    (its exception and the decorators of its server class are gone).
    """
    for library in distributions(name="mcp", path=[str(home.packages)]):
        major = int(library.version.partition(".")[0])
        for line in main.requires or ():
            if found := re.match(r"mcp(\[[\w,]*\])?(?![\w.-])([^;]*)", line):
                lower = re.search(r">=?\s*(\d+)", found[2])
                if not re.search("<|==|~=", found[2]) and (int(lower[1]) if lower else 1) < major:
                    return f"mcp<{major}"
    return ""


def home_of(program: Path) -> ServerEnvironment | None:
    """Return the Python environment of a program: its own when it is a Python, else that of its first
    lines.
    """
    if re.fullmatch(r"python[\d.]*", program.name):
        python = str(program)
    else:
        try:
            head = program.read_bytes()[:600].decode("utf-8", "replace")
        except OSError:
            return None
        # pip writes the second form where the path is too long for the kernel, or has blanks
        found = re.match(r"#!(\S*python[\d.]*)\s", head) or re.search(
            r"'''exec' \"?([^\"\n]*?python[\d.]*)\"? ", head
        )
        if not found:
            return None
        python = found[1]
    folders = sorted(Path(python).parent.parent.glob("lib/python3*/site-packages"))
    return ServerEnvironment(python, folders[-1]) if folders else None


def install_words(python: str, *words: str) -> str:
    """Return the command that installs into the environment of ``python``."""
    return shlex.join([*pip_command(python), "install", *words])
