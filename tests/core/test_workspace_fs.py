"""The fence: what an agent may touch, and what no path, link or swap can make it touch."""

import os
import threading
from pathlib import Path

import pytest
from claw.contracts.errors import FenceError
from claw.security.workspace_fs import FolderEntry, Root, WorkspaceFiles
from hypothesis import HealthCheck, given, settings, strategies as st

SECRET = "CANARY-SECRET"


@pytest.fixture
def ground(tmp_path: Path) -> Path:
    """A workspace ``ws`` beside a folder ``outside`` that holds a secret."""
    for folder in ("ws/sub", "outside"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "ws/a.txt").write_text("inside")
    (tmp_path / "outside/secret.txt").write_text(SECRET)
    return tmp_path


@pytest.fixture
def fence(ground: Path) -> WorkspaceFiles:
    return WorkspaceFiles([Root(ground / "ws", write=True)], ground / "ws")


# reading


def test_a_read_stops_at_its_limit(fence: WorkspaceFiles) -> None:
    assert fence.read("a.txt", 3) == b"ins"
    assert fence.read("a.txt") == b"inside"


@pytest.mark.parametrize(
    "path", ["../outside/secret.txt", "/etc/passwd", "link", "folder/secret.txt", "nothing/../../x"]
)
def test_an_error_says_what_to_do_and_nothing_of_what_lies_outside(
    fence: WorkspaceFiles, ground: Path, path: str
) -> None:
    (ground / "ws/link").symlink_to("../outside/secret.txt")
    (ground / "ws/folder").symlink_to(ground / "outside")
    for ask in (
        fence.read,
        fence.stat,
        fence.entries,
        fence.folder,
        fence.remove,
    ):
        if ask == fence.remove and path == "link":
            continue  # the link itself lies inside
        with pytest.raises(FenceError) as refused:
            ask(path)
        assert SECRET not in str(refused.value) and "outside/" not in str(refused.value).replace(path, "")


def test_what_lies_outside_is_refused_alike_whether_it_exists_or_not(fence: WorkspaceFiles) -> None:
    def refusal(path: str) -> str:
        with pytest.raises(FenceError) as refused:
            fence.read(path)
        return str(refused.value).replace(path, "")

    assert refusal("../outside/secret.txt") == refusal("../outside/missing.txt") == refusal("../missing/x")


def test_a_path_that_leaves_and_comes_back_is_inside(fence: WorkspaceFiles, ground: Path) -> None:
    assert fence.read("../ws/a.txt") == b"inside"
    assert fence.read(f"{ground}/outside/../ws/./a.txt") == b"inside"


def test_a_file_is_no_folder_on_the_way_up(fence: WorkspaceFiles) -> None:
    with pytest.raises(FenceError, match="as if it were a folder"):
        fence.read("a.txt/../a.txt")


def test_a_workspace_behind_a_link_may_be_called_by_both_names(ground: Path) -> None:
    (ground / "alias").symlink_to("ws")
    fence = WorkspaceFiles([Root(ground / "alias", write=True)], ground / "alias")
    assert (
        fence.read("a.txt")
        == fence.read(f"{ground}/alias/a.txt")
        == fence.read(f"{ground}/ws/a.txt")
        == b"inside"
    )
    assert fence.display_path(f"{ground}/ws/a.txt") == fence.display_path("./sub/../a.txt") == "a.txt"


def test_a_workspace_at_the_root_of_the_disk_works(ground: Path) -> None:
    fence = WorkspaceFiles([Root(Path("/"))], Path("/"))
    assert fence.read(f"{ground}/ws/a.txt") == fence.read(f"{ground}/ws/a.txt"[1:]) == b"inside"
    assert "tmp" in {entry.name for entry in fence.entries("/")}


# writing


def test_a_write_makes_folders_keeps_the_mode_and_leaves_nothing_else(
    fence: WorkspaceFiles, ground: Path
) -> None:
    (ground / "ws/a.txt").chmod(0o750)
    fence.write("a.txt", b"new")
    fence.write("deep/er/b.txt", b"b")
    assert (ground / "ws/a.txt").read_bytes() == b"new" and (
        ground / "ws/a.txt"
    ).stat().st_mode & 0o777 == 0o750
    assert sorted(str(path.relative_to(ground / "ws")) for path in (ground / "ws").rglob("*")) == [
        "a.txt", "deep", "deep/er", "deep/er/b.txt", "sub",
    ]  # fmt: skip


def test_a_write_through_a_link_inside_changes_its_target(fence: WorkspaceFiles, ground: Path) -> None:
    (ground / "ws/link").symlink_to("sub/new.txt")
    fence.write("link", b"new")
    assert (ground / "ws/link").is_symlink() and (ground / "ws/sub/new.txt").read_bytes() == b"new"


