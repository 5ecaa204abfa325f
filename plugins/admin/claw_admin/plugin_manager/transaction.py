"""Transactional change of the layer: exclusive, built apart, activated by one rename; a kill leaves the old or new set.

Every step has a name, which is passed to ``step``: tests stop there, a terminal shows progress.
"""

import csv
import fcntl
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from claw import ClawError, UsageError
from claw.runtime import (
    CURRENT_LINK,
    EDITABLE_FILE,
    GATEWAY_LOCK,
    LAYERS_FOLDER,
    METADATA_FILE,
    STAGED_LINK,
    SYSTEM_DISK,
    dist_info_folders,
    make_folder,
    replace_file,
)
from claw_config_sdk import Lock

from claw_admin.plugin_manager.environment import current_environment, environment_pins as pins_of_environment
from claw_admin.plugin_manager.lock import find_damages
from claw_admin.plugin_manager.pip import Pip, PluginRequirement
from claw_admin.plugin_manager.plan import InstallPlan, Pin, pin_from_data, plan_change

STEPS = (
    "acquire locks",
    "clean up",
    "resolve",
    "create the folder",
    "keep unchanged packages",
    "download locked packages",
    "download other packages",
    "assemble",
    "record paths",
    "record hashes",
    "write to disk",
    "number the generation",
    "create the link",
    "activate",
    "remove old generations",
)
"""The steps of a change, in order; each is reported twice, as ``NAME: begin`` and ``NAME: done``."""
OnStep = Callable[[str], None]
Verb = Literal["upgrade", "uninstall"]


