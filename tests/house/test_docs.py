"""The manual says what the code says."""

import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = runpy.run_path(str(DOCS / "make.py"))["PAGES"]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_that_comes_from_the_code_is_up_to_date(page):
    assert (DOCS / page).read_text(encoding="utf-8") == PAGES[page](), "run: python docs/make.py"


def test_every_setting_says_what_it_means_or_is_named_by_its_section():
    rows = [line for line in PAGES["settings.md"]().splitlines() if line.startswith("| `")]

    assert len(rows) > 150