def test_a_write_to_a_hard_link_leaves_the_other_name_alone(fence: WorkspaceFiles, ground: Path) -> None:
    os.link(ground / "outside/secret.txt", ground / "ws/hard")
    fence.write("hard", b"new")
    assert (ground / "outside/secret.txt").read_text() == SECRET


@pytest.mark.parametrize("path", ["sub", "sub/", "new/", "new/.", "new/..", ""])
def test_a_folder_is_never_written_as_a_file(fence: WorkspaceFiles, ground: Path, path: str) -> None:
    with pytest.raises(FenceError):
        fence.write(path, b"x")
    assert not (ground / "ws/new").exists()


def test_a_write_protected_file_stays(fence: WorkspaceFiles, ground: Path) -> None:
    (ground / "ws/a.txt").chmod(0o444)
    with pytest.raises(FenceError, match="write-protected"):
        fence.write("a.txt", b"new")


def test_append_adds_at_the_end_and_makes_the_file(fence: WorkspaceFiles) -> None:
    fence.append("log/today.md", b"one\n")
    fence.append("log/today.md", b"two\n")
    assert fence.read("log/today.md") == b"one\ntwo\n"


def test_remove_takes_the_link_and_not_its_target_and_no_folder(fence: WorkspaceFiles, ground: Path) -> None:
    (ground / "ws/link").symlink_to("a.txt")
    fence.remove("link")
    assert fence.read("a.txt") == b"inside" and not (ground / "ws/link").is_symlink()
    for path in ("sub", "missing", "missing/x"):
        with pytest.raises(FenceError):
            fence.remove(path)
    assert not (ground / "ws/missing").exists()


# looking


def test_entries_are_reported_by_name_with_kind_and_size(fence: WorkspaceFiles, ground: Path) -> None:
    (ground / "ws/z").symlink_to("/etc")
    os.mkfifo(ground / "ws/pipe")
    rows = fence.entries(".")
    assert [(row.name, row.kind) for row in rows] == [
        ("a.txt", "file"),
        ("pipe", "other"),
        ("sub", "dir"),
        ("z", "link"),
    ]
    assert rows[0] == FolderEntry("a.txt", "file", 6) == fence.stat("a.txt")


