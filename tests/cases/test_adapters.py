"""An adapter must call the product: its functions are reached from ``app`` or a command, and its table needs them."""

import ast
import asyncio
import inspect
import json
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import claw
import pytest
from core.source import public_modules

from cases.fields import RecordedRow, fields_of
from cases.test_cases import DATA

ROOT = Path(__file__).parents[2]
SOURCES = {
    ".".join(path.relative_to(base).with_suffix("").parts).removesuffix(".__init__"): path
    for base in (ROOT / "core", *sorted((ROOT / "sdk").iterdir()), *sorted((ROOT / "plugins").iterdir()))
    if base.is_dir()
    for path in base.rglob("*.py")
    if path.relative_to(base).parts[0].startswith("claw")
}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in SOURCES.items()}
ADAPTERS = sorted(
    path.stem
    for path in (Path(__file__).parent / "adapters").glob("*.py")
    if path.stem not in ("__init__", "later")
)
PAIRS = [(table, name) for table in ADAPTERS for name in import_module(f"cases.adapters.{table}").FUNCTIONS]


def imported_by(module: str) -> set[str]:
    """Modules of ours that ``module`` imports, at its head or inside a function, or names as text (lazy imports), or
    lists in its stub.
    """
    package = module if SOURCES[module].name == "__init__.py" else module.rpartition(".")[0]
    found: set[str] = set()
    stub = SOURCES[module].with_suffix(".pyi")
    listed = ast.walk(ast.parse(stub.read_text(encoding="utf-8"))) if stub.is_file() else ()
    for node in (*ast.walk(TREES[module]), *listed):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package if node.level else ""
            source = ".".join(filter(None, (base, node.module or "")))
            found |= {source} | {f"{source}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= {node.value, f"claw.{node.value}", f"{module.partition('.')[0]}.{node.value}"}
    return {name for name in found if name in SOURCES}


@cache
def reachable() -> set[str]:
    waiting = [
        "claw.app",
        "claw.__main__",
        *(name for name in SOURCES if name.count(".") == 0 and name != "claw"),
    ]
    seen: set[str] = set()
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            waiting += imported_by(module)
    return seen


def is_called(dotted: str) -> bool:
    """Return true if product code mentions the function by a name that refers to it."""
    home = inspect.getmodule(find(dotted))
    assert home is not None
    owner, _, name = dotted.partition(":")[2].rpartition(".")
    public = {given for given, module in public_modules(claw).items() if module == home.__name__}
    return any(_mentions(module, home.__name__, name, owner, public) for module in reachable())


def _mentions(module: str, home: str, name: str, owner: str, public: set[str]) -> bool:
    local, modules = {name} if module == home else set[str](), set[str]()
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                source = f"{node.module}.{alias.name}"
                if source == home:
                    modules.add(alias.asname or alias.name)
                same = alias.name == name and home.startswith(node.module or "?")
                renamed = node.module == "claw" and alias.name in public and alias.name == name
                if same or renamed:
                    local.add(alias.asname or alias.name)
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.Name) and node.id in local and not owner:
            return True
        named = isinstance(node, ast.Attribute) and node.attr == name
        if named and (owner or (isinstance(node.value, ast.Name) and node.value.id in modules)):
            return True
    return False


@pytest.mark.parametrize(("table", "dotted"), PAIRS, ids=str)
def test_the_function_behind_a_table_is_one_that_the_product_calls(table: str, dotted: str) -> None:
    module = dotted.partition(":")[0]
    home = inspect.getmodule(find(dotted))

    assert home is not None
    assert home.__name__ in reachable(), f"{module} is imported by nothing that runs"
    assert is_called(dotted), f"nobody calls {dotted}"


@pytest.mark.parametrize(("table", "dotted"), PAIRS, ids=str)
def test_a_table_does_not_stay_green_when_its_function_is_emptied(
    table: str, dotted: str, tmp_path: Path
) -> None:
    adapter = import_module(f"cases.adapters.{table}")
    function = inspect.unwrap(find(dotted))
    whole = function.__code__
    function.__code__ = emptied(function)
    try:
        assert any(fails(adapter, case, tmp_path / str(n)) for n, case in enumerate(rows(table)))
    finally:
        function.__code__ = whole


@pytest.mark.parametrize("table", ADAPTERS)
def test_every_field_of_a_table_is_read_by_its_adapter(table: str, tmp_path: Path) -> None:
    adapter = import_module(f"cases.adapters.{table}")
    given = [row for row in rows(table) if row.get("id") not in getattr(adapter, "LATER", {})]
    unread = {field for row in given for field in fields_of(row)} - set(getattr(adapter, "UNUSED", {}))
    read: set[str] = set()
    for number, row in enumerate(given):
        if not unread & set(fields_of(row)):
            continue
        fails(adapter, RecordedRow(row, read), tmp_path / str(number))
        if not (unread := unread - read):
            break
    assert sorted(unread) == [], f"adapters/{table}.py must honour them"


def find(dotted: str) -> Any:
    module, _, path = dotted.partition(":")
    thing: Any = import_module(module)
    for name in path.split("."):
        thing = (
            inspect.getattr_static(thing, name) if not isinstance(thing, ModuleType) else getattr(thing, name)
        )
    if isinstance(thing, property):
        return thing.fget
    return thing.__func__ if isinstance(thing, classmethod | staticmethod) else thing


def emptied(function: Callable[..., Any]) -> CodeType:
    """Code with the same kind and closure that does nothing."""
    word = "async def" if inspect.iscoroutinefunction(function) else "def"
    free = function.__code__.co_freevars
    names = ", ".join(free) or "_"
    body = f"({names},)" if free else "None"
    tail = (
        "\n        yield"
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
        else ""
    )
    word = "async def" if inspect.isasyncgenfunction(function) else word
    inner = f"    {word} empty(*args, **kwargs):\n        {body}\n        return{tail}"
    source = f"def outer({names}):\n{inner}\n    return empty"
    space: dict[str, Any] = {}
    exec(source, space)
    code: CodeType = space["outer"](*([None] * max(1, len(free)))).__code__
    return code


def rows(table: str) -> Iterator[dict[str, Any]]:
    for line in (DATA / f"{table}.jsonl").read_text(encoding="utf-8").splitlines():
        if line.strip():
            yield json.loads(line)


def fails(adapter: ModuleType, case: dict[str, Any], folder: Path) -> bool:
    if case.get("id") in getattr(adapter, "LATER", {}):
        return False
    folder.mkdir()

    async def finish(answer: Any) -> None:
        await answer

    try:
        answer = adapter.check(case, folder)
        if inspect.isawaitable(answer):
            asyncio.run(finish(answer))
    except BaseException as why:
        return not isinstance(why, KeyboardInterrupt)
    return False
