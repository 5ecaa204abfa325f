"""The check that the tables of a ``state.db`` have the columns that this version needs."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from claw import Finding, t
from claw.runtime import read_only_address

from claw_gateway.tables import TABLES


def shape_findings(path: Path) -> Iterator[Finding]:
    """Find tables of the journal that lack a column. Nothing is written; what cannot be read is no finding here."""
    if not path.is_file():
        return
    with (
        suppress(sqlite3.DatabaseError),
        closing(sqlite3.connect(":memory:")) as needed,
        closing(sqlite3.connect(read_only_address(path), uri=True)) as found,
    ):
        for statement in TABLES:
            needed.execute(statement)
        for (table,) in needed.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            columns = _columns(found, table)
            if columns and (lacking := [one for one in _columns(needed, table) if one not in columns]):
                why = t("its table {table} has no {columns}", table=table, columns=", ".join(lacking))
                fix = t(
                    "It is not as this version of claw needs it: use the version that wrote it, or move it elsewhere"
                )
                yield Finding(str(path), "state", why, fix)


def _columns(database: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
