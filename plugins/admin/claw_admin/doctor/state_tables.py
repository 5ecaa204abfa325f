"""The check that the tables of ``state.db`` have the columns that this version needs."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path

from claw import Finding, t
from claw.runtime import PAIRED_PEOPLE, Database, Overrides, read_only_address


class DeclaredTables(Database):
    """``state.db``, which also keeps the statements that plugins declare as they register.

    :param statements: gets them.
    """

    def __init__(self, path: Path, statements: list[str]) -> None:
        super().__init__(path)
        self._statements = statements

    def tables(self, owner: str, *ddl: str) -> None:
        """Keep the statements, and declare them."""
        self._statements += ddl
        super().tables(owner, *ddl)


def table_findings(path: Path, statements: Iterable[str]) -> Iterator[Finding]:
    """Find tables of ``state.db`` that lack a column. Nothing is written; what cannot be read is no finding here.

    :param statements: those of plugins that create tables; those of claw itself are known.
    """
    if not path.is_file():
        return
    declared = [PAIRED_PEOPLE, *statements]
    Overrides(DeclaredTables(path, declared))
    with (
        suppress(sqlite3.DatabaseError),
        closing(sqlite3.connect(":memory:")) as needed,
        closing(sqlite3.connect(read_only_address(path), uri=True)) as found,
    ):
        for statement in declared:
            with suppress(sqlite3.DatabaseError):  # a fault of its plugin, which fails with it
                needed.execute(statement)
        for (table,) in needed.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            columns = _columns(found, table)
            if columns and (lacking := [one for one in _columns(needed, table) if one not in columns]):
                why = t("its table {table} has no {columns}", table=table, columns=[*lacking])
                fix = t(
                    "It is not as this version of claw needs it: use the version that wrote it, or move it elsewhere"
                )
                yield Finding(str(path), "state", why, fix)


def _columns(database: sqlite3.Connection, table: str) -> list[str]:
    return [name for (name,) in database.execute("SELECT name FROM pragma_table_info(?)", (table,))]
