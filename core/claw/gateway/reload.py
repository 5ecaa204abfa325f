"""A config file that changes under a running gateway: the whole new one, or the old one goes on."""

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from claw.app import House, look_round
from claw.config.problems import ConfigErrors
from claw.config.source import NAMES
from claw.errors import ClawError, ConfigError
from claw.gateway.status import time_of
from claw.manifest import FIRST_PARTY
from claw.standing import BLOCKED, refuse_missing
from claw.store import SYSTEM as DISK
from claw.words import say

LAST_GOOD = "config.last-good"
Stamp = tuple[tuple[str, int, int, int], ...]


def stamp(home: Path) -> Stamp:
    """What tells one state of the config file from another: name, time of change (also of who may read it), inode and
    size of each that is there."""
    marks = []
    for name in NAMES:
        try:
            seen = (home / name).stat()
        except OSError:
            continue
        marks.append((name, seen.st_ctime_ns, seen.st_ino, seen.st_size))
    return tuple(marks)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was made of the file.

    :param house: to serve from now on; None = the file is wrong, and ``problem`` says how, in one line.
    :param text: the file, byte for byte; empty when there is none.
    """

    house: House | None
    problem: str = ""
    text: bytes = b""


def judge(environ: Mapping[str, str], running: House, *, safe: bool = False) -> Verdict:
    """Read the file that ``running`` was made of as a start would.

    :param safe: without the plugins of others.
    """
    home = running.config.home
    try:
        before = stamp(home)
        house = look_round(environ)  # it refuses in better words than the disk
        text = (home / before[0][0]).read_bytes() if before else b""
        if stamp(home) != before:
            raise ConfigError("", "it changed while it was read", "It is read again")
        if not before and running.config.path:
            raise ConfigError(
                "", "the config file is gone", "Put it back; a start without one has all defaults"
            )
        refuse_missing(house.standings)
    except ClawError as wrong:
        return Verdict(None, one_line(wrong))
    except OSError as refused:
        return Verdict(None, str(refused))
    return Verdict(guarded(house) if safe else house, text=text)


def guarded(house: House) -> House:
    """The same house in safe mode: of the plugins only our own."""
    why = say("safe mode: the gateway died again and again")
    mend = say("claw gateway restart tries it again")
    out = {"state": BLOCKED, "why": why, "mend": mend, "eager": False, "required": False}
    return replace(
        house,
        standings=tuple(
            one if one.id in FIRST_PARTY else replace(one, **out)  # type: ignore[arg-type]
            for one in house.standings
        ),
    )


class Watch:
    """Looks whether the file has changed. It counts as changed when two looks in a row agree on its new state, so that
    a file that somebody is still writing is left alone."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._judged = self._last = stamp(home)

    def changed(self) -> bool:
        """Whether there is a new state to judge; it is told once."""
        now = stamp(self._home)
        settled, self._last = now == self._last, now
        if settled and now != self._judged:
            self._judged = now
            return True
        return False


def keep_last_good(home: Path, text: bytes) -> None:
    """Keep a copy of a file that a gateway has started with; it may hold secrets, so nobody else may read it.

    :raises OSError: the disk refuses.
    """
    place = home / LAST_GOOD
    try:
        if place.read_bytes() == text:
            os.utime(place)
            return
    except OSError:
        pass
    DISK.replace(place, text, 0o600)


def way_back(home: Path) -> str:
    """How to return to the last configuration that worked; empty when none is kept, or it is the file at hand."""
    place = home / LAST_GOOD
    there = [name for name in NAMES if (home / name).is_file()]
    name = there[0] if there else NAMES[0]
    try:
        moment = place.stat().st_mtime
        if there and place.read_bytes() == (home / name).read_bytes():
            return ""
    except OSError:
        return ""
    return say(
        "the gateway last ran at {time} with {kept}; to return to it: cp {kept} {file}",
        time=time_of(moment), kept=shlex.quote(str(place)), file=shlex.quote(str(home / name)),
    )  # fmt: skip


def still_runs(problem: str, since: float) -> str:
    """What is said of a wrong file while the old configuration goes on."""
    told = "{problem}; the gateway runs on with the configuration of {time}"
    return say(told, problem=problem.rstrip("."), time=time_of(since))


def one_line(wrong: ClawError) -> str:
    """An error in one line; of several the first, and how many more."""
    if isinstance(wrong, ConfigErrors):
        first, *more = wrong.errors
        told = one_line(first)
        return say("{problem} (and {count} more)", problem=told, count=len(more)) if more else told
    return " ".join(str(wrong).split())
