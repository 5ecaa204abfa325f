"""The agent's own files for the prompt: which ones, from where, and read again only when one of them changed.

Whether a file came or went shows in its folder's time, so that only the files that are there need a look of their own.
"""

import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from claw import ContextFile, bootstrap, quoted_foreign, say

# By weight: when the budget runs out, the later ones give way.
_NAMES = (
    "AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "BOOTSTRAP.md", "MEMORY.md", "CLAUDE.md",
    "HEARTBEAT.md",
)  # fmt: skip
_MEMORY = "MEMORY.md"
_OF_A_WORKSPACE = tuple(name for name in _NAMES if name != _MEMORY)  # a memory lies where the fence guards it
_OF_A_PROJECT = ("AGENTS.md", "CLAUDE.md")  # what a folder that is not the agent's own may say
_READ_BYTES = 1_000_000

_SETTLED_SECONDS = (
    0.05  # a file system's clock ticks in milliseconds: what changed just now may change again unseen
)

_Stat = tuple[int, int, int] | None


class ContextFiles:
    """The context files of one agent in one workspace.

    :param agent_dir: ``CLAW_HOME/agents/ID/agent``, read first.
    :param workspace: where the chat works.
    :param own_workspace: False when it is a foreign chat folder: of that only AGENTS.md and CLAUDE.md are read.
    :param per_file: characters of one file in the prompt; ``agents.*.bootstrapMaxChars``.
    :param total: characters of all files; ``agents.*.bootstrapTotalMaxChars``.
    :param warn: told once of a file that is there and not in the prompt, and why.
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
        places += [(workspace, name) for name in (_OF_A_WORKSPACE if own_workspace else _OF_A_PROJECT)]
        self._places = sorted(places, key=lambda place: _NAMES.index(place[1]))
        self._agent_dir = agent_dir
        self._folders = (str(agent_dir), str(workspace))
        self._watched: tuple[str, ...] = ()
        self._there: dict[str, _Stat] = {}
        self._seen: tuple[_Stat, ...] = ()
        self._settled = False
        self._read: tuple[tuple[str, ContextFile], ...] = ()
        self._fitted: dict[bool, tuple[ContextFile, ...]] = {}

    def load(self, private: bool = True) -> tuple[ContextFile, ...]:
        """The files within budget, by weight. When none changed since the last call, nothing is opened.

        :param private: a private session of an owner; MEMORY.md stands only there.
        """
        if not self._settled or self._look() != self._seen:
            self._read_all()
        if private not in self._fitted:
            files = [file for name, file in self._read if private or name != _MEMORY]
            self._fitted[private] = bootstrap(files, *self._limits)
            self._tell_of_those_left_out(files, self._fitted[private])
        return self._fitted[private]

    def _tell_of_those_left_out(self, files: Sequence[ContextFile], kept: Sequence[ContextFile]) -> None:
        there = {file.path for file in kept}
        for path in (file.path for file in files if (file.text or "").strip() and file.path not in there):
            self._tell(
                say(
                    "{path} is not in the prompt: the files before it take all {total} characters that "
                    "agents.defaults.bootstrapTotalMaxChars gives",
                    path=path,
                    total=self._limits[1],
                )
            )

    def _tell(self, line: str) -> None:
        if line not in self._warned:
            self._warned.add(line)
            self._warn(line)

    def _look(self) -> tuple[_Stat, ...]:
        return tuple(map(_stat, (*self._folders, *self._watched)))

    def _read_all(self) -> None:
        """The times are taken first, so that a change while reading is seen at the next call."""
        paths = [str(folder / name) for folder, name in self._places]
        self._watched = tuple(path for path in paths if os.path.lexists(path))
        seen = self._look()
        newest = max((found[0] for found in seen if found), default=0)
        self._settled = time.time() - newest / 1e9 > _SETTLED_SECONDS
        self._seen = seen
        there = dict(zip(self._watched, seen[len(self._folders) :], strict=True))
        if there != self._there:
            self._there, self._fitted = there, {}
            self._read = tuple(self._files())

    def _files(self) -> Iterator[tuple[str, ContextFile]]:
        """Those that are there. One of the agent's own wins over its namesake in the workspace; the instructions of
        a project stand beside the agent's, unless they say the same."""
        taken: set[str] = set()
        texts: set[str] = set()
        for folder, name in self._places:
            if self._there.get(str(folder / name)) is None or (name in taken and name not in _OF_A_PROJECT):
                continue
            text = _text(folder / name, folder)
            if text is None:
                why = "{path} is not in the prompt: it cannot be read, or is a link out of its folder"
                self._tell(say(why, path=folder / name))
                continue
            if name in _OF_A_PROJECT and text in texts:
                continue
            taken.add(name)
            texts.add(text)
            text = quoted_foreign(text) if name == _MEMORY else text  # what others said is no instruction
            yield name, ContextFile(str(folder / name) if folder == self._agent_dir else name, text)


def repo_of(folder: Path) -> str:
    """The git working tree that a folder lies in; empty when it lies in none."""
    return next((str(place) for place in (folder, *folder.parents) if os.path.lexists(place / ".git")), "")


def _stat(path: str) -> _Stat:
    """What tells one version of a file or folder from another; None when there is neither."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    is_ours = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
    return (found.st_mtime_ns, found.st_size, found.st_ino) if is_ours else None


def _text(path: Path, folder: Path) -> str | None:
    """The file's words; None when it cannot be read or is a link out of its folder: a folder that somebody else
    filled must not put our keys into a prompt."""
    try:
        if not path.resolve(strict=True).is_relative_to(folder.resolve()):
            return None
        with path.open("rb") as file:
            data = file.read(_READ_BYTES)
    except OSError:
        return None
    return data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
