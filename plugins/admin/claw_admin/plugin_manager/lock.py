"""The lock ``CLAW_HOME/pylock.toml`` in the format of PEP 751, with claw's own table for the check at start."""

import json
import sys
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from claw import ClawError, __version__, t
from claw.runtime import (
    CURRENT_LINK,
    LAYERS_FOLDER,
    LOCK_FILE,
    FileDamage,
    InstalledPlugin,
    dist_info_folders,
    expected_hashes,
    find_record,
    normalise_distribution,
    record_damages,
    replace_file,
    unusable_lock,
)

from claw_admin.plugin_manager.plan import Pin, Source


def write_lock(
    home: Path, pins: Sequence[Pin], found: Sequence[InstalledPlugin], accepted: Sequence[FileDamage] = ()
) -> Path:
    """Lock the layer's ``pins``, and the files of every installed plugin, those of the environment included.

    :param accepted: changed files to accept with their present content.
    """
    records = {normalise_distribution(one.distribution): digest for one in found if (digest := _record(one))}
    fresh = {one.key: one.digest for one in accepted if one.digest}
    text = lock_text(pins, records, {**_accepted(home), **fresh})
    replace_file(home / LOCK_FILE, text.encode(), mode=0o644)
    return home / LOCK_FILE


def find_damages(found: Sequence[InstalledPlugin], home: Path) -> tuple[FileDamage, ...]:
    """Find every damaged file of all plugins and of the current layer; every file is read."""
    wanted = expected_hashes(home)
    places = {
        normalise_distribution(one.distribution): record for one in found if (record := find_record(one))
    }
    layer = home / LAYERS_FOLDER / CURRENT_LINK
    for name, info in dist_info_folders(layer).items() if layer.exists() else ():
        places.setdefault(name, info.resolve() / "RECORD")
    bad: list[FileDamage] = []
    for name, record in sorted(places.items()):
        if record.exists():
            bad += record_damages(name, record, wanted, {}, {})
        else:
            bad.append(FileDamage(name, record, t("it is missing")))
    return tuple(bad)


def _accepted(home: Path) -> Mapping[str, str]:
    try:
        return expected_hashes(home).accepted
    except ClawError:  # an unreadable lock is replaced
        return {}


def _record(found: InstalledPlugin) -> str:
    record = find_record(found)
    return sha256(record.read_bytes()).hexdigest() if record and record.exists() else ""


def lock_text(pins: Sequence[Pin], records: Mapping[str, str], accepted: Mapping[str, str]) -> str:
    """Render the lock as text (pure except for the version of this Python).

    :param records: distribution → SHA-256 of its RECORD.
    :param accepted: as in ``ExpectedHashes``: a hash accepted in addition to the one in RECORD.
    """
    names = {pin.name for pin in pins}
    lines = ['lock-version = "1.0"', f"created-by = {_quoted(f'claw {__version__}')}"]
    lines.append(f'requires-python = ">={sys.version_info[0]}.{sys.version_info[1]}"')
    for pin in sorted(pins, key=lambda pin: pin.name):
        lines += ["", "[[packages]]", *_package(pin, names)]
    for title, table in (("records", records), ("accepted", accepted)):
        rows = (f"{_quoted(name)} = {_quoted(table[name])}" for name in sorted(table))
        lines += ["", f"[tool.claw.{title}]", *rows]
    return "\n".join(lines) + "\n"


def _package(pin: Pin, names: Collection[str]) -> Iterator[str]:
    yield f"name = {_quoted(pin.name)}"
    yield f"version = {_quoted(pin.version)}"
    if needs := [f"{{ name = {_quoted(need)} }}" for need in pin.needs if need in names]:
        yield f"dependencies = [{', '.join(needs)}]"
    if pin.source == "git":
        yield f'vcs = {{ type = "git", url = {_quoted(pin.url)}, commit-id = {_quoted(pin.commit)} }}'
    elif pin.source == "directory":
        path = _quoted(unquote(urlsplit(pin.url).path))
        yield f"directory = {{ path = {path}, editable = {str(pin.editable).lower()} }}"
    else:
        file = f"url = {_quoted(pin.url)}, hashes = {{ sha256 = {_quoted(pin.sha256)} }}"
        if pin.source == "file":
            yield f"archive = {{ {file} }}"
        elif pin.url.endswith(".whl"):
            yield f"wheels = [{{ {file} }}]"
        else:
            yield f"sdist = {{ {file} }}"
    if pin.asked:
        yield f"[packages.tool.claw]\nasked = {_quoted(pin.asked)}"


def _quoted(text: str) -> str:
    """Encode a TOML basic string; JSON uses the same escapes."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def read_lock(home: Path) -> tuple[Pin, ...]:
    """Read the pins of the lock.

    :raises ClawError: there is no lock, or it cannot be read.
    """
    path = home / LOCK_FILE
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
        if not str(tree["lock-version"]).startswith("1."):
            raise ValueError(tree["lock-version"])
        return tuple(map(_pin, tree.get("packages", ())))
    except FileNotFoundError:
        raise ClawError("there is no lock file", where=str(path), fix="claw plugins lock writes it") from None
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as why:
        raise unusable_lock(path, repr(why)) from None


def _pin(package: Mapping[str, Any]) -> Pin:
    source: Source = "index"
    url = sha = commit = ""
    editable = False
    if vcs := package.get("vcs"):
        source, url, commit = "git", vcs["url"], vcs["commit-id"]
    elif folder := package.get("directory"):
        source, url, editable = "directory", Path(folder["path"]).as_uri(), bool(folder.get("editable"))
    else:
        source = "file" if "archive" in package else "index"
        file = package.get("archive") or package.get("sdist") or package["wheels"][0]
        if "wheels" in package:
            file = package["wheels"][0]
        url, sha = file.get("url", ""), file["hashes"]["sha256"]
    return Pin(
        normalise_distribution(package["name"]),
        package["version"],
        source,
        url,
        sha,
        commit,
        editable,
        asked=package.get("tool", {}).get("claw", {}).get("asked", ""),
        needs=tuple(need["name"] for need in package.get("dependencies", ())),
    )
