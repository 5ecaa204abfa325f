"""OpenAI models for claw, and every endpoint that speaks its protocol."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from claw import Credential, PluginConfig, Provider, ProviderError, hookimpl, is_loopback
from claw_http_sdk import pooled
from claw_provider_sdk import base_url, configured_keys, each_provider

if TYPE_CHECKING:
    from claw_openai.endpoints import Endpoint

OTHERS = frozenset({"anthropic", "google", "mistral", "local", "offline"})
"""Providers of other plugins, which have a base URL too."""


@hookimpl
def register_providers(config: PluginConfig) -> Iterator[Provider]:
    """Register ``openai``, the endpoints of the table, and each further one in the file."""
    from claw_openai.endpoints import endpoints

    sections, table = config.settings.providers, endpoints()
    listed = [name for name in table if _is_ours(sections.get(name))]
    names = dict.fromkeys([*listed, *compatible(sections)])
    return each_provider(config, names, lambda name: _make_provider(config, name, table.get(name)))


def _make_provider(config: PluginConfig, name: str, known: "Endpoint | None") -> Provider | None:
    """Return one endpoint; None when it is disabled."""
    from claw_openai.config import OpenAIConfig
    from claw_openai.provider import OpenAI

    section = config.provider(name, OpenAIConfig)
    address = section.base_url or (config.environ.get("OPENAI_BASE_URL") if name == "openai" else None)
    address = address or (known.address(config.environ) if known else "")
    if not section.enabled:
        return None
    address = base_url(name, address) if address else ""
    here = is_loopback(urlsplit(address).hostname or "")
    keyless = here if section.keyless is None else section.keyless
    variables = [*(known.env if known else ()), f"{name.upper().replace('-', '_')}_API_KEY"]
    keys = partial(configured_keys, section, name, config.environ, variables, keyless=keyless)
    if not address and known:
        keys = partial(_no_address, name, known)
    return OpenAI(name, section, address, keys, pooled(config.http), known, here)


def _no_address(name: str, known: "Endpoint") -> tuple[Credential, ...]:
    """Raise instead of returning the keys of an endpoint without an address.

    :raises ProviderError: its address must be configured.
    """
    raise ProviderError(
        "the address of {title} is unknown",
        reason="bad_request",
        where=f"providers.{name}.baseUrl",
        fix="Set {variable}, or providers.{name}.baseUrl",
        title=known.title,
        variable=known.variable,
        name=name,
    )


def compatible(sections: Mapping[str, Any]) -> Iterable[str]:
    """Yield the names in ``providers`` that this plugin serves: ``type: openai``, or an address and no
    other plugin's name.
    """
    for name, section in sections.items():
        if _type_of(section) == "openai" or (_is_ours(section) and section.base_url and name not in OTHERS):
            yield name


def _is_ours(section: Any) -> bool:
    """Return true if a section, as far as present, leaves the endpoint to this plugin."""
    return _type_of(section) in (None, "openai")


def _type_of(section: Any) -> Any:
    return (section.model_extra or {}).get("type") if section else None
