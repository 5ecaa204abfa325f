"""Verification of installed plugins: files against RECORD, RECORD against the lock.

Source: packaging.python.org, "Recording installed projects". Hashes there are URL-safe base64 without padding.
"""

import csv
import json
import os
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from claw.contracts.errors import ClawError, PluginError
from claw.host.manifest import InstalledPlugin, normalise_distribution
from claw.host.overlay import CURRENT_LINK, LAYERS_FOLDER, METADATA_FILE
from claw.i18n import t
from claw.storage import files

LOCK_FILE = "pylock.toml"
CHECKED_FILE = "seen.json"


@dataclass(frozen=True)
class FileDamage:
    """An installed file that was changed, with the reason.

    :param distribution: the normalised name.
    :param digest: hash of the present content; empty when it cannot be read.
    :param record_path: the path in RECORD.
    """

    distribution: str
    file: Path
    reason: str
    digest: str = ""
    record_path: str = ""

    @property
    def key(self) -> str:
        """The key for accepting it, independent of the place of installation."""
        return f"{self.distribution}/{self.record_path}"


@dataclass(frozen=True)
class ExpectedHashes:
    """The expected hashes.

    :param records: distribution → SHA-256 of its RECORD: from the lock, and for the current layer from its build.
    :param accepted: ``FileDamage.key`` → a hash accepted in addition to the one in RECORD.
    """

    records: Mapping[str, str]
    accepted: Mapping[str, str]


def quarantine_changed(found: Sequence[InstalledPlugin], home: Path) -> tuple[InstalledPlugin, ...]:
    """Quarantine plugins with a changed file, at stage ``integrity``; without a lock return all plugins unchanged.

    A file with the size and times of the last check is not read again; ``record_damages`` reads all files.
    """
    try:
        os.stat(home / LOCK_FILE)
    except OSError:
        return tuple(found)
    seen, wanted = _checked_before(home), expected_hashes(home)
    fresh: dict[str, Any] = {}
    judged = []
    for one in found:
        damage = next(_check_plugin(one, wanted, seen, fresh), None) if one.fault is None else None
        judged.append(replace(one, fault=_fault(one.id, damage)) if damage else one)
    if fresh:
        folder = home / LAYERS_FOLDER
        files.make_folder(folder)
        files.replace_file(folder / CHECKED_FILE, json.dumps(seen | fresh).encode())
    return tuple(judged)


def _fault(plugin: str, damage: FileDamage) -> PluginError:
    return PluginError(
        plugin,
        "integrity",
        "{file} was changed after it was installed: {why}",
        "claw plugins sync restores what was installed; claw plugins lock --accept accepts the change",
        file=damage.file,
        why=damage.reason,
    )


def expected_hashes(home: Path) -> ExpectedHashes:
    """Read the expected hashes from the lock and the current layer.

    :raises ClawError: the lock cannot be read.
    """
    import tomllib

    ours: dict[str, dict[str, str]] = {}
    if (home / LOCK_FILE).exists():
        try:
            ours = (
                tomllib.loads((home / LOCK_FILE).read_text(encoding="utf-8")).get("tool", {}).get("claw", {})
            )
        except ValueError as why:
            raise unusable_lock(home / LOCK_FILE, why) from None
    records = dict(ours.get("records", {}))
    note = home / LAYERS_FOLDER / CURRENT_LINK / METADATA_FILE
    if note.exists():
        records |= json.loads(note.read_bytes())["records"]
    return ExpectedHashes(records, ours.get("accepted", {}))


def unusable_lock(lock: Path, why: object) -> ClawError:
    """Build the error for a lock that cannot be read."""
    fix = "restore it, or write a new one: claw plugins lock"
    return ClawError("the lock cannot be used ({why})", where=str(lock), fix=fix, why=why)


def find_record(found: InstalledPlugin) -> Path | None:
    """Find the RECORD of a plugin; None for an editable install, which its author may change."""
    if found.folder is None:
        return None
    info = dist_info_folders(found.folder.parents[found.package.count(".")]).get(
        normalise_distribution(found.distribution)
    )
    return info / "RECORD" if info else None


def _check_plugin(
    found: InstalledPlugin, expected: ExpectedHashes, seen: Mapping[str, Any], fresh: dict[str, Any]
) -> Iterator[FileDamage]:
    """Yield the damages of one plugin; files unchanged since the last check are not read again."""
    name, record = normalise_distribution(found.distribution), find_record(found)
    if record is not None and name in expected.records:
        yield from record_damages(name, record, expected, seen, fresh)


def record_damages(
    name: str, record: Path, expected: ExpectedHashes, seen: Mapping[str, Any], fresh: dict[str, Any]
) -> Iterator[FileDamage]:
    """Yield a RECORD that differs from the lock, and the damaged files of its distribution.

    :param seen: file → size, times and hash at an earlier check; such a file is not read again.
    :param fresh: takes the same for each file that was read and is not damaged.
    """
    text = record.read_bytes()
    if expected.records.get(name, digest := sha256(text).hexdigest()) != digest:
        yield FileDamage(name, record, t("its list of files differs from the locked one"))
    for inside, digest in _recorded_hashes(text):
        path = record.parents[1] / inside
        state = _stat_of(path)
        if state is not None and seen.get(str(path)) == [*state, digest]:
            continue
        if damage := _check_file(name, record, inside, digest, expected):
            yield damage
        else:
            fresh[str(path)] = [*(state or ()), digest]


def _checked_before(home: Path) -> dict[str, Any]:
    try:
        seen = json.loads((home / LAYERS_FOLDER / CHECKED_FILE).read_bytes())
    except (OSError, ValueError):
        return {}
    return seen if isinstance(seen, dict) else {}


def _stat_of(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _recorded_hashes(text: bytes) -> Iterator[tuple[str, str]]:
    """Yield every file of a RECORD with its hash; without files outside of the installation folder."""
    for row in csv.reader(text.decode().splitlines()):
        if len(row) > 1 and row[1].startswith("sha256=") and not row[0].startswith(("..", "/")):
            yield row[0], row[1].removeprefix("sha256=")


def _has_hash(content: bytes, recorded: str) -> bool:
    """Return true if a content has the hash of RECORD; some build back ends pad it, and some write it in hexadecimal."""
    digest = sha256(content)
    return recorded.rstrip("=") in (_to_base64(digest.digest()), digest.hexdigest())


def _to_base64(digest: bytes) -> str:
    return urlsafe_b64encode(digest).rstrip(b"=").decode()


def _check_file(
    name: str, record: Path, inside: str, digest: str, expected: ExpectedHashes
) -> FileDamage | None:
    path = record.parents[1] / inside
    try:
        content = path.read_bytes()
    except OSError as why:
        return FileDamage(
            name, path, t("it cannot be read ({why})", why=why.strerror or why), record_path=inside
        )
    present = _to_base64(sha256(content).digest())
    damage = FileDamage(name, path, t("its content differs"), present, inside)
    return None if _has_hash(content, digest) or present == expected.accepted.get(damage.key) else damage


def dist_info_folders(folder: Path) -> dict[str, Path]:
    """List the distributions installed in ``folder``, normalised name → ``.dist-info``."""
    return {
        normalise_distribution(info.name.removesuffix(".dist-info").rpartition("-")[0]): info
        for info in folder.glob("*.dist-info")
    }
