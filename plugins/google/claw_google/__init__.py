"""Gemini models for claw, and every service that speaks ``generateContent``."""

from collections.abc import Iterator
from functools import partial
from urllib.parse import urlsplit

from claw import PluginConfig, Provider, hookimpl, is_loopback
from claw_http_sdk import pooled
from claw_provider_sdk import base_url, configured_keys


@hookimpl
def register_providers(config: PluginConfig) -> Iterator[Provider]:
    """Register ``google``, and each ``providers.NAME`` with ``type: google``."""
    from claw_google.config import GoogleConfig
    from claw_google.provider import DEFAULT_URL, Google

    sections = config.settings.providers
    others = [
        name for name, section in sections.items() if (section.model_extra or {}).get("type") == "google"
    ]
    for name in dict.fromkeys(["google", *others]):
        section = config.provider(name, GoogleConfig)
        if not section.enabled:
            continue
        ours = name == "google"
        address = section.base_url or (config.environ.get("GOOGLE_GEMINI_BASE_URL") if ours else None)
        variables = (
            ["GEMINI_API_KEY", "GOOGLE_API_KEY"] if ours else [f"{name.upper().replace('-', '_')}_API_KEY"]
        )
        address = base_url(name, address or DEFAULT_URL)
        here = is_loopback(urlsplit(address).hostname or "")
        keys = partial(configured_keys, section, name, config.environ, variables, keyless=here)
        yield Google(name, section, address, keys, pooled(config.http), here)
