"""Which Python environment this is, what is in it, and the pip that serves it. Nothing here changes it."""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from claw.errors import ClawError
from claw.lifecycle.names import plain

CORE = "claw-core"
Kind = Literal["venv", "pipx", "uv tool", "managed", "system"]


@dataclass(frozen=True)
class Environment:
    """Where claw runs.

    :param kind: ``managed`` is a Python that belongs to the system's own packages (PEP 668), as on Debian.
    :param container: whether all of it ends with its container.
    """

    kind: Kind
    prefix: Path
    container: bool

    @property
    def said(self) -> str:
        """In one line: the kind and the place."""
        return f"{self.kind}{', container' if self.container else ''}: {self.prefix}"

    def command(self, verb: Literal["upgrade", "uninstall"], distribution: str) -> str:
        """What a person types to upgrade or uninstall ``distribution`` here; empty where the system's packages rule."""
        if self.kind == "managed":
            return ""
        if self.kind == "uv tool":
            return f"uv tool upgrade {CORE}" if verb == "upgrade" else f"uv tool install --reinstall {CORE}"
        if self.kind == "pipx":
            inside = {"upgrade": "inject --force", "uninstall": "uninject"}[verb]
            return f"pipx {verb} {CORE}" if distribution == CORE else f"pipx {inside} {CORE} {distribution}"
        verb_words = ["install", "-U"] if verb == "upgrade" else [verb]
        return shlex.join([*pip_command(), *verb_words, distribution])


def here() -> Environment:
    """The environment of this process."""
    stdlib = Path(sysconfig.get_path("stdlib"))
    kind = kind_of(Path(sys.prefix), stdlib, is_venv=sys.prefix != sys.base_prefix)
    return Environment(
        kind, Path(sys.prefix), any(map(os.path.exists, ("/.dockerenv", "/run/.containerenv")))
    )


def kind_of(prefix: Path, stdlib: Path, *, is_venv: bool) -> Kind:
    """What kind of environment stands at ``prefix``.

    Sources: PEP 668 (``EXTERNALLY-MANAGED`` beside the standard library), the receipts that pipx and uv leave.
    """
    if (prefix / "pipx_metadata.json").exists():
        return "pipx"
    if (prefix / "uv-receipt.toml").exists():
        return "uv tool"
    if is_venv:
        return "venv"
    return "managed" if (stdlib / "EXTERNALLY-MANAGED").exists() else "system"


def pins(layers: Path) -> dict[str, str]:
    """What the environment itself holds, name → version; the layers under ``layers`` are not counted.

    An install that would change one of these is refused: they are what claw runs with.
    """
    base = [folder for folder in sys.path if not Path(folder).is_relative_to(layers)]
    held: dict[str, str] = {}
    for one in distributions(path=base):
        if name := one.metadata["Name"]:
            held.setdefault(plain(name), one.version)
    return held


def pip_command(python: str = sys.executable) -> list[str]:
    """The start of a pip command that acts on ``python``, which may have no pip of its own.

    In this order: its own pip, that of the Python it was made from, the one that Python ships, one that uv fetches.
    """
    aimed = ["--python", python]
    if find_spec("pip"):
        return [sys.executable, "-P", "-m", "pip", *(aimed if python != sys.executable else [])]
    base = f"{sys.base_prefix}/bin/python{sys.version_info[0]}.{sys.version_info[1]}"
    if _runs([base, "-P", "-m", "pip", "--version"]):
        return [base, "-P", "-m", "pip", *aimed]
    shipped = find_spec("ensurepip")
    for wheel in sorted(Path(shipped.origin or "").parent.glob("_bundled/pip-*.whl")) if shipped else ():
        return [sys.executable, f"{wheel}/pip", *aimed]
    if uv := shutil.which("uv"):
        return [uv, "tool", "run", "--quiet", "pip", *aimed]
    raise ClawError("there is no pip to install with", fix="on Debian or Ubuntu: apt install python3-pip")


def _runs(command: list[str]) -> bool:
    try:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    except OSError:
        return False
