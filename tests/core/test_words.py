"""Words for people: every template is a literal, names what it is given, and has its Chinese."""

import ast
from collections.abc import Iterator
from string import Formatter

import pytest
from claw import words
from core.source import CORE, ROOT, Source, sources

# Where each raiser takes its templates: positions of problem and fix. ``fix`` may also come by name.
PLACES = {
    "say": (0,),
    "ClawError": (0,),
    "UsageError": (0,),
    "BusyError": (0,),
    "ProviderError": (0,),
    "ToolError": (0,),
    "FenceError": (0,),
    "ConfigError": (1, 2),
    "PluginError": (2, 3),
    "wrong": (0, 1),
    "tell": (1, 2),
    "_Trouble": (0, 1),
}
# What an error adds to its values by itself.
GIVEN = {"BusyError": {"pid"}}
CORE_FILES = sources(CORE)
CHINESE = words.translations("zh")


def calls(source: Source) -> Iterator[tuple[ast.Call, str, list[ast.expr]]]:
    """Every call that takes templates: the call, its name, the template expressions."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in PLACES:
            given = [node.args[place] for place in PLACES[name] if place < len(node.args)]
            yield node, name, given + [key.value for key in node.keywords if key.arg == "fix"]


def literals(node: ast.expr) -> Iterator[str]:
    """The templates in an expression: itself, or both sides of a choice."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value:
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from literals(node.body)
        yield from literals(node.orelse)


def fields(template: str) -> set[str]:
    return {name.split(".")[0].split("[")[0] for _, name, _, _ in Formatter().parse(template) if name}


def templates() -> dict[str, str]:
    """Template → where it stands."""
    return {
        template: f"{source.path.relative_to(ROOT)}:{call.lineno}"
        for source in CORE_FILES
        for call, _, given in calls(source)
        for expression in given
        for template in literals(expression)
    }


def test_every_template_has_its_chinese() -> None:
    missing = [f"{where}  {template!r}" for template, where in templates().items() if template not in CHINESE]
    assert missing == [], "\n".join(["untranslated:", *missing])


@pytest.mark.parametrize("source", CORE_FILES, ids=str)
def test_a_template_is_never_put_together_before_it_is_said(source: Source) -> None:
    built = [
        f"{source.path.relative_to(ROOT)}:{call.lineno} {name}"
        for call, name, given in calls(source)
        for expression in given
        if isinstance(expression, ast.JoinedStr | ast.BinOp)
    ]
    assert built == []


@pytest.mark.parametrize("source", CORE_FILES, ids=str)
def test_every_place_in_a_template_is_given_a_value(source: Source) -> None:
    lacking = []
    for call, name, given in calls(source):
        if any(key.arg is None for key in call.keywords):
            continue
        there = {key.arg for key in call.keywords} | GIVEN.get(name, set())
        wanted = {field for expression in given for text in literals(expression) for field in fields(text)}
        # Without any value a template is said as it stands, braces and all.
        if there - {"fix", "where", "file", "line", "reason", "retryable", "status", "retry_after_seconds"}:
            lacking += [f"{source.path.relative_to(ROOT)}:{call.lineno} {name}: {wanted - there}"] * bool(
                wanted - there
            )
    assert lacking == []


def test_a_translation_has_the_places_of_its_template() -> None:
    assert {template: text for template, text in CHINESE.items() if fields(template) != fields(text)} == {}


def test_a_translation_belongs_to_a_template_that_is_still_said() -> None:
    said = {
        node.value
        for source in CORE_FILES
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert sorted(CHINESE.keys() - said) == []


@pytest.fixture(autouse=True)
def _english_again() -> Iterator[None]:
    yield
    words.use("en")


def test_an_error_is_told_in_the_language_in_use() -> None:
    from claw import ClawError

    template, chinese = next((t, c) for t, c in CHINESE.items() if len(fields(t)) == 1)
    values = dict.fromkeys(fields(template), "bwrap")
    error = ClawError(template, **values)
    words.use("zh_CN.UTF-8")
    assert str(error) == chinese.format(**values)


@pytest.mark.parametrize("language", ["en", "de_DE", "", "C.UTF-8"])
def test_an_unknown_language_is_english(language: str) -> None:
    words.use(language)
    assert words.say("no agent {id}", id="x") == "no agent x"
