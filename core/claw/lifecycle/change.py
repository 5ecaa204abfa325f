"""One change of the layer: alone, built aside, made current by one rename. Who kills it leaves the old set or the new.

Every moment at which that matters has a name, told to ``step``: a test stops there, a terminal draws its bar.
"""

import csv
import fcntl
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from claw import store
from claw.errors import ClawError, UsageError
from claw.lifecycle.environment import here, pins as pins_of_environment
from claw.lifecycle.installer import Pip, Wish
from claw.lifecycle.integrity import damages
from claw.lifecycle.layer import CURRENT, EDITABLE, FOLDER, GATEWAY_LOCK, NOTE, STAGED
from claw.lifecycle.names import info_folders
from claw.lifecycle.plan import Pin, Plan, from_data, plan

STEPS = (
    "take the locks", "tidy up", "resolve", "make the folder", "take over what stays", "fetch what has a hash",
    "fetch the rest", "put together", "note the paths", "note the hashes", "write to disk", "give it its number",
    "make the link", "make it current", "clear old ones",
)  # fmt: skip
"""The steps of a change, in order; each is told twice, as ``NAME: begin`` and ``NAME: done``."""
Step = Callable[[str], None]
Verb = Literal["upgrade", "uninstall"]


class Layers:
    """``CLAW_HOME/plugins.d``.

    :param staged: what is made becomes current when no gateway runs any more.
    :param step: hears each moment by name.
    """

    def __init__(self, home: Path, *, staged: bool = False, step: Step = lambda name: None) -> None:
        self.home, self.root = home, home / FOLDER
        self.scratch = self.root / ".new"
        self._staged, self._step = staged, step

    @property
    def folder(self) -> Path | None:
        """The layer that a change starts from: the staged one while one waits, else the current one."""
        return self._target(STAGED) or self._target(CURRENT)

    @property
    def note(self) -> dict[str, Any]:
        """What that layer says of itself: ``pins``, and ``records`` (name → SHA-256 of its RECORD)."""
        folder = self.folder
        if folder is None:
            return {"pins": [], "records": {}}
        text = (folder / NOTE).read_text(encoding="utf-8")
        note: dict[str, Any] = json.loads(text)
        return note

    @property
    def pins(self) -> tuple[Pin, ...]:
        """What that layer holds, in order of name."""
        return tuple(map(from_data, self.note["pins"]))

    @property
    def fits(self) -> bool:
        """Whether it was made for this Python; compiled code of another cannot be taken over."""
        return self.folder is None or self.folder.name.endswith(_TAG)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Alone, with ``scratch`` an empty folder. What a killed change left behind goes first.

        :raises BusyError: another change is on its way, or a gateway runs and the change is not staged.
        """
        store.make_folder(self.root)
        ours = store.Lock(
            self.root / "lock", "process {pid} is changing the plugins", "try again", str(self.root)
        )
        gateway = store.Lock(
            self.home / GATEWAY_LOCK, "a gateway runs with these plugins (process {pid})",
            "add --staged: the change is made now and used from its next start on",
        )  # fmt: skip
        try:
            with self._at("take the locks"):
                ours.take()
                if not self._staged:
                    gateway.take()
            with self._at("tidy up"):
                shutil.rmtree(self.scratch, ignore_errors=True)
                if not self._staged and self._target(STAGED):
                    store.SYSTEM.rename(str(self.root / STAGED), str(self.root / CURRENT))
                store.make_folder(self.scratch)
            yield
            shutil.rmtree(self.scratch, ignore_errors=True)
        finally:
            gateway.close()
            ours.close()

    def resolve(self, pip: Pip, roots: Sequence[Wish], **options: Any) -> tuple[Pin, ...]:
        """What pip would have to bring into the layer for ``roots``.

        :param options: of ``Pip.resolve``.
        :raises ClawError: it cannot be done, or not without changing what claw itself runs with.
        """
        with self._at("resolve"):
            fixed = pins_of_environment(self.root)
            brought = pip.resolve(roots, self.scratch, fixed=fixed, **options)
        refuse_of_environment([pin.name for pin in brought], fixed)
        return brought

    def damaged(self) -> frozenset[str]:
        """The distributions of the layer whose files are not as they were installed."""
        folder = self.folder
        layer = folder.resolve() if folder else None
        bad = damages((), self.home) if layer else ()
        return frozenset(
            one.distribution for one in bad if layer and one.file.resolve().is_relative_to(layer)
        )

    def carry_out(self, wanted: Plan, pip: Pip) -> Path:
        """Build the set of ``wanted`` and make it current, or staged; its folder."""
        built = self.scratch / "layer"
        with self._at("make the folder"):
            built.mkdir(mode=0o700)
        with self._at("take over what stays"):
            there = info_folders(self.folder) if self.folder else {}
            for pin in wanted.kept:
                _take_over(there[pin.name], built)
        parts = [
            [pin for pin in wanted.fetched if pin.sha256],
            [pin for pin in wanted.fetched if not pin.sha256],
        ]
        for name, pins in zip(("fetch what has a hash", "fetch the rest"), parts, strict=True):
            with self._at(name):
                if pins:
                    pip.fetch(pins, self.scratch / name, self.scratch)
        with self._at("put together"):
            for name in STEPS[5:7]:
                _merge(self.scratch / name, built)
        with self._at("note the paths"):
            paths = "".join(f"{path}\n" for path in _editable_paths(wanted.new, built))
            store.replace(built / EDITABLE, paths.encode())
        with self._at("note the hashes"):
            _write_note(wanted.new, built)
        with self._at("write to disk"):
            os.sync()
        return self._make_current(built)

    def _make_current(self, built: Path) -> Path:
        numbers = [int(folder.name.partition("-")[0]) for folder in self._numbered()]
        place = self.root / f"{max(numbers, default=0) + 1}-{_TAG}"
        with self._at("give it its number"):
            store.SYSTEM.rename(str(built), str(place))
            store.SYSTEM.sync_folder(self.root)
        link = self.scratch / "link"
        with self._at("make the link"):
            link.symlink_to(place.name)
        with self._at("make it current"):
            store.SYSTEM.rename(str(link), str(self.root / (STAGED if self._staged else CURRENT)))
            store.SYSTEM.sync_folder(self.root)
        with self._at("clear old ones"):
            self._clear()
        return place

    def _clear(self) -> None:
        """Of the layers keep the current one, the staged one, the one before, and those that a process works with."""
        keep = {self._target(CURRENT), self._target(STAGED)}
        others = sorted(set(self._numbered()) - keep, key=lambda folder: int(folder.name.partition("-")[0]))
        for folder in others[:-1]:
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
            except OSError:
                pass  # in use; a later change finds it again
            finally:
                os.close(fd)

    def _numbered(self) -> list[Path]:
        return [folder for folder in self.root.iterdir() if folder.name.partition("-")[0].isdigit()]

    def _target(self, link: str) -> Path | None:
        try:
            return self.root / os.readlink(self.root / link)
        except OSError:
            return None

    @contextmanager
    def _at(self, name: str) -> Iterator[None]:
        self._step(f"{name}: begin")
        yield
        self._step(f"{name}: done")


_TAG = sys.implementation.cache_tag


def refuse_of_environment(names: Sequence[str], fixed: dict[str, str]) -> None:
    """What claw runs with is not ours to change.

    :raises UsageError: one of ``names`` is part of the environment; with the command that changes it there.
    """
    for name in names:
        if name in fixed:
            command = here().command("upgrade", name)
            raise UsageError(
                "{name} {version} is part of the environment that claw runs in, and stays as it is",
                fix="to change it there: {command}" if command else "it belongs to the system's own packages",
                name=name, version=fixed[name], command=command,
            )  # fmt: skip


def plan_install(layers: Layers, pip: Pip, wishes: Sequence[Wish], *, from_source: bool = False) -> Plan:
    """What installing ``wishes`` beside the present set means; versions that are there stay where they can."""
    fixed = pins_of_environment(layers.root)
    refuse_of_environment([wish.name for wish in wishes if wish.name], fixed)
    old = layers.pins
    fresh = {wish.distribution for wish in wishes}
    kept = [pin for pin in old if pin.asked and pin.name not in fresh]
    roots = [_still(pin) if layers.fits else _asked(pin) for pin in kept]
    brought = layers.resolve(
        pip, [*roots, *wishes], beside=layers.folder if layers.fits else None, from_source=from_source
    )
    asked = {pin.name: pin.asked for pin in kept}
    for wish in wishes:
        asked |= {pin.name: " ".join(wish.words) for pin in (*old, *brought) if wish.means(pin)}
    return plan(old if layers.fits else (), brought, asked)


def plan_update(layers: Layers, pip: Pip, names: Sequence[str] = (), *, from_source: bool = False) -> Plan:
    """What the newest releases mean, of ``names`` or of all that was asked for; an asked ``==version`` holds.

    :raises UsageError: one of ``names`` is not in the layer.
    """
    old = layers.pins
    _refuse_of_others(names, old, layers, "upgrade")
    roots = [
        _asked(pin) if not names or pin.name in names else Wish(f"{pin.name}=={pin.version}")
        for pin in old
        if pin.asked
    ]
    beside = layers.folder if layers.fits else None
    brought = (
        layers.resolve(pip, roots, beside=beside, from_source=from_source, upgrade=True) if roots else ()
    )
    return plan(old if layers.fits else (), brought, {pin.name: pin.asked for pin in old if pin.asked})


def plan_uninstall(layers: Layers, names: Sequence[str]) -> Plan:
    """What is left without ``names``; what only they needed goes with them.

    :raises UsageError: one is not in the layer, or another one needs it.
    """
    old = {pin.name: pin for pin in layers.pins}
    _refuse_of_others(names, tuple(old.values()), layers, "uninstall")
    wanted = plan(
        tuple(old.values()), (), {n: pin.asked for n, pin in old.items() if pin.asked and n not in names}
    )
    for pin in wanted.kept:
        if needed := next((name for name in pin.needs if name in names), ""):
            raise UsageError("{name} is needed by {other}", fix="uninstall both", name=needed, other=pin.name)
    return wanted


def _refuse_of_others(names: Sequence[str], ours: Sequence[Pin], layers: Layers, verb: Verb) -> None:
    there = {pin.name for pin in ours}
    for name in names:
        if name not in there:
            command = here().command(verb, name) if name in pins_of_environment(layers.root) else ""
            raise UsageError(
                "claw did not install {name}",
                fix="it is part of the environment: {command}" if command else "claw plugins list shows what is here",
                name=name, command=command,
            )  # fmt: skip


def plan_exactly(layers: Layers, pins: Sequence[Pin]) -> Plan:
    """Exactly ``pins``, and nothing else."""
    refuse_of_environment([pin.name for pin in pins], pins_of_environment(layers.root))
    old = {pin.name: pin for pin in layers.pins} if layers.fits else {}
    there = {pin.name for pin in pins if pin.name in old and pin.is_file_of(old[pin.name])}
    kept = tuple(replace(old[pin.name], asked=pin.asked) for pin in pins if pin.name in there)
    return Plan(tuple(old.values()), kept, tuple(pin for pin in pins if pin.name not in there))


def _asked(pin: Pin) -> Wish:
    return Wish(pin.asked.removeprefix("-e "), pin.asked.startswith("-e "))


def _still(pin: Pin) -> Wish:
    """To leave in the set what is there: its version is free unless a person pinned it, and pip prefers the one there."""
    asked = _asked(pin)
    return asked if asked.name else Wish(pin.name)


def recorded(info: Path) -> Iterator[str]:
    """The paths that a distribution's RECORD names, seen from the folder that it is installed in; none outside of it.

    Source: packaging.python.org, "Recording installed projects".
    """
    for row in csv.reader((info / "RECORD").read_text(encoding="utf-8").splitlines()):
        if row and not row[0].startswith(("..", "/")):
            yield row[0]


def _take_over(info: Path, built: Path) -> None:
    """The files of a distribution of the present layer, as further links to the same bytes."""
    for path in recorded(info):
        source = info.parent / path
        if source.is_file():
            (built / path).parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                os.link(source, built / path)


def _merge(part: Path, built: Path) -> None:
    """Move every file of ``part`` into ``built``. Scripts stay out: a layer is on no PATH."""
    for path in sorted(part.rglob("*")) if part.exists() else ():
        inside = path.relative_to(part)
        if path.is_dir() or inside.parts[0] == "bin":
            continue
        place = built / inside
        if place.exists() and place.read_bytes() != path.read_bytes():
            raise ClawError(
                "two of these packages bring the file {file}", fix="install only one", file=inside
            )
        place.parent.mkdir(parents=True, exist_ok=True)
        store.SYSTEM.rename(str(path), str(place))


def _editable_paths(pins: Sequence[Pin], built: Path) -> Iterator[str]:
    """Where the sources of editable installs lie, from the path files they left; code in such a file is not run."""
    infos = info_folders(built)
    for pin in pins:
        for name in recorded(infos[pin.name]) if pin.editable else ():
            if not name.endswith(".pth"):
                continue
            for line in (built / name).read_text(encoding="utf-8").splitlines():
                if line.startswith(("import ", "import\t")):
                    raise ClawError(
                        "{name} can be installed editable only with code that runs at every start",
                        fix="install it without -e, or let its build back end use path files",
                        name=pin.name,
                    )
                if line.strip():
                    yield line.strip()


def _write_note(pins: Sequence[Pin], built: Path) -> None:
    records = {
        name: sha256((info / "RECORD").read_bytes()).hexdigest() for name, info in info_folders(built).items()
    }
    note = {"pins": [asdict(pin) for pin in pins], "records": records}
    store.replace(built / NOTE, json.dumps(note, ensure_ascii=False, indent=1).encode())
