"""Words for people: every template is a literal, names what it is given, and has its Chinese."""

import ast
import importlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from string import Formatter

import pytest
from claw import i18n
from claw.contracts.errors import UsageError
from claw.security.redaction import redact
from claw.testing import FakeProvider, Harness
from core.source import CORE, ROOT, Source, plugin_packages, sources

# Where each raiser takes its templates: positions of problem and fix. ``fix`` may also come by name.
PLACES = {
    "t": (0,),
    "ClawError": (0,),
    "UsageError": (0,),
    "BusyError": (0,),
    "BudgetError": (0,),
    "ProviderError": (0,),
    "ToolError": (0,),
    "FenceError": (0,),
    "path_error": (0, 2),
    "ConfigError": (1, 2),
    "PluginError": (2, 3),
    "validation_error": (0, 1),
    "error": (1, 2),
    "DeliveryError": (0,),
    "_ParseError": (0, 1),
}
# What an error adds to its values by itself.
GIVEN = {"BusyError": {"pid"}}
PACKAGES = {package.name: package for package in (CORE, *plugin_packages())}
FILES = [
    source
    for package in PACKAGES.values()
    for source in sources(package)
    if "templates" not in source.path.parts  # the code of a new plugin
]
TABLES = {name: i18n.translations("zh", package) for name, package in PACKAGES.items()}
CHINESE = TABLES["claw"]


def calls(tree: ast.AST) -> Iterator[tuple[ast.Call, str, list[ast.expr]]]:
    """Every call that takes templates: the call, its name, the template expressions."""
    for node in ast.walk(tree):
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


def templates(package: str = "claw") -> dict[str, str]:
    """Template → its file and line."""
    return {
        template: f"{source.path.relative_to(ROOT)}:{call.lineno}"
        for source in FILES
        if source.module.partition(".")[0] == package
        for call, _, given in calls(source.tree)
        for expression in given
        for template in literals(expression)
    }