def test_listing_and_reading_leave_no_descriptor_open(fence: WorkspaceFiles, ground: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    for _ in range(5):
        fence.entries(".")
        fence.read("sub/../a.txt")
        with pytest.raises(FenceError):
            fence.read("sub/../../outside/secret.txt")
    assert len(os.listdir("/dev/fd")) == before


def test_a_name_that_is_no_utf8_can_be_used_and_printed(fence: WorkspaceFiles, ground: Path) -> None:
    try:
        (Path(os.fsdecode(os.fsencode(ground / "ws") + b"/\xff.txt"))).write_text("odd")
    except OSError:
        return  # this file system knows only UTF-8
    name = fence.entries(".")[-1].name
    assert fence.read(name) == b"odd"
    assert fence.display_path(name) == "\\udcff.txt"


def test_folder_gives_the_true_path_for_a_child_process(fence: WorkspaceFiles, ground: Path) -> None:
    (ground / "ws/link").symlink_to("sub")
    assert fence.folder("link") == fence.folder("sub/") == Path(os.path.realpath(ground)) / "ws/sub"
    with pytest.raises(FenceError):
        fence.folder("a.txt")


# several roots


def test_each_root_has_its_own_rights(ground: Path) -> None:
    for folder in ("skill", "memory"):
        (ground / folder).mkdir()
    (ground / "skill/SKILL.md").write_text("how")
    roots = [
        Root(ground / "skill"),
        Root(ground / "memory", append_only=True),
        Root(ground / "agent/MEMORY.md", write=True),
    ]
    fence = WorkspaceFiles(roots, ground / "ws")
    assert fence.read(f"{ground}/skill/SKILL.md") == b"how"
    fence.append(f"{ground}/memory/2026/day.md", b"x")
    fence.write(f"{ground}/agent/MEMORY.md", b"remember")
    assert fence.read(f"{ground}/agent/MEMORY.md") == b"remember"
    for path, problem in [
        ("skill/new", "is read-only"),
        ("memory/2026/day.md", "only be appended to"),
        ("agent/x", "outside"),
    ]:
        with pytest.raises(FenceError, match=problem):
            fence.write(f"{ground}/{path}", b"x")
    with pytest.raises(FenceError, match="is read-only"):
        fence.append(f"{ground}/skill/SKILL.md", b"x")
    with pytest.raises(FenceError, match="only be appended to"):
        fence.remove(f"{ground}/memory/2026/day.md")


def test_a_link_from_the_workspace_into_a_reading_root_may_be_read_and_not_written(ground: Path) -> None:
    (ground / "ws/ref").symlink_to(ground / "outside")
    fence = WorkspaceFiles([Root(ground / "outside")], ground / "ws")
    assert fence.read("ref/secret.txt") == SECRET.encode()
    with pytest.raises(FenceError, match="is read-only"):
        fence.write("ref/secret.txt", b"x")
    with pytest.raises(FenceError, match="is read-only"):
        fence.write("ref/new/x", b"x")
    assert not (ground / "outside/new").exists()


def test_a_root_in_the_workspace_that_leads_out_of_it_is_no_root(ground: Path) -> None:
    (ground / "ws/skills").symlink_to(ground / "outside")
    fence = WorkspaceFiles([Root(ground / "ws", write=True), Root(ground / "ws/skills")], ground / "ws")
    with pytest.raises(FenceError, match="outside"):
        fence.read("skills/secret.txt")


def test_a_root_that_becomes_a_link_leads_nowhere(ground: Path) -> None:
    (ground / "ws/skills").mkdir()
    fence = WorkspaceFiles([Root(ground / "ws/skills")], ground / "ws")
    (ground / "ws/skills").rmdir()
    (ground / "ws/skills").symlink_to(ground / "outside")
    for path in (f"{ground}/ws/skills/secret.txt", "skills/secret.txt"):
        with pytest.raises(FenceError, match="outside"):
            fence.read(path)


def test_in_a_closed_folder_only_its_own_roots_may_be_touched(ground: Path) -> None:
    home = ground / "ws/.claw"
    (home / "agent").mkdir(parents=True)
    (home / "config.yaml").write_text(SECRET)
    (home / "agent/MEMORY.md").write_text("remembered")
    (ground / "ws/link").symlink_to(".claw")
    fence = WorkspaceFiles([Root(home / "agent/MEMORY.md", write=True)], ground / "ws", closed=[home])
    assert fence.read(".claw/agent/MEMORY.md") == fence.read(f"{home}/agent/MEMORY.md") == b"remembered"
    for path in (
        ".claw/config.yaml",
        f"{home}/config.yaml",
        "link/config.yaml",
        ".claw",
        ".claw/agent",
        "sub/../.claw/new",
    ):
        for ask in (fence.read, fence.entries, lambda p: fence.write(p, b"x")):
            with pytest.raises(FenceError):
                ask(path)
    assert not (home / "new").exists()


# what nobody expected


@given(path=st.text(st.sampled_from("ab./\\~$@%\x00\udc80\ud800\n …"), max_size=30) | st.text(max_size=30))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_text_crashes_or_leaves(fence: WorkspaceFiles, ground: Path, path: str) -> None:
    before = sorted(found for found in ground.rglob("*") if not found.is_relative_to(ground / "ws"))
    for ask in (
        fence.read,
        fence.entries,
        fence.stat,
        lambda p: fence.write(p, b"x"),
        lambda p: fence.append(p, b"y"),
    ):
        try:
            assert SECRET not in str(ask(path))
        except FenceError as refused:
            str(refused).encode()
    fence.display_path(path).encode()
    assert sorted(found for found in ground.rglob("*") if not found.is_relative_to(ground / "ws")) == before


@pytest.mark.timeout(1800)  # a million of them in a full run
def test_what_is_swapped_while_it_is_used_never_lets_out(
    fence: WorkspaceFiles, ground: Path, full: bool
) -> None:
    """A second thread turns a folder into a link that leads out, and a link from inside to outside, and back."""
    workspace, done = ground / "ws", threading.Event()
    (workspace / "ready").mkdir()
    (workspace / "ready/secret.txt").write_text("harmless")
    (workspace / "link").symlink_to("sub")

    def swap() -> None:
        while not done.is_set():
            (workspace / "ready").rename(workspace / "folder")
            (workspace / "folder").rename(workspace / "ready")
            for target in ("../outside", "sub"):
                (workspace / "next").symlink_to(target)
                (workspace / "next").rename(workspace / "link")
            (workspace / "folder").symlink_to("../outside")
            (workspace / "folder").unlink()

    asks = (
        lambda: fence.read("folder/secret.txt"),
        lambda: fence.read("link/secret.txt"),
        lambda: fence.append("link/new.txt", b"x"),
        lambda: fence.write("link/other.txt", b"x"),
    )
    swapper = threading.Thread(target=swap)
    swapper.start()
    seen = set()
    try:
        for turn in range(1_000_000 if full else 4000):
            try:
                seen.add(asks[turn % len(asks)]())
            except FenceError:
                seen.add(b"refused")
    finally:
        done.set()
        swapper.join()
    assert b"refused" in seen and SECRET.encode() not in seen
    assert os.listdir(ground / "outside") == ["secret.txt"]
