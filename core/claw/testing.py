"""The fakes for tests: a provider, tools, a channel, and all of claw around them. They are in ``claw-testing``."""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def __getattr__(name: str) -> "Any":
    if name.startswith("__") and name != "__all__":
        raise AttributeError(name)
    try:
        fakes = import_module("claw_testing")
    except ModuleNotFoundError as why:
        if why.name != "claw_testing":
            raise
        raise ImportError("claw.testing comes with claw-testing: pip install pytest-claw") from None
    return getattr(fakes, name)
