"""``claw dev``: each message uses the files of a plugin as they are when it is sent."""

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CODE = """
from types import SimpleNamespace

from claw import hookimpl


async def bell(arguments, conversation):
    return "{sound} " + arguments


@hookimpl
def register_chat_commands(config):
    return [SimpleNamespace(name="bell", summary="ring it", arguments="", owner_only=False, run=bell)]
"""
PROJECT = """
[project]
name = "claw-plugin-bell"
version = "1.0"
[project.entry-points."claw.plugins"]
bell = "claw_plugin_bell"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The project of a plugin with a chat command."""
    made = tmp_path / "project"
    (made / "claw_plugin_bell").mkdir(parents=True)
    (made / "pyproject.toml").write_text(PROJECT)
    rings(made, "ding")
    return made


def rings(folder: Path, sound: str) -> None:
    (folder / "claw_plugin_bell/__init__.py").write_text(CODE.replace("{sound}", sound))


class Author:
    """Somebody who types messages, and reads what comes."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process, self._lines = process, queue.Queue[str]()
        for stream in (process.stdout, process.stderr):
            threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def _read(self, stream: Any) -> None:
        for line in stream:
            self._lines.put(line.rstrip())

    def types(self, message: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(message + "\n")
        self._process.stdin.flush()

    def reads(self, text: str) -> str:
        """Wait for a line with this text."""
        seen = []
        while text not in (line := self._lines.get(timeout=60)):
            seen.append(line)
            assert len(seen) < 200, seen
        return line


@contextmanager
def developing(folder: Path, home: Path) -> Iterator[Author]:
    command = [sys.executable, "-m", "claw", "dev", str(folder)]
    pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    environ = {**os.environ, "CLAW_HOME": str(home)}
    with subprocess.Popen(command, text=True, env=environ, cwd=home.parent, **pipes) as process:
        yield Author(process)
        assert process.stdin
        process.stdin.close()
        assert process.wait(60) == 0


def test_an_edit_is_used_by_the_next_message_and_nothing_is_installed(folder: Path, home: Path) -> None:
    with developing(folder, home) as author:
        author.types("/bell twice")
        author.reads("ding twice")
        rings(folder, "dong")
        author.types("/bell again")
        author.reads("dong again")
    manifest = json.loads((folder / "claw_plugin_bell/claw-plugin.json").read_text())
    assert (manifest["id"], manifest["kinds"]) == ("bell", ["chat-command"])
    assert not (home / "plugins.d").exists()


def test_code_that_is_broken_for_a_while_is_named_and_forgotten(folder: Path, home: Path) -> None:
    with developing(folder, home) as author:
        (folder / "claw_plugin_bell/__init__.py").write_text("def oops(:\n")
        author.types("hello")
        assert "bell" in author.reads("SyntaxError")
        author.reads("I can list files")
        rings(folder, "ding")
        author.types("/bell now")
        author.reads("ding now")


def test_a_message_that_looks_like_an_option_is_a_message(folder: Path, home: Path) -> None:
    with developing(folder, home) as author:
        author.types("--help")
        author.reads("I can list files")


def test_a_folder_without_a_plugin_is_refused(tmp_path: Path, home: Path) -> None:
    command = [sys.executable, "-m", "claw", "dev", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    assert done.returncode == 1 and "there is no pyproject.toml" in done.stderr
