"""Distributions by the one spelling of their names."""

import re
from pathlib import Path


def plain(name: str) -> str:
    """The one spelling of a distribution's name. Source: packaging.python.org, "Names and normalization"."""
    return re.sub(r"[-_.]+", "-", name).lower()


def info_folders(folder: Path) -> dict[str, Path]:
    """The distributions installed in ``folder``, plain name → their ``.dist-info``."""
    return {
        plain(info.name.removesuffix(".dist-info").rpartition("-")[0]): info
        for info in folder.glob("*.dist-info")
    }
