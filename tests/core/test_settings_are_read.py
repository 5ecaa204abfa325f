"""Every setting is read by something, or a warning says that it has no effect."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from claw.config.values import Section
from claw_admin.config_checks.file_warnings import UNREAD
from core.source import Source
from core.test_import_rules import CORE_FILES, PLUGIN_FILES

PLANNED = "claw_gateway.planned_settings"
"""The module of settings whose whole sections are warned about."""
FILES = [source for source in CORE_FILES + PLUGIN_FILES if "/tests/" not in str(source.path)]


def names_read(source: Source) -> Iterator[str]:
    """Attributes and words of a module; the keywords of calls and the fields of models are none."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            yield node.value


READ = {name for source in FILES for name in names_read(source)}


def models(kind: type[Section] = Section) -> Iterator[type[Section]]:
    for below in kind.__subclasses__():
        yield below
        yield from models(below)


def settings_of_all_packages() -> set[tuple[str, str, str]]:
    """Module, field and key of every setting that a package of ours declares."""
    for source in FILES:
        if (
            any(isinstance(node, ast.ClassDef) for node in source.tree.body)
            and "Section" in source.path.read_text()
        ):
            importlib.import_module(source.module)
    ours = {source.module for source in FILES}
    return {
        (model.__module__, name, model.model_fields[name].alias or name)
        for model in models()
        if model.__module__ in ours
        for name in model.__annotations__
        if name in model.model_fields
    }


def test_what_nothing_reads_is_named() -> None:
    named = {key.rpartition(".")[2] for key in UNREAD}
    unread = {
        f"{module}: {key}"
        for module, name, key in settings_of_all_packages()
        if module != PLANNED and name not in READ and key not in READ | named
    }
    assert unread == set()


@pytest.mark.parametrize("key", UNREAD)
def test_a_key_that_is_named_unread_is_a_setting(key: str) -> None:
    assert key.rpartition(".")[2] in {alias for _, _, alias in settings_of_all_packages()}


def test_a_setting_that_nothing_reads_would_be_seen() -> None:
    class Probe(Section):
        nothing_reads_this_one: int = 1

    assert "nothing_reads_this_one" not in READ - {*Path(__file__).stem.split()}
    assert Probe.model_fields["nothing_reads_this_one"].alias == "nothingReadsThisOne"
