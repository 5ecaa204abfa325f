"""The manual says what the code says."""

import re
import runpy
from pathlib import Path

import pytest
import pytest_claw
from claw.host import hookspecs

DOCS = Path(__file__).parents[2] / "docs"
NAV = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
PAGES = runpy.run_path(str(DOCS / "make.py"))["PAGES"]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_that_comes_from_the_code_is_up_to_date(page):
    assert (DOCS / page).read_text(encoding="utf-8") == PAGES[page](), "run: python docs/make.py"


def test_every_setting_says_what_it_means_or_is_named_by_its_section():
    rows = [line for line in PAGES["settings.md"]().splitlines() if line.startswith("| `")]

    assert len(rows) > 150


def test_the_site_leads_to_every_page_and_to_no_other():
    listed = re.findall(r"[\w./-]+\.md", NAV)
    assert {page for page in listed if (DOCS / page).exists()} == {
        path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")
    }
    assert [page for page in listed if not (DOCS / page).exists() and not (DOCS.parent / page).exists()] == []


HOOKS = [name for name in vars(hookspecs) if name.startswith("register_")]


@pytest.mark.parametrize("hook", HOOKS)
def test_the_docstring_of_a_hook_is_its_manual(hook):
    fields = re.findall(r"^ *:(\w+)[ :]", getattr(hookspecs, hook).__doc__, re.M)
    assert {"when", "limits", "failure", "default"} <= set(fields)
    assert "Example::" in getattr(hookspecs, hook).__doc__


def test_every_hook_has_a_suite_but_the_one_of_typer():
    assert {hook for hook in HOOKS if hook not in pytest_claw.SUITE_OF_HOOK} == {"register_commands"}
    assert all(getattr(pytest_claw, name) for name in pytest_claw.SUITE_OF_HOOK.values())
