"""The environment of a provider test: a provider with a scripted or a live service."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from claw import Assistant, Finished, Provider, ProviderError, Request, TextDelta

from pytest_claw.provider_base import asks
from pytest_claw.relay import LiveService, Relay

_SHORT = 12


@dataclass(frozen=True)
class ProviderTrial:
    """A provider, and the service that it calls.

    :param service: of ``claw_testing.services``, which says exactly what the test wrote; or the relay to a
        live one.
    :param live: None when the service plays a script.
    """

    model: Provider
    service: Any
    live: LiveService | None = None

    def asks(self, *messages: Any, **fields: Any) -> Request:
        """Return a request with the provider's own key; for a live model with a small token limit."""
        fields = {"credential": self.model.credentials()[0], **fields}
        if self.live:
            fields = {"model": self.live.model, "max_tokens": _SHORT, **fields}
        return asks(*messages, **fields)

    async def answer(self, *messages: Any, **fields: Any) -> tuple[str, Assistant]:
        """Return the streamed text, and the whole answer."""
        shown, ends = [], []
        async for event in self.model.stream(self.asks(*messages, **fields)):
            assert not ends, "nothing comes behind Finished"
            if isinstance(event, TextDelta):
                shown.append(event.text)
            elif isinstance(event, Finished):
                ends.append(event.message)
        assert ends, "the last event is Finished"
        assert all(shown), "a piece of nothing"
        return "".join(shown), ends[0]

    async def failure(self, *messages: Any, **fields: Any) -> ProviderError:
        """Return the error of the call."""
        with pytest.raises(ProviderError) as error:
            await self.answer(*messages, **fields)
        return error.value

    @property
    def asked(self) -> int:
        """The number of requests that the service got."""
        return self.service.asked if isinstance(self.service, Relay) else len(self.service.requests)

    def sent(self, number: int = -1) -> str:
        """Return the body of a request, as text; of a scripted service."""
        return json.dumps(self.service.requests[number].body, ensure_ascii=False)
