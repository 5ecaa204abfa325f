"""The capabilities of a model besides text: the way it gets its tools, and a context window large enough for
them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from claw import ClawError, ConfigError, Credential, Finding, ModelRef, Provider, t, tool_mode_of
from claw.runtime import IDLE, LOADED, Settings, Setup, command_host


@dataclass(frozen=True, slots=True)
class ModelCapabilities:
    """The capabilities of one model.

    :param tools: native, prompt or none; empty = unknown.
    :param context_tokens: the size of its context window in tokens; None = unknown.
    :param needs_key: False = its service takes none.
    :param fault: why it cannot be called, whatever keys there are.
    :param keyless: the credentials without a secret, by which failures of such a service are counted.
    """

    tools: str = ""
    context_tokens: int | None = None
    needs_key: bool = True
    fault: str = ""
    keyless: tuple[Credential, ...] = ()


def configured_capabilities(settings: Settings, ref: ModelRef) -> ModelCapabilities:
    """Return what the config file says of a model."""
    section = settings.providers.get(ref.provider)
    facts = section.models.get(ref.model) if section else None
    if section is None:
        return ModelCapabilities()
    window = (facts and facts.context_tokens) or (section.model_extra or {}).get("contextTokens")
    mode = (facts and facts.tools) or section.tools or ""
    return ModelCapabilities(mode, window if isinstance(window, int) else None)


def provider_capabilities(provider: Provider, settings: Settings, ref: ModelRef) -> ModelCapabilities:
    """Return what the model's provider says, overridden by the config file."""
    mode, window, fault = configured_capabilities(settings, ref).tools, None, ""
    needs_key, keyless = True, tuple[Credential, ...]()
    try:
        mode = tool_mode_of(provider, ref.model, mode or None)
        window = provider.context_tokens(ref.model)
        keyless = tuple(key for key in provider.credentials() if not key.secret)
        needs_key = not keyless
    except ConfigError:  # a key cannot be read: the list of keys reports it
        pass
    except ClawError as why:
        fault = str(why)
    except Exception:  # noqa: BLE001 - third-party code; what it fails to say stays unknown
        pass
    return ModelCapabilities(mode, window if isinstance(window, int) else None, needs_key, fault, keyless)


def capabilities_of(setup: Setup, wanted: Mapping[ModelRef, str]) -> dict[ModelRef, ModelCapabilities]:
    """Return the capabilities of models, each given with the id of its plugin; only those plugins are loaded."""
    host = command_host()
    ready = {one.id for one in host.plugin_states if one.state == LOADED} & set(wanted.values())
    providers: dict[str, Any] = {}
    for plugin in sorted(ready):
        for provider in (host.ask(plugin) or {}).get("register_providers", ()):
            providers.setdefault(provider.name, provider)
    settings = setup.config.settings
    unused = (one for one in host.plugin_states if one.state not in (LOADED, IDLE))
    faults = {one.id: t("plugin {id}: {problem}", id=one.id, problem=one.why) for one in unused}
    return {
        ref: provider_capabilities(providers[ref.provider], settings, ref)
        if ref.provider in providers
        else replace(
            configured_capabilities(settings, ref),
            fault=faults.get(plugin) or t("no plugin provides {provider}", provider=ref.provider),
        )
        for ref, plugin in wanted.items()
    }


def capability_findings(
    settings: Settings, aptitudes: Iterable[tuple[ModelRef, ModelCapabilities]]
) -> Iterator[Finding]:
    """Yield what a person should know of these models: no native tools, or a context window too small for
    tools."""
    least, small = settings.models.least_context, settings.models.small_context
    for ref, one in aptitudes:
        if one.tools == "prompt":
            why = t("it has no native tool calling: tools are described in its prompt")
            yield Finding(str(ref), "tools", why, grave=False)
        elif one.tools == "none":
            yield Finding(str(ref), "tools", t("it has no tool calling: it gets no tools"), grave=False)
            continue
        window = one.context_tokens or small
        if window < least:
            why = t("its context window is {window} tokens, and an agent with tools needs at "
                    "least {least}",
                      window=f"{window:,}", least=f"{least:,}")  # fmt: skip
            fix = t(
                "choose another model (claw models use PROVIDER/MODEL), set its real window "
                "(providers.{name}.models.MODEL.contextTokens), or lower models.leastContext",
                name=ref.provider,
            )
            yield Finding(str(ref), "window", why, fix)
        elif window < small:
            why = t(
                "its context window of {window} tokens is small for tools and longer conversations",
                window=f"{window:,}",
            )
            yield Finding(str(ref), "window", why, grave=False)
