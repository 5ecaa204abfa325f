"""A model selector: each call begins with the next model, and goes on to the others when one fails."""

import itertools
from contextlib import aclosing
from dataclasses import replace

from claw import Finished, ProviderError, hookimpl
from claw.runtime import checked_answer


class ByTurns:
    name = "acme-models"

    def __init__(self):
        self._calls = itertools.count()

    def select(self, models, providers, request, options):
        async def ask(messages, tool_choice):
            first = next(self._calls) % len(models)
            order = [*models[first:], *models[:first]]
            for model in order:
                provider = providers[model.provider]
                key = self._key(provider, options)
                full = replace(
                    request,
                    model=model.model,
                    messages=tuple(messages),
                    tool_choice=tool_choice,
                    credential=key,
                )
                begun = False
                try:
                    async with aclosing(provider.stream(full)) as events:
                        async for event in events:
                            begun = True
                            # Core checks the answer, and writes the name of the model into it.
                            is_last = isinstance(event, Finished)
                            yield checked_answer(event, model, messages, options) if is_last else event
                    return
                except ProviderError:
                    if begun or model is order[-1]:
                        raise

        return ask

    def credentials(self, provider, agent_dir=None):
        return provider.credentials()

    def _key(self, provider, options):
        keys = provider.credentials()
        if not keys:
            raise ProviderError("there is no key", reason="auth", where=provider.name)
        chosen = options.keys.get(provider.name)
        return next((key for key in keys if key.name == chosen), keys[0])


@hookimpl
def register_model_selectors(config):
    return [ByTurns()]
