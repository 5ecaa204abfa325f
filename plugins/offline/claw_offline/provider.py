"""The provider ``offline``: a rule-based stand-in that needs no key, no network and no model.

It parses plain requests in English and Chinese (``intents``), makes the tool calls they ask for in one answer,
and reports the results (``texts``); it says that it follows rules. It is deterministic and stateless: an
answer depends on the messages only.
"""

from collections.abc import AsyncIterator

from claw import Credential, Finished, ModelEvent, ProviderError, Request, TextDelta
from claw_provider_sdk import Price

_MODEL = "rules"
_CHUNK_CHARS = 24


class OfflineProvider:
    """A provider (``claw.Provider``) of one model, ``rules``."""

    name = "offline"

    async def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        """Answer by rule.

        :raises ProviderError: the request names another model.
        """
        if request.model != _MODEL:
            raise ProviderError(
                "the offline provider has one model, {model}",
                where=f"{self.name}/{request.model}",
                fix="use that one, or another provider's model as PROVIDER/MODEL",
                reason="model_not_found",
                model=f"{self.name}/{_MODEL}",
            )
        from claw_offline.reply import offline_answer  # imported on first use: most setups have a model

        message = offline_answer(request)
        text = message.text
        for start in range(0, len(text), _CHUNK_CHARS):
            yield TextDelta(text[start : start + _CHUNK_CHARS])
        yield Finished(message)

    def context_tokens(self, model: str) -> int:
        """Return the window: small, because rules need little history."""
        return 32_000

    def credentials(self) -> tuple[Credential, ...]:
        """Return one credential without a secret."""
        return (Credential("offline", ""),)

    def price(self, model: str) -> Price:
        """Return zero prices."""
        return Price(0.0, 0.0)
