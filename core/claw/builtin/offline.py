"""The provider ``offline``: a stand-in that needs no key, no network and no model.

It is a set of rules, and says so: it reads plain requests in English and Chinese (``wishes``), calls the tools they
ask for, all at once, and tells what came back (``answers``). The same request always gets the same answer; what it
knows is what stands in the messages.
"""

from collections.abc import AsyncIterator

from claw import Credential, Finished, ModelEvent, Price, ProviderError, Request, TextDelta

_MODEL = "rules"
_PIECE_CHARS = 24


class Offline:
    """A provider (``claw.Provider``) of one model, ``rules``."""

    name = "offline"

    async def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        """Answer by rule.

        :raises ProviderError: another model than its one was asked for.
        """
        if request.model != _MODEL:
            raise ProviderError(
                "the stand-in has one model, {model}",
                where=f"{self.name}/{request.model}",
                fix="use that one, or name another service's model as PROVIDER/MODEL",
                reason="model_not_found",
                model=f"{self.name}/{_MODEL}",
            )
        from claw.builtin.offline_reply import reply  # the rules, at first need: most houses have a model

        message = reply(request)
        text = message.text
        for start in range(0, len(text), _PIECE_CHARS):
            yield TextDelta(text[start : start + _PIECE_CHARS])
        yield Finished(message)

    def context_tokens(self, model: str) -> int:
        """What it would read of a long past: all of it costs nothing, so a small window is enough."""
        return 32_000

    def credentials(self) -> tuple[Credential, ...]:
        """One, without a secret."""
        return (Credential("offline", ""),)

    def price(self, model: str) -> Price:
        """Nothing."""
        return Price(0.0, 0.0)
