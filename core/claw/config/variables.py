"""``${NAME}`` in the texts of the file. No pydantic here: commands that only list need it too."""

import re
from collections.abc import Mapping
from typing import Any

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class Filled(str):
    """A text from the file whose ``${NAME}`` were filled in; ``template`` is what the person wrote."""

    template: str
    missing: tuple[str, ...]


def fill(text: str, environ: Mapping[str, str]) -> str:
    """Put environment variables into ``text``. One that is not set stays as written and is named in ``missing``."""
    names = _VARIABLE.findall(text)
    if not names:
        return text
    filled = Filled(_VARIABLE.sub(lambda match: environ.get(match[1], match[0]), text))
    filled.template = text
    filled.missing = tuple(dict.fromkeys(name for name in names if name not in environ))
    return filled


PROSE = frozenset({"systemPrompt", "system_prompt", "prompt", "placeholder", "instructions"})
"""Keys whose text is for a model or a person: a ``${NAME}`` in them is left alone."""


def filled(value: Any, environ: Mapping[str, str], key: str = "") -> Any:
    """The tree with environment variables put in, apart from prose."""
    if isinstance(value, str):
        return value if key in PROSE else fill(value, environ)
    if isinstance(value, Mapping):
        return {name: filled(part, environ, name) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [filled(part, environ, key) for part in value]
    return value
