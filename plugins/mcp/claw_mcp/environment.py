"""Environments of Python MCP servers: a venv for each, so that its packages meet neither claw's nor another's."""

import json
import platform
import re
import shutil
import subprocess
import venv
from collections.abc import Mapping
from importlib.metadata import distributions
from pathlib import Path

from claw import ClawError, UsageError
from claw.runtime import make_folder
from claw_tool_sdk import pip_command

SERVERS = "servers"
"""The folder of these environments, in the folder of this plugin: one for each server, with its name."""
_SETTINGS = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PIP_REQUIRE_VIRTUALENV": "0", "PIP_USER": "0",
    "PIP_ROOT_USER_ACTION": "ignore",
}  # fmt: skip
_SECONDS = 900.0


def install_server(folder: Path, package: str, program: str, environ: Mapping[str, str]) -> Path:
    """Make a venv with a package, and return the path of its program.

    :param folder: of the venv; when the package cannot be installed, it is not left behind.
    :param package: as pip takes it: a name, ``name==version``, a wheel, a folder, an address of Git.
    :param program: its name; empty = the only one, or the one that is called like the package.
    :raises ClawError: it cannot be installed, or has no such program.
    """
    make_folder(folder.parent)
    try:
        venv.create(folder, with_pip=False, symlinks=True, clear=True)
        name = _pip_install(folder, package, environ)
        return folder / "bin" / _program(folder, name, program)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def remove_server(folder: Path) -> None:
    """Remove the environment of a server, if it has one."""
    shutil.rmtree(folder, ignore_errors=True)


def _pip_install(folder: Path, package: str, environ: Mapping[str, str]) -> str:
    """Install a package and what it needs; return the name of its distribution."""
    report, words = folder / "report.json", ["install", "--quiet", "--report"]
    command = [*pip_command(str(folder / "bin" / "python")), *words, str(report), "--", package]
    given, nothing = {**environ, **_SETTINGS}, subprocess.DEVNULL
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=given, stdin=nothing, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as why:
        raise ClawError("{package} cannot be installed: {why}", package=package, why=why) from None
    if done.returncode:
        if needed := re.findall(r"Requires-Python ([^;\n]+)", done.stderr):
            problem, version = (
                "{package} needs Python {needed}, and this is Python {version}",
                platform.python_version(),
            )
            raise ClawError(problem, package=package, needed=needed[-1], version=version)
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        said = next((line for line in reversed(lines) if line.startswith("ERROR")), "".join(lines[-1:]))
        why = said.removeprefix("ERROR:").strip()
        raise ClawError("{package} cannot be installed: {why}", package=package, why=why)
    installed = json.loads(report.read_text(encoding="utf-8"))["install"]
    return str(next(one["metadata"]["name"] for one in installed if one["requested"]))


def _program(folder: Path, name: str, wanted: str) -> str:
    """Return the program of a distribution: the wanted one, the only one, or the one that is called like it."""
    path = [str(path) for path in folder.glob("lib/python3*/site-packages")]
    [one] = distributions(name=name, path=path)
    programs = sorted(entry.name for entry in one.entry_points if entry.group == "console_scripts")
    chosen = [found for found in programs if found == (wanted or name)] or ([] if wanted else programs)
    if len(chosen) == 1:
        return chosen[0]
    if not programs:
        raise UsageError("{package} has no program, so it is no MCP server of this kind", package=name)
    listed, problem = (
        ", ".join(programs),
        "{package} has no program {program}" if wanted else "{package} has several programs",
    )
    raise UsageError(
        problem, fix="choose with --program: {listed}", package=name, program=wanted, listed=listed
    )
