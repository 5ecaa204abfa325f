"""index: a command that only lists costs the same, however much is installed, and never tells what is no longer so."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from claw.host.discovery import FILE, installed_plugins
from claw.host.manifest import installed_plugins as scan_again, release_train
from hypothesis import given, settings, strategies as st
from third_party import installed

CODE = (".py", ".pyc")  # one or the other, by who came first; the modules are compared by name
SLEEPS = "import time\ntime.sleep(0.5)\n"
ENDS = """
import atexit, os, sys
opened = []
def watch(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes, os.PathLike)):
        opened.append(os.fsdecode(arguments[0]))
sys.addaudithook(watch)
sys.argv = ["claw", *sys.argv[1:]]
def tell():
    import json
    print(json.dumps([sorted(sys.modules), opened]), file=sys.stderr)
atexit.register(tell)
from claw.__main__ import main
main()
"""


@pytest.fixture(autouse=True)
def release_is_read_again() -> Iterator[None]:
    """Forget the release train that a test saw with a path of its own: the next test has another."""
    yield
    release_train.cache_clear()


def older(folder: Path) -> Path:
    """As if it had been installed an hour ago."""
    for path in (folder, *folder.rglob("*")):
        stat = path.stat()
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns - 3_600_000_000_000))
    return folder


def with_plugins(folder: Path, count: int) -> Path:
    """``count`` plugins in ``folder``, each of which would take half a second to import."""
    folder.mkdir()
    for number in range(count):
        tool = {"name": f"slow_{number}", "description": "It takes its time."}
        installed(folder, f"slow-{number}", SLEEPS, {"kinds": ["tool"], "tools": [tool]})
    return older(folder)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "claw"
    folder.mkdir()
    (folder / "agents").mkdir()  # nothing is written into an empty home
    return folder


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on ``sys.path`` with one plugin, installed an hour ago; nothing else on the path is new."""
    folder = tmp_path / "site"
    folder.mkdir()
    installed(
        folder, "acme", "raise SystemExit('imported to be inspected')", {"tools": [{"name": "acme_status"}]}
    )
    older(folder)
    monkeypatch.setattr(sys, "path", [str(folder)])
    return folder


def indexed(home: Path) -> Path:
    return home.joinpath(*FILE)


def test_the_index_reports_the_same_as_a_whole_scan(home, place):
    installed(place, "broken", "", {"toolz": []})
    older(place)
    first = installed_plugins(home)
    assert indexed(home).stat().st_mode & 0o777 == 0o600

    again = installed_plugins(home)

    assert [one.id for one in again] == ["acme", "broken"]
    assert [(one.id, one.manifest, one.folder) for one in again] == [
        (one.id, one.manifest, one.folder) for one in first
    ]
    assert str(again[1].fault) == str(first[1].fault) == str(scan_again()[1].fault)


def test_while_it_holds_nothing_but_the_index_is_read(home, place):
    installed_plugins(home)
    manifest = place / "stranger_acme" / "claw-plugin.json"
    manifest.chmod(0)
    entry_points = place / "stranger_acme-1.0.dist-info" / "entry_points.txt"
    entry_points.write_text("[claw.plugins]\nother = stranger_acme\n")

    assert [one.id for one in installed_plugins(home)] == ["acme"]


def test_a_process_decodes_the_index_once(home, place):
    installed_plugins(home)
    assert installed_plugins(home) is installed_plugins(home)


def test_an_installed_and_an_uninstalled_plugin_are_noticed(home, place):
    installed_plugins(home)

    installed(place, "later", "")
    assert [one.id for one in installed_plugins(home)] == ["acme", "later"]

    (place / "stranger_later-1.0.dist-info").rename(place / "gone")
    assert [one.id for one in installed_plugins(home)] == ["acme"]


def test_a_manifest_that_is_edited_is_noticed(home, place):
    installed_plugins(home)
    manifest = place / "stranger_acme" / "claw-plugin.json"

    manifest.write_text(json.dumps({"id": "acme", "tools": [{"name": "acme_other"}]}))
    [acme] = installed_plugins(home)
    assert acme.manifest
    assert acme.manifest.tools[0].name == "acme_other"

    manifest.unlink()
    assert installed_plugins(home)[0].manifest is None


def test_a_manifest_that_appears_is_noticed(home, place):
    (place / "stranger_acme" / "claw-plugin.json").unlink()
    older(place)
    assert installed_plugins(home)[0].manifest is None

    (place / "stranger_acme" / "claw-plugin.json").write_text('{"id": "acme"}')

    assert installed_plugins(home)[0].manifest is not None