class LayerStore:
    """The layers under ``CLAW_HOME/plugins.d``.

    :param staged: a new layer becomes current once no gateway runs.
    :param step: called with the name of each step.
    """

    def __init__(self, home: Path, *, staged: bool = False, step: OnStep = lambda name: None) -> None:
        self.home, self.root = home, home / LAYERS_FOLDER
        self.scratch = self.root / ".new"
        self._staged, self._step = staged, step

    @property
    def folder(self) -> Path | None:
        """The layer that a change starts from: the staged one if there is one, else the current one."""
        return self._link_target(STAGED_LINK) or self._link_target(CURRENT_LINK)

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of that layer: ``pins``, and ``records`` (name → SHA-256 of its RECORD)."""
        folder = self.folder
        if folder is None:
            return {"pins": [], "records": {}}
        text = (folder / METADATA_FILE).read_text(encoding="utf-8")
        note: dict[str, Any] = json.loads(text)
        return note

    @property
    def pins(self) -> tuple[Pin, ...]:
        """The distributions of that layer, in order of name."""
        return tuple(map(pin_from_data, self.metadata["pins"]))

    @property
    def fits_this_python(self) -> bool:
        """True if the layer was made for this Python; compiled code of another cannot be reused."""
        return self.folder is None or self.folder.name.endswith(_TAG)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Hold the locks of a change, with ``scratch`` an empty folder; remains of a killed change are removed first.

        :raises BusyError: another change runs, or a gateway runs and the change is not staged.
        """
        make_folder(self.root)
        ours = Lock(self.root / "lock", "process {pid} is changing the plugins", "try again", str(self.root))
        gateway = Lock(
            self.home / GATEWAY_LOCK,
            "a gateway runs with these plugins (process {pid})",
            "add --staged: the change is made now and used from its next start on",
        )
        try:
            with self._reported_step("acquire locks"):
                ours.take()
                if not self._staged:
                    gateway.take()
            with self._reported_step("clean up"):
                shutil.rmtree(self.scratch, ignore_errors=True)
                if not self._staged and self._link_target(STAGED_LINK):
                    SYSTEM_DISK.rename(str(self.root / STAGED_LINK), str(self.root / CURRENT_LINK))
                make_folder(self.scratch)
            yield
            shutil.rmtree(self.scratch, ignore_errors=True)
        finally:
            gateway.close()
            ours.close()

    @contextmanager
    def preview(self) -> Iterator[None]:
        """Plan a change that is not made: without locks, also beside a gateway, and nothing is left in the home."""
        with tempfile.TemporaryDirectory(prefix="claw-plan-") as folder:
            self.scratch = Path(folder)
            yield

    def resolve(self, pip: Pip, roots: Sequence[PluginRequirement], **options: Any) -> tuple[Pin, ...]:
        """Resolve what pip must install into the layer for ``roots``.

        :param options: options of ``Pip.resolve``.
        :raises ClawError: there is no solution, or only one that changes claw's own environment.
        """
        with self._reported_step("resolve"):
            fixed = pins_of_environment(self.root)
            resolved = pip.resolve(roots, self.scratch, fixed=fixed, **options)
        require_outside_environment([pin.name for pin in resolved], fixed)
        return resolved

    def damaged_distributions(self) -> frozenset[str]:
        """Return the distributions of the layer whose files differ from the installed ones."""
        folder = self.folder
        layer = folder.resolve() if folder else None
        bad = find_damages((), self.home) if layer else ()
        return frozenset(
            one.distribution for one in bad if layer and one.file.resolve().is_relative_to(layer)
        )

    def apply(
        self, wanted: InstallPlan, pip: Pip, check: Callable[[Path], None] = lambda built: None
    ) -> Path:
        """Build the set of ``wanted``, make it current or staged, and return its folder.

        :param check: called with the folder before it is made current; an error leaves the present set.
        """
        built = self.scratch / "layer"
        with self._reported_step("create the folder"):
            built.mkdir(mode=0o700)
        with self._reported_step("keep unchanged packages"):
            there = dist_info_folders(self.folder) if self.folder else {}
            for pin in wanted.kept:
                _link_files(there[pin.name], built)
        parts = [
            [pin for pin in wanted.fetched if pin.sha256],
            [pin for pin in wanted.fetched if not pin.sha256],
        ]
        for name, pins in zip(("download locked packages", "download other packages"), parts, strict=True):
            with self._reported_step(name):
                if pins:
                    pip.fetch(pins, self.scratch / name, self.scratch)
        with self._reported_step("assemble"):
            for name in STEPS[5:7]:
                _merge(self.scratch / name, built)
            check(built)
        with self._reported_step("record paths"):
            paths = "".join(f"{path}\n" for path in _editable_paths(wanted.new, built))
            replace_file(built / EDITABLE_FILE, paths.encode())
        with self._reported_step("record hashes"):
            _write_note(wanted.new, built)
        with self._reported_step("write to disk"):
            os.sync()
        return self._make_current(built)

    def _make_current(self, built: Path) -> Path:
        numbers = [int(folder.name.partition("-")[0]) for folder in self._layer_folders()]
        place = self.root / f"{max(numbers, default=0) + 1}-{_TAG}"
        with self._reported_step("number the generation"):
            SYSTEM_DISK.rename(str(built), str(place))
            SYSTEM_DISK.sync_folder(self.root)
        link = self.scratch / "link"
        with self._reported_step("create the link"):
            link.symlink_to(place.name)
        with self._reported_step("activate"):
            SYSTEM_DISK.rename(str(link), str(self.root / (STAGED_LINK if self._staged else CURRENT_LINK)))
            SYSTEM_DISK.sync_folder(self.root)
        with self._reported_step("remove old generations"):
            self._remove_old_layers()
        return place

    def _remove_old_layers(self) -> None:
        """Remove old layers; keep the current, the staged and the previous one, and those that a process uses."""
        keep = {self._link_target(CURRENT_LINK), self._link_target(STAGED_LINK)}
        others = sorted(
            set(self._layer_folders()) - keep, key=lambda folder: int(folder.name.partition("-")[0])
        )
        for folder in others[:-1]:
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
            except OSError:
                pass  # in use; a later change removes it
            finally:
                os.close(fd)

    def _layer_folders(self) -> list[Path]:
        return [folder for folder in self.root.iterdir() if folder.name.partition("-")[0].isdigit()]

    def _link_target(self, link: str) -> Path | None:
        try:
            return self.root / os.readlink(self.root / link)
        except OSError:
            return None

    @contextmanager
    def _reported_step(self, name: str) -> Iterator[None]:
        self._step(f"{name}: begin")
        yield
        self._step(f"{name}: done")


