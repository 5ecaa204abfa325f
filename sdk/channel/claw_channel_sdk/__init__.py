"""For authors of claw channels: splitting of texts, edit-in-place streams, HTTP routes.

Nothing is imported before it is asked for.
"""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NAMES = {
    "edit_stream": "EditStream",
    "routes": "WebAnswer WebRequest WebRoute",
    "splitting": "BlockSplitter split_text",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_MODULES)  # noqa: PLE0605


def __getattr__(name: str) -> "Any":
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value
