"""Whether an installed plugin is still what was installed: its files against its RECORD, its RECORD against the lock.

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
from typing import TYPE_CHECKING, Any

from claw import store
from claw.errors import ClawError, PluginError
from claw.lifecycle.layer import CURRENT, FOLDER, NOTE
from claw.lifecycle.names import info_folders, plain
from claw.manifest import Found
from claw.words import say

if TYPE_CHECKING:  # a start looks at the seal, and does without it
    from importlib.metadata import Distribution

LOCK = "pylock.toml"
SEEN = "seen.json"


@dataclass(frozen=True)
class Damage:
    """A file that is not as installed, and why.

    :param distribution: its plain name.
    :param digest: of what it holds now; empty when it cannot be read.
    :param inside: the file as RECORD names it.
    """

    distribution: str
    file: Path
    why: str
    digest: str = ""
    inside: str = ""

    @property
    def key(self) -> str:
        """By which it is accepted, wherever the distribution is installed."""
        return f"{self.distribution}/{self.inside}"


@dataclass(frozen=True)
class Expected:
    """What has to be there.

    :param records: distribution → SHA-256 of its RECORD: as locked, and for the current layer as it was built.
    :param accepted: ``Damage.key`` → a hash that the file may have, beside the one in its RECORD.
    """

    records: Mapping[str, str]
    accepted: Mapping[str, str]


def sealed(found: Sequence[Found], home: Path) -> tuple[Found, ...]:
    """The plugins as found, those with a changed file set aside at stage ``integrity``. Without a lock: as they are.

    A file whose size and times are those of the last look is not read again; ``damages`` reads them all.
    """
    try:
        os.stat(home / LOCK)
    except OSError:
        return tuple(found)
    seen, wanted = _seen(home), expected(home)
    fresh: dict[str, Any] = {}
    judged = []
    for one in found:
        damage = next(_looked_at(one, wanted, seen, fresh), None) if one.fault is None else None
        judged.append(replace(one, fault=_fault(one.id, damage)) if damage else one)
    if fresh:
        folder = home / FOLDER
        store.make_folder(folder)
        store.replace(folder / SEEN, json.dumps(seen | fresh).encode())
    return tuple(judged)


def _fault(plugin: str, damage: Damage) -> PluginError:
    return PluginError(
        plugin, "integrity", "{file} was changed after it was installed: {why}",
        "claw plugins sync brings back what claw installed; claw plugins lock --accept takes it as it is",
        file=damage.file, why=damage.why,
    )  # fmt: skip


def expected(home: Path) -> Expected:
    """What the lock and the current layer say.

    :raises ClawError: the lock cannot be read.
    """
    import tomllib

    ours: dict[str, dict[str, str]] = {}
    if (home / LOCK).exists():
        try:
            ours = tomllib.loads((home / LOCK).read_text(encoding="utf-8")).get("tool", {}).get("claw", {})
        except ValueError as why:
            raise unusable(home / LOCK, why) from None
    records = dict(ours.get("records", {}))
    note = home / FOLDER / CURRENT / NOTE
    if note.exists():
        records |= json.loads(note.read_bytes())["records"]
    return Expected(records, ours.get("accepted", {}))


def unusable(lock: Path, why: object) -> ClawError:
    """What to do about a lock that cannot be read."""
    fix = "restore it, or write it anew: claw plugins lock"
    return ClawError("the lock cannot be used ({why})", where=str(lock), fix=fix, why=why)


def record_of(found: Found) -> Path | None:
    """The RECORD beside the package of a plugin; None for an editable install, whose files are their author's."""
    if found.folder is None:
        return None
    info = info_folders(found.folder.parents[found.package.count(".")]).get(plain(found.distribution))
    return info / "RECORD" if info else None


def _looked_at(
    found: Found, expected: Expected, seen: Mapping[str, Any], fresh: dict[str, Any]
) -> Iterator[Damage]:
    """The damages of one plugin, files that were sound at the last look not read again."""
    name, record = plain(found.distribution), record_of(found)
    if record is None or name not in expected.records:
        return
    text = record.read_bytes()
    if sha256(text).hexdigest() != expected.records[name]:
        yield Damage(name, record, say("its list of files is not the locked one"))
        return
    for inside, digest in _files(text):
        path = record.parents[1] / inside
        state = _state(path)
        if state is not None and seen.get(str(path)) == [*state, digest]:
            continue
        if damage := _damage(name, record, inside, digest, expected):
            yield damage
        else:
            fresh[str(path)] = [*(state or ()), digest]


def _seen(home: Path) -> dict[str, Any]:
    try:
        seen = json.loads((home / FOLDER / SEEN).read_bytes())
    except (OSError, ValueError):
        return {}
    return seen if isinstance(seen, dict) else {}


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        told = os.stat(path)
    except OSError:
        return None
    return told.st_size, told.st_mtime_ns, told.st_ctime_ns


def _files(text: bytes) -> Iterator[tuple[str, str]]:
    """Every file of a RECORD that has a hash, and the hash; what lies outside of the folder is left out."""
    for row in csv.reader(text.decode().splitlines()):
        if len(row) > 1 and row[1].startswith("sha256=") and not row[0].startswith(("..", "/")):
            yield row[0], row[1].removeprefix("sha256=")


def changed_files(one: "Distribution") -> Iterator[str]:
    """The files of any installed distribution that are not any more what was installed, or are gone."""
    for path in one.files or ():
        if path.hash is not None and path.hash.mode == "sha256":
            try:
                content = Path(str(one.locate_file(path))).read_bytes()
            except OSError:
                yield str(path)
                continue
            if not _is(content, path.hash.value):
                yield str(path)


def _is(content: bytes, recorded: str) -> bool:
    """Whether a file has the hash that RECORD says; some back ends pad it, and some write it in hexadecimal."""
    digest = sha256(content)
    return recorded.rstrip("=") in (_spelled(digest.digest()), digest.hexdigest())


def _spelled(digest: bytes) -> str:
    return urlsafe_b64encode(digest).rstrip(b"=").decode()


def _damage(name: str, record: Path, inside: str, digest: str, expected: Expected) -> Damage | None:
    path = record.parents[1] / inside
    try:
        content = path.read_bytes()
    except OSError as why:
        return Damage(name, path, say("it cannot be read ({why})", why=why.strerror or why), inside=inside)
    told = _spelled(sha256(content).digest())
    damage = Damage(name, path, say("its content is another"), told, inside)
    return None if _is(content, digest) or told == expected.accepted.get(damage.key) else damage


def damages(found: Sequence[Found], home: Path) -> tuple[Damage, ...]:
    """Every damaged file of every plugin, and of all that lies in the current layer; each file is read."""
    wanted = expected(home)
    places = {plain(one.distribution): record for one in found if (record := record_of(one))}
    layer = home / FOLDER / CURRENT
    for name, info in info_folders(layer).items() if layer.exists() else ():
        places.setdefault(name, info.resolve() / "RECORD")
    bad: list[Damage] = []
    for name, record in sorted(places.items()):
        if not record.exists():
            bad.append(Damage(name, record, say("it is not there")))
            continue
        text = record.read_bytes()
        if wanted.records.get(name, digest := sha256(text).hexdigest()) != digest:
            bad.append(Damage(name, record, say("its list of files is not the locked one")))
        bad += filter(None, (_damage(name, record, *line, wanted) for line in _files(text)))
    return tuple(bad)
