"""The store: all or nothing on disk, one writer of state.db."""

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from claw.contracts.errors import ClawError
from claw.storage.clock import Clock
from claw.storage.database import Database
from claw.storage.files import Disk, append, cannot_write, make_folder, replace_file

NOON = Clock(now=lambda: 1_772_366_400.0)  # 2026-03-01T12:00:00Z


def full_after(bytes_left: int) -> Callable[[int, bytes], int]:
    """A disk with so much space: it writes what fits, then refuses."""
    bytes_free = [bytes_left]

    def write(fd: int, data: bytes) -> int:
        if not bytes_free[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = os.write(fd, data[: bytes_free[0]])
        bytes_free[0] -= written
        return written

    return write


def refused(*_: object) -> None:
    raise OSError(errno.EIO, "Input/output error")


@pytest.fixture
def log(tmp_path: Path):
    path = tmp_path / "log"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    yield path, fd
    os.close(fd)


def test_an_append_is_one_write(log):
    path, fd = log
    writes = []
    Disk(write=lambda at, data: writes.append(data) or os.write(at, data)).append(fd, b"one\n")

    assert writes == [b"one\n"]
    assert path.read_bytes() == b"one\n"


def test_an_append_that_the_disk_takes_in_pieces_is_whole(log):
    path, fd = log
    Disk(write=lambda at, data: os.write(at, data[:3])).append(fd, b"in small pieces\n")

    assert path.read_bytes() == b"in small pieces\n"


@pytest.mark.parametrize("bytes_free", [0, 1, 5])
def test_an_append_on_a_full_disk_leaves_nothing_of_itself(log, bytes_free):
    path, fd = log
    append(fd, b"before\n")

    with pytest.raises(OSError, match="No space"):
        Disk(write=full_after(bytes_free)).append(fd, b"too much\n")

    assert path.read_bytes() == b"before\n"


def test_replace_puts_new_content_in_place_for_our_eyes_only(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("old")
    replace_file(file, b"new")

    assert file.read_bytes() == b"new"
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.glob(".config*")) == []


@pytest.mark.parametrize(
    "disk",
    [Disk(write=full_after(2)), Disk(sync_all=refused), Disk(rename=refused)],
    ids=["write", "sync", "rename"],
)
def test_a_replace_that_fails_anywhere_leaves_the_old_content_and_no_litter(tmp_path, disk):
    file = tmp_path / "config.yaml"
    file.write_text("old")

    with pytest.raises(OSError):
        disk.replace(file, b"new content")

    assert file.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir() if entry.is_file()] == ["config.yaml"]


def test_replace_syncs_the_content_before_the_name_and_the_folder_after(tmp_path):
    steps = []
    disk = Disk(
        sync_all=lambda fd: steps.append("folder" if os.path.isdir(f"/proc/self/fd/{fd}") else "file"),
        rename=lambda old, new: steps.append("rename") or os.rename(old, new),
    )
    disk.replace(tmp_path / "x", b"1")

    assert steps == ["file", "rename", "folder"]


def test_replace_follows_a_link_so_that_a_config_kept_elsewhere_stays_there(tmp_path):
    kept = tmp_path / "dotfiles.yaml"
    kept.write_text("old")
    link = tmp_path / "config.yaml"
    link.symlink_to(kept)
    replace_file(link, b"new")

    assert link.is_symlink()
    assert kept.read_bytes() == b"new"


def test_make_folder_makes_the_whole_way_private(tmp_path):
    make_folder(tmp_path / "a" / "b")

    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("a", "a/b")] == [0o700, 0o700]


def test_make_folder_says_what_is_in_the_way(tmp_path):
    (tmp_path / "a").write_text("a file")

    with pytest.raises(ClawError, match="a file is in the place of a folder") as error:
        make_folder(tmp_path / "a" / "b")
    assert str(tmp_path / "a") in error.value.where


def test_rename_damaged_keeps_the_file_under_a_dated_name_and_never_covers_another(tmp_path):
    file = tmp_path / "s.jsonl"
    places = []
    for content in ("first", "second"):
        file.write_text(content)
        places.append(Disk().set_aside(file, "bad", NOON))

    assert [place.name for place in places] == [
        "s.jsonl.bad.20260301T120000.000Z",
        "s.jsonl.bad.20260301T120000.000Z-2",
    ]
    assert [place.read_text() for place in places] == ["first", "second"]
    assert not file.exists()


