"""Verification of installed plugins: files against RECORD, RECORD against the lock.

Source: packaging.python.org, "Recording installed projects". Hashes there are URL-safe base64 without padding.
"""

import csv
import json
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
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
    """Quarantine plugins with a changed file, at stage ``integrity``, in a home that has a lock.

    A file with the size and times of the last check is not read again; ``record_damages`` reads all files.
    """
    checked, seen = home / LAYERS_FOLDER / CHECKED_FILE, {}
    with suppress(OSError, ValueError, TypeError):
        seen = dict(json.loads(checked.read_bytes()))
    expected, fresh, judged = expected_hashes(home), dict[str, Any](), list[InstalledPlugin]()
    problem = "{file} was changed after it was installed: {why}"
    fix = "claw plugins sync restores what was installed; claw plugins lock --accept accepts the change"
    for one in found:
        name, record = normalise_distribution(one.distribution), None if one.fault else find_record(one)
        damage = None
        if record and name in expected.records:
            damage = next(record_damages(name, record, expected, seen, fresh), None)
        names = {"file": damage.file, "why": damage.reason} if damage else {}
        fault = PluginError(one.id, "integrity", problem, fix, **names) if damage else one.fault
        judged.append(replace(one, fault=fault))
    if fresh:
        files.make_folder(checked.parent)
        files.replace_file(checked, json.dumps(seen | fresh).encode())
    return tuple(judged)


def expected_hashes(home: Path) -> ExpectedHashes:
    """Read the expected hashes from the lock and the current layer.

    :raises ClawError: the lock cannot be read.
    """
    import tomllib

    lock, layer = home / LOCK_FILE, home / LAYERS_FOLDER / CURRENT_LINK / METADATA_FILE
    try:
        text = lock.read_text(encoding="utf-8") if lock.exists() else ""
        ours = tomllib.loads(text).get("tool", {}).get("claw", {})
    except (OSError, ValueError) as why:
        raise unusable_lock(lock, why) from None
    built = json.loads(layer.read_bytes())["records"] if layer.exists() else {}
    return ExpectedHashes(ours.get("records", {}) | built, ours.get("accepted", {}))


def unusable_lock(lock: Path, why: object) -> ClawError:
    """Build the error for a lock that cannot be read."""
    fix = "restore it, or remove it and write a new one: claw plugins lock"
    return ClawError("the lock cannot be used ({why})", where=str(lock), fix=fix, why=why)


def find_record(found: InstalledPlugin) -> Path | None:
    """Find the RECORD of a plugin; None for an editable install, which its author may change."""
    if found.folder is None:
        return None
    installed = dist_info_folders(found.folder.parents[found.package.count(".")])
    info = installed.get(normalise_distribution(found.distribution))
    return info / "RECORD" if info else None


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
        state: list[Any] = []
        with suppress(OSError):
            found = path.stat()
            state = [found.st_size, found.st_mtime_ns, found.st_ctime_ns, digest]
        if state and seen.get(str(path)) == state:
            continue
        if damage := _damage_of(name, path, inside, digest, expected):
            yield damage
        else:
            fresh[str(path)] = state


def _recorded_hashes(text: bytes) -> Iterator[tuple[str, str]]:
    """Yield every file of a RECORD with its hash; without files outside of the installation folder."""
    for row in csv.reader(text.decode().splitlines()):
        if len(row) > 1 and row[1].startswith("sha256=") and not row[0].startswith(("..", "/")):
            yield row[0], row[1].removeprefix("sha256=")


def _damage_of(
    name: str, path: Path, inside: str, recorded: str, expected: ExpectedHashes
) -> FileDamage | None:
    """Return the damage of a file that has neither the hash of RECORD nor one that was accepted."""
    try:
        digest = sha256(path.read_bytes())
    except OSError as why:
        reason = t("it cannot be read ({why})", why=why.strerror or why)
        return FileDamage(name, path, reason, record_path=inside)
    present = urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()
    damage = FileDamage(name, path, t("its content differs"), present, inside)
    # Some build back ends pad the hash, and some write it in hexadecimal.
    is_recorded = recorded.rstrip("=") in (present, digest.hexdigest())
    return None if is_recorded or present == expected.accepted.get(damage.key) else damage


def dist_info_folders(folder: Path) -> dict[str, Path]:
    """List the distributions installed in ``folder``, normalised name → ``.dist-info``."""
    return {normalise_distribution(info.stem.rpartition("-")[0]): info for info in folder.glob("*.dist-info")}
