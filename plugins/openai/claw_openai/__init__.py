"""OpenAI models for claw, and every endpoint that speaks its protocol."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from claw import PluginConfig, Provider, base_url, configured_keys, hookimpl, is_loopback

OTHERS = frozenset({"anthropic", "google", "mistral", "local", "offline"})
"""Providers of other plugins: with a base URL, but not ours."""


@hookimpl
def register_providers(config: PluginConfig) -> Iterator[Provider]:
    """``openai``, and each compatible endpoint in the file."""
    from claw_openai.config import OpenAIConfig
    from claw_openai.provider import DEFAULT_URL, OpenAI

    sections = config.settings.providers
    for name in dict.fromkeys(["openai", *compatible(sections)]):
        section = config.provider(name, OpenAIConfig)
        if not section.enabled:
            continue
        address = section.base_url or (config.environ.get("OPENAI_BASE_URL") if name == "openai" else None)
        address = base_url(name, address or DEFAULT_URL)
        keyless = (
            is_loopback(urlsplit(address).hostname or "") if section.keyless is None else section.keyless
        )
        variables = [f"{name.upper().replace('-', '_')}_API_KEY"]
        keys = partial(configured_keys, section, name, config.environ, variables, keyless=keyless)
        yield OpenAI(name, section, address, keys, config.http)


def compatible(sections: Mapping[str, Any]) -> Iterable[str]:
    """The names in ``providers`` that this plugin serves: ``type: openai``, or an address and nobody else's name."""
    for name, section in sections.items():
        kind = (section.model_extra or {}).get("type")
        if kind == "openai" or (kind is None and section.base_url and name not in OTHERS):
            yield name
