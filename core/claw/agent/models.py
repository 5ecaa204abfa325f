"""The models of a turn: the order in which they are tried, their keys, and a plain selector."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace

import msgspec

from claw.config.agents import Agent
from claw.config.loader import Config
from claw.contracts.errors import ClawError, ConfigError, ProviderError
from claw.contracts.extensions import ModelOptions, ModelSelector
from claw.contracts.provider import Credential, Finished, ModelCall, ModelEvent, ModelRef, Provider, Request
from claw.contracts.transcript import Assistant, Message
from claw.host.registry import Registry
from claw.i18n import t


def candidates(
    requested: str,
    primary: str,
    fallbacks: Sequence[str] = (),
    aliases: Mapping[str, str] | None = None,
    override: Sequence[str] | None = None,
) -> tuple[ModelRef, ...]:
    """Return the models to try, in order and without repeats: the requested one, the fallbacks, the primary.

    :param requested: for this turn; empty = the primary.
    :param primary: ``provider/model``; a model without a provider gets the primary's, and none when that has none: such a
        model is an error of the call. Blank entries are skipped.
    :param aliases: short name → ``provider/model``.
    :param override: fallbacks that replace ``fallbacks`` and the primary as the last one; empty = none at
        all.
    """
    by_alias = aliases or {}
    last_resorts = [*fallbacks, primary] if override is None else override
    default_provider = by_alias.get(primary.strip(), primary.strip()).rpartition("/")[0].partition("/")[0]
    found: dict[ModelRef, None] = {}
    for text in (requested if requested.strip() else primary, *last_resorts):
        full = by_alias.get(text.strip(), text.strip())
        if full:
            provider, slash, model = full.partition("/")
            found[ModelRef(provider, model) if slash else ModelRef(default_provider, full)] = None
    return tuple(found)


def models_of_agent(
    agent: Agent, config: Config, default_model: str, asked: str = "", fallbacks: Sequence[str] | None = None
) -> tuple[ModelRef, ...]:
    """Return the models of an agent, in the order in which they are asked.

    :param default_model: claw's own choice, for an agent that names none; never a fallback.
    :param asked: the model to ask first, as a person named it.
    :param fallbacks: in place of those that the agent names; None = those.
    """
    choice = agent.settings.model
    primary, own = (choice.primary, choice.fallbacks) if choice else ("", ())
    last_resorts = own if fallbacks is None and not primary else fallbacks
    return candidates(asked, primary or default_model, own, config.settings.models.aliases, last_resorts)


def selector_of(registry: Registry) -> ModelSelector:
    """Return the model selector in force: the one of a plugin, else :class:`FirstModel`."""
    return registry.selector.value if registry.selector else FIRST_MODEL


def select_models(
    registry: Registry,
    models: Sequence[ModelRef],
    request: Request,
    options: ModelOptions,
    providers: Mapping[str, Provider] | None = None,
) -> ModelCall:
    """Return a model call that tries these models as the selector in force does.

    :param request: all that does not change between calls; model, messages, tool choice and credential are filled in.
    :param providers: other providers than those of the registry, by name.
    """
    asked = providers or {name: one.value for name, one in registry.providers.items()}
    return selector_of(registry).select(models, asked, request, options)


class FirstModel:
    """The selector without a plugin: the first model that has a key, with its first key; a failure ends the call."""

    name = "first"

    def select(
        self,
        models: Sequence[ModelRef],
        providers: Mapping[str, Provider],
        request: Request,
        options: ModelOptions,
    ) -> ModelCall:
        """Return the model call."""

        async def ask(messages: Sequence[Message], tool_choice: str) -> AsyncIterator[ModelEvent]:
            ref, provider, key = self._first(models, providers, options)
            full = replace(
                request, model=ref.model, messages=tuple(messages), tool_choice=tool_choice, credential=key
            )
            empty, stream = True, provider.stream(full)
            async with aclosing(stream) as events:  # type: ignore[type-var]
                async for event in events:
                    empty = False
                    if isinstance(event, Finished):
                        yield checked_answer(event, ref, messages, options)
                    else:
                        yield event
            if empty:
                raise ProviderError("the model's answer was empty", reason="truncated", where=str(ref))

        return ask

    def credentials(self, provider: Provider, agent_dir: object = None) -> Sequence[Credential]:
        """Return the keys of the config file and the environment."""
        return provider.credentials()

    def _first(
        self, models: Sequence[ModelRef], providers: Mapping[str, Provider], options: ModelOptions
    ) -> tuple[ModelRef, Provider, Credential]:
        problems: list[ClawError] = []
        for ref in models[:1] if options.is_named else models:
            provider, wanted = providers.get(ref.provider), options.keys.get(ref.provider)
            try:
                keys = self.credentials(provider) if provider else ()
            except ClawError as why:
                problems.append(why)
                continue
            if provider and keys:
                return ref, provider, next((key for key in keys if key.name == wanted), keys[0])
            variables = options.key_variables.get(ref.provider, ())
            no_key = missing_key_error(ref.provider, variables, str(ref))
            problems.append(no_key if provider else missing_provider_error(ref))
        raise problems[0]


FIRST_MODEL = FirstModel()


def checked_answer(
    event: Finished, ref: ModelRef, messages: Sequence[Message], options: ModelOptions
) -> Finished:
    """Return a whole answer under the name of the requested model, as claw writes it.

    :raises ProviderError: it says nothing and calls nothing, and an answer to these messages must.
    """
    answer = event.message
    blank = not answer.text.strip() and not answer.tool_calls
    ended = answer.stop_reason in ("error", "aborted", "max_tokens")
    if blank and not ended and not options.may_be_empty(messages):
        raise empty_answer_error(answer, ref)
    return Finished(msgspec.structs.replace(answer, model=str(ref)))


def empty_answer_error(answer: Assistant, model: object) -> ProviderError:
    """Return the failure for an empty answer of ``provider/model``."""
    cut = answer.stop_reason == "length"
    why = t("it reached the limit of its length") if cut else ""
    return ProviderError(
        "the model gave an empty answer{said}",
        fix="Ask again, or choose another model with /model",
        reason="empty",
        retryable=True,
        where=str(model),
        name=str(model).partition("/")[0],
        said=f" ({why})" if why else "",
    )


def missing_model_error() -> ConfigError:
    """Return the error of an agent for which no model is configured, when none can be chosen either."""
    return ConfigError(
        "agents.defaults.model",
        "no model is configured and no installed provider has an API key",
        "Set a variable such as ANTHROPIC_API_KEY or name a model (claw models use PROVIDER/MODEL); to try claw without "
        "a key: claw plugins install claw-offline",
    )


def missing_provider_error(ref: ModelRef) -> ProviderError:
    """Return the failure for a model whose provider no plugin has, or that is written without one."""
    if not ref.provider:
        fix = "write it as provider/model: claw models use PROVIDER/MODEL"
        return ProviderError("{name} is no model", reason="model_not_found", fix=fix, name=ref.model)
    return ProviderError(
        "there is no provider {provider}",
        reason="model_not_found",
        where=str(ref),
        provider=ref.provider,
        fix="install a plugin that provides it (claw plugins list) or choose another model (claw models use "
        "PROVIDER/MODEL)",
    )


def missing_key_error(provider: str, variables: Sequence[str], where: str = "") -> ProviderError:
    """Return the error for a provider without a key.

    :param variables: environment variables that may hold it.
    """
    fix = "add one with claw auth add {provider}, or set {variables}, or set providers.{provider}.apiKey"
    plain = "add one with claw auth add {provider}, or set providers.{provider}.apiKey"
    return ProviderError(
        "{provider} has no API key",
        reason="auth",
        where=where,
        fix=fix if variables else plain,
        provider=provider,
        variables=" / ".join(variables),
    )
