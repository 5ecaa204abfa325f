"""The models that a person can choose by name, and the one that a text means."""

from collections.abc import Sequence
from dataclasses import dataclass

from claw import UsageError, nearest
from claw.runtime import Agent, Runtime, models_of_agent


@dataclass(frozen=True, slots=True)
class KnownModels:
    """The models that a person can choose by name.

    :param known: names and aliases from the settings.
    :param providers: the available providers; any of their models can be named too.
    :param suggested: models that the providers know by name; only an error names them.
    """

    known: tuple[str, ...]
    providers: tuple[str, ...]
    suggested: tuple[str, ...] = ()

    def find(self, text: str) -> str:
        """Find a model by name: a known name or alias, its last part if unique, or ``provider/model`` of an available
        provider, without a blank or an empty part. A suffix ``@KEY`` is kept: the key to use first.

        :raises UsageError: there is none; the error names the nearest one.
        """
        wanted = text.strip()
        alike = [name for name in self.known if name.lower() == wanted.lower()]
        alike = alike or [name for name in self.known if name.partition("/")[2].lower() == wanted.lower()]
        if len(alike) == 1:
            return alike[0]
        head, _, key = wanted.rpartition("@")
        if head:
            return f"{self.find(head)}@{key}"
        provider, slash, model = wanted.partition("/")
        if slash and model and (fault := fault_of_spelling(wanted)):
            raise fault
        if slash and model and provider.lower() in self.providers:
            return f"{provider.lower()}/{model}"
        likely = nearest(provider, self.providers) if slash and model else None
        same = next((name for name in self.suggested if name.partition("/")[2] == wanted), "")
        near = same or _nearest_model(wanted, self.known) or (f"{likely}/{model}" if likely else "")
        near = near or _nearest_model(wanted, self.suggested)
        fix = (
            "no plugin provides {provider}: claw plugins list"
            if slash and model
            else "write it as provider/model"
        )
        fix = "did you mean {near}?" if near else fix
        raise UsageError("unknown model {name}", fix=fix, name=wanted, near=near, provider=provider)


def fault_of_spelling(full: str, name: str = "") -> UsageError | None:
    """Return the error of ``provider/model`` with a blank or an empty part; None when it has none.

    :param name: as the person wrote it, when that is an alias.
    """
    near = "/".join(filter(None, "".join(full.split()).split("/")))
    if near == full:
        return None
    provider, is_whole, _ = near.partition("/")
    fix = "Write provider/model, or an alias"
    if is_whole:
        fix = "Did you mean {near}? If it is its real name, write it into providers.{provider}.models"
    return UsageError("{name} is no model", fix=fix, name=name or full, near=near, provider=provider)


def _nearest_model(wanted: str, names: Sequence[str]) -> str:
    by_word = {name.partition("/")[2] or name: name for name in names} | {name: name for name in names}
    return by_word.get(nearest(wanted, by_word) or nearest(wanted.rpartition("/")[2], by_word) or "", "")


def known_models(agent: Agent, runtime: Runtime) -> KnownModels:
    """Return the models that the settings name and the providers that are loaded."""
    settings, providers = runtime.config.settings, runtime.registry.providers
    named = map(str, models_of_agent(agent, runtime.config, runtime.default_model))
    listed = [f"{name}/{model}" for name, section in settings.providers.items() for model in section.models]
    known = dict.fromkeys([*named, *settings.models.aliases, *listed])
    suggested = tuple(
        f"{name}/{model}"
        for name, one in providers.items()
        for model in getattr(one.value, "model_names", tuple)()
    )
    return KnownModels(tuple(filter(None, known)), tuple(providers), suggested)
