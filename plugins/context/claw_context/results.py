"""The result store: tool results too long for a model, kept whole in files that the agent of this session may
read.

``agents/ID/results/CONVERSATION/CALL.txt``. The oldest go when an agent has too many. When a session is reset
they stay with it, unreadable for the next session, and are deleted with its last file.
"""

import asyncio
import hashlib
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from claw.storage import files as store
from claw.storage.files import safe_file_name

MAX_FILES = 500
MAX_BYTES = 256 << 20
"""Limit per agent, as :data:`MAX_FILES` is."""

LINE_CHARS = 1500
"""Limit of a stored line: longer ones are broken, because ``read`` shows lines, with at most 2,000 characters
of each.
"""

_FOLDER = "results"


def results_folder(agent_dir: Path, session_key: str) -> Path:
    """Return the folder of one session's results; it may not exist. Other sessions of the agent cannot read
    it.
    """
    return agent_dir / _FOLDER / hashlib.sha256(session_key.encode()).hexdigest()[:16]


def archive_results(agent_dir: Path, session_key: str, session_id: str) -> None:
    """Move the results of an ended session below its id, where no agent reads.

    :raises OSError: the disk refused.
    """
    folder = results_folder(agent_dir, session_key)
    with suppress(FileNotFoundError):
        folder.rename(folder.with_name(safe_file_name(session_id)))


def delete_results(agent_dir: Path, session_id: str) -> None:
    """Delete the results of a session that is deleted."""
    shutil.rmtree(agent_dir / _FOLDER / safe_file_name(session_id), ignore_errors=True)


def delete_older(folder: Path, oldest: float) -> None:
    """Delete the files of a folder that were written before ``oldest``, seconds since 1970."""
    for file in folder.iterdir():
        with suppress(OSError):
            if file.stat().st_mtime < oldest:
                file.unlink()


async def store_result(folder: Path, name: str, text: str) -> tuple[Path, int]:
    """Store a text whole; return its file and the number of its lines.

    :param name: of the call, unique in the session.
    :raises OSError, ClawError: the disk refused.
    """
    lines = list(_lines(text))
    path = folder / f"{safe_file_name(name)}.txt"
    await asyncio.to_thread(_write, path, "\n".join(lines).encode("utf-8", "replace"))
    return path, len(lines)


def _lines(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        yield line[:LINE_CHARS]
        yield from (line[at : at + LINE_CHARS] for at in range(LINE_CHARS, len(line), LINE_CHARS))


def _write(path: Path, data: bytes) -> None:
    store.make_folder(path.parent)
    store.replace_file(path, data)
    files = []
    for file in path.parent.parent.glob("*/*.txt"):
        with suppress(FileNotFoundError):
            status = file.stat()
            files.append((status.st_mtime, status.st_size, file))
    total = sum(size for _, size, _ in files)
    count = len(files)
    for _, size, file in sorted(files):
        if count <= MAX_FILES and total <= MAX_BYTES:
            break
        if file != path:
            file.unlink(missing_ok=True)
            count, total = count - 1, total - size
