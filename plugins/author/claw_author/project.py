"""An author's project: its plugin, and the location of its package and manifest. Nothing is imported."""

import os
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from claw import ClawError

MANIFEST = "claw-plugin.json"
GROUP = "claw.plugins"


@dataclass(frozen=True)
class Project:
    """A folder with a ``pyproject.toml`` that declares one plugin.

    :param root: the folder to put on the path to import ``package``: the project, or ``src`` in it.
    :param has_manifest: false for a plugin of one file, which has no folder for a manifest.
    :param conformance: files, folders or ids of its tests with suites of pytest-claw: ``tool.claw.conformance``.
    """

    folder: Path
    root: Path
    plugin: str
    package: str
    description: str
    has_manifest: bool = True
    conformance: tuple[str, ...] = ("tests",)

    @property
    def manifest(self) -> Path:
        """Path of its manifest, which may not exist yet."""
        return self.root.joinpath(*self.package.split(".")) / MANIFEST

    def modules(self) -> Iterator[tuple[str, str]]:
        """Yield the path below ``root`` and the text of each module of its package."""
        package = self.root.joinpath(*self.package.split("."))
        for file in sorted(package.rglob("*.py")) if self.has_manifest else [package.with_suffix(".py")]:
            yield file.relative_to(self.root).as_posix(), file.read_text(encoding="utf-8", errors="replace")


def find(folder: Path) -> Project:
    """Read the project in ``folder``.

    :raises ClawError: there is none, it declares no plugin, or its package is missing.
    """
    file = folder / "pyproject.toml"
    try:
        tree: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ClawError(
            "there is no pyproject.toml in {folder}",
            fix="name the folder of a plugin",
            folder=folder.absolute(),
        ) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as why:
        raise ClawError("it cannot be read: {why}", where=str(file), why=why) from None
    about = tree.get("project", {})
    entries = about.get("entry-points", {}).get(GROUP, {})
    if len(entries) != 1:
        raise ClawError(
            "it declares {count} plugins, and one is wanted",
            where=str(file),
            fix='write [project.entry-points."claw.plugins"] with one line: id = "package"',
            count=len(entries),
        )
    [(plugin, package)] = entries.items()
    for root in (folder, folder / "src"):
        module = root.joinpath(*package.split("."))
        is_package = (module / "__init__.py").is_file()
        if is_package or module.with_name(f"{module.name}.py").is_file():
            tests = tuple(map(str, tree.get("tool", {}).get("claw", {}).get("conformance", ["tests"])))
            return Project(folder, root, plugin, package, about.get("description", ""), is_package, tests)
    raise ClawError(
        "its package {package} is not in {folder}", where=str(file), package=package, folder=folder
    )


def development_environment(project: Project, place: Path) -> dict[str, str]:
    """Return an environment in which the plugin is found, before any installed one of its name."""
    about = tomllib.loads((project.folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name, version = str(about["name"]), str(about.get("version", "0"))
    info = place / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8"
    )
    entry = about["entry-points"][GROUP][project.plugin]
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{project.plugin} = {entry}\n", encoding="utf-8")
    before = os.environ.get("PYTHONPATH", "")
    folders = [str(place), str(project.root.absolute()), *([before] if before else [])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders), "PYTHONDONTWRITEBYTECODE": "1"}
