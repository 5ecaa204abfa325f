"""What every model provider keeps to, tried against a service on this machine that speaks its true protocol."""

import asyncio
from typing import Any

import pytest
from claw import (
    Assistant,
    Finished,
    Provider,
    ProviderError,
    Request,
    TextDelta,
    ToolSpec,
)
from claw.testing.services import Reply

from pytest_claw.faults import KEY
from pytest_claw.served import Served, asks

LS = ToolSpec(
    "ls",
    "List a folder",
    {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)
FAILURES = {
    401: ("auth", False),
    400: ("bad_request", False),
    429: ("rate_limit", True),
    500: ("server", True),
}


class ProviderSuite(Served):
    """Seven promises of a provider. ``plugin``, ``name``, ``service`` are yours: see :class:`pytest_claw.served.Served`.

    :cvar patience_seconds: within which the connection must be closed once nobody listens.
    """

    patience_seconds = 3.0

    @pytest.mark.parametrize("piece_bytes", [0, 1, 7])
    def test_words_and_calls_come_through_in_odd_pieces(self, piece_bytes: int) -> None:
        async def trial(service: Any, model: Provider) -> None:
            shown, message = await answer(model, asks(tools=(LS,)))
            assert shown == message.text == "看一下 👀 it is open."
            wanted = [("ls", {"path": "项目"}), ("ls", {"path": "."})]
            assert [(call.name, call.arguments) for call in message.tool_calls] == wanted
            assert len({call.id for call in message.tool_calls}) == 2, "each call has an id of its own"
            assert message.stop_reason == "tool_use"

        calls = [("ls", {"path": "项目"}), ("ls", {"path": "."})]
        self._try(trial, [Reply(text="看一下 👀 it is open.", calls=calls, piece_bytes=piece_bytes)])

    def test_what_a_call_cost_is_told(self) -> None:
        async def trial(service: Any, model: Provider) -> None:
            _, message = await answer(model)
            used = message.usage
            told = {"input": used.input, "output": used.output, "cache_read": used.cache_read}
            assert told == {"input": 12, "output": 3, "cache_read": 100}

        self._try(trial, [Reply(text="fine", usage={"input": 12, "output": 3, "cache_read": 100})])

    @pytest.mark.parametrize("status", FAILURES)
    def test_a_refusal_is_told_by_its_class(self, status: int) -> None:
        async def trial(service: Any, model: Provider) -> None:
            error = await failure(model)
            assert (error.reason, error.retryable) == FAILURES[status]
            assert error.status == status
            if status == 429:
                assert error.retry_after_seconds == 9

        reply = Reply(status=status, headers={"retry-after": "9"}, body={"error": {"message": "not now"}})
        self._try(trial, lambda request: reply)

    def test_an_answer_that_breaks_off_is_no_answer(self) -> None:
        async def trial(service: Any, model: Provider) -> None:
            error = await failure(model)
            assert error.reason in ("network", "truncated")
            assert error.retryable

        self._try(trial, lambda request: Reply(raw=b": nothing came yet\n\n", cut=True))

    def test_who_leaves_closes_the_connection(self) -> None:
        async def cancelled(service: Any, model: Provider) -> None:
            begun = asyncio.Event()

            async def listen() -> None:
                async for _ in model.stream(asks()):
                    begun.set()

            task = asyncio.ensure_future(listen())
            await asyncio.wait_for(begun.wait(), 10)
            task.cancel()
            await _left(service, self.patience_seconds)
            with pytest.raises(asyncio.CancelledError):
                await task

        async def closed(service: Any, model: Provider) -> None:
            stream: Any = model.stream(asks())
            await anext(stream)
            await stream.aclose()
            await _left(service, self.patience_seconds)

        for trial in (cancelled, closed):
            self._try(trial, [Reply(text="a long story that nobody hears to its end", hang=True)])

    def test_one_attempt_is_one_request(self) -> None:
        async def trial(service: Any, model: Provider) -> None:
            await failure(model)
            assert len(service.requests) == 1, "claw decides when to try again, and with which key"

        self._try(trial, lambda request: Reply(status=503, body={"error": {"message": "not now"}}))

    def test_a_key_is_never_shown(self) -> None:
        async def trial(service: Any, model: Provider) -> None:
            shown = [repr(model), repr(vars(model)), repr(model.credentials())]
            for _ in range(2):
                error = await failure(model)
                shown += [str(error), repr(error), repr(vars(error)), repr(error.__cause__)]
            assert KEY not in "\n".join(shown)

        echo = Reply(status=401, body={"error": {"message": f"Incorrect API key provided: {KEY}"}})
        page = Reply(status=500, body=f"<p>{KEY}</p>".encode(), content_type="text/html")
        self._try(trial, [echo, page])

    def _try(self, trial: Any, script: Any) -> None:
        async def whole() -> None:
            async with self.service(script) as service, self.provider(service.url) as model:
                await trial(service, model)

        asyncio.run(whole())


async def answer(model: Provider, request: Request | None = None) -> tuple[str, Assistant]:
    """The words that were streamed, and the whole answer."""
    shown, last = [], None
    async for event in model.stream(request or asks()):
        if isinstance(event, TextDelta):
            shown.append(event.text)
        last = event
    assert isinstance(last, Finished), "the last event is Finished"
    return "".join(shown), last.message


async def failure(model: Provider) -> ProviderError:
    """What the call fails with."""
    with pytest.raises(ProviderError) as error:
        await answer(model)
    return error.value


async def _left(service: Any, seconds: float) -> None:
    try:
        await asyncio.wait_for(service.left.wait(), seconds)
    except TimeoutError:
        pytest.fail("the connection is still open")
