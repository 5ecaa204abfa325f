"""Steps that bring the home of a machine into a state of its disk, or of ``state.db``."""

import os
import sqlite3
from pathlib import Path

from integration.surfaces import Forked

OTHER_USER = 65534


def chatted(machine: Forked) -> None:
    assert machine.claw("chat", "hello").code == 0


def full_disk(machine: Forked) -> None:
    chatted(machine)
    machine.confine(folder=str(machine.home), full=True)


def full_disk_at_the_first_start(machine: Forked) -> None:
    machine.confine(folder=str(machine.home), full=True)


def read_only_mount(machine: Forked) -> None:
    chatted(machine)
    machine.confine(folder=str(machine.home), read_only=True)


def read_only_folder(machine: Forked) -> None:
    chatted(machine)
    for folder in [machine.home, *(path for path in machine.home.rglob("*") if path.is_dir())]:
        folder.chmod(0o500)
    machine.confine(plain=True)
    machine.open.callback(machine.home.chmod, 0o700)


def used_up_quota(machine: Forked) -> None:
    chatted(machine)
    machine.confine(file_bytes=0)


def given_away(machine: Forked, *paths: Path) -> None:
    for path in paths:
        os.chown(path, OTHER_USER, OTHER_USER)
    machine.confine(plain=True)


def closed_home(machine: Forked) -> None:
    chatted(machine)
    given_away(machine, machine.home, *machine.home.rglob("*"))


def home_of_another(machine: Forked) -> None:
    """It may be read, as another user's home folder mostly may; the state and the keys may not."""
    closed_home(machine)
    machine.home.chmod(0o755)
    (machine.home / "config.yaml").chmod(0o644)


def state_of_another(machine: Forked) -> None:
    """``sudo claw`` ran once."""
    chatted(machine)
    given_away(machine, machine.home / "state.db")


def locked(machine: Forked, *statements: str) -> None:
    chatted(machine)
    other = sqlite3.connect(machine.home / "state.db", isolation_level=None)
    machine.open.callback(other.close)
    for statement in statements:
        other.execute(statement)


def written_by_another_program(machine: Forked) -> None:
    locked(machine, "BEGIN IMMEDIATE")


def locked_by_another_program(machine: Forked) -> None:
    locked(machine, "PRAGMA locking_mode=EXCLUSIVE", "BEGIN EXCLUSIVE")


def damaged_pages(machine: Forked) -> None:
    """The pages of the turns are overwritten, and the others are whole."""
    chatted(machine)
    path = machine.home / "state.db"
    database = sqlite3.connect(path)
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # a page in the log would hide that of the file
    ((size,),) = database.execute("PRAGMA page_size")
    rows = database.execute(
        "SELECT rootpage FROM sqlite_master WHERE name LIKE '%turn%' OR name = 'spending'"
    )
    pages = [page for (page,) in rows]
    database.close()
    assert pages
    content = bytearray(path.read_bytes())
    for page in pages:
        content[(page - 1) * size : (page - 1) * size + 64] = b"\xff" * 64
    path.write_bytes(content)
