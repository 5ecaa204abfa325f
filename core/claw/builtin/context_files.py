"""The agent's own files for the prompt: which ones, from where, and read again only when one of them changed."""

import stat
from collections.abc import Iterator
from pathlib import Path

from claw import ContextFile, bootstrap

# By weight: when the budget runs out, the later ones give way.
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
_OF_A_PROJECT = ("AGENTS.md", "CLAUDE.md")  # what a folder that is not the agent's own may say
_READ_BYTES = 1_000_000

_State = tuple[tuple[int, int, int] | None, ...]


class ContextFiles:
    """The context files of one agent in one workspace.

    :param agent_dir: ``CLAW_HOME/agents/ID/agent``, read first.
    :param workspace: where the chat works.
    :param own_workspace: False when it is a foreign chat folder: of that only AGENTS.md and CLAUDE.md are read.
    :param per_file: characters of one file in the prompt; ``agents.*.bootstrapMaxChars``.
    :param total: characters of all files; ``agents.*.bootstrapTotalMaxChars``.
    """

    def __init__(
        self,
        agent_dir: Path,
        workspace: Path,
        own_workspace: bool,
        per_file: int = 20_000,
        total: int = 60_000,
    ) -> None:
        self._limits = per_file, total
        places = [(agent_dir, name) for name in _NAMES]
        places += [(workspace, name) for name in (_NAMES if own_workspace else _OF_A_PROJECT)]
        self._places = sorted(places, key=lambda place: _NAMES.index(place[1]))
        self._agent_dir = agent_dir
        self._seen: _State | None = None
        self._read: tuple[tuple[str, ContextFile], ...] = ()
        self._fitted: dict[bool, tuple[ContextFile, ...]] = {}

    def load(self, private: bool = True) -> tuple[ContextFile, ...]:
        """The files within budget, by weight. When none changed since the last call, nothing is opened.

        :param private: a private session of an owner; MEMORY.md stands only there.
        """
        state = tuple(_stat(folder / name) for folder, name in self._places)
        if state != self._seen:
            self._read = tuple(self._files(state))
            self._seen, self._fitted = state, {}
        if private not in self._fitted:
            files = [file for name, file in self._read if private or name != "MEMORY.md"]
            self._fitted[private] = bootstrap(files, *self._limits)
        return self._fitted[private]

    def _files(self, state: _State) -> Iterator[tuple[str, ContextFile]]:
        """Those that are there. One of the agent's own wins over its namesake in the workspace; the instructions of
        a project stand beside the agent's, unless they say the same."""
        taken: set[str] = set()
        texts: set[str] = set()
        for (folder, name), there in zip(self._places, state, strict=True):
            if there is None or (name in taken and name not in _OF_A_PROJECT):
                continue
            text = _text(folder / name, folder)
            if text is None or (name in _OF_A_PROJECT and text in texts):
                continue
            taken.add(name)
            texts.add(text)
            yield name, ContextFile(str(folder / name) if folder == self._agent_dir else name, text)


def _stat(path: Path) -> tuple[int, int, int] | None:
    """What tells one version of a file from another; None when there is no such regular file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino) if stat.S_ISREG(found.st_mode) else None


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