def text_constants(package: str) -> set[str]:
    """All text literals of a package, and the summaries of the commands in its manifest."""
    return set(summaries().get(package, ())) | {
        node.value
        for source in sources(PACKAGES[package])
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def assigned_templates(package: str) -> dict[str, str]:
    """Template that a function first assigns to a name → its file and line: ``fix = "…"``, then ``fix=fix``."""
    found: dict[str, str] = {}
    for source in FILES:
        if source.module.partition(".")[0] != package:
            continue
        for function in ast.walk(source.tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                given = [one for _, _, expressions in calls(function) for one in expressions]
                names = {one.id for one in given if isinstance(one, ast.Name)}
                for node in ast.walk(function):
                    if isinstance(node, ast.Assign) and any(
                        getattr(to, "id", "") in names for to in node.targets
                    ):
                        where = f"{source.path.relative_to(ROOT)}:{node.lineno}"
                        found |= dict.fromkeys(literals(node.value), where)
    return found


@pytest.mark.parametrize("package", [name for name in PACKAGES if name != "pytest_claw"])
def test_every_template_has_its_chinese_in_its_package(package: str) -> None:
    """Results of tools are shown to people too, so they count. Errors in pytest-claw are answers of its test services."""
    known = TABLES[package] | CHINESE
    missing = [
        f"{where}  {template!r}"
        for template, where in (assigned_templates(package) | templates(package)).items()
        if template not in known
    ]
    assert missing == [], "\n".join(["untranslated:", *missing])


@pytest.mark.parametrize("package", PACKAGES)
def test_a_translation_belongs_to_a_text_of_its_package(package: str) -> None:
    assert sorted(TABLES[package].keys() - text_constants(package)) == []


@pytest.mark.parametrize("package", [name for name in PACKAGES if name != "claw"])
def test_a_plugin_does_not_repeat_a_translation_of_core(package: str) -> None:
    assert sorted(TABLES[package].keys() & CHINESE.keys()) == []


@pytest.mark.parametrize("package", [name for name in PACKAGES if TABLES[name] and name != "claw"])
def test_a_package_with_translations_registers_them(package: str) -> None:
    """claw does it for a plugin; a library does it itself."""
    is_plugin = (PACKAGES[package] / "claw-plugin.json").exists()
    init = (PACKAGES[package] / "__init__.py").read_text("utf-8")
    assert is_plugin or "\nadd_translations(__name__)\n" in init


def summaries() -> dict[str, list[str]]:
    """The package of each plugin, and the lines for ``claw --help`` in its manifest."""
    manifests = [
        (file, json.loads(file.read_text("utf-8"))) for file in ROOT.glob("plugins/*/*/claw-plugin.json")
    ]
    return {file.parent.name: list(dict(tree.get("commands", {})).values()) for file, tree in manifests}


@pytest.mark.parametrize(("package", "texts"), summaries().items())
def test_every_first_party_command_has_a_summary_in_both_languages(package: str, texts: list[str]) -> None:
    assert [text for text in texts if not text or text not in TABLES[package] | CHINESE] == []


@pytest.mark.parametrize("source", FILES, ids=str)
def test_a_template_is_never_put_together_before_it_is_said(source: Source) -> None:
    built = [
        f"{source.path.relative_to(ROOT)}:{call.lineno} {name}"
        for call, name, given in calls(source.tree)
        for expression in given
        if isinstance(expression, ast.JoinedStr | ast.BinOp)
    ]
    assert built == []


@pytest.mark.parametrize("source", FILES, ids=str)
def test_every_place_in_a_template_is_given_a_value(source: Source) -> None:
    lacking = []
    for call, name, given in calls(source.tree):
        if any(key.arg is None for key in call.keywords):
            continue
        there = {key.arg for key in call.keywords} | GIVEN.get(name, set())
        wanted = {field for expression in given for text in literals(expression) for field in fields(text)}
        # Without any value a template is used unchanged, with its braces.
        if there - {"fix", "where", "file", "line", "reason", "retryable", "status", "retry_after_seconds"}:
            lacking += [f"{source.path.relative_to(ROOT)}:{call.lineno} {name}: {wanted - there}"] * bool(
                wanted - there
            )
    assert lacking == []


@pytest.mark.parametrize("package", PACKAGES)
def test_a_translation_has_the_places_of_its_template(package: str) -> None:
    table = TABLES[package]
    assert {template: text for template, text in table.items() if fields(template) != fields(text)} == {}


def test_nothing_we_say_looks_like_a_secret_and_is_masked_before_a_person_reads_it() -> None:
    said = {text for table in TABLES.values() for pair in table.items() for text in pair}
    expected = {re.sub(r"\{[^{}]*\}", "some", text) for text in said}

    assert len(expected) > 1000
    assert {text: redact(text) for text in expected if redact(text) != text} == {}


def test_a_template_has_one_chinese_sentence_in_whatever_file_it_is() -> None:
    """Several plugins may have the same template: the text of the plugin that is loaded first is shown."""
    said: dict[str, set[str]] = {}
    for package in PACKAGES.values():
        for path in package.glob("locale/zh/*.json"):
            for template, text in json.loads(path.read_text("utf-8")).items():
                said.setdefault(template, set()).add(text)
    assert {template: texts for template, texts in said.items() if len(texts) > 1} == {}


@pytest.fixture(autouse=True)
def _english_again() -> Iterator[None]:
    yield
    i18n.use_language("en")


def test_an_error_is_reported_in_the_language_in_use() -> None:
    from claw import ClawError

    template, chinese = next((t, c) for t, c in CHINESE.items() if len(fields(t)) == 1)
    values = dict.fromkeys(fields(template), "bwrap")
    error = ClawError(template, **values)
    i18n.use_language("zh_CN.UTF-8")
    assert str(error) == chinese.format(**values)


@pytest.mark.parametrize("language", ["en", "de_DE", "", "C.UTF-8"])
def test_an_unknown_language_is_english(language: str) -> None:
    i18n.use_language(language)
    assert i18n.t("no agent {id}", id="x") == "no agent x"


async def test_the_menu_of_telegram_is_in_the_language_in_use() -> None:
    from claw_telegram.menu import menu_of

    async with Harness(FakeProvider()) as harness:
        app = harness.app
        i18n.use_language("zh")
        try:
            shown = menu_of(app.chat_menu())
        finally:
            i18n.use_language("en")
    assert {"command": "stop", "description": "停止正在运行的回合"} in shown
    assert all(not one["description"].isascii() for one in shown)


@pytest.fixture
def plugin_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Makes an imported package with translations of its own; learned packages are forgotten again."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(i18n, "_packages", ["claw"])

    def make(name: str, chinese: str) -> str:
        folder = tmp_path / name / "locale" / "zh"
        folder.mkdir(parents=True)
        (tmp_path / name / "__init__.py").touch()
        (folder / f"{name}.json").write_text(chinese, encoding="utf-8")
        importlib.import_module(name)
        return name

    yield make
    for name in [name for name in sys.modules if name.startswith("claw_words_")]:
        del sys.modules[name]


def test_a_plugin_provides_translations_in_its_package(plugin_texts: Callable[..., str]) -> None:
    i18n.add_translations(plugin_texts("claw_words_before", '{"acme is {state}": "acme：{state}"}'))
    i18n.use_language("zh")
    i18n.add_translations(plugin_texts("claw_words_after", '{"acme sleeps": "acme 休眠中"}'))

    assert [i18n.t("acme is {state}", state="up"), i18n.t("acme sleeps")] == ["acme：up", "acme 休眠中"]
    i18n.use_language("en")
    assert i18n.t("acme sleeps") == "acme sleeps"


@pytest.mark.parametrize("file", ["{", "[]", '{"acme sleeps": 7}', '"x"'])
def test_a_translation_that_cannot_be_read_leaves_the_plugin_its_english(
    plugin_texts: Callable[..., str], file: str
) -> None:
    i18n.use_language("zh")
    i18n.add_translations(plugin_texts(f"claw_words_bad{abs(hash(file))}", file))
    assert i18n.t("acme sleeps") == "acme sleeps"


def test_no_plugin_changes_what_claw_says(plugin_texts: Callable[..., str]) -> None:
    template, chinese = next(iter(CHINESE.items()))
    i18n.use_language("zh")
    i18n.add_translations(plugin_texts("claw_words_sly", json.dumps({template: "something else"})))
    i18n.use_language("zh")
    assert i18n.t(template) == chinese


def test_a_package_that_is_gone_keeps_nobody_from_another_language(plugin_texts: Callable[..., str]) -> None:
    i18n.add_translations("claw_words_gone")
    i18n.use_language("zh")
    template, chinese = next(iter(CHINESE.items()))
    assert i18n.t(template) == chinese


@pytest.mark.parametrize(
    ("count", "expected"), [(0, "0 calls"), (1, "1 call"), ("1", "1 call"), ("1,204", "1,204 calls")]
)
def test_a_number_appears_with_the_word_that_fits_it(count: object, expected: str) -> None:
    assert i18n.t("{count:call|calls} of {name}", count=count, name="ls") == f"{expected} of ls"


def test_no_template_leaves_it_to_the_reader_whether_there_is_one_or_more() -> None:
    assert [template for package in PACKAGES for template in templates(package) if "(s)" in template] == []


def test_a_list_is_joined_with_the_comma_of_the_language() -> None:
    wrong = UsageError("{word} is not one of: {known}", word="x", known=["one", 2])
    assert str(wrong) == "x is not one of: one, 2"

    i18n.use_language("zh")

    assert str(wrong).endswith("one、2")
    assert wrong.parts[2]["known"] == "one、2"


def test_no_text_is_given_a_list_with_english_commas() -> None:
    """``t`` and errors take the list itself."""

    def lines(tree: ast.AST) -> Iterator[int]:
        for call, _, _ in calls(tree):
            values = (one.value for one in call.keywords)
            yield from (one.lineno for one in values if ast.unparse(one).startswith("', '.join("))

    assert [f"{source.path}:{line}" for source in FILES for line in lines(source.tree)] == []
    assert list(lines(ast.parse('t("{names}", names=", ".join(names))'))) == [1]


def test_in_chinese_the_number_alone_is_said(plugin_texts: Callable[..., str]) -> None:
    i18n.use_language("zh")
    i18n.add_translations(plugin_texts("claw_words_count", '{"{count:token|tokens}": "{count} 个 token"}'))
    assert i18n.t("{count:token|tokens}", count="1") == "1 个 token"
