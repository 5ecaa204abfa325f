"""The index: what the last scan found, so that a command that only lists reads one file, however much is installed.

It holds as long as the folders on ``sys.path``, the Python and every manifest are what they were, by modification time
and size: installing anything changes a folder, editing a manifest changes that file.
"""

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from claw import __version__
from claw.errors import ClawError, PluginError
from claw.manifest import FILE_NAME, Found, Manifest, scan as scan_anew

FILE = ("cache", "plugins-index.json")
YOUNG_NS = 2_000_000_000
"""What changed less than this before the scan may change again within the same tick of the file system's clock."""

Mark = tuple[str, int, int]
"""A path, its modification time in ns and its size in bytes; -1 and -1 for one that is not there."""


class _Fault(msgspec.Struct, frozen=True, array_like=True):
    stage: str
    problem: str
    fix: str
    values: dict[str, str]


class _Line(msgspec.Struct, frozen=True, array_like=True):
    id: str
    package: str
    distribution: str
    version: str
    folder: str | None
    manifest: Manifest | None
    fault: _Fault | None


class _Index(msgspec.Struct, frozen=True):
    python: str
    claw: str
    folders: list[Mark]
    manifests: list[Mark]
    found: list[_Line]


def scan(home: Path) -> tuple[Found, ...]:
    """What ``claw.manifest.scan`` would find, from the index of ``home`` when that still holds.

    A home that cannot be written, or is not there, only means that every scan is a whole one.
    """
    folders, place = [_mark(folder) for folder in sys.path], home.joinpath(*FILE)
    index = _read(place)
    if index and _holds(index, folders):
        return tuple(map(_found, index.found))
    found = scan_anew()
    manifests = [_mark(str(one.folder / FILE_NAME)) for one in found if one.folder]
    newest = max((time_ns for _, time_ns, _ in (*folders, *manifests)), default=0)
    if home.is_dir() and newest < time.time_ns() - YOUNG_NS:
        _write(place, _Index(sys.version, __version__, folders, manifests, [_line(one) for one in found]))
    return found


def _holds(index: _Index, folders: list[Mark]) -> bool:
    if (index.python, index.claw, index.folders) != (sys.version, __version__, folders):
        return False
    return all(_mark(mark[0]) == mark for mark in index.manifests)


def _mark(path: str) -> Mark:
    try:
        stat = os.stat(path or os.curdir)
    except OSError:
        return path, -1, -1
    return path, stat.st_mtime_ns, stat.st_size


def _read(place: Path) -> _Index | None:
    with suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(place.read_bytes(), type=_Index)
    return None


def _write(place: Path, index: _Index) -> None:
    from claw.store import SYSTEM as DISK  # most commands only read

    with suppress(OSError, ClawError):
        DISK.make_folder(place.parent)
        DISK.replace(place, msgspec.json.encode(index))


def _line(one: Found) -> _Line:
    fault = _Fault(one.fault.stage, *one.fault.parts) if one.fault else None
    folder = str(one.folder) if one.folder else None
    return _Line(one.id, one.package, one.distribution, one.version, folder, one.manifest, fault)


def _found(line: _Line) -> Found:
    fault = None
    if line.fault:
        fault = PluginError(
            line.id, line.fault.stage, line.fault.problem, line.fault.fix, **line.fault.values
        )
    folder = Path(line.folder) if line.folder else None
    return Found(line.id, line.package, line.distribution, line.version, folder, line.manifest, fault)
