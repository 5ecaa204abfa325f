"""Anthropic models for claw, and every service that speaks the Messages API."""

from collections.abc import Iterator
from functools import partial
from urllib.parse import urlsplit

from claw import PluginConfig, Provider, hookimpl, is_loopback
from claw_http_sdk import pooled
from claw_provider_sdk import base_url, configured_keys


@hookimpl
def register_providers(config: PluginConfig) -> Iterator[Provider]:
    """Register ``anthropic``, and each ``providers.NAME`` with ``type: anthropic``."""
    from claw_anthropic.config import AnthropicConfig
    from claw_anthropic.provider import DEFAULT_URL, Anthropic

    sections = config.settings.providers
    others = [
        name for name, section in sections.items() if (section.model_extra or {}).get("type") == "anthropic"
    ]
    for name in dict.fromkeys(["anthropic", *others]):
        section = config.provider(name, AnthropicConfig)
        if not section.enabled:
            continue
        address = section.base_url or (
            config.environ.get("ANTHROPIC_BASE_URL") if name == "anthropic" else None
        )
        variables = [f"{name.upper().replace('-', '_')}_API_KEY"]
        address = base_url(name, address or DEFAULT_URL).removesuffix("/v1")
        here = is_loopback(urlsplit(address).hostname or "")
        keys = partial(configured_keys, section, name, config.environ, variables, keyless=here)
        yield Anthropic(name, section, address, keys, pooled(config.http), here)
