"""A home that may be read and not written: commands that only look say so, and show what is there."""

import json
import os
import shutil
from pathlib import Path

import pytest
from integration.gateways import Home, Running, home, until  # noqa: F401

LOOKS = ("turns list", "turns list --stuck", "sessions list", "pairing list", "usage", "models status")


@pytest.fixture
def read_only(home: Home):  # noqa: F811
    """Yield a home after one turn, closed for writing."""
    home.with_channel()
    with Running(home) as running:
        home.says("what time is it?")
        until(home.answers)
        running.end()
    folders = [home.home, *(path for path in home.home.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o500)
    yield home
    for folder in folders:
        folder.chmod(0o700)


def files(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*")}


@pytest.mark.parametrize("words", LOOKS)
def test_a_command_that_looks_reads_it_and_says_that_it_is_read_only(words, read_only):
    before = files(read_only.home)
    said = read_only.claw(*words.split(), plain=True)

    assert said.code == 0 or words.startswith("models"), said.err
    assert "internal error" not in said.err
    if words != "sessions list":
        assert f"{read_only.home}: it is read-only." in said.err
    assert files(read_only.home) == before


@pytest.mark.parametrize(
    "words",
    [
        "plugins list",
        "plugins info memory",
        "plugins info post",
        "tools list",
        "tools explain read",
        "hooks list",
    ],
)
def test_plugins_and_tools_are_shown_as_in_a_home_that_can_be_written(words, home: Home):  # noqa: F811
    home.with_channel()
    writable = home.claw(*words.split(), plain=True)
    assert writable.code == 0, writable.err
    for path in set(home.home.iterdir()) - {home.home / "config.json"}:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    home.home.chmod(0o500)
    before = files(home.home)
    try:
        closed = home.claw(*words.split(), plain=True)
    finally:
        home.home.chmod(0o700)
    assert (closed.code, closed.out) == (0, writable.out), closed.err
    assert "internal error" not in closed.err
    assert files(home.home) == before


def test_a_plugin_that_fails_there_is_shown_with_its_failure(home: Home):  # noqa: F811
    home.with_channel()
    [code] = (home.root / "site").glob("stranger_post/__init__.py")
    code.write_text("import no_such_library_anywhere")
    home.home.chmod(0o500)
    try:
        shown = home.claw("plugins", "info", "post", plain=True)
    finally:
        home.home.chmod(0o700)
    assert "state: quarantined" in shown.out and "no_such_library_anywhere" in shown.out


@pytest.mark.parametrize("words", ["plugins list", "plugins info post", "tools list", "tools explain read"])
def test_plugins_and_tools_of_a_home_in_use_are_shown(words, read_only):
    before = files(read_only.home)
    said = read_only.claw(*words.split(), plain=True)
    assert said.code == 0, said.err
    assert "internal error" not in said.err
    assert files(read_only.home) == before


def test_what_is_there_is_shown(read_only):
    assert "delivered" in read_only.claw("turns", "list", plain=True).out
    assert json.loads(read_only.claw("sessions", "list", "--json", plain=True).out)["total"] == 1


def test_a_command_that_writes_is_refused_without_a_fault_of_ours(read_only):
    said = read_only.claw("pairing", "approve", "WRONG", plain=True)
    assert said.code == 1
    assert said.err.count("it is read-only") == 1 and "internal error" not in said.err


@pytest.mark.parametrize("words", ["doctor", "gateway status", "channels status"])
def test_every_status_names_it_in_the_same_words(words, read_only):
    said = read_only.claw(*words.split(), plain=True)
    assert f"{read_only.home}: it is read-only" in said.out + said.err
    assert "damaged" not in said.out
    assert os.access(read_only.home / "state.db", os.R_OK)


def test_what_was_never_stored_there_is_an_error_with_its_reason(read_only):
    said = read_only.claw("approvals", "list", plain=True)
    assert said.code == 1 and "it is read-only" in said.err and "internal error" not in said.err
