"""The HTTP listener of claw, as the channel ``http``: webhooks of plugins, ``GET /health``, and an
OpenAI-compatible API.

One listener, deny by default: a path is compared exactly as it was sent, and no body is read before
the head is checked.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from claw import hookimpl

from claw_http import hookspecs as hookspecs

if TYPE_CHECKING:
    from claw import Channel, Diagnostic, PluginConfig, ProviderMiddleware, Service


@hookimpl
def register_channels(config: "PluginConfig") -> "Iterable[Channel]":
    from claw_http.settings import HttpSettings

    if settings := config.channel("http", HttpSettings):
        from claw_http.channel import HttpChannel

        yield HttpChannel(config, settings)


@hookimpl
def register_provider_middleware(config: "PluginConfig") -> "Iterable[ProviderMiddleware]":
    """Contribute the options of API calls: the caller's instructions, earlier messages and limit of an answer."""
    from claw_http.caller_middleware import CallerOptions

    return [CallerOptions(lambda: config.database)]


@hookimpl
def register_services(config: "PluginConfig") -> "Iterable[Service]":
    """Delete the sessions of API calls that nobody continues."""
    from claw_http.settings import HttpSettings

    if not config.channel("http", HttpSettings):
        return []
    from claw_http.short_sessions import ShortSessionCleaner, ShortSessions

    return [ShortSessionCleaner(ShortSessions(config.database, config.clock))]


@hookimpl
def register_diagnostics(config: "PluginConfig") -> "Iterable[Diagnostic]":
    """Contribute the check of the token."""
    from claw_http.diagnostics import HttpDiagnostic

    return [HttpDiagnostic(config)]
