"""The config file: one YAML or JSON file in the home, as models; every error with its key, line and fix.

``source``, ``layout`` and ``outline`` read the plain tree and are light; the models (pydantic) are imported with the
first of the names below.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from claw.config.loaded import Agent, Config, judge, load, validate
    from claw.config.problems import ConfigErrors

__all__ = ["Agent", "Config", "ConfigErrors", "judge", "load", "validate"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("claw.config.loaded"), name)
