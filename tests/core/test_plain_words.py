"""Texts for readers use the terms of the field: the manual, the README files, the changelog, and the source."""

import re
import runpy
from pathlib import Path

import pytest
from core.source import ROOT

FIGURES = runpy.run_path(str(ROOT / "bench" / "structure.py"))
TERMS = {
    **{word: term for word, term in FIGURES["PRIVATE_WORDS"].items() if term},
    "guest": "plugin, third party",
    "shelf": "result store",
    "mend": "fix",
    "mended": "fixed",
    "mending": "repair",
    "heal": "recover",
    "patience": "timeouts",
    "bunch": "key pool",
}
"""A word of claw's own → the term to use instead."""
PAGES = sorted({
    *ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("core/*.md"), *ROOT.glob("plugins/*/*.md"),
    *ROOT.glob("sdk/*/*.md"), *ROOT.glob("examples/*/*.md"), ROOT / "mkdocs.yml",
})  # fmt: skip
SOURCES = sorted(
    path for folder in ("core", "sdk", "plugins", "examples") for path in (ROOT / folder).glob("**/*.py")
)
PUBLISHED = re.compile(r"""["'](?:mend|mended|stranger)["']""")
"""Names in documents of schema version 1 and in ``state.db``, which stay as they are."""
_WORD = re.compile("|".join(rf"(?<![a-z]){word}s?(?![a-z])" for word in sorted(TERMS)), re.I)


def private_words(path: Path) -> list[str]:
    """Return each private word of a file with its line; names that were published, and in prose also old names in code
    spans of the changelog, do not count.
    """
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        text = PUBLISHED.sub("", line)
        text = re.sub(r"`[^`]*`", "", text) if path.name == "CHANGELOG.md" else text
        for word in _WORD.findall(text):
            term = TERMS.get(word.lower()) or TERMS[word.lower().removesuffix("s")]
            found.append(f"{path.relative_to(ROOT)}:{number}: {word} (write: {term})")
    return found


def test_no_page_uses_a_private_word() -> None:
    assert len(PAGES) > 70
    assert [fault for path in PAGES for fault in private_words(path)] == []


def test_no_source_uses_a_private_word() -> None:
    assert len(SOURCES) > 400
    assert [fault for path in SOURCES for fault in private_words(path)] == []


@pytest.mark.parametrize("word", TERMS)
def test_a_private_word_is_found_as_a_word_and_as_part_of_a_name(tmp_path: Path, word: str) -> None:
    for text in (f"A {word} waits", f"{word.title()}s wait", f"def {word}_rules(facts):"):
        assert len(_WORD.findall(text)) == 1, text


def test_other_words_and_published_names_are_not_private() -> None:
    assert _WORD.findall("the warehouse and the recommendation") == []
    assert _WORD.findall(PUBLISHED.sub("", '"fix": "mend",')) == []
