"""claw: a plugin host for chat agents.

The layers; a module imports only from its own layer and the layers above it in this list
(``tests/core/test_import_rules.py``):

    i18n         texts for people, in English and Chinese
    contracts    types that plugins and core exchange: messages, transcript, tools, providers, events, errors
    storage      durable files, SQLite, session transcripts, the clock
    config       the config file: read, checked, shown to each plugin
    security     admission, workspace files, redaction, child processes, untrusted text, the HTTP client
    policy       nine layers that decide which tool may be used, and why
    host         plugins: found, loaded, isolated, verified; the hook specifications
    agent        the turn: its context, loop, tool gate, session queue, routing
    app          the composition root; core's own plugin (terminal) and the fakes for tests (testing)
    cli          the command line

The names in ``__init__.pyi`` are public and versioned; everything else may move. Nothing is imported before it is asked
for.
"""

import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself is a dozen modules that ``claw --version`` does without
    from collections.abc import Callable
    from typing import Any

__version__ = "0.1.0"


def lazy_names(spec: "Any") -> "tuple[Callable[[str], Any], Callable[[], list[str]]]":
    """Return ``__getattr__`` and ``__dir__`` of a module whose names are imported on their first use.

    :param spec: ``__spec__`` of the module; the stub for type checkers beside it lists the names.
    """
    found: dict[str, str] | None = None

    def names() -> dict[str, str]:
        nonlocal found
        found = found or _names_in_stub(spec.loader.get_data(f"{spec.origin}i").decode())
        return found

    def get(name: str) -> "Any":
        if name != "__all__" and name not in names():
            raise AttributeError(f"module {spec.name!r} has no attribute {name!r}")
        value = sorted(names()) if name == "__all__" else getattr(import_module(names()[name]), name)
        vars(sys.modules[spec.name])[name] = value
        return value

    return get, lambda: [*vars(sys.modules[spec.name]), *names()]


def _names_in_stub(text: str) -> dict[str, str]:
    """Return public name → module, from a stub that has each name in a line of its own: ``NAME as NAME,``."""
    found, module = {}, ""
    for words in map(str.split, text.splitlines()):
        if words[:1] == ["from"]:
            module = words[1]
        elif words[1:2] == ["as"]:
            found[words[0]] = module
    return found


__getattr__, __dir__ = lazy_names(__spec__)
