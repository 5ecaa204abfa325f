"""Words: what claw says to a person, in English or Chinese.

The English template is its own id, as with gettext: ``say("no agent {id}", id="x")``. Translations are data
(``locale/LANG/*.json``), read when a language is chosen. ``tests/core/test_words.py`` lists what has no translation.
"""

import json
from collections.abc import Mapping

LANGUAGES = ("en", "zh")
_table: dict[str, str] = {}


def use(language: str) -> None:
    """Speak ``language`` from now on, in this process.

    :param language: ``en`` or ``zh``; a longer tag such as ``zh_CN.UTF-8`` counts by its first two letters, and
        anything unknown is English.
    """
    _table.clear()
    short = language[:2].lower()
    if short in LANGUAGES and short != "en":
        _table.update(translations(short))


def language_of(environ: Mapping[str, str]) -> str:
    """The language that an environment asks for; English when it asks for none."""
    return next((environ[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if environ.get(name)), "en")


def translations(language: str) -> dict[str, str]:
    """Every template of ``language`` with its translation, joined from all data files."""
    from importlib import resources  # 15 ms, and only other languages than English need it

    joined: dict[str, str] = {}
    for entry in sorted(resources.files("claw").joinpath("locale", language).iterdir(), key=lambda e: e.name):
        if entry.name.endswith(".json"):
            joined |= json.loads(entry.read_text(encoding="utf-8"))
    return joined


def say(template: str, /, **values: object) -> str:
    """Put ``values`` into ``template``, in the language in use.

    :param template: English, with ``{name}`` places; a literal brace is doubled.
    """
    text = _table.get(template, template)
    return text.format(**values) if values else text
