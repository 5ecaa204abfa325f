"""Names, docstrings and parameters, held by reading the source."""

import ast
import builtins
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from core.source import CORE, ROOT, Source, parsed, plugin_packages, sources

FILES = [*sources(CORE), *(source for package in plugin_packages() for source in sources(package))]
MOST_PARAMETERS = 7
WIDER = {
    # Options of a command: typer reads them from the signature.
    "claw_admin.policy.route.explain",
    "claw_models.commands_auth.add",
    "claw_prompt.command.show",
    # Arguments of a tool: the model reads them from the signature.
    "claw_feishu.tools.bitable.read",
    "claw_feishu.tools.calendar.read",
    "claw_feishu.tools.calendar.write",
    "claw_feishu.tools.doc.write",
    "claw_feishu.tools.sheet.write",
    "claw_tools_std.conversation.message",
    "claw.contracts.tool.tool",
}

FOREIGN_ERRORS = {"CancelledError", "DatabaseError", "OperationalError", "ValidationError"}
"""Errors of libraries, which a docstring may name."""
FOREIGN_NAMES = {
    *("openat2", "x509_vfy", "Origin", "bm25", "get_tools", "Toolbox_method", "globset", "pbbp2", "proto"),
    *("CallToolResult", "ErrorInfo", "MISTRAL_SDK_TELEMETRY", "ACC", "TAG", "TIMESTAMP", "SHEET"),
    *("Throttling", "RateQuota", "plugin__tool", "_spec"),
}
"""Names in docstrings that are in no source: of other programs, and placeholders."""


def string_statements(path: Path) -> Iterator[ast.Expr]:
    """The docstrings of a file, those below a constant or a field too."""
    for node in ast.walk(parsed(path)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield node


def test_a_docstring_begins_with_a_verb_or_a_noun() -> None:
    questions = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for folder in ("core", "sdk", "plugins", "examples", "tests", "bench", "docs")
        for path in (ROOT / folder).rglob("*.py")
        for node in string_statements(path)
        if re.match(r"\s*(what|whether|how|why|who|where)\b", ast.literal_eval(node.value), re.I)
    ]
    assert questions == []


def test_a_public_class_name_means_one_thing() -> None:
    places: dict[str, list[str]] = {}
    for source in FILES:
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(source.module)
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}


@pytest.mark.parametrize("source", FILES, ids=str)
def test_a_function_takes_at_most_seven_parameters(source: Source) -> None:
    wide = set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            if len([one for one in given if one.arg not in ("self", "cls")]) > MOST_PARAMETERS:
                wide.add(f"{source.module}.{node.name}")
    assert wide <= WIDER


def test_a_docstring_names_parameters_and_errors_that_exist() -> None:
    errors = (
        FOREIGN_ERRORS
        | {*dir(builtins)}
        | {node.name for _, node in definitions() if isinstance(node, ast.ClassDef)}
    )
    wrong = []
    for source, node in definitions():
        text = ast.get_docstring(node) or ""
        raised = {
            name.rpartition(".")[2]
            for names in re.findall(r"^\s*:raises ([\w., ]+?):", text, re.M)
            for name in re.split(r", | or ", names)
        }
        described = set(re.findall(r"^\s*:param (\w+):", text, re.M))
        unknown = described - fields_of(node) if has_known_fields(node) else set()
        wrong += [f"{source}.{node.name}: {name}" for name in sorted((raised - errors) | unknown)]
    assert wrong == []


def test_a_reference_in_a_docstring_or_comment_names_something_that_exists() -> None:
    known = FOREIGN_NAMES | set(dir(builtins)) | set(sys.stdlib_module_names)
    for path in [source.path for source in FILES] + [
        *ROOT.glob("tests/**/*.py"),
        *ROOT.glob("examples/**/*.py"),
    ]:
        known |= names_in(path)
    for path in [*ROOT.glob("plugins/*/**/*.json"), *ROOT.glob("*/**/pyproject.toml")]:
        known.update(re.split(r"\W+", path.read_text(encoding="utf-8")))
    wrong = []
    for source in FILES:
        for number, line in enumerate(source.path.read_text(encoding="utf-8").splitlines(), 1):
            for reference in re.findall(r"``([A-Za-z_][\w.]*)(?:\(\))?``|:\w+:`~?([\w.]+)`", line):
                parts = "".join(reference).split(".")
                if gone := [part for part in parts if len(part) > 2 and part not in known]:
                    wrong.append(f"{source}:{number}: {gone[0]}")
    assert wrong == []


def definitions() -> Iterator[tuple[Source, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]]:
    for source in FILES:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield source, node


def fields_of(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The parameters of a function; the annotated fields and the parameters of the constructor of a class."""
    if isinstance(node, ast.ClassDef):
        fields = {
            one.target.id
            for one in node.body
            if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
        }
        made = [
            one
            for one in node.body
            if isinstance(one, ast.FunctionDef) and one.name in ("__init__", "__new__")
        ]
        return fields.union(*(fields_of(one) for one in made))
    found = node.args
    rest = [one for one in (found.vararg, found.kwarg) if one]
    return {one.arg for one in [*found.posonlyargs, *found.args, *found.kwonlyargs, *rest]}


def has_known_fields(node: ast.AST) -> bool:
    """False for a class with a base: its docstring may describe fields of the base."""
    return not (isinstance(node, ast.ClassDef) and node.bases)


def names_in(path: Path) -> set[str]:
    """All words of a file, without its docstrings and comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.end_lineno:
            lines[node.lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)
    code = re.sub(r"(^|\s)#.*", "", "\n".join(lines), flags=re.M)
    return {*re.findall(r"\w+", code), *path.parts, path.stem}


def test_the_figures_of_the_source_are_printed_for_any_checkout(tmp_path: Path) -> None:
    for name, text in {
        "core/claw/__init__.py": "",
        "core/claw/turn.py": '"""How a turn runs."""\n\n\ndef run():\n    from claw import loop\n\n    return loop\n',
        "core/claw/loop.py": "from claw import turn\n\n\nclass Turn:\n    turn = turn\n",
        "plugins/acme/claw_acme/__init__.py": '"""A plugin."""\n',
        "plugins/acme/claw_acme/turn.py": "class Turn:\n    pass\n",
        "tests/test_turn.py": "from claw.turn import run\nfrom claw.testing import Harness\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    program = [sys.executable, str(ROOT / "bench" / "structure.py"), str(tmp_path)]
    printed = subprocess.run(program, capture_output=True, text=True, check=True).stdout

    assert "| core: modules / code lines | 3 / 6 |" in printed
    assert "| docstrings that begin with a question word | 50.0 % of 2 |" in printed
    assert "| public class names with two or more meanings | 1 |" in printed
    assert "| modules in a circle at run time: core / plugins | 2 / 0 |" in printed
    assert "| imports in functions: core / plugins | 1 / 0 |" in printed
    assert "| tests that import internals of core: files / statements | 1 / 1 of 1 files |" in printed
