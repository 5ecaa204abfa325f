"""Every table of ``tests/cases/data`` (or ``--cases DIR``), each row through the adapter that bears the table's name.

An adapter (``adapters/NAME.py``) translates names and calls the function that the product calls on that path. It has:
``FUNCTIONS``, the dotted names of those functions; ``check(case, tmp_path)``, which asserts (may be async); and may have
``LATER``, row id → the issue that implements the row's part, and ``UNUSED``, field → the reason why it is not read.
``later.py`` names the tables whose whole part is still to come.
"""

import asyncio
import inspect
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from cases.adapters.later import TABLES_OF_LATER_ISSUES

DATA = Path(__file__).parent / "data"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "row" not in metafunc.fixturenames:
        return
    given = metafunc.config.getoption("--cases")
    folder = Path(given) if given else DATA
    rows, ids = [], []
    for table in sorted(folder.glob("*.jsonl")):
        for number, line in enumerate(table.read_text(encoding="utf-8").splitlines(), 1):
            if line.strip():
                case = json.loads(line)
                rows.append((table.stem, case))
                ids.append(f"{table.stem}-{case.get('id', number)}")
    metafunc.parametrize("row", rows, ids=ids)


def test_a_row_of_a_table(row: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    table, case = row
    if table in TABLES_OF_LATER_ISSUES:
        pytest.xfail(TABLES_OF_LATER_ISSUES[table])
    try:
        adapter = import_module(f"cases.adapters.{table}")
    except ModuleNotFoundError as missing:
        pytest.fail(f"no adapter for the table {table}: {missing}")
    if issue := getattr(adapter, "LATER", {}).get(case.get("id")):
        pytest.xfail(issue)
    try:
        answer = adapter.check(case, tmp_path)
        if inspect.isawaitable(answer):
            asyncio.run(_finished(answer))
    except BaseException as failed:
        failed.add_note(f"{table} {case.get('id', '')}: {json.dumps(case, ensure_ascii=False)[:2000]}")
        raise


async def _finished(answer: Any) -> None:
    await answer
