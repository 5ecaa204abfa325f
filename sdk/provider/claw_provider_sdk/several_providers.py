"""Several providers of one plugin, of which one with a wrong key does not cost the others."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator

from claw import (
    ClawError,
    ConfigError,
    Credential,
    ModelEvent,
    PluginConfig,
    Provider,
    ProviderError,
    Request,
    t,
)


class MisconfiguredProvider:
    """A placeholder for a provider whose settings have an error, while other providers of its plugin work."""

    def __init__(self, name: str, why: ConfigError) -> None:
        self.name, self.why = name, why

    async def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        """Raise: it is never called, because there is no key."""
        raise ProviderError("{why}", reason="bad_request", where=self.name, why=self.why)
        yield  # makes this function an async generator

    def context_tokens(self, model: str) -> int:
        """Return 0: unknown, and nothing is sent."""
        return 0

    def credentials(self) -> tuple[Credential, ...]:
        """Raise the error. :raises ConfigError: the wrong key in the file, and the problem."""
        raise self.why


def each_provider(
    config: PluginConfig, names: Iterable[str], begin: Callable[[str], Provider | None]
) -> Iterator[Provider]:
    """Yield the result of ``begin`` for each of several providers; None is left out.

    A provider with a wrong key is a placeholder that raises the error for those who request it, and a fault of the
    plugin (``config.faults``), which stays in use.
    """
    for name in names:
        try:
            if (made := begin(name)) is not None:
                yield made
        except ConfigError as why:
            text, advice = f"{why.where}: {why.problem}", why.fix or t("correct {key}", key=why.where)
            values = {"name": name, "why": text, "advice": advice}
            config.faults.append(ClawError("provider {name} cannot be used: {why}", fix="{advice}", **values))
            yield MisconfiguredProvider(name, why)
