"""Names, docstrings and parameters, held by reading the source."""

import ast
import re
from collections.abc import Iterator

import pytest
from core.source import CORE, Source, plugin_packages, sources

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
    "claw_tools_std.talk.message",
    "claw.contracts.tool.tool",
}


def documented() -> Iterator[str]:
    for source in FILES:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield ast.get_docstring(node) or ""


def test_a_docstring_begins_with_a_verb_or_a_noun() -> None:
    docstrings = [text for text in documented() if text]
    questions = [text for text in docstrings if re.match(r"(what|whether|how|why|who|where)\b", text, re.I)]
    assert len(questions) <= len(docstrings) / 100, [text[:60] for text in questions]


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
