"""The result store: tool results too long for a model, kept whole in files that the agent of this session may
read.

``agents/ID/results/CONVERSATION/CALL.txt``. The oldest go when an agent has too many. When a session is reset
they stay with it, unreadable for the next session, and are deleted with its last file.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from claw.runtime import make_folder, replace_file, safe_file_name

MAX_FILES = 500
MAX_BYTES = 256 << 20
"""Limit per agent, as :data:`MAX_FILES` is."""

LINE_CHARS = 1500
"""Limit of a stored line: longer ones are broken, because ``read`` shows lines, with at most 2,000 characters
of each.
"""


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
    make_folder(path.parent)
    replace_file(path, data)
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
