"""model_fallback_run: candidates and a script of what each model does → who was asked, who answered, what was met.

Runs without a key store: nothing rests. A user's abort is the cancelling of the task, as in the product.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from claw.agent.models import candidates
from claw.contracts.errors import ProviderError
from claw.contracts.events import AttemptFailed, Event
from claw.contracts.extensions import ModelOptions
from claw.contracts.provider import Credential, Finished, ModelCall, ModelEvent, Request, SystemPrompt
from claw.contracts.transcript import Assistant, Text
from claw_models.failover import with_fallback
from claw_provider_sdk.errors import provider_error

from cases.adapters.failover_reason import in_table, kind_of

FUNCTIONS = ("claw.agent.models:candidates", "claw_models.failover:with_fallback")


class Scripted:
    """A provider that does what the row says. Each model has a key of its own."""

    def __init__(self, name: str, script: dict[str, dict[str, Any]], calls: list[str]) -> None:
        self.name, self._script, self._calls = name, script, calls
        self._keys = 0

    def credentials(self) -> tuple[Credential, ...]:
        self._keys += 1
        return (Credential(f"key-{self._keys}", "secret"),)

    def context_tokens(self, model: str) -> int:
        return 200_000

    async def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        name = f"{self.name}/{request.model}"
        self._calls.append(name)
        does = self._script.get(name, {"message": "unscripted"})
        if does.get("error_name") == "AbortError":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)
        if not does.get("ok"):
            raise provider_error(name, status=does.get("status"), kind=kind_of(does), text=does["message"])
        yield Finished(Assistant((Text("fine"),)))


async def check(case: dict[str, Any], tmp_path: Path) -> None:
    given = case["input"]
    models = candidates(
        given["requested"], given["primary"], given["fallbacks"], {}, given["fallbacks_override"]
    )
    reported = await outcome(models, given["script"])
    wanted = [case["expect"], *case.get("also_ok", [])]
    assert any({key: reported.get(key) for key in one} == one for one in wanted), reported


async def outcome(models: Any, script: dict[str, Any]) -> dict[str, Any]:
    calls: list[str] = []
    attempts: list[dict[str, str]] = []
    providers = {name: Scripted(name, script, calls) for name in {ref.provider for ref in models}}
    tried = Request("", SystemPrompt(""), ())

    async def note(reported: str | Event) -> None:
        if isinstance(reported, AttemptFailed):
            attempts.append({"model": reported.model, "reason": in_table(reported.reason)})

    ask = with_fallback(models, providers, tried, options=ModelOptions(notice=note, emit=note))
    listening = asyncio.ensure_future(_answer(ask))
    try:
        answered = await listening
    except asyncio.CancelledError:
        return {"outcome": "rethrown_original", "calls": calls}
    except ProviderError as why:
        several = len(why.parts[2].get("told", "").split("; ")) > 1
        return {"outcome": "all_failed" if several else "rethrown_original", "calls": calls}
    return {"outcome": "success", "model": answered, "calls": calls, "attempts": attempts}


async def _answer(ask: ModelCall) -> str:
    async for event in ask((), "auto"):
        if isinstance(event, Finished):
            return event.message.model
    raise AssertionError