_TAG = sys.implementation.cache_tag


def require_outside_environment(requirements: Sequence[str], fixed: Mapping[str, str]) -> None:
    """Refuse to change distributions of the environment that claw runs in.

    :param requirements: names, perhaps with extras and a version.
    :raises UsageError: one of them is part of it; the error names the command that changes it there.
    """
    for requirement in requirements:
        name, extras = PluginRequirement(requirement).name, re.search(r"\[[^\]]*\]", requirement)
        if name in fixed:
            command = current_environment().command_for("upgrade", name + (extras[0] if extras else ""))
            raise UsageError(
                "{name} {version} belongs to the environment that claw runs in and is not changed",
                fix="to change it there: {command}"
                if command
                else "it was installed by the system's package manager",
                name=name,
                version=fixed[name],
                command=command,
            )


def plan_install(
    layers: LayerStore, pip: Pip, requirements: Sequence[PluginRequirement], *, from_source: bool = False
) -> InstallPlan:
    """Plan the installation of ``requirements`` into the present set; installed versions stay where possible."""
    fixed = pins_of_environment(layers.root)
    require_outside_environment([one.text for one in requirements if one.name], fixed)
    old = layers.pins
    fresh = {one.distribution for one in requirements}
    kept = [pin for pin in old if pin.asked and pin.name not in fresh]
    roots = [_keep(pin) if layers.fits_this_python else _requested(pin) for pin in kept]
    resolved = layers.resolve(
        pip,
        [*roots, *requirements],
        beside=layers.folder if layers.fits_this_python else None,
        from_source=from_source,
    )
    asked = {pin.name: pin.asked for pin in kept}
    for requirement in requirements:
        asked |= {
            pin.name: " ".join(requirement.pip_arguments)
            for pin in (*old, *resolved)
            if requirement.is_satisfied_by(pin)
        }
    return plan_change(old if layers.fits_this_python else (), resolved, asked)


def plan_update(
    layers: LayerStore, pip: Pip, names: Sequence[str] = (), *, from_source: bool = False
) -> InstallPlan:
    """Plan the update to the newest releases, of ``names`` or of all requested ones; a requested ``==version`` stays.

    :raises UsageError: one of ``names`` is not in the layer.
    """
    old = layers.pins
    _require_installed(names, old, layers, "upgrade")
    roots = [
        _requested(pin) if not names or pin.name in names else PluginRequirement(f"{pin.name}=={pin.version}")
        for pin in old
        if pin.asked
    ]
    beside = layers.folder if layers.fits_this_python else None
    resolved = (
        layers.resolve(pip, roots, beside=beside, from_source=from_source, upgrade=True) if roots else ()
    )
    return plan_change(
        old if layers.fits_this_python else (), resolved, {pin.name: pin.asked for pin in old if pin.asked}
    )


def plan_uninstall(layers: LayerStore, names: Sequence[str]) -> InstallPlan:
    """Plan the removal of ``names`` and of the dependencies that only they need.

    :raises UsageError: one is not in the layer, or another distribution needs it.
    """
    old = {pin.name: pin for pin in layers.pins}
    _require_installed(names, tuple(old.values()), layers, "uninstall")
    wanted = plan_change(
        tuple(old.values()), (), {n: pin.asked for n, pin in old.items() if pin.asked and n not in names}
    )
    for pin in wanted.kept:
        if needed := next((name for name in pin.needs if name in names), ""):
            raise UsageError("{name} is needed by {other}", fix="uninstall both", name=needed, other=pin.name)
    return wanted


