"""Every provider of a house heard through, as its settings say; and models too small for tools kept from them."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from claw.config.settings import Settings
from claw.errors import ProviderError
from claw.guard.redact import Redactor
from claw.kit import Brought
from claw.provider import Provider
from claw.spoken.interpreter import Interpreter, Mode, mode_of
from claw.wall import name_of
from claw.words import say


def interpreted(
    providers: Mapping[str, Brought[Provider]],
    settings: Settings,
    complain: Callable[[str], None],
    redactor: Redactor | None = None,
) -> dict[str, Brought[Provider]]:
    """The providers, each heard through.

    :param complain: told once of each model that reads little.
    :param redactor: knows what no answer may hold.
    """
    return {
        name: Brought(one.plugin, _Heard(one.thing, settings, complain, redactor).interpreter)
        for name, one in providers.items()
    }


class _Heard:
    """What the settings and the provider say of its models, asked once of each."""

    def __init__(
        self,
        provider: Provider,
        settings: Settings,
        complain: Callable[[str], None],
        redactor: Redactor | None,
    ) -> None:
        self._provider, self._complain = provider, complain
        self._section = settings.providers.get(provider.name)
        self._least, self._small = settings.models.least_context, settings.models.small_context
        self._modes: dict[str, Mode] = {}
        self._windows: dict[str, int] = {}
        self.interpreter = Interpreter(provider, self._mode, self._admit, redactor)

    def _mode(self, model: str) -> Mode:
        if model not in self._modes:
            section = self._section
            facts = section.models.get(model) if section else None
            written = (facts.tools if facts else None) or (section.tools if section else None)
            self._modes[model] = self._asked(partial(mode_of, self._provider, model, written), "native")
        return self._modes[model]

    def _admit(self, model: str) -> None:
        """Whether a model may be given tools.

        :raises ProviderError: it reads too little for them, and the next model may not.
        """
        if model not in self._windows:
            window = self._asked(partial(self._provider.context_tokens, model), 0)
            self._windows[model] = window if isinstance(window, int) else 0
            if self._least <= self._windows[model] < self._small:
                told = "{model} reads {window} tokens: with tools and a longer conversation that is little"
                self._complain(say(told, model=f"{self._provider.name}/{model}", window=f"{window:,}"))
        window = self._windows[model]
        if 0 < window < self._least:
            raise ProviderError(
                "it reads {window} tokens, and an agent with tools needs {least} at least",
                fix="choose another model (claw models use PROVIDER/MODEL), say how much it really reads "
                "(providers.{name}.models.MODEL.contextTokens), or lower models.leastContext",
                reason="bad_request", where=f"{self._provider.name}/{model}", name=self._provider.name,
                window=f"{window:,}", least=f"{self._least:,}",
            )  # fmt: skip

    def _asked(self, ask: Callable[[], Any], otherwise: Any) -> Any:
        try:
            return ask()
        except Exception as why:  # noqa: BLE001 - a stranger's code
            told = say("provider {name} failed: {why}", name=self._provider.name, why=name_of(why))
            self._complain(told)
            return otherwise
