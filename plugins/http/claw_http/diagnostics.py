"""The checks of ``channels.http``: its settings, and before a start its address."""

from collections.abc import Iterable, Sequence
from typing import Any

from claw import ClawError, ConfigError, DiagnosticContext, Finding, PluginConfig, t
from claw.runtime import GATEWAY_LOCK
from claw_config_sdk import lock_holder

from claw_http.call_options import TABLES as CALL_TABLES
from claw_http.listener import try_address
from claw_http.lost_responses import TABLE as LOST_TABLE
from claw_http.origins import can_be_host, listening_address
from claw_http.settings import MIN_TOKEN_CHARS, GatewaySettings, HttpSettings, is_weak
from claw_http.short_sessions import TABLES as SESSION_TABLES


class HttpDiagnostic:
    """The diagnostic of this plugin."""

    name = "http"
    tables = (*CALL_TABLES, *SESSION_TABLES, LOST_TABLE)

    def __init__(self, config: PluginConfig) -> None:
        self._config = config

    def check(self, context: DiagnosticContext) -> Sequence[Finding]:
        """Report an address at which a start could not listen. A gateway that runs reports its own listener."""
        running = lock_holder(context.setup.config.home / GATEWAY_LOCK) is not None
        if running or self._config.channel("http", HttpSettings) is None:
            return ()
        gateway = self._config.section("gateway", GatewaySettings)
        try:
            try_address(listening_address(gateway.bind), gateway.port)
        except ClawError as why:
            return [Finding(why.where or "channels.http", "port", why.problem, why.fix)]
        return ()

    def check_config(self, setup: Any) -> Iterable[Finding]:
        """Report a listener whose API refuses every request, or whose token can be guessed, and useless names."""
        settings = self._config.channel("http", HttpSettings)
        if settings is None:
            return ()
        gateway = self._config.section("gateway", GatewaySettings)
        return [*token_findings(settings, gateway), *host_findings(settings)]


def token_findings(settings: HttpSettings, gateway: GatewaySettings) -> list[Finding]:
    """Report if no caller of the API can authenticate, or anyone could; webhooks have secrets of their own."""
    token = gateway.auth.token
    if not settings.admits_callers:
        return []
    if token and not token.empty:
        try:
            weak = is_weak(token)
        except ConfigError as wrong:
            return [Finding("gateway.auth.token", "credentials", wrong.problem, wrong.fix)]
        why = t("the token is weak: a placeholder, or too short")
        fix = t("Use at least {count} random characters", count=MIN_TOKEN_CHARS)
        return [Finding("gateway.auth.token", "credentials", why, fix)] if weak else []
    fix = t("claw config set gateway.auth.token TOKEN (16 random characters or more)")
    return [Finding("gateway.auth.token", "credentials", t("is missing: the API refuses all requests"), fix)]


def host_findings(settings: HttpSettings) -> list[Finding]:
    """Report the entries of ``hosts`` that no request can name."""
    fix = t("Write a name or an address alone, without scheme, port, path or brackets: claw.example.com")
    return [
        Finding(
            f"channels.http.hosts[{index}]",
            "settings",
            t("{value} is no host name, so it has no effect", value=repr(one)),
            fix,
        )
        for index, one in enumerate(settings.hosts)
        if not can_be_host(one)
    ]