def _require_installed(names: Sequence[str], ours: Sequence[Pin], layers: LayerStore, verb: Verb) -> None:
    there = {pin.name for pin in ours}
    for name in names:
        if name not in there:
            command = (
                current_environment().command_for(verb, name)
                if name in pins_of_environment(layers.root)
                else ""
            )
            raise UsageError(
                "claw did not install {name}",
                fix="it is part of the environment: {command}"
                if command
                else "claw plugins list shows what is here",
                name=name,
                command=command,
            )


def plan_sync(layers: LayerStore, pins: Sequence[Pin]) -> InstallPlan:
    """Plan a set of exactly ``pins``."""
    require_outside_environment([pin.name for pin in pins], pins_of_environment(layers.root))
    old = {pin.name: pin for pin in layers.pins} if layers.fits_this_python else {}
    there = {pin.name for pin in pins if pin.name in old and pin.is_same_content(old[pin.name])}
    kept = tuple(replace(old[pin.name], asked=pin.asked) for pin in pins if pin.name in there)
    return InstallPlan(tuple(old.values()), kept, tuple(pin for pin in pins if pin.name not in there))


def _requested(pin: Pin) -> PluginRequirement:
    return PluginRequirement(pin.asked.removeprefix("-e "), pin.asked.startswith("-e "))


def _keep(pin: Pin) -> PluginRequirement:
    """Return the requirement that keeps ``pin``: without a version, unless a person gave one."""
    asked = _requested(pin)
    return asked if asked.name else PluginRequirement(pin.name)


def recorded_paths(info: Path) -> Iterator[str]:
    """Yield the paths in a distribution's RECORD, relative to its installation folder; none outside of it.

    Source: packaging.python.org, "Recording installed projects".
    """
    for row in csv.reader((info / "RECORD").read_text(encoding="utf-8").splitlines()):
        if row and not row[0].startswith(("..", "/")):
            yield row[0]


def _link_files(info: Path, built: Path) -> None:
    """Hard-link the files of a distribution of the present layer into the new one."""
    for path in recorded_paths(info):
        source = info.parent / path
        if source.is_file():
            (built / path).parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                os.link(source, built / path)


def _merge(part: Path, built: Path) -> None:
    """Move every file of ``part`` into ``built``, without scripts: a layer is on no PATH."""
    for path in sorted(part.rglob("*")) if part.exists() else ():
        inside = path.relative_to(part)
        if path.is_dir() or inside.parts[0] == "bin":
            continue
        place = built / inside
        if place.exists() and place.read_bytes() != path.read_bytes():
            raise ClawError(
                "two of these packages contain the file {file}", fix="install only one", file=inside
            )
        place.parent.mkdir(parents=True, exist_ok=True)
        SYSTEM_DISK.rename(str(path), str(place))


def _editable_paths(pins: Sequence[Pin], built: Path) -> Iterator[str]:
    """Yield the source folders of editable installs, from their path files; code in such a file is not executed."""
    infos = dist_info_folders(built)
    for pin in pins:
        for name in recorded_paths(infos[pin.name]) if pin.editable else ():
            if not name.endswith(".pth"):
                continue
            for line in (built / name).read_text(encoding="utf-8").splitlines():
                if line.startswith(("import ", "import\t")):
                    raise ClawError(
                        "{name} can be installed editable only with code that runs at every start",
                        fix="install it without -e, or configure its build back end to use path files",
                        name=pin.name,
                    )
                if line.strip():
                    yield line.strip()


def _write_note(pins: Sequence[Pin], built: Path) -> None:
    records = {
        name: sha256((info / "RECORD").read_bytes()).hexdigest()
        for name, info in dist_info_folders(built).items()
    }
    note = {"pins": [asdict(pin) for pin in pins], "records": records}
    replace_file(built / METADATA_FILE, json.dumps(note, ensure_ascii=False, indent=1).encode())
