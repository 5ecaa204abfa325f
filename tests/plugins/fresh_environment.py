"""A fresh environment with packages of other people, and breaking them on purpose."""

import os
import re
import subprocess
from pathlib import Path

from claw_tool_sdk import pip_command
from core.source import with_core
from integration.test_packaging import Venv, wheel_of


def built(folder: Path, *members: str) -> list[str]:
    """Wheels of core with its extra ``standard`` and of these plugins, as pip takes them."""
    for place in with_core(*(f"claw-{name}" for name in members)):
        wheel_of(place, folder)
    core, *plugins = (
        next(folder.glob(f"claw_{name.replace('-', '_')}-*.whl")) for name in ("core", *members)
    )
    return [f"{core}[standard]", *map(str, plugins)]


def module(venv: Venv, name: str) -> Path:
    """The file of a module in that environment."""
    [found] = venv.folder.glob(f"lib/python3*/site-packages/{name}")
    return found


def flip_first_byte(path: Path) -> None:
    """Change one byte of a file, as a bad disk would."""
    data = bytearray(path.read_bytes())
    data[0] ^= 0x10
    path.write_bytes(bytes(data))


def remove(venv: Venv, distribution: str) -> None:
    """Take a package away behind everybody's back."""
    words = [*pip_command(str(venv.folder / "bin/python")), "uninstall", "-q", "-y", distribution]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def printed(text: str) -> list[str]:
    """Return the commands in the printed advice."""
    return re.findall(r"^\s*run: (.+)$", text, re.M)


def obey(venv: Venv, commands: list[str]) -> None:
    """Type what claw printed, and nothing else."""
    assert commands
    environment = {**os.environ, "PATH": f"{venv.folder}/bin:/usr/bin:/bin", "HOME": str(venv.home)}
    environment.pop("CLAW_HOME", None)
    for command in commands:
        done = subprocess.run(
            command, shell=True, capture_output=True, text=True, env=environment, cwd=venv.home, timeout=300
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
