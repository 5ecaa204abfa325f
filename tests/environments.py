"""Python environments made of links: which of our distributions they have is chosen per test, without pip.

An environment is what ``python -m venv`` and pip leave behind: an interpreter, package folders, and the metadata that
``importlib.metadata`` reads. Third-party packages come from the environment that runs the tests.
"""

import json
import os
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from core.source import members
from packaging.requirements import Requirement

SITE = Path(sysconfig.get_path("purelib"))


@cache
def projects() -> dict[str, tuple[Path, dict[str, Any]]]:
    """Return our distributions: name → folder and the ``pyproject.toml`` as data; those for pytest are left out."""
    read = ((folder, tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))) for folder in members())
    named = {data["project"]["name"]: (folder, data) for folder, data in read}
    return {name: (folder, data) for name, (folder, data) in named.items() if name != "pytest-claw"}


def needs_of(name: str) -> tuple[str, ...]:
    """Return the names of our distributions that one depends on, without extras."""
    project = projects()[name][1]["project"]
    words = (line.split()[0].partition("=")[0].partition("[")[0] for line in project["dependencies"])
    return tuple(word for word in words if word in projects())


def closure_of(names: Iterable[str]) -> frozenset[str]:
    """Return these distributions of ours with all of ours that they depend on, as pip would install them."""
    found, waiting = set[str](), list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += needs_of(name)
    return frozenset(found)


class Environment:
    """A Python environment with some of our distributions, and a home of its own.

    :param names: our distributions in it; ``closure_of`` adds what they depend on.
    :param libraries: requirements of third-party distributions in it, with those that they require; None = all that the
        tests have.
    :param others: folders with further packages beside their ``.dist-info``, such as ``third_party.installed`` makes.
    """

    def __init__(
        self,
        folder: Path,
        names: Iterable[str],
        others: Iterable[Path] = (),
        libraries: Iterable[str] | None = None,
    ) -> None:
        self.home, self.python = folder / "person", folder / "venv" / "bin" / "python"
        self.home.mkdir(parents=True)
        self.python.parent.mkdir(parents=True)
        self.python.symlink_to(sys.executable if sys.prefix == sys.base_prefix else _base_python())
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        (folder / "venv" / "pyvenv.cfg").write_text(
            f"home = {Path(_base_python()).parent}\ninclude-system-site-packages = false\nversion = {version}\n"
        )
        self.site = folder / "venv" / "lib" / f"python{version}" / "site-packages"
        self.site.mkdir(parents=True)
        for entry in _third_party() if libraries is None else _entries_of(libraries):
            (self.site / entry.name).symlink_to(entry)
        for name in names:
            _install(self.site, name)
        for other in others:
            for entry in other.iterdir():
                (self.site / entry.name).symlink_to(entry)

    def run(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run this environment's Python with these arguments, in its home."""
        environment = {"PATH": os.defpath, "HOME": str(self.home), "LANG": "C.UTF-8", **environ}
        return subprocess.run(
            [str(self.python), *words],
            env=environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def claw(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run ``claw WORDS``."""
        return self.run("-m", "claw", *words, **environ)

    def install(self, *wheels: Path) -> None:
        """Install these wheels with pip, without the index; the folders that they are in may bring more of ours."""
        pip = [_base_python(), "-m", "pip", "--python", str(self.python), "install", "-q", "--no-index"]
        for folder in {wheel.parent for wheel in wheels}:
            pip += ["--find-links", str(folder)]
        environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"}
        done = subprocess.run([*pip, *map(str, wheels)], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def configure(self, tree: Mapping[str, Any]) -> None:
        """Write the config file (``~/.claw/config.json``)."""
        folder = self.home / ".claw"
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / "config.json").touch(mode=0o600)
        (folder / "config.json").write_text(json.dumps(tree), encoding="utf-8")


def _base_python() -> str:
    return os.path.realpath(sys.executable)


@cache
def _third_party() -> tuple[Path, ...]:
    """Return the packages in the site-packages of the running environment that are not ours."""
    ours = {data["tool"]["flit"]["module"]["name"] for _, data in projects().values()} | {"pytest_claw"}
    distributions = {name.replace("-", "_") for name in projects()} | {"pytest_claw"}
    return tuple(
        entry
        for entry in SITE.iterdir()
        if entry.stem not in ours
        and entry.name.partition("-")[0] not in distributions
        and entry.suffix not in {".pth", ".pyc"}
        and entry.name != "__pycache__"
    )


def _entries_of(libraries: Iterable[str]) -> set[Path]:
    """Return what these distributions and all that they require have at the top of site-packages."""
    found, waiting, entries = set[str](), [Requirement(line) for line in libraries], set[Path]()
    while waiting:
        wanted = waiting.pop()
        if str(wanted) in found:
            continue
        found.add(str(wanted))
        known = metadata.distribution(wanted.name)
        entries |= {
            SITE / path.parts[0]
            for path in known.files or ()
            if path.parts[0] not in ("..", "__pycache__") and (SITE / path.parts[0]).exists()
        }
        for extra in (*wanted.extras, ""):
            needed = map(Requirement, known.requires or ())
            waiting += [one for one in needed if not one.marker or one.marker.evaluate({"extra": extra})]
    return entries


def libraries_of(names: Iterable[str]) -> list[str]:
    """Return the third-party distributions that distributions of ours declare, without extras."""
    declared = {line for name in names for line in projects()[name][1]["project"]["dependencies"]}
    return sorted(line for line in declared if Requirement(line).name not in projects())


def _install(site: Path, name: str) -> None:
    """Install one of ours as an editable install leaves it: its package, and its metadata."""
    folder, data = projects()[name]
    project, module = data["project"], data["tool"]["flit"]["module"]["name"]
    (site / module).symlink_to(folder / module)
    version = project.get("version") or metadata.version("claw-core")
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    lines = [f"Metadata-Version: 2.3\nName: {name}\nVersion: {version}"]
    lines += [f"Requires-Dist: {line}" for line in project["dependencies"]]
    extras = project.get("optional-dependencies", {}).items()
    lines += [f'Requires-Dist: {line} ; extra == "{extra}"' for extra, needs in extras for line in needs]
    (info / "METADATA").write_text("\n".join(lines) + "\n", encoding="utf-8")
    groups = project.get("entry-points", {})
    entries = (
        f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in rows.items()) for group, rows in groups.items()
    )
    (info / "entry_points.txt").write_text("\n".join(entries), encoding="utf-8")
