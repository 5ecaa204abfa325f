"""What is in a layer, and what a change would make of it: pins, and plans made of them (pure)."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from claw.lifecycle.names import plain

Source = Literal["index", "file", "directory", "git"]


@dataclass(frozen=True)
class Pin:
    """What is, or will be, in a layer.

    :param name: the plain name.
    :param url: of the file, the folder or the repository.
    :param sha256: of the file; empty for a folder and a repository.
    :param commit: of a repository.
    :param asked: the requirement as a person gave it; empty for what only comes along.
    :param needs: the plain names that it requires, whatever their markers say; extras left aside.
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
        """A line of a requirements file that gets exactly this."""
        if self.source == "index":
            return f"{self.name}=={self.version} --hash=sha256:{self.sha256}"
        if self.source == "file":
            return f"{self.name} @ {self.url} --hash=sha256:{self.sha256}"
        if self.source == "git":
            return f"git+{self.url}@{self.commit}"
        return f"-e {self.url}" if self.editable else f"{self.name} @ {self.url}"

    def is_file_of(self, other: "Pin") -> bool:
        """Whether both are of the very same bytes; a folder may have changed since."""
        fixed = (self.sha256 or self.commit) and not self.editable
        return bool(fixed) and (self.name, self.version, self.sha256, self.commit) == (
            other.name, other.version, other.sha256, other.commit,
        )  # fmt: skip


def from_data(data: Mapping[str, Any]) -> Pin:
    """A pin out of a JSON file, where it stands with its fields."""
    return Pin(**{**data, "needs": tuple(data["needs"])})


def _sha256(archive: Mapping[str, Any]) -> str:
    """The hash of a file as a report says it; pip before 23.1, as Debian 12 has it, knows the one-line form alone."""
    name, _, digest = str(archive.get("hash", "")).partition("=")
    return str(archive.get("hashes", {}).get("sha256", "")) or (digest if name == "sha256" else "")


def from_report(entry: Mapping[str, Any]) -> Pin:
    """One entry of pip's installation report. Source: pip.pypa.io, "Installation Report", version 1."""
    about, origin = entry["metadata"], entry["download_info"]
    lines = [line for line in about.get("requires_dist", ()) if "extra ==" not in line]
    needs = tuple(sorted({plain(name) for name in map(_name, lines) if name}))
    folder, repository = origin.get("dir_info"), origin.get("vcs_info")
    source: Source = "file" if entry["is_direct"] else "index"
    if folder is not None:
        source = "directory"
    elif repository:
        source = "git"
    return Pin(
        name=plain(about["name"]),
        version=about["version"],
        source=source,
        url=origin["url"],
        sha256=_sha256(origin.get("archive_info", {})),
        commit=(repository or {}).get("commit_id", ""),
        editable=bool((folder or {}).get("editable")),
        needs=needs,
    )


def _name(requirement: str) -> str:
    """The name at the head of a requirement. Source: packaging.python.org, "Dependency specifiers"."""
    found = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", requirement.strip())
    return found[0] if found else ""


def still_needed(pins: Iterable[Pin]) -> tuple[Pin, ...]:
    """Those that were asked for, and what they need, directly or not."""
    by_name = {pin.name: pin for pin in pins}
    reached: dict[str, Pin] = {}
    open_ = [pin for pin in by_name.values() if pin.asked]
    while open_:
        pin = open_.pop()
        if pin.name not in reached:
            reached[pin.name] = pin
            open_ += [by_name[need] for need in pin.needs if need in by_name]
    return tuple(sorted(reached.values(), key=lambda pin: pin.name))


@dataclass(frozen=True)
class Change:
    """One line of a plan; ``old`` is empty for what is new, ``new`` for what goes."""

    name: str
    old: str
    new: str


@dataclass(frozen=True)
class Plan:
    """From one set to the next.

    :param old: the set as it is.
    :param kept: what is taken over from it.
    :param fetched: what pip has to bring, also anew.
    """

    old: tuple[Pin, ...] = ()
    kept: tuple[Pin, ...] = ()
    fetched: tuple[Pin, ...] = ()

    @property
    def new(self) -> tuple[Pin, ...]:
        """The set as it will be, in order of name."""
        return tuple(sorted((*self.kept, *self.fetched), key=lambda pin: pin.name))

    def mended(self, damaged: Collection[str]) -> "Plan":
        """The same, with what is damaged brought anew from where it came."""
        bad = tuple(pin for pin in self.kept if pin.name in damaged)
        return replace(
            self, kept=tuple(pin for pin in self.kept if pin not in bad), fetched=(*self.fetched, *bad)
        )

    @property
    def changes(self) -> tuple[Change, ...]:
        """What to show before it is done, in order of name; empty when only who asked for what would change."""
        was, will = {pin.name: pin.version for pin in self.old}, {pin.name for pin in self.new}
        brought = [Change(pin.name, was.get(pin.name, ""), pin.version) for pin in self.fetched]
        gone = [Change(name, version, "") for name, version in was.items() if name not in will]
        return tuple(sorted((*brought, *gone), key=lambda change: change.name))


def plan(old: Sequence[Pin], brought: Sequence[Pin], asked: Mapping[str, str]) -> Plan:
    """Put what pip would bring on top of what is there; what nobody needs any more goes.

    :param asked: plain name → the requirement as a person gave it, for every name that is asked for.
    """
    was = {pin.name: pin for pin in old}
    fresh = {pin.name: pin for pin in brought if pin.name not in was or not pin.is_file_of(was[pin.name])}
    marked = [replace(pin, asked=asked.get(pin.name, "")) for pin in (was | fresh).values()]
    needed = still_needed(marked)
    return Plan(
        tuple(old),
        tuple(pin for pin in needed if pin.name not in fresh),
        tuple(pin for pin in needed if pin.name in fresh),
    )
