"""The state database of a home, read by commands."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from claw.runtime import Database


@contextmanager
def open_state(home: Path) -> Iterator[Database | None]:
    """Open the state database of ``home`` for reading; None if there is none yet; it is not created."""
    with closing(Database(home / "state.db")) as database:
        yield database if database.path.is_file() else None
