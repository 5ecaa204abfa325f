"""The note of how a gateway ends, for the next one: it was stopped, ended from outside (a kill, lack of memory, a power
cut), or ended by itself (``os._exit``, a fault in C code, an exception that nobody caught).

The file exists while turns may run. It is removed when the gateway is asked to stop; an end by itself adds its cause.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from claw import ClawError
from claw.runtime import SYSTEM_DISK, records_own_end

FILE = "gateway.end"
_MOST_BYTES = 4000


class EndNote:
    """The note of this process.

    :ivar previous: the cause of the end of the gateway before: empty = it ended from outside; None = it was stopped.
    """

    def __init__(self, path: Path) -> None:
        self._path, self.previous = path, _read(path)

    def add(self, cause: str) -> None:
        """Add a cause that this process knows, unless the note is removed: an exception that ends it."""
        if self._path.exists():
            with suppress(OSError):
                SYSTEM_DISK.write_note(self._path, f"{cause}\n".encode(errors="replace"))

    def remove(self) -> None:
        """Remove the note: the gateway was asked to stop, or ends for a known reason."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


@contextmanager
def open_end_note(home: Path) -> Iterator[EndNote]:
    """Read the note of the gateway before, and keep one of this process. A note that cannot be written is not kept."""
    path = home / "logs" / FILE
    note = EndNote(path)
    with ExitStack() as recorder:
        with suppress(OSError, ClawError):
            SYSTEM_DISK.make_folder(path.parent)
            SYSTEM_DISK.write_note(path, b"")
            recorder.enter_context(records_own_end(path))
        yield note


def _read(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode(errors="replace").strip()
    except OSError:
        return None
