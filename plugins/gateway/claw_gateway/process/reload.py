"""Reload of the config file under a running gateway: the whole new file takes effect, or the old
configuration stays."""

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from claw import ClawError, ConfigError, t
from claw.runtime import (
    CONFIG_FILE_NAMES,
    FAILED,
    LOADED,
    SYSTEM_DISK,
    ConfigErrors,
    LoadFailure,
    PluginHealth,
    Setup,
    files_digest,
    load_setup,
    require_plugins,
)

from claw_gateway.process.safe_mode import safe_mode
from claw_gateway.process.status import local_time_of

LAST_GOOD = "config.last-good"
FileState = tuple[tuple[str, int, int, int], ...]


def file_state(home: Path) -> FileState:
    """Identify the state of the config file: name, change time (also of its permissions), inode and size of
    each that exists."""
    marks = []
    for name in CONFIG_FILE_NAMES:
        try:
            seen = (home / name).stat()
        except OSError:
            continue
        marks.append((name, seen.st_ctime_ns, seen.st_ino, seen.st_size))
    return tuple(marks)


@dataclass(frozen=True, slots=True)
class ReloadResult:
    """The result of reading the file again.

    :param setup: the setup to serve; None = the file is wrong; ``problem`` is the reason, in one line.
    :param text: the file, byte for byte; empty when there is none.
    """

    setup: Setup | None
    problem: str = ""
    text: bytes = b""


def reread_config(environ: Mapping[str, str], running: Setup, *, safe: bool = False) -> ReloadResult:
    """Read the file that ``running`` was made from, as a start would.

    :param safe: load only claw's own plugins.
    """
    home = running.config.home
    try:
        before = file_state(home)
        setup = load_setup(environ)  # its errors are clearer than an OSError
        text = (home / before[0][0]).read_bytes() if before else b""
        if file_state(home) != before:
            raise ConfigError("", "it changed while it was being read", "It will be read again")
        if not before and running.config.path:
            raise ConfigError(
                "", "the config file is gone", "Restore it; without one, all settings have their defaults"
            )
        require_plugins(setup.plugin_states)
    except ClawError as wrong:
        return ReloadResult(None, one_line(wrong))
    except OSError as refused:
        return ReloadResult(None, str(refused))
    return ReloadResult(safe_mode(setup) if safe else setup, text=text)


def record_safe_mode(setup: Setup) -> None:
    """Record each plugin that this process runs without, where every command reads the failures of plugins."""
    health, pid = PluginHealth(setup.config.home / "plugins"), os.getpid()
    cause, fix = (
        "the gateway (process {pid}) runs in safe mode, without it",
        "claw gateway restart tries it again",
    )
    for one in setup.plugin_states:
        if one.state == LOADED and not one.found.is_first_party:
            digest, values = files_digest(one.found), {"pid": pid}
            health.record(LoadFailure(one.id, FAILED, "run", cause, fix, digest, pid, values=values))


class ConfigWatch:
    """A watch on the config file. The file counts as changed when two checks in a row find the same new
    state, so that a file that is still being written is left alone."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._judged = self._last = file_state(home)

    def changed(self) -> bool:
        """Return true once for each new state of the file."""
        now = file_state(self._home)
        settled, self._last = now == self._last, now
        if settled and now != self._judged:
            self._judged = now
            return True
        return False


def save_last_good(home: Path, text: bytes) -> None:
    """Keep a copy of a file that a gateway has started with; it may hold secrets, so only its owner may read
    it.

    :raises OSError: the disk refuses.
    """
    path = home / LAST_GOOD
    try:
        if path.read_bytes() == text:
            os.utime(path)
            return
    except OSError:
        pass
    SYSTEM_DISK.replace(path, text, 0o600)


def last_good_hint(home: Path) -> str:
    """Say how to return to the last configuration that worked; empty when none is kept, or it is the current
    file."""
    copy = home / LAST_GOOD
    existing = [name for name in CONFIG_FILE_NAMES if (home / name).is_file()]
    name = existing[0] if existing else CONFIG_FILE_NAMES[0]
    try:
        moment = copy.stat().st_mtime
        if existing and copy.read_bytes() == (home / name).read_bytes():
            return ""
    except OSError:
        return ""
    return t(
        "the gateway last ran at {time} with {kept}; to restore it: cp {kept} {file}",
        time=local_time_of(moment),
        kept=shlex.quote(str(copy)),
        file=shlex.quote(str(home / name)),
    )


def old_config_note(problem: str, since: float) -> str:
    """Describe a wrong file while the old configuration stays active."""
    template = "{problem}; the gateway continues with the configuration of {time}"
    return t(template, problem=problem.rstrip("."), time=local_time_of(since))


def one_line(wrong: ClawError) -> str:
    """Format an error in one line; of several, the first one and the number of the others."""
    if isinstance(wrong, ConfigErrors):
        first, *more = wrong.errors
        text = one_line(first)
        rest = "{problem} (and {count} more): claw config validate shows them all"
        return t(rest, problem=text.rstrip("."), count=len(more)) if more else text
    return " ".join(str(wrong).split())
