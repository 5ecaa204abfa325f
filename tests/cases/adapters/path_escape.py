"""path_escape: the fence of the file tools, and the file name of a session."""

import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from claw.contracts.errors import ToolError
from claw.security.workspace_fs import Root, WorkspaceFiles
from claw_sessions.store import session_file

FUNCTIONS = (
    "claw.security.workspace_fs:WorkspaceFiles.read",
    "claw.security.workspace_fs:WorkspaceFiles.write",
    "claw.security.workspace_fs:WorkspaceFiles.entries",
    "claw_sessions.store:session_file",
)
LATER = {f"pe-s{number:03}": "a later issue: claw unpacks nothing yet" for number in range(82, 90)}

_WRITTEN = b"written by the tool"


def check(case: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "probe").touch()
    if "case_sensitive" in case.get("requires", ()) and (tmp_path / "PROBE").exists():
        pytest.skip("this file system does not tell names apart by case")
    ground, started = tmp_path / "ground", time.monotonic()
    ground.mkdir()
    for step in case["setup"]:
        _build(step, ground)
    before = _outside(ground, case["workspace"])
    path = case["path"].replace("{ROOT}", str(ground)) if isinstance(case["path"], str) else case["path"]
    if case["tool"] == "session_file":
        sessions = ground / case["workspace"] / "sessions"
        assert session_file(sessions, path).parent == sessions
        return
    workspace = ground / case["workspace"]
    answer, refused = _call(case["tool"], WorkspaceFiles([Root(workspace, write=True)], workspace), path)
    assert time.monotonic() - started < case.get("limit_s", 30)
    assert "CANARY-SECRET" not in answer
    assert _outside(ground, case["workspace"]) == before
    assert refused is not case["allowed"], answer
    if case["allowed"]:
        full = os.path.join(workspace, path)
        if case["tool"] == "write":
            assert Path(full).read_bytes() == _WRITTEN
        elif case["tool"] != "list":
            assert answer == Path(full).read_text(encoding="utf-8")


def _call(tool: str, fence: WorkspaceFiles, path: Any) -> tuple[str, bool]:
    try:
        if tool == "write":
            fence.write(path, _WRITTEN)
            return "", False
        if tool == "list":
            return "\n".join(entry.name for entry in fence.entries(path)), False
        return fence.read(path).decode(
            "utf-8"
        ), False  # read, and media: an attachment is read through the fence
    except ToolError as error:
        return str(error), True


def _build(step: dict[str, Any], ground: Path) -> None:
    place = ground / step["path"]
    match step["op"]:
        case "dir":
            place.mkdir(parents=True, exist_ok=True)
        case "file":
            place.write_text(step["text"], encoding="utf-8")
        case "symlink":
            place.symlink_to(step["target"].replace("{ROOT}", str(ground)))
        case "fifo":
            os.mkfifo(place)
        case "socket":
            here = os.getcwd()  # the address of a socket is short, a test's folder is not
            os.chdir(place.parent)
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(place.name)
            os.chdir(here)


def _outside(ground: Path, workspace: str) -> dict[str, bytes]:
    """Everything beside the workspace, with its content."""
    return {
        str(found): found.read_bytes() if found.is_file() and not found.is_symlink() else b""
        for found in ground.rglob("*")
        if not found.is_relative_to(ground / workspace)
    }
