"""Diagnosis of an llm plugin that cannot be imported: the command that fixes it.

Source: packaging.python.org, "Recording installed projects" (RECORD).
"""

import shlex
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from claw_tool_sdk import changed_files, pip_command


def commands(name: str, *, absent: bool) -> list[str]:
    """Return the commands that reinstall a distribution; empty when pip's record shows no damage.

    :param absent: something that it imports could not be found.
    """
    try:
        one = distribution(name)
    except PackageNotFoundError:
        return [install_words(name)]
    pin = f"{one.name}=={one.version}"
    if "plugins.d" in Path(str(one.locate_file(""))).parts:  # claw's own overlay, changed by claw only
        return [f"claw plugins uninstall {one.name}", f"claw plugins install {pin}"]
    if next(changed_files(one), None):
        return [install_words("--force-reinstall", "--no-deps", pin)]
    return [install_words(pin)] if absent else []


def install_words(*words: str) -> str:
    """Return the command that installs into this environment."""
    return shlex.join([*pip_command(), "install", *words])
