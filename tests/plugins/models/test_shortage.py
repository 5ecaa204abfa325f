"""A machine without descriptors or memory: model calls wait for it, and neither key nor provider is blamed."""

import errno

import httpx
import pytest
from claw.agent.providers import GuardedProvider
from claw.config.models import ModelsSettings
from claw.contracts.errors import ProviderError
from claw.contracts.extensions import ModelOptions
from claw.contracts.provider import Finished
from claw.security.redaction import Redactor
from claw.testing import FakeProvider, says
from claw_models.failover import KeySelection, with_fallback
from claw_models.key_pool import KeyPool
from claw_provider_sdk import StreamTimeouts
from claw_provider_sdk.stream import stream_answer
from plugins.models.test_failover import BASE, refs


def wrapped(number: int) -> httpx.ConnectError:
    """The error of a client that keeps the system's error as its cause."""
    error = httpx.ConnectError("All connection attempts failed")
    error.__cause__ = OSError(number, "…")
    return error


SHORTAGES = {
    "EMFILE": OSError(errno.EMFILE, "Too many open files"),
    "ENFILE": OSError(errno.ENFILE, "Too many open files in system"),
    "ENOMEM": OSError(errno.ENOMEM, "Cannot allocate memory"),
    "wrapped": wrapped(errno.EMFILE),
    "text only": httpx.ConnectError("[Errno 24] Too many open files"),
    "memory": MemoryError(),
}


class OverHttp(FakeProvider):
    """A provider whose connections fail, through the stream of the SDK."""

    async def stream(self, request):
        if self._answers and isinstance(self._answers[0], BaseException):
            failed = self._answers.pop(0)

            async def ask():
                raise failed

            async for event in stream_answer(ask, None, service="a/m", timeouts=StreamTimeouts()):
                yield event
        async for event in super().stream(request):
            yield event


def asked(provider, keys, wait=60.0):
    """Ask a model as a turn does."""
    isolated = {provider.name: GuardedProvider(provider, ModelsSettings(), Redactor([]), print)}
    selection = KeySelection(keys, wait)
    return with_fallback(refs("a/m"), isolated, BASE, selection, ModelOptions())((), "auto")


@pytest.mark.parametrize(
    ("name", "kind"),
    [*((name, FakeProvider) for name in SHORTAGES), ("wrapped", OverHttp), ("text only", OverHttp)],
)
async def test_a_call_waits_for_this_machine_and_pauses_no_key(name, kind):
    keys = KeyPool()
    provider = kind(*(SHORTAGES[name] for _ in range(2)), says("hi"), name="a")

    events = [event async for event in asked(provider, keys)]

    assert isinstance(events[-1], Finished)
    [key] = provider.credentials()
    assert keys.is_healthy("a", key, "m")


@pytest.mark.parametrize("kind", [FakeProvider, OverHttp])
async def test_a_call_that_may_not_wait_names_the_machine_and_pauses_no_key(kind):
    keys, provider = KeyPool(), kind(SHORTAGES["wrapped"], name="a")

    with pytest.raises(ProviderError, match="this machine has no free file descriptors or memory") as failed:
        [event async for event in asked(provider, keys, wait=0.0)]

    assert failed.value.reason == "machine"
    assert "ulimit -n" in failed.value.fix
    assert keys.is_healthy("a", provider.credentials()[0], "m")


async def test_what_a_service_reports_about_its_own_files_counts_against_the_service():
    keys = KeyPool()
    report = ProviderError("the service failed: too many open files", reason="server", status=500)
    provider = FakeProvider(report, report, name="a")

    with pytest.raises(ProviderError):
        [event async for event in asked(provider, keys, wait=5.0)]

    assert not keys.is_healthy("a", provider.credentials()[0], "m")
