"""Pins, the distributions of a layer, and plans to change them (pure)."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from claw.runtime import normalise_distribution

Source = Literal["index", "file", "directory", "git"]


@dataclass(frozen=True)
class Pin:
    """A distribution that is, or will be, in a layer.

    :param name: the normalised name.
    :param url: the URL of the file, the folder or the repository.
    :param sha256: the hash of the file; empty for a folder and a repository.
    :param commit: the commit of a repository.
    :param asked: the requirement as a person gave it; empty for a dependency.
    :param needs: the normalised names of its requirements, whatever their markers say, without extras.
    """

    name: str
    version: str
    source: Source
    url: str = ""
    sha256: str = ""
    commit: str = ""
    editable: bool = False
    asked: str = ""
    needs: tuple[str, ...] = ()

    @property
    def requirement(self) -> str:
        """The line of a requirements file for exactly this distribution."""
        if self.source == "index":
            return f"{self.name}=={self.version} --hash=sha256:{self.sha256}"
        if self.source == "file":
            return f"{self.name} @ {self.url} --hash=sha256:{self.sha256}"
        if self.source == "git":
            return f"git+{self.url}@{self.commit}"
        return f"-e {self.url}" if self.editable else f"{self.name} @ {self.url}"

    def is_same_content(self, other: "Pin") -> bool:
        """Return true if both have the same content; never for an editable install, which may have changed."""
        fixed = (self.sha256 or self.commit) and not self.editable
        return bool(fixed) and (self.name, self.version, self.sha256, self.commit) == (
            other.name,
            other.version,
            other.sha256,
            other.commit,
        )


def pin_from_data(data: Mapping[str, Any]) -> Pin:
    """Build a pin from its fields in a JSON file."""
    return Pin(**{**data, "needs": tuple(data["needs"])})


def _sha256(archive: Mapping[str, Any]) -> str:
    """Return the hash of a file in a report; pip before 23.1, as in Debian 12, writes the one-line form only."""
    name, _, digest = str(archive.get("hash", "")).partition("=")
    return str(archive.get("hashes", {}).get("sha256", "")) or (digest if name == "sha256" else "")


def pin_from_report(entry: Mapping[str, Any]) -> Pin:
    """Build a pin from an entry of pip's installation report. Source: pip.pypa.io, "Installation Report", version 1."""
    about, origin = entry["metadata"], entry["download_info"]
    lines = [line for line in about.get("requires_dist", ()) if "extra ==" not in line]
    needs = tuple(sorted({normalise_distribution(name) for name in map(requirement_name, lines) if name}))
    folder, repository = origin.get("dir_info"), origin.get("vcs_info")
    source: Source = "file" if entry["is_direct"] else "index"
    if folder is not None:
        source = "directory"
    elif repository:
        source = "git"
    return Pin(
        name=normalise_distribution(about["name"]),
        version=about["version"],
        source=source,
        url=origin["url"],
        sha256=_sha256(origin.get("archive_info", {})),
        commit=(repository or {}).get("commit_id", ""),
        editable=bool((folder or {}).get("editable")),
        needs=needs,
    )


def requirement_name(requirement: str) -> str:
    """Return the name at the beginning of a requirement. Source: packaging.python.org, "Dependency specifiers"."""
    found = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", requirement.strip())
    return found[0] if found else ""


def needed_pins(pins: Iterable[Pin]) -> tuple[Pin, ...]:
    """Return the requested pins and their direct and indirect dependencies."""
    by_name = {pin.name: pin for pin in pins}
    reached: dict[str, Pin] = {}
    to_visit = [pin for pin in by_name.values() if pin.asked]
    while to_visit:
        pin = to_visit.pop()
        if pin.name not in reached:
            reached[pin.name] = pin
            to_visit += [by_name[need] for need in pin.needs if need in by_name]
    return tuple(sorted(reached.values(), key=lambda pin: pin.name))


@dataclass(frozen=True)
class PinChange:
    """A change of one distribution; ``old`` is empty when it is added, ``new`` when it is removed."""

    name: str
    old: str
    new: str


@dataclass(frozen=True)
class InstallPlan:
    """The change from one set to the next.

    :param old: the present set.
    :param kept: pins reused from it.
    :param fetched: pins that pip must fetch, reinstalled ones included.
    """

    old: tuple[Pin, ...] = ()
    kept: tuple[Pin, ...] = ()
    fetched: tuple[Pin, ...] = ()

    @property
    def new(self) -> tuple[Pin, ...]:
        """The next set, in order of name."""
        return tuple(sorted((*self.kept, *self.fetched), key=lambda pin: pin.name))

    def refetching(self, damaged: Collection[str]) -> "InstallPlan":
        """Return the same plan with damaged distributions fetched again from their source."""
        bad = tuple(pin for pin in self.kept if pin.name in damaged)
        return replace(
            self, kept=tuple(pin for pin in self.kept if pin not in bad), fetched=(*self.fetched, *bad)
        )

    @property
    def changes(self) -> tuple[PinChange, ...]:
        """The changes to show before applying, in order of name; empty when only ``asked`` changes."""
        was, will = {pin.name: pin.version for pin in self.old}, {pin.name for pin in self.new}
        changed = [PinChange(pin.name, was.get(pin.name, ""), pin.version) for pin in self.fetched]
        gone = [PinChange(name, version, "") for name, version in was.items() if name not in will]
        return tuple(sorted((*changed, *gone), key=lambda change: change.name))


def plan_change(old: Sequence[Pin], resolved: Sequence[Pin], asked: Mapping[str, str]) -> InstallPlan:
    """Add what pip would install to the present set, and drop distributions that are no longer needed.

    :param asked: normalised name → the requirement as a person gave it, for every requested name.
    """
    was = {pin.name: pin for pin in old}
    fresh = {
        pin.name: pin for pin in resolved if pin.name not in was or not pin.is_same_content(was[pin.name])
    }
    marked = [replace(pin, asked=asked.get(pin.name, "")) for pin in (was | fresh).values()]
    needed = needed_pins(marked)
    return InstallPlan(
        tuple(old),
        tuple(pin for pin in needed if pin.name not in fresh),
        tuple(pin for pin in needed if pin.name in fresh),
    )
