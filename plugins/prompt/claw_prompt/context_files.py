"""Context files of an agent for the prompt; read again only after a change.

An added or removed file changes the modification time of its folder, so that only existing files need a ``stat``.
"""

import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from claw import ContextFile, t
from claw.runtime import quoted_foreign

from claw_prompt.budget import fit_context_files

# By priority: when the budget runs out, the later ones are left out.
_NAMES = (
    "AGENTS.md",
    "SOUL.md",
    "TOOLS.md",
    "IDENTITY.md",
    "USER.md",
    "BOOTSTRAP.md",
    "MEMORY.md",
    "CLAUDE.md",
    "HEARTBEAT.md",
)
_MEMORY = "MEMORY.md"
# MEMORY.md is read from the agent folder only, where file access is restricted.
_WORKSPACE_NAMES = tuple(name for name in _NAMES if name != _MEMORY)
_PROJECT_NAMES = ("AGENTS.md", "CLAUDE.md")  # read from a folder that is not the agent's own
_READ_BYTES = 1_000_000

# File system times have a resolution of milliseconds: a second change just after the first may not show.
_SETTLED_SECONDS = 0.05

_Stat = tuple[int, int, int] | None


class ContextFiles:
    """The context files of one agent in one workspace.

    :param agent_dir: ``CLAW_HOME/agents/ID/agent``, read first.
    :param workspace: the workspace of the chat.
    :param own_workspace: False for the folder of another project: only AGENTS.md and CLAUDE.md are read from it.
    :param per_file: characters of one file in the prompt; ``agents.*.bootstrapMaxChars``.
    :param total: characters of all files; ``agents.*.bootstrapTotalMaxChars``.
    :param warn: called once for each existing file that is not in the prompt, with the reason.
    """

    def __init__(
        self,
        agent_dir: Path,
        workspace: Path,
        own_workspace: bool,
        per_file: int = 20_000,
        total: int = 60_000,
        warn: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._limits = per_file, total
        self._warn = warn
        self._warned: set[str] = set()
        places = [(agent_dir, name) for name in _NAMES]
        places += [(workspace, name) for name in (_WORKSPACE_NAMES if own_workspace else _PROJECT_NAMES)]
        self._candidates = sorted(places, key=lambda place: _NAMES.index(place[1]))
        self._agent_dir = agent_dir
        self._folders = (str(agent_dir), str(workspace))
        self._watched: tuple[str, ...] = ()
        self._existing: dict[str, _Stat] = {}
        self._stats: tuple[_Stat, ...] = ()
        self._is_settled = False
        self._read: tuple[tuple[str, ContextFile], ...] = ()
        self._within_budget: dict[bool, tuple[ContextFile, ...]] = {}

    def load(self, private: bool = True) -> tuple[ContextFile, ...]:
        """Return the files within budget, by priority. Without a change since the last call no file is opened.

        :param private: True for a private session of an owner; only these contain MEMORY.md.
        """
        if not self._is_settled or self._stat_all() != self._stats:
            self._read_all()
        if private not in self._within_budget:
            files = [file for name, file in self._read if private or name != _MEMORY]
            self._within_budget[private] = fit_context_files(files, *self._limits)
            self._warn_of_left_out(files, self._within_budget[private])
        return self._within_budget[private]

    def _warn_of_left_out(self, files: Sequence[ContextFile], kept: Sequence[ContextFile]) -> None:
        there = {file.path for file in kept}
        for path in (file.path for file in files if (file.text or "").strip() and file.path not in there):
            self._warn_once(
                t(
                    "{path} is not in the prompt: the files before it use all {total} characters "
                    "of agents.defaults.bootstrapTotalMaxChars",
                    path=path,
                    total=self._limits[1],
                )
            )

    def _warn_once(self, line: str) -> None:
        if line not in self._warned:
            self._warned.add(line)
            self._warn(line)

    def _stat_all(self) -> tuple[_Stat, ...]:
        return tuple(map(_stat, (*self._folders, *self._watched)))

    def _read_all(self) -> None:
        """Read all files; the times are taken first, so that the next call sees a change made during reading."""
        paths = [str(folder / name) for folder, name in self._candidates]
        self._watched = tuple(path for path in paths if os.path.lexists(path))
        seen = self._stat_all()
        newest = max((found[0] for found in seen if found), default=0)
        self._is_settled = time.time() - newest / 1e9 > _SETTLED_SECONDS
        self._stats = seen
        there = dict(zip(self._watched, seen[len(self._folders) :], strict=True))
        if there != self._existing:
            self._existing, self._within_budget = there, {}
            self._read = tuple(self._files())

    def _files(self) -> Iterator[tuple[str, ContextFile]]:
        """Yield the existing files. The agent's own file wins over one of the same name in the workspace; the project's
        instructions are added to the agent's, unless their text is the same."""
        taken: set[str] = set()
        texts: set[str] = set()
        for folder, name in self._candidates:
            if self._existing.get(str(folder / name)) is None or (
                name in taken and name not in _PROJECT_NAMES
            ):
                continue
            text = _text(folder / name, folder)
            if text is None:
                why = "{path} is not in the prompt: it cannot be read, or links outside its folder"
                self._warn_once(t(why, path=folder / name))
                continue
            if name in _PROJECT_NAMES and text in texts:
                continue
            taken.add(name)
            texts.add(text)
            text = (
                quoted_foreign(text) if name == _MEMORY else text
            )  # the words of others are no instructions
            yield name, ContextFile(str(folder / name) if folder == self._agent_dir else name, text)


def git_root(folder: Path) -> str:
    """Return the git working tree that contains a folder; empty without one."""
    return next((str(place) for place in (folder, *folder.parents) if os.path.lexists(place / ".git")), "")


def _stat(path: str) -> _Stat:
    """Return the values that identify a version of a file or folder; None when there is neither."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    is_ours = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
    return (found.st_mtime_ns, found.st_size, found.st_ino) if is_ours else None


def _text(path: Path, folder: Path) -> str | None:
    """Read a file; None when it cannot be read or is a link out of its folder: a folder filled by another person must
    not bring the user's keys into a prompt."""
    try:
        if not path.resolve(strict=True).is_relative_to(folder.resolve()):
            return None
        with path.open("rb") as file:
            data = file.read(_READ_BYTES)
    except OSError:
        return None
    return data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
