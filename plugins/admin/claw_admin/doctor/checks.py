"""The checks of ``claw doctor`` that need no plugin: config, plugin states, home, sessions, state."""

import os
import sqlite3
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from claw import ClawError, ConfigError, Finding, t
from claw.runtime import (
    LOADED,
    PluginState,
    Setup,
    cannot_write,
    database_error,
    home_of,
    home_problem,
    load_setup,
    outline_config,
    read_only_address,
)
from claw_config_sdk import names_one_of

from claw_admin.doctor.plugin_checks import check_unloaded, name_conflicts, slot_conflicts

_SECRET_FILES = (
    *("config.yaml", "config.yml", "config.json", "config.last-good", "gateway.env"),
    *("state.db", "state.db-wal", "state.db-shm"),
)
_WRITE_BYTES, _LOCK_SECONDS = 65_536, 2.0
_PATTERNS = ("agents/*/auth-profiles.json", "agents/*/sessions/*.jsonl", "logs/*")


def offline_findings(
    errors: Sequence[ConfigError], warnings: Sequence[ConfigError], environ: Mapping[str, str] = os.environ
) -> Iterator[Finding]:
    """Run every check that needs neither the code of a plugin nor the network.

    :param errors: of the config file; ``warnings``: about it. Both are findings too.
    """
    home = home_of(environ)
    for one in (*errors, *warnings):
        grave = one.grave or one in errors
        yield Finding(one.where or str(home), "config", one.problem, one.fix, grave=grave)
    if home.is_dir() and not os.access(home, os.R_OK | os.X_OK):
        return  # the error about the config file names it
    yield from kind_findings(home)
    yield from permission_findings(home)
    yield from disk_findings(home)
    if not (home / "state.db").is_dir():
        yield from database_findings(home / "state.db")
    if not errors:
        setup = load_setup(environ)
        yield from workspace_findings(setup)
        yield from beside(warnings, plugin_findings(setup, environ))


def beside(warnings: Iterable[ConfigError], found: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings that no grave warning about the file names already, by the same key."""
    graves = [one for one in warnings if one.grave]
    yield from (one for one in found if not names_one_of(": ".join((one.about, one.problem)), graves))


def workspace_findings(setup: Setup) -> Iterator[Finding]:
    """Find workspaces outside the home that do not exist and cannot be made, so that no tool works there."""
    for id in setup.config.agent_ids:
        workspace = setup.config.agent(id).workspace
        place = next(one for one in (workspace, *workspace.parents) if one.exists())
        if place not in (workspace, setup.config.home) and not (
            place.is_dir() and os.access(place, os.W_OK | os.X_OK)
        ):
            why = t("the workspace of agent {id} cannot be created: {place} is no folder or cannot be written",
                    id=id, place=place)  # fmt: skip
            yield Finding(str(workspace), "disk", why, t("Name another folder as workspace"))


def plugin_findings(setup: Setup, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Check the plugins together, and each one, without loading any."""
    wanted = outline_config(setup.config.layout.tree)
    for state in setup.plugin_states:
        if not state.found.package:
            continue  # it is required and not installed, as a warning about the file says
        yield from filter(partial(is_asked_for, state), check_unloaded(state, wanted, environ))
    yield from name_conflicts(setup.found)
    yield from slot_conflicts(setup.plugin_states, setup.config.settings.plugins.slots.chosen())


def is_asked_for(state: PluginState, finding: Finding) -> bool:
    """Return false for notes about a plugin that nobody configured, and about variables in place of which the file may
    have a key: the checks of models and channels know that."""
    manifest = state.found.manifest
    has_keys = finding.kind == "env" and manifest and (manifest.channels or manifest.providers)
    return finding.grave or (state.state == LOADED and not has_keys)


def kind_findings(home: Path) -> Iterator[Finding]:
    """Find files in the place of folders of the home, and the reverse: what uses them fails."""
    for name in ("agents", "logs", "plugins"):
        if (path := home / name).exists() and not path.is_dir():
            yield Finding(
                str(path), "disk", t("a file is in the place of a folder"), t("Move that file elsewhere")
            )
    if (path := home / "state.db").is_dir():
        yield Finding(
            str(path), "disk", t("a folder is in the place of a file"), t("Move that folder elsewhere")
        )


def permission_findings(home: Path) -> Iterator[Finding]:
    """Find what others may read and should not: the home itself, and its files with keys and conversations."""
    files = [home / name for name in _SECRET_FILES] + [path for each in _PATTERNS for path in home.glob(each)]
    for path, allowed in ((home, 0o700), *((file, 0o600) for file in files)):
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
        except OSError:
            continue
        if mode & ~0o700 and (path == home or not path.is_dir()):
            why = t("other users can access it (mode {mode:o})", mode=mode)
            yield Finding(str(path), "permissions", why, f"chmod {allowed:o} {path}")


def fix_permissions(finding: Finding) -> str:
    """Fix what ``permissions`` found; return what was done."""
    path = Path(finding.about)
    path.chmod(0o700 if path.is_dir() else 0o600)
    return finding.fix


def disk_findings(home: Path, disk: os.statvfs_result | None = None) -> Iterator[Finding]:
    """Check that the disk has space left and can be written.

    :param disk: the figures of the disk; None = read them.
    """
    try:
        problem = home_problem(home, disk)
    except OSError:
        place = next(one for one in home.parents if one.exists())
        if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
            why = t("it cannot be created: {place} is no folder or cannot be written", place=place)
            yield Finding(str(home), "disk", why, t("set CLAW_HOME to another folder"))
        return
    if not problem and disk is None:
        problem = _refused_write(home)
    if problem:
        yield Finding(str(home), "disk", problem.problem, problem.fix)


def _refused_write(home: Path) -> ClawError | None:
    """Write a file without a name; return the error if that is refused, as by a quota."""
    try:
        with tempfile.TemporaryFile(dir=home, buffering=0) as file:
            file.write(bytes(_WRITE_BYTES))
    except OSError as refused:
        return cannot_write(home, refused)
    return None


def database_findings(path: Path) -> Iterator[Finding]:
    """Check that the database is whole (sqlite.org, "PRAGMA quick_check"), and report damaged ones that were replaced."""
    for replaced in sorted(path.parent.glob(f"{path.name}.bad.*")):
        why = t(
            "was damaged and has been replaced: recorded turns and usage before that are only in this file"
        )
        yield Finding(str(replaced), "state", why, t("delete it when you do not need it"), grave=False)
    if not path.exists():
        return
    try:
        with closing(sqlite3.connect(read_only_address(path), uri=True)) as database:
            [(result,), *_] = database.execute("PRAGMA quick_check").fetchall()
        if os.access(path.parent, os.W_OK):
            with closing(sqlite3.connect(path, isolation_level=None, timeout=_LOCK_SECONDS)) as database:
                database.execute("BEGIN IMMEDIATE")  # refused while another program writes
    except sqlite3.OperationalError as refused:  # a disk that is full is named already
        error = database_error(path, refused)
        if error.where == str(path):
            yield Finding(str(path), "state", error.problem, error.fix)
        return
    except sqlite3.DatabaseError as damage:
        result = str(damage)
    if result != "ok":
        fix = t("move it elsewhere: sessions are found again, everything else starts empty")
        yield Finding(str(path), "state", t("is damaged: {why}", why=result), fix)
