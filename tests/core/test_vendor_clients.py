"""A vendor's SDK: imported when the first call needs it, one client for each key, and what to do when it is not there."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from claw import Credential, ProviderError
from claw_provider_sdk import VendorClients

MAIN, FALLBACK = Credential("main", "sk-1"), Credential("spare", "sk-2")


@pytest.fixture
def sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of an SDK that can be imported."""
    (tmp_path / "acme_sdk.py").write_text("import threading\nimported_in = threading.current_thread()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "acme_sdk", raising=False)
    return "acme_sdk"


async def test_each_key_has_one_client_however_many_ask_at_once(sdk: str) -> None:
    made: list[str] = []

    def make(sdk: Any, secret: str) -> object:
        made.append(secret)
        return object()

    clients = VendorClients(sdk, "acme-sdk", "claw-acme[sdk]", make)
    assert sdk not in sys.modules
    first = await asyncio.gather(*(clients.get(key) for key in (MAIN, MAIN, FALLBACK, None)))

    assert sorted(made) == ["", "sk-1", "sk-2"]
    assert first[0] is first[1] is await clients.get(MAIN)
    assert first[2] is not first[0]


async def test_the_sdk_is_imported_beside_the_loop(sdk: str) -> None:
    import threading

    imported = await VendorClients(sdk, "acme-sdk", "claw-acme[sdk]", lambda sdk, _: sdk).get(MAIN)

    assert imported.imported_in is not threading.main_thread()


async def test_an_sdk_that_is_missing_is_reported_with_the_command_that_provides_it() -> None:
    clients = VendorClients("acme.nowhere", "acme-sdk", "claw-acme[sdk]", lambda sdk, _: sdk)

    with pytest.raises(ProviderError, match=r"acme-sdk is not installed.*install.*claw-acme\[sdk\]") as error:
        await clients.get(MAIN)
    assert (error.value.reason, error.value.retryable) == ("bad_request", False)
    assert "sk-1" not in repr(vars(clients))
