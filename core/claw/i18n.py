"""Texts for people, in English or Chinese.

The English template is its own id, as with gettext: ``say("no agent {id}", id="x")``. Translations are data
(``locale/LANG/*.json``), read when a language is chosen; a plugin may add its own.
``tests/core/test_i18n.py`` lists templates without a translation.
"""

import json
import re
from collections.abc import Mapping
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

LANGUAGES = {"en": ", ", "zh": "、"}  # with what stands between the members of a list
_COUNTED = re.compile(r"\{(\w+):([^{}|]+)\|([^{}|]+)\}")
_table: dict[str, str] = {}
_packages: "list[str | Traversable]" = ["claw"]
_language = "en"


def use_language(language: str) -> None:
    """Switch this process to ``language``.

    :param language: ``en`` or ``zh``; a longer tag such as ``zh_CN.UTF-8`` counts by its first two letters,
        and an unknown one is English.
    """
    global _language
    _language = language[:2].lower() if language[:2].lower() in LANGUAGES else "en"
    _table.clear()
    for package in _packages:
        _load(package)


def add_translations(package: "str | Traversable") -> None:
    """Add a plugin's own translations: ``locale/LANG/*.json`` inside its import package, read when a language
    needs them.

    They replace no existing translation. A file that cannot be read is ignored.

    :param package: its name, or its folder: then it is not imported.
    """
    if package not in _packages:
        _packages.append(package)
        _load(package)


def language_of(environ: Mapping[str, str]) -> str:
    """Return the language that an environment names; English when it names none."""
    return next((environ[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if environ.get(name)), "en")


def translations(language: str, package: "str | Traversable" = "claw") -> dict[str, str]:
    """Return every template of ``language`` with its translation, from all data files of a package; it may
    have none.
    """
    joined: dict[str, str] = {}
    if isinstance(package, str):
        from importlib import resources  # 15 ms, and only other languages than English need it

        folder = resources.files(package).joinpath("locale", language)
    else:
        folder = package.joinpath("locale", language)
    for entry in sorted(folder.iterdir(), key=lambda e: e.name) if folder.is_dir() else ():
        if entry.name.endswith(".json"):
            joined |= json.loads(entry.read_text(encoding="utf-8"))
    return joined


def _load(package: "str | Traversable") -> None:
    if _language == "en":
        return
    # ImportError: the package is gone; TypeError: it is no folder, or the file holds no table
    with suppress(ImportError, OSError, ValueError, TypeError):
        known = translations(_language, package).items()
        _table.update({of: text for of, text in known if of not in _table and isinstance(text, str)})


def t(template: str, /, **values: object) -> str:
    """Format ``template`` with ``values``, in the language in use.

    :param template: English, with ``{name}`` fields; a literal brace is doubled. ``{count:call|calls}`` is
        the number with singular or plural: ``1 call``, ``2 calls``. A list is joined with the comma of the language.
    """
    text = _COUNTED.sub(lambda place: _plural(place, values), _table.get(template, template))
    return text.format(**{name: listed(value) for name, value in values.items()}) if values else text


def listed(value: object) -> object:
    """Return a list as one text in the language in use; another value as it is."""
    return LANGUAGES[_language].join(map(str, value)) if isinstance(value, list | tuple) else value


def with_label(label: str, text: object) -> str:
    """Return ``label: text``, with the colon of the language in use."""
    return t("{label}: {text}", label=label, text=text)


def _plural(place: re.Match[str], values: Mapping[str, object]) -> str:
    name, one, many = place.groups()
    return f"{{{name}}} {one if str(values.get(name)) == '1' else many}"