def test_a_database_is_made_at_first_use_private_and_in_wal_mode(tmp_path):
    path = tmp_path / "house" / "state.db"
    database = Database(path)
    database.tables("notes", "CREATE TABLE IF NOT EXISTS notes (text TEXT)")
    assert not path.parent.exists()

    database.write("INSERT INTO notes VALUES (?)", "hello")

    assert database.read("SELECT text FROM notes") == [("hello",)]
    assert database.read("PRAGMA journal_mode") == [("wal",)]
    assert database.read("PRAGMA synchronous") == [(1,)]
    assert path.stat().st_mode & 0o777 == 0o600
    database.close()


def test_a_module_that_declares_its_tables_late_gets_them_too(tmp_path):
    database = Database(tmp_path / "state.db")
    database.read("SELECT 1")
    database.tables("late", "CREATE TABLE IF NOT EXISTS late (n INTEGER)")

    assert database.read("SELECT * FROM late") == []
    database.close()


def test_many_threads_write_one_after_the_other(tmp_path):
    database = Database(tmp_path / "state.db")
    database.tables("n", "CREATE TABLE IF NOT EXISTS n (n INTEGER)")
    threads = [
        threading.Thread(target=lambda: [database.write("INSERT INTO n VALUES (1)") for _ in range(20)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert database.read("SELECT count(*) FROM n") == [(80,)]
    database.close()


def test_two_processes_may_have_the_state_open(tmp_path):
    ours, theirs = Database(tmp_path / "state.db"), Database(tmp_path / "state.db")
    for database in (ours, theirs):
        database.tables("n", "CREATE TABLE IF NOT EXISTS n (n INTEGER)")
    ours.write("INSERT INTO n VALUES (1)")
    theirs.write("INSERT INTO n VALUES (2)")

    assert ours.read("SELECT n FROM n ORDER BY n") == [(1,), (2,)]
    ours.close()
    theirs.close()


def test_a_state_that_is_no_database_is_renamed_and_a_new_one_begins(tmp_path):
    path = tmp_path / "state.db"
    path.write_bytes(b"this is a text file, not a database; " * 40)
    database = Database(path, NOON)

    assert database.read("SELECT 1") == [(1,)]
    assert (tmp_path / "state.db.bad.20260301T120000.000Z").read_bytes().startswith(b"this is a text")
    database.close()


def test_a_state_that_another_keeps_locked_or_that_broke_is_an_error_for_people(tmp_path):
    database = Database(tmp_path / "state.db")
    database.write("CREATE TABLE n (n INTEGER)")

    with pytest.raises(ClawError, match="the state cannot be used: no such table") as error:
        database.read("SELECT * FROM nowhere")
    assert error.value.where == str(tmp_path / "state.db") and "move it elsewhere" in error.value.fix
    database.close()


@pytest.mark.parametrize(
    ("cause", "fix"),
    [
        (errno.ENOSPC, "Free some space, then try again"),
        (errno.EACCES, "Correct the permissions of this folder, or set CLAW_HOME to one that you can write"),
        (errno.EROFS, "Correct the permissions of this folder, or set CLAW_HOME to one that you can write"),
        (errno.EIO, "Free some space or correct the permissions of this folder, then try again"),
        (errno.EMFILE, "Raise the limit of open files (ulimit -n 8192), then start claw again"),
    ],
)
def test_a_refused_write_has_the_fix_of_its_cause(tmp_path, cause, fix):
    assert cannot_write(tmp_path, OSError(cause, os.strerror(cause))).fix == fix


def test_nobody_is_advised_to_move_a_state_away_that_only_found_no_space(tmp_path):
    database = Database(tmp_path / "state.db")
    database.write("CREATE TABLE n (n BLOB)")
    database.read("PRAGMA max_page_count = 4")  # as on a full disk

    with pytest.raises(ClawError, match="disk is full") as error:
        database.write("INSERT INTO n VALUES (zeroblob(100000))")
    assert error.value.fix.startswith("Free some space") and "away" not in error.value.fix
    with pytest.raises(ClawError, match="disk is full"):
        database.write_all(("INSERT INTO n VALUES (zeroblob(100000))", ()))
    database.write_all(("INSERT INTO n VALUES (1)", ()))
    assert database.read("SELECT n FROM n") == [(1,)]
    database.close()


def test_a_state_that_cannot_be_opened_is_an_error_for_people(tmp_path):
    (tmp_path / "state.db").mkdir()

    with pytest.raises(ClawError, match="the state cannot be used") as error:
        Database(tmp_path / "state.db").read("SELECT 1")
    assert error.value.fix
