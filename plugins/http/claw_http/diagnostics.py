"""The check of ``channels.http`` in the config file."""

from collections.abc import Iterable, Sequence
from typing import Any

from claw import DiagnosticContext, Finding, PluginConfig, t

from claw_http.settings import GatewaySettings, HttpSettings


class HttpDiagnostic:
    """The diagnostic of this plugin: it judges the file alone."""

    name = "http"

    def __init__(self, config: PluginConfig) -> None:
        self._config = config

    def check(self, context: DiagnosticContext) -> Sequence[Finding]:
        """Return nothing: all that can be wrong is in the file."""
        return ()

    def check_config(self, setup: Any) -> Iterable[Finding]:
        """Report a listener whose API refuses every request."""
        settings = self._config.channel("http", HttpSettings)
        return token_findings(settings, self._config.section("gateway", GatewaySettings)) if settings else ()


def token_findings(settings: HttpSettings, gateway: GatewaySettings) -> list[Finding]:
    """Report if no caller of the API can authenticate; webhooks have secrets of their own."""
    token = gateway.auth.token
    if not settings.admits_callers or (token and not token.empty):
        return []
    fix = t("claw config set gateway.auth.token TOKEN (16 random characters or more)")
    return [Finding("gateway.auth.token", "credentials", t("is missing: the API refuses all requests"), fix)]
