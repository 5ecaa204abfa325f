"""Detection of the Python environment, its distributions and its pip command. Read-only."""

import os
import shlex
import sys
import sysconfig
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Literal

from claw.runtime import normalise_distribution
from claw_tool_sdk import pip_command

CORE = "claw-core"
Kind = Literal["venv", "pipx", "uv tool", "managed", "system"]


@dataclass(frozen=True)
class PythonEnvironment:
    """The environment that claw runs in.

    :param kind: ``managed`` is a Python that belongs to the system's packages (PEP 668), as on Debian.
    :param container: True in a container, with which the environment is lost.
    """

    kind: Kind
    prefix: Path
    container: bool

    @property
    def description(self) -> str:
        """The kind and the prefix, on one line."""
        return f"{self.kind}{', container' if self.container else ''}: {self.prefix}"

    def command_for(self, verb: Literal["upgrade", "uninstall"], distribution: str, *others: str) -> str:
        """Return the command that upgrades or uninstalls ``distribution`` here; empty in a managed environment.

        :param others: distributions that must get the same release in one step.
        """
        if self.kind == "managed":
            return ""
        if self.kind == "uv tool":
            return f"uv tool upgrade {CORE}" if verb == "upgrade" else f"uv tool install --reinstall {CORE}"
        if self.kind == "pipx":
            if others:
                return f"pipx upgrade --include-injected {CORE}"
            inside = {"upgrade": "inject --force", "uninstall": "uninject"}[verb]
            return (
                f"pipx {verb} {CORE}"
                if distribution == CORE
                else f"pipx {inside} {CORE} {shlex.quote(distribution)}"
            )
        verb_words = ["install", "-U"] if verb == "upgrade" else [verb]
        return shlex.join([*pip_command(), *verb_words, distribution, *others])


def current_environment() -> PythonEnvironment:
    """Return the environment of this process."""
    stdlib = Path(sysconfig.get_path("stdlib"))
    kind = environment_kind(Path(sys.prefix), stdlib, is_venv=sys.prefix != sys.base_prefix)
    return PythonEnvironment(
        kind, Path(sys.prefix), any(map(os.path.exists, ("/.dockerenv", "/run/.containerenv")))
    )


def environment_kind(prefix: Path, stdlib: Path, *, is_venv: bool) -> Kind:
    """Determine the kind of the environment at ``prefix``.

    Sources: PEP 668 (``EXTERNALLY-MANAGED`` beside the standard library), the receipts that pipx and uv leave.
    """
    if (prefix / "pipx_metadata.json").exists():
        return "pipx"
    if (prefix / "uv-receipt.toml").exists():
        return "uv tool"
    if is_venv:
        return "venv"
    return "managed" if (stdlib / "EXTERNALLY-MANAGED").exists() else "system"


def environment_pins(layers: Path) -> dict[str, str]:
    """List the distributions of the environment, name → version, without those of the layers under ``layers``.

    An install that would change one of them is refused: claw runs with them.
    """
    base = [folder for folder in sys.path if not Path(folder).is_relative_to(layers)]
    held: dict[str, str] = {}
    for one in distributions(path=base):
        if name := one.metadata["Name"]:
            held.setdefault(normalise_distribution(name), one.version)
    return held
