"""The model that a person names, and behind it the key to use first: ``openai/gpt-4o@work``."""

from collections.abc import Mapping, Sequence

from claw import ModelSelector, UsageError
from claw.runtime import Agent, Runtime, models_of_agent

from claw_models.known_models import known_models


def split_key(text: str) -> tuple[str, str]:
    """Split what a person typed into a model and the key to use first: ``openai/gpt-4o@work``.

    A number behind the ``@`` belongs to the model's name, and so does a path: ``x@20260514``, ``@cf/meta/x``.
    """
    model, _, key = text.strip().rpartition("@")
    is_key = bool(model and key) and not key.isdecimal() and "/" not in key
    return (model, key) if is_key else (text.strip(), "")


class KeyChoices:
    """The part of a model selector that reads what a person typed to choose a model."""

    def find_model(self, text: str, agent: Agent, runtime: Runtime) -> str:
        """Return the model that a text means. :raises UsageError: there is none; the error names the nearest one."""
        return known_models(agent, runtime).find(text)

    def read_choice(
        self: ModelSelector, text: str, agent: Agent, runtime: Runtime, is_new: bool
    ) -> tuple[str, Mapping[str, str]]:
        """Return what a person chose: the model, and provider → the key that is to be used first.

        :param text: ``provider/model``, an alias, each with ``@KEY`` or without.
        :param is_new: it is chosen just now; a key that was chosen once and is gone is nobody's fault.
        :raises UsageError: the provider has no such key.
        """
        model, key = split_key(text)
        if not key or text in runtime.config.settings.models.aliases:
            return text, {}
        provider = models_of_agent(agent, runtime.config, runtime.default_model, model)[0].provider
        contribution = runtime.registry.providers.get(provider)
        keys = self.credentials(contribution.value, agent.dir) if contribution else ()
        if key in (names := [one.name for one in keys]):
            return model, {provider: key}
        if is_new:
            raise unknown_key_error(provider, key, names)
        return model, {}


def unknown_key_error(provider: str, name: str, names: Sequence[str]) -> UsageError:
    """Return the error for a key that was named and that the provider does not have.

    :param names: of its keys.
    """
    fix = "Its keys are: {names}" if names else "add one with claw auth add {provider} --name {name}"
    return UsageError("{provider} has no key {name}", fix=fix, provider=provider, name=name, names=[*names])