def test_a_further_folder_on_the_path_is_noticed(home, place, tmp_path, monkeypatch):
    installed_plugins(home)
    layer = tmp_path / "layer"
    layer.mkdir()
    installed(layer, "layered", "")

    monkeypatch.setattr(sys, "path", [*sys.path, str(layer)])

    assert [one.id for one in installed_plugins(home)] == ["acme", "layered"]


def test_what_changed_a_moment_ago_is_not_kept_as_it_may_change_again(home, place):
    installed(place, "fresh", "")

    installed_plugins(home)

    assert not indexed(home).exists()


def test_a_home_that_is_not_there_is_not_made_by_a_list(tmp_path, place):
    assert [one.id for one in installed_plugins(tmp_path / "nowhere")] == ["acme"]
    assert not (tmp_path / "nowhere").exists()


def test_a_home_that_cannot_be_written_only_has_no_index(home, place):
    (home / "cache").write_text("a file in the way")

    assert [one.id for one in installed_plugins(home)] == ["acme"]
    assert [one.id for one in installed_plugins(home)] == ["acme"]


@settings(max_examples=50, deadline=None)
@given(
    junk=st.binary(max_size=200)
    | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(lambda x: json.dumps(x).encode())
)
def test_whatever_is_in_the_index_the_list_is_right(junk, tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    indexed(home).parent.mkdir()
    indexed(home).write_bytes(junk)

    assert installed_plugins(home) == scan_again()


def test_the_index_of_another_python_or_claw_does_not_count(home, place):
    installed_plugins(home)
    index = json.loads(indexed(home).read_bytes())
    for field in ("python", "claw"):
        indexed(home).write_text(json.dumps({**index, field: "0", "found": []}))
        assert [one.id for one in installed_plugins(home)] == ["acme"]


@pytest.fixture(scope="module")
def sizes(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, str]]:
    """Three environments, with 0, 50 and 200 plugins."""
    root = tmp_path_factory.mktemp("sizes")
    environs = {}
    for count in (0, 50, 200):
        (root / f"home-{count}").mkdir()
        site = with_plugins(root / f"site-{count}", count)
        environs[count] = {**os.environ, "CLAW_HOME": str(root / f"home-{count}"), "PYTHONPATH": str(site)}
    return environs


def run(environ: dict[str, str], *words: str) -> tuple[str, list[str], list[str]]:
    """Return the output of a command, the modules loaded at its end, and the files that it opened."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", ENDS, *words],
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    printed: list[Any] = json.loads(done.stderr.splitlines()[-1])
    return done.stdout, printed[0], printed[1]


def warm(environ: dict[str, str], *words: str) -> tuple[str, list[str], list[str]]:
    """The same, from an index that holds; an environment that is being worked on is given time to settle."""
    home = Path(environ["CLAW_HOME"])
    home.mkdir(parents=True, exist_ok=True)
    (home / "agents").mkdir(exist_ok=True)  # nothing is written into an empty home
    index = indexed(home)
    run(environ, *words)
    for _ in range(5):
        if not index.exists():
            run(environ, "plugins", "list")  # a completion reads the index and never writes it
        before = index.exists() and index.stat().st_mtime_ns
        printed = run(environ, *words)
        if before and before == index.stat().st_mtime_ns:
            return printed
        time.sleep(2.1)
    pytest.fail("this environment does not stand still")


@pytest.mark.parametrize(
    "words", [("plugins", "list"), ("tools", "list"), ("completion", "bash"), ("status",)], ids=" ".join
)
def test_however_many_plugins_the_same_modules_are_imported_and_the_same_files_opened(sizes, words):
    seen = {}
    temporary = re.escape(tempfile.gettempdir()) + r"/(claw-doctor-)?\w{8}(?=/|$)"
    for count, environ in sizes.items():
        said, modules, opened = warm(environ, *words)
        if words[-1] == "list":
            assert said.count("slow-") == count
        files = (
            path.replace(environ["CLAW_HOME"], "CLAW_HOME") for path in opened if not path.endswith(CODE)
        )
        files = (re.sub(temporary, "TEMPORARY", path) for path in files)
        seen[count] = (modules, sorted(re.sub(r"-\d+$", "-PID", path) for path in files))
        assert [path for path in opened if environ["PYTHONPATH"] in path] == []
    assert seen[0] == seen[50] == seen[200]
    assert [name for name in seen[200][0] if name.startswith("stranger_")] == []


def test_a_list_of_plugins_does_without_the_metadata_of_distributions(sizes):
    _, modules, _ = warm(sizes[200], "plugins", "list")

    assert "importlib.metadata" not in modules
