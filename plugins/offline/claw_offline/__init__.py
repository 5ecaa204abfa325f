"""A model provider for claw that needs no network and no key: it answers plain requests by rule."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from claw import hookimpl

if TYPE_CHECKING:
    from claw import PluginConfig, Provider


@hookimpl
def register_providers(config: "PluginConfig") -> "Iterable[Provider]":
    """Contribute ``offline``."""
    from claw_offline.provider import OfflineProvider

    return [OfflineProvider()]
