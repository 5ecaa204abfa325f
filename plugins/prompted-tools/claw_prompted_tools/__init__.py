"""Tool calls in plain text, for models without native tool calling."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from claw import hookimpl

if TYPE_CHECKING:
    from claw import PluginConfig, ProviderMiddleware


@hookimpl
def register_provider_middleware(config: "PluginConfig") -> "Iterable[ProviderMiddleware]":
    """Wrap every provider in the interpreter of prompted calls."""
    from claw_prompted_tools.middleware import PromptedTools

    return [PromptedTools(config.settings.providers)]
