"""The manual says what the code says."""

import re
import runpy
import shlex
import subprocess
import sys
from functools import reduce
from operator import getitem
from pathlib import Path

import pytest
import pytest_claw
from claw.host import hookspecs
from claw.host.discovery import states_of
from claw.host.manifest import installed_plugins
from claw.host.state import owned_models
from claw_admin.config_file.schema import config_schema

DOCS = Path(__file__).parents[2] / "docs"
NAV = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
PAGES = runpy.run_path(str(DOCS / "make.py"))["PAGES"]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_that_comes_from_the_code_is_up_to_date(page):
    assert (DOCS / page).read_text(encoding="utf-8") == PAGES[page](), "run: python docs/make.py"


def test_every_setting_in_the_manual_says_what_it_means():
    rows = [
        re.split(r"(?<!\\)\|", line) for line in PAGES["settings.md"]().splitlines() if line.startswith("| `")
    ]

    assert len(rows) > 500
    assert [key.strip() for _, key, _, _, meaning, _ in rows if not meaning.strip()] == []


def without_meaning(schema, whole, key="", inside=()):
    """Yield each property of a JSON Schema that neither has a description nor refers to a section that has one."""
    forms = [schema]
    for form in forms:
        forms += [*form.get("anyOf", ()), *form.get("allOf", ())]
        if "$ref" in form:
            forms.append(reduce(getitem, form["$ref"].removeprefix("#/").split("/"), whole))
    if key and not any(form.get("description") for form in forms):
        yield key
    for form in forms:
        if id(form) in inside:
            continue
        deeper = (*inside, id(form))
        for name, value in form.get("properties", {}).items():
            yield from without_meaning(value, whole, f"{key}.{name}".lstrip("."), deeper)
        for value, at in ((form.get("items"), "[]"), (form.get("additionalProperties"), ".NAME")):
            for name, inner in _properties(value, whole):
                yield from without_meaning(inner, whole, f"{key}{at}.{name}", deeper)


def _properties(value, whole):
    forms = [value] if isinstance(value, dict) else []
    for form in forms:
        forms += [*form.get("anyOf", ()), *form.get("allOf", ())]
        if "$ref" in form:
            forms.append(reduce(getitem, form["$ref"].removeprefix("#/").split("/"), whole))
        yield from form.get("properties", {}).items()


def test_every_setting_in_the_schema_for_editors_says_what_it_means(tmp_path):
    states = states_of(installed_plugins(), {"CLAW_HOME": str(tmp_path)})
    ours = [one for one in states if one.found.is_first_party]
    schema = config_schema([one.found.declares for one in ours], owned_models(ours))

    assert {"telegram", "discord", "feishu", "http"} <= schema["properties"]["channels"]["properties"].keys()
    assert sorted(set(without_meaning(schema, schema))) == []
    probe = {"properties": {"a": {"type": "array", "items": {"properties": {"b": {}}}, "description": "x"}}}
    assert list(without_meaning(probe, probe)) == ["a[].b"]


def test_the_site_leads_to_every_page_and_to_no_other():
    listed = re.findall(r"[\w./-]+\.md", NAV)
    assert {page for page in listed if (DOCS / page).exists()} == {
        path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")
    }
    of_plugins = {
        path.relative_to(DOCS.parent).as_posix() for path in DOCS.parent.glob("plugins/*/README.md")
    }
    assert of_plugins <= set(listed)
    assert [page for page in listed if not (DOCS / page).exists() and not (DOCS.parent / page).exists()] == []


@pytest.mark.parametrize(("link", "code"), [("index.md", 0), ("nowhere.md", 1)])
def test_the_check_of_the_site_that_ci_runs_fails_on_a_broken_link(tmp_path, link, code):
    pytest.importorskip("mkdocs")
    [step] = re.findall(r"run\.py docs (build.*?) --site-dir", (DOCS.parent / ".ci" / "run").read_text())
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "index.md").write_text(f"# Page\n\n[a link]({link})\n")
    (tmp_path / "mkdocs.yml").write_text(
        f"INHERIT: {DOCS.parent / 'mkdocs.yml'}\ndocs_dir: pages\nhooks: []\nnav: [index.md]\ntheme: {{name: mkdocs}}\n"
    )
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        *shlex.split(step),
        "-f",
        tmp_path / "mkdocs.yml",
        "-d",
        tmp_path / "site",
    ]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == code, done.stderr


def test_the_manual_is_a_site_without_a_broken_link(tmp_path):
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "-f", DOCS.parent / "mkdocs.yml", "-d", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


HOOKS = [name for name in vars(hookspecs) if name.startswith("register_")]


@pytest.mark.parametrize("hook", HOOKS)
def test_the_docstring_of_a_hook_is_its_manual(hook):
    fields = re.findall(r"^ *:(\w+)[ :]", getattr(hookspecs, hook).__doc__, re.M)
    assert {"when", "limits", "failure", "default"} <= set(fields)
    assert "Example::" in getattr(hookspecs, hook).__doc__


def test_the_page_of_a_hook_shows_every_class_that_its_objects_may_have():
    objects = PAGES["hooks/filters.md"]().partition("## The objects")[2].partition("## Types")[0]

    assert re.findall(r"^class (\w+)", objects, re.M) == ["MessageFilter", "Describer"]
    assert "def inbound(" in objects
    assert "def outbound(" in objects


def test_every_hook_has_a_suite():
    assert [hook for hook in HOOKS if hook not in pytest_claw.SUITE_OF_HOOK] == []
    assert all(getattr(pytest_claw, name) for name in pytest_claw.SUITE_OF_HOOK.values())
