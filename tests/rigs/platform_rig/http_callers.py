"""Programs that call the gateway with the ``openai`` SDK, and repeat a call with the same ``Idempotency-Key``.

Without a key only the SDK repeats a request, twice.
"""

import asyncio
import random
import uuid
from dataclasses import dataclass, replace

import httpx
from openai import APIConnectionError, APIError, APIStatusError, AsyncOpenAI

from rigs.platform_rig.facts import Attempt, Call
from rigs.platform_rig.labels import question_text

_AGAIN = {408, 409, 425, 429, 500, 502, 503, 504}
_MOST_SECONDS = 60.0
_SAME = 4
"""A caller who has got the same error so often in a row, with the same key, takes it for the answer."""


@dataclass
class _Open:
    """A call and its task."""

    call: Call
    task: "asyncio.Task[None] | None" = None


class HttpCallers:
    """All calls of a run.

    :ivar patience_seconds: time for which a caller repeats his call.
    :ivar keyed: calls have an ``Idempotency-Key``; without one only the SDK repeats them.
    :ivar timeout_seconds: time after which the SDK repeats a request.
    """

    def __init__(self, base_url: str, token: str, dice: random.Random, patience_seconds: float = 600) -> None:
        self._url, self._token, self._dice = base_url, token, dice
        self.patience_seconds = patience_seconds
        self.keyed, self.timeout_seconds = True, _MOST_SECONDS
        self._calls: list[_Open] = []

    def call(self, user: str, question: str, kind: str, *, probe: bool = False) -> None:
        """Begin a call."""
        opened = _Open(Call(question, user, kind, probe=probe))
        stream, key = self._dice.random() < 0.5, str(uuid.UUID(int=self._dice.getrandbits(128), version=4))
        opened.task = asyncio.create_task(self._repeat(opened, key, stream=stream))
        self._calls.append(opened)

    def calls(self) -> list[Call]:
        """Return the calls as they are now."""
        return [one.call for one in self._calls]

    @property
    def waiting(self) -> int:
        """Number of calls without an end."""
        return sum(one.task is not None and not one.task.done() for one in self._calls)

    def waiting_of(self, user: str) -> int:
        """Number of calls of a user without an end."""
        return sum(
            one.call.user == user and one.task is not None and not one.task.done() for one in self._calls
        )

    async def end(self) -> None:
        """Let everybody give up."""
        tasks = [one.task for one in self._calls if one.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _repeat(self, opened: _Open, key: str, *, stream: bool) -> None:
        ends = asyncio.get_running_loop().time() + self.patience_seconds
        # It calls loopback without TLS, and to read the certificates costs as much as ten calls.
        async with httpx.AsyncClient(
            verify=False, limits=httpx.Limits(max_keepalive_connections=0)
        ) as connections:
            client = AsyncOpenAI(
                base_url=self._url, api_key=self._token, max_retries=2, timeout=self.timeout_seconds,
                http_client=connections,
            )  # fmt: skip
            while asyncio.get_running_loop().time() < ends:
                attempt = await self._attempt(client, opened.call, key, stream=stream)
                opened.call = replace(opened.call, attempts=(*opened.call.attempts, attempt))
                if (attempt.status == 200 and attempt.complete) or (attempt.status not in {*_AGAIN, 0, 200}):
                    return
                if not self.keyed:
                    return  # another request would be another message
                if attempt.status == 500 and [attempt] * _SAME == list(opened.call.attempts[-_SAME:]):
                    return  # this is the answer to the key
                await asyncio.sleep(self._dice.uniform(0.3, 1.5))
        opened.call = replace(opened.call, gave_up=True)

    async def _attempt(self, client: AsyncOpenAI, call: Call, key: str, *, stream: bool) -> Attempt:
        messages = [{"role": "user", "content": question_text(call.question, call.kind)}]
        asked = {"model": "claw", "user": call.user, "messages": messages}
        headers = {"Idempotency-Key": key} if self.keyed else {}
        got: list[str] = []
        try:
            if not stream:
                done = await client.chat.completions.create(**asked, extra_headers=headers)  # type: ignore[call-overload]
                return Attempt(200, done.choices[0].message.content or "", True)
            complete = False
            async with await client.chat.completions.create(
                **asked, stream=True, extra_headers=headers
            ) as chunks:  # type: ignore[call-overload]
                async for chunk in chunks:
                    for choice in chunk.choices:
                        got.append(choice.delta.content or "")
                        complete |= choice.finish_reason is not None
            return Attempt(200, "".join(got), complete)
        except APIStatusError as why:
            return Attempt(why.status_code, str(why), False)
        except (APIConnectionError, httpx.HTTPError) as why:
            return Attempt(200 if got else 0, f"{type(why).__name__}: {why}", False)
        except APIError as why:  # an error event in a stream: the caller is told
            return Attempt(500, str(why), False)
