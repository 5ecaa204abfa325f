"""The next core, tried before it is installed: in a throw-away venv, with every plugin that is here."""

import json
import subprocess
import tempfile
import venv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

from claw import store
from claw.errors import ClawError
from claw.lifecycle.environment import CORE, pip_command
from claw.lifecycle.installer import Pip, Wish
from claw.manifest import Found
from claw.words import say

IMPORT_SECONDS = 60
# Runs in the venv, so under the next core: what it says of each plugin, and what the import says. One plugin per call.
_PROBE = """
import sys, json
sys.path.append(sys.argv[2])
from claw.manifest import API_VERSION, fits, scan
if sys.argv[1] == "":
    from claw import __version__
    print(json.dumps({"core": __version__, "api": "%d.%d" % API_VERSION, "plugins": {
        one.id: {"range": one.manifest.api if one.manifest else "", "fault": str(one.fault or ""),
                 "fits": not one.manifest or fits(one.manifest.api)} for one in scan()}}))
else:
    __import__(sys.argv[1])
"""


@dataclass(frozen=True)
class Trial:
    """How one plugin fares with the next core.

    :param why: empty when all is well; else what stops it.
    """

    plugin: str
    version: str
    why: str = ""


@dataclass(frozen=True)
class Rehearsal:
    """The next core, the plugin API that it offers, and how each plugin fares."""

    core: str
    api: str
    trials: tuple[Trial, ...]


def rehearse(
    target: Wish,
    found: Sequence[Found],
    environ: Mapping[str, str],
    told: Callable[[str], None] = lambda line: None,
) -> Rehearsal:
    """Install ``target`` into a throw-away venv and try every plugin of ``found`` there; nothing here is changed.

    A plugin is tried with its files as they are. What it requires is brought beside the next core where that can be;
    a requirement that clashes is its fault, named.

    :raises ClawError: the next core itself cannot be installed.
    """
    with tempfile.TemporaryDirectory(prefix="claw-upgrade-") as folder:
        place = Path(folder)
        venv.create(place / "venv", with_pip=False, symlinks=True)
        python = str(place / "venv/bin/python")
        pip = Pip(pip_command(python), environ, told)
        pip.install(["--upgrade", *target.words])
        path = _plugins_only(found, place)
        about = json.loads(_probe(python, "", path).stdout)
        clashes = _bring_requirements(pip, found, place, about["core"])
        told(say("importing each plugin"))
        trials = tuple(
            Trial(one.id, one.version, clashes.get(one.id) or _why(one, about, python, path)) for one in found
        )
    return Rehearsal(about["core"], about["api"], trials)


def _bring_requirements(pip: Pip, found: Sequence[Found], place: Path, core: str) -> dict[str, str]:
    """Bring what the plugins require, together when that goes, else one by one; plugin → what clashes."""
    kept = place / "constraints.txt"
    store.SYSTEM.jot(kept, f"{CORE}=={core}\n".encode())
    wanted = {one.id: lines for one in found if (lines := _requirements(one))}
    try:
        if wanted:
            pip.install(["-c", str(kept), *(line for lines in wanted.values() for line in lines)])
    except ClawError:
        return {plugin: why for plugin, lines in wanted.items() if (why := _clash(pip, kept, lines))}
    return {}


def _clash(pip: Pip, kept: Path, lines: Sequence[str]) -> str:
    try:
        pip.install(["-c", str(kept), *lines])
    except ClawError as why:
        return why.problem
    return ""


def _requirements(found: Found) -> list[str]:
    """What a plugin requires, extras left aside."""
    try:
        lines = requires(found.distribution) or []
    except PackageNotFoundError:
        return []
    return [line for line in lines if "extra ==" not in line]


def _plugins_only(found: Sequence[Found], place: Path) -> str:
    """A folder with links to the plugins' packages and metadata, without the core that lies beside them."""
    from importlib.metadata import distribution

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


def _why(found: Found, about: Mapping[str, Any], python: str, path: str) -> str:
    seen = about["plugins"].get(found.id)
    if seen is None:
        return say("it is not found there")
    if seen["fault"]:
        return str(seen["fault"])
    if not seen["fits"]:
        return say(
            "it was made for plugin API {range}, this is {version}", range=seen["range"], version=about["api"]
        )
    try:
        done = _probe(python, found.package, path)
    except subprocess.TimeoutExpired:
        return say("its import does not end")
    lines = done.stderr.strip().splitlines()
    return (
        ""
        if done.returncode == 0
        else say("its import fails: {why}", why=lines[-1] if lines else done.returncode)
    )


def _probe(python: str, package: str, path: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [python, "-I", "-c", _PROBE, package, path],
        check=False, capture_output=True, text=True, timeout=IMPORT_SECONDS, stdin=subprocess.DEVNULL,
    )  # fmt: skip
