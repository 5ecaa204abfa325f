"""Packages that a plugin needs beside its own: the pip command that installs them, and whether they are as installed."""

import shutil
import site
import subprocess
import sys
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from hashlib import sha256
from importlib.machinery import PathFinder
from importlib.metadata import Distribution
from importlib.util import find_spec
from pathlib import Path

from claw import ClawError


def pip_command(python: str = sys.executable) -> list[str]:
    """Return the start of a pip command for ``python``, which may have no pip of its own.

    In this order: its own pip, the pip of its base Python, the one bundled with Python, one that uv fetches.
    """
    aimed = ["--python", python]
    own = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    if PathFinder.find_spec(
        "pip", own
    ):  # not one that a plugin brought: its folder is on the path of claw alone
        return [sys.executable, "-P", "-m", "pip", *(aimed if python != sys.executable else [])]
    base = f"{sys.base_prefix}/bin/python{sys.version_info[0]}.{sys.version_info[1]}"
    if _runs([base, "-P", "-m", "pip", "--version"]):
        return [base, "-P", "-m", "pip", *aimed]
    shipped = find_spec("ensurepip")
    for wheel in sorted(Path(shipped.origin or "").parent.glob("_bundled/pip-*.whl")) if shipped else ():
        return [sys.executable, f"{wheel}/pip", *aimed]
    if uv := shutil.which("uv"):
        return [uv, "tool", "run", "--quiet", "pip", *aimed]
    raise ClawError("pip is not available", fix="on Debian or Ubuntu: apt install python3-pip")


def _runs(command: list[str]) -> bool:
    try:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    except OSError:
        return False


def changed_files(one: Distribution) -> Iterator[str]:
    """Yield the changed or missing files of an installed distribution."""
    for path in one.files or ():
        if path.hash is not None and path.hash.mode == "sha256":
            try:
                content = Path(str(one.locate_file(path))).read_bytes()
            except OSError:
                yield str(path)
                continue
            digest, recorded = sha256(content), path.hash.value.rstrip("=")
            # URL-safe base64; some build back ends write it in hexadecimal
            if recorded not in (urlsafe_b64encode(digest.digest()).rstrip(b"=").decode(), digest.hexdigest()):
                yield str(path)
