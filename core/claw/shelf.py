"""The shelf: tools' answers that were too long for a model, whole, in files that the agent of this conversation may read.

``agents/ID/results/CONVERSATION/CALL.txt``. The oldest go when an agent has too many. When a conversation is set aside
they stay with it, out of the next one's reach, and go with its last file.
"""

import asyncio
import hashlib
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from claw import store
from claw.guard.names import safe_name

MOST_FILES = 500
MOST_BYTES = 256 << 20
"""Of one agent."""

LINE_CHARS = 1500
"""A longer line is broken: ``read`` shows lines, and no more than 2,000 characters of one."""

_FOLDER = "results"


def folder_of(agent_dir: Path, session_key: str) -> Path:
    """Where the answers of one conversation are; it need not exist. Other conversations of the agent cannot read it."""
    return agent_dir / _FOLDER / hashlib.sha256(session_key.encode()).hexdigest()[:16]


def put_aside(agent_dir: Path, session_key: str, session_id: str) -> None:
    """The conversation under this key has ended: its answers are kept under its session's id, where no agent reads.

    :raises OSError: the disk refused.
    """
    folder = folder_of(agent_dir, session_key)
    with suppress(FileNotFoundError):
        folder.rename(folder.with_name(safe_name(session_id)))


def forget(agent_dir: Path, session_id: str) -> None:
    """Nothing is left of this session: neither are its answers."""
    shutil.rmtree(agent_dir / _FOLDER / safe_name(session_id), ignore_errors=True)


def clear(folder: Path, oldest: float) -> None:
    """Take away the files of a folder that were written before a moment, seconds since 1970."""
    for file in folder.iterdir():
        with suppress(OSError):
            if file.stat().st_mtime < oldest:
                file.unlink()


async def keep(folder: Path, name: str, text: str) -> tuple[Path, int]:
    """Write a text down whole; answers with its file and how many lines that has.

    :param name: of the call, unique in the conversation.
    :raises OSError, ClawError: the disk refused.
    """
    lines = list(_lines(text))
    path = folder / f"{safe_name(name)}.txt"
    await asyncio.to_thread(_put, path, "\n".join(lines).encode("utf-8", "replace"))
    return path, len(lines)


def _lines(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        yield line[:LINE_CHARS]
        yield from (line[at : at + LINE_CHARS] for at in range(LINE_CHARS, len(line), LINE_CHARS))


def _put(path: Path, data: bytes) -> None:
    store.make_folder(path.parent)
    store.replace(path, data)
    files = []
    for file in path.parent.parent.glob("*/*.txt"):
        with suppress(FileNotFoundError):
            status = file.stat()
            files.append((status.st_mtime, status.st_size, file))
    total = sum(size for _, size, _ in files)
    count = len(files)
    for _, size, file in sorted(files):
        if count <= MOST_FILES and total <= MOST_BYTES:
            break
        if file != path:
            file.unlink(missing_ok=True)
            count, total = count - 1, total - size
