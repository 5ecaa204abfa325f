"""Test of the next core with every installed plugin, in a temporary venv, before an upgrade."""

import json
import subprocess
import tempfile
import venv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, requires
from pathlib import Path
from typing import Any

from claw import ClawError, t
from claw.runtime import SYSTEM_DISK, InstalledPlugin
from claw_tool_sdk import pip_command

from claw_admin.plugin_manager.environment import CORE
from claw_admin.plugin_manager.pip import Pip, PluginRequirement

IMPORT_SECONDS = 60
# Runs in the venv, so with the next core: scans the plugins, or imports one plugin per call.
_PROBE = """
import sys, json
sys.path.append(sys.argv[2])
from claw.host.manifest import API_VERSION, api_matches, installed_plugins
if sys.argv[1] == "":
    from claw import __version__
    print(json.dumps({"core": __version__, "api": "%d.%d" % API_VERSION, "plugins": {
        one.id: {"range": one.manifest.api if one.manifest else "", "fault": str(one.fault or ""),
                 "fits": not one.manifest or api_matches(one.manifest.api)} for one in installed_plugins()}}))
else:
    __import__(sys.argv[1])
"""


@dataclass(frozen=True)
class PluginRehearsal:
    """The result of one plugin with the next core.

    :param problem: the reason of the failure; empty on success.
    """

    plugin: str
    version: str
    problem: str = ""


@dataclass(frozen=True)
class UpgradeRehearsal:
    """The version of the next core, its plugin API, and the result of each plugin."""

    core: str
    api: str
    trials: tuple[PluginRehearsal, ...]


def rehearse_upgrade(
    target: PluginRequirement,
    found: Sequence[InstalledPlugin],
    environ: Mapping[str, str],
    on_line: Callable[[str], None] = lambda line: None,
) -> UpgradeRehearsal:
    """Install ``target`` into a temporary venv and test every plugin of ``found`` there; this environment is unchanged.

    A plugin is tested with its present files. Its requirements are installed beside the next core where possible; a
    conflicting requirement is reported as the plugin's failure.

    :raises ClawError: the next core itself cannot be installed.
    """
    with tempfile.TemporaryDirectory(prefix="claw-upgrade-") as folder:
        place = Path(folder)
        venv.create(place / "venv", with_pip=False, symlinks=True)
        python = str(place / "venv/bin/python")
        pip = Pip(pip_command(python), environ, on_line)
        pip.install(["--upgrade", *target.pip_arguments])
        path = _link_plugins(found, place)
        about = json.loads(_probe(python, "", path).stdout)
        clashes = _install_requirements(pip, found, place, about["core"])
        on_line(t("importing each plugin"))
        trials = tuple(
            PluginRehearsal(one.id, one.version, clashes.get(one.id) or _failure_of(one, about, python, path))
            for one in found
        )
    return UpgradeRehearsal(about["core"], about["api"], trials)


def _install_requirements(
    pip: Pip, found: Sequence[InstalledPlugin], place: Path, core: str
) -> dict[str, str]:
    """Install the plugins' requirements, together if possible, else one by one; return plugin → conflict."""
    kept = place / "constraints.txt"
    SYSTEM_DISK.write_note(kept, f"{CORE}=={core}\n".encode())
    wanted = {one.id: lines for one in found if (lines := _requirements(one))}
    try:
        if wanted:
            pip.install(["-c", str(kept), *(line for lines in wanted.values() for line in lines)])
    except ClawError:
        return {plugin: why for plugin, lines in wanted.items() if (why := _conflict(pip, kept, lines))}
    return {}


def _conflict(pip: Pip, kept: Path, lines: Sequence[str]) -> str:
    try:
        pip.install(["-c", str(kept), *lines])
    except ClawError as why:
        return why.problem
    return ""


def _requirements(found: InstalledPlugin) -> list[str]:
    """Return the requirements of a plugin, without extras."""
    try:
        lines = requires(found.distribution) or []
    except PackageNotFoundError:
        return []
    return [line for line in lines if "extra ==" not in line]


def _link_plugins(found: Sequence[InstalledPlugin], place: Path) -> str:
    """Make a folder with links to the packages and metadata of the plugins, without the core installed beside them."""
    folder = place / "plugins"
    folder.mkdir()
    for one in found:
        try:
            info = Path(str(getattr(distribution(one.distribution), "_path", "")))
        except PackageNotFoundError:
            continue
        top = one.package.partition(".")[0]
        package = one.folder.parents[one.package.count(".")] / top if one.folder else None
        for source in (info, package):
            if source and source.is_dir() and not (folder / source.name).exists():
                (folder / source.name).symlink_to(source)
    return str(folder)


def _failure_of(found: InstalledPlugin, about: Mapping[str, Any], python: str, path: str) -> str:
    seen = about["plugins"].get(found.id)
    if seen is None:
        return t("it was not found there")
    if seen["fault"]:
        return str(seen["fault"])
    if not seen["fits"]:
        return t(
            "it needs plugin API {range}; this claw has {version}", range=seen["range"], version=about["api"]
        )
    try:
        done = _probe(python, found.package, path)
    except subprocess.TimeoutExpired:
        return t("its import does not finish")
    lines = done.stderr.strip().splitlines()
    return (
        ""
        if done.returncode == 0
        else t("its import fails: {why}", why=lines[-1] if lines else done.returncode)
    )


def _probe(python: str, package: str, path: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [python, "-I", "-c", _PROBE, package, path],
        check=False,
        capture_output=True,
        text=True,
        timeout=IMPORT_SECONDS,
        stdin=subprocess.DEVNULL,
    )
