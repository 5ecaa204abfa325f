"""The config file: one YAML or JSON file in the home, read into models; every error has its key, line and fix.

``source``, ``paths`` and ``summary`` read the plain tree and import little; the models (pydantic) are imported on the
first use of a name below.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from claw.config.errors import ConfigErrors
    from claw.config.loader import Agent, Config, load_config, validate_source

__all__ = ["Agent", "Config", "ConfigErrors", "load_config", "validate_source"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("claw.config.loader"), name)
