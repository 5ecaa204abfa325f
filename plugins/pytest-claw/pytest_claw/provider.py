"""Conformance tests of a model provider against a service that speaks its real protocol."""

import asyncio
from typing import Any

import pytest
from claw import (
    Assistant,
    Image,
    ProviderError,
    SystemPrompt,
    Text,
    TextDelta,
    Thinking,
    ToolCall,
    ToolSpec,
    User,
)
from claw.testing import tool_result_of
from claw_testing import ReceivedRequest, ServiceConnection, ServiceReply

from pytest_claw.faults import KEY
from pytest_claw.provider_base import ProviderSuiteBase
from pytest_claw.provider_trial import ProviderTrial
from pytest_claw.relay import Relay

LS = ToolSpec(
    "ls",
    "List a folder",
    {
        "type": "object",
        "properties": {"path": {"type": "string", "enum": ["项目", "."]}},
        "required": ["path"],
    },
)
FAILURES = {
    401: ("auth", False),
    400: ("bad_request", False),
    404: ("model_not_found", False),
    429: ("rate_limit", True),
    500: ("server", True),
}
PICTURE = Image(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
    "image/png",
)
_TEXT = "看一下 👀 it is open."
_CALLS = (("ls", {"path": "项目"}), ("ls", {"path": "."}))


class ProviderSuite(ProviderSuiteBase):
    """Checks of a provider. ``plugin``, ``name``, ``service`` are yours: see
    :class:`pytest_claw.provider_base.ProviderSuiteBase`.

    ``service`` plays scripts, so that each word of an answer is known. With ``live`` in its place the same tests
    run against a real service, and check what holds for any answer.

    :cvar limit_seconds: time limit for closing the connection after the stream is abandoned.
    """

    limit_seconds = 3.0

    @pytest.mark.parametrize("piece_bytes", [0, 1, 7])
    def test_text_and_calls_survive_any_chunking(self, piece_bytes: int) -> None:
        async def trial(on: ProviderTrial) -> None:
            shown, message = await on.answer(tools=() if on.live else (LS,))
            assert shown == message.text != ""
            assert message.model in ("", f"{self.name}/{on.asks().model}"), (
                "the model that was asked is named"
            )
            if on.live:
                assert message.stop_reason in ("stop", "length")
                return
            assert shown == _TEXT
            assert [(call.name, call.arguments) for call in message.tool_calls] == [*_CALLS]
            assert len({call.id for call in message.tool_calls}) == 2, "each call has an id of its own"
            assert message.stop_reason == "tool_use"

        reply = ServiceReply(text=_TEXT, calls=_CALLS, piece_bytes=piece_bytes)
        self._try(trial, [reply], piece_bytes=piece_bytes)

    @pytest.mark.parametrize("choice", ["required", "ls"])
    def test_a_tool_that_must_be_called_is_called(self, choice: str) -> None:
        async def trial(on: ProviderTrial) -> None:
            _, message = await on.answer(tools=(LS,), tool_choice=choice, **_token_limit(on))
            called = {call.name for call in message.tool_calls}
            assert called == {"ls"}
            assert all(call.id and call.arguments["path"] in ("项目", ".") for call in message.tool_calls)
            assert message.stop_reason == "tool_use"
            if not on.live:
                await on.answer(tools=(LS,), tool_choice="auto")
                assert on.sent(0) != on.sent(1), "tool_choice is not in the request"

        self._try(trial, lambda request: ServiceReply(calls=_CALLS[:1]))

    def test_a_call_and_its_result_are_sent_back(self) -> None:
        async def trial(on: ProviderTrial) -> None:
            question = User((Text("List it."),))
            _, message = await on.answer(question, tools=(LS,), tool_choice="ls", **_token_limit(on))
            [call, *more] = message.tool_calls
            assert not more
            result = tool_result_of(call, "notes.txt")
            _, message = await on.answer(question, message, result, tools=(LS,), **_token_limit(on))
            assert message.text or message.tool_calls
            if not on.live:
                assert message.text == "notes.txt is there."
                assert on.service.refusals == []
                assert "notes.txt" in on.sent(), "the tool result is not in the request"

        self._try(trial, [ServiceReply(calls=_CALLS[:1]), "notes.txt is there."])

    def test_the_usage_of_a_call_is_reported(self) -> None:
        async def trial(on: ProviderTrial) -> None:
            used = (await on.answer())[1].usage
            if on.live:
                assert used.output
                assert (used.input or 0) + (used.cache_read or 0) > 0
                return
            counts = {"input": used.input, "output": used.output, "cache_read": used.cache_read}
            assert counts == {"input": 12, "output": 3, "cache_read": 100}

        self._try(trial, [ServiceReply(text="fine", usage={"input": 12, "output": 3, "cache_read": 100})])

    def test_the_instructions_reach_the_model(self) -> None:
        async def trial(on: ProviderTrial) -> None:
            orders = SystemPrompt("Always answer in rhymes.", "Today it is raining, and the cellar is wet.")
            _, message = await on.answer(system=orders)
            if not on.live:
                assert orders.stable in on.sent()
                assert orders.volatile in on.sent()
                return
            with_orders, without = message.usage, (await on.answer(system=SystemPrompt("Hi.")))[1].usage
            read = [(one.input or 0) + (one.cache_read or 0) for one in (with_orders, without)]
            assert read[0] - read[1] > 10, (
                f"the service read {read[0]} tokens with instructions, {read[1]} without"
            )

        self._try(trial, ["fine"])

    def test_max_tokens_is_obeyed(self) -> None:
        async def trial(on: ProviderTrial) -> None:
            _, message = await on.answer(User((Text("Tell a long story."),)), max_tokens=7)
            if on.live:
                assert message.stop_reason == "length"
                assert 0 < (message.usage.output or 0) <= 7
            else:
                assert ": 7" in on.sent(), "max_tokens is not in the request"

        self._try(trial, ["fine"])

    def test_two_calls_at_once_do_not_mix(self) -> None:
        def echo(request: ReceivedRequest) -> ServiceReply:
            words = str(request.body).partition("number ")[2].partition("!")[0]
            return ServiceReply(text=words, pause_seconds=0.001)

        async def trial(on: ProviderTrial) -> None:
            numbers = ["one", "two", "three"]
            asking = (on.answer(User((Text(f"number {number}!"),))) for number in numbers)
            answers = await asyncio.gather(*asking)
            assert all(shown == message.text != "" for shown, message in answers)
            if not on.live:
                assert [shown for shown, _ in answers] == numbers

        self._try(trial, echo)

    def test_a_picture_is_read_or_refused_as_a_bad_request(self) -> None:
        async def trial(on: ProviderTrial) -> None:
            refused = None
            try:
                await on.answer(User((Text("What is this?"), PICTURE)))
            except ProviderError as error:
                refused = error
            assert refused is None or (refused.reason, refused.retryable) == ("bad_request", False), refused

        self._try(trial, ["a dot"])

    def test_a_history_of_other_providers_is_accepted(self) -> None:
        async def trial(on: ProviderTrial) -> None:
            shown, message = await on.answer(*_FOREIGN_PAST, tools=(LS,), tool_choice="none")
            assert shown == message.text
            if not on.live:
                assert on.service.refusals == []
                assert "a secret thought" not in on.sent(), "the request holds thinking of another provider"

        self._try(trial, ["fine"])

    @pytest.mark.parametrize("status", FAILURES)
    def test_an_error_has_the_reason_of_its_status(self, status: int) -> None:
        if self.live and status != 401:
            pytest.skip(f"a live service cannot be made to answer {status}")

        async def trial(on: ProviderTrial) -> None:
            error = await on.failure()
            assert (error.reason, error.retryable) == FAILURES[status]
            assert error.status == status
            if status == 429:
                assert error.retry_after_seconds == 9

        reply = ServiceReply(
            status=status, headers={"retry-after": "9"}, body={"error": {"message": "not now"}}
        )
        self._try(trial, lambda request: reply, apiKey=KEY)

    def test_a_conversation_that_is_too_long_is_reported_as_that(self) -> None:
        async def trial(on: ProviderTrial) -> None:
            words = "too long " * (on.live.longest if on.live else 1)
            error = await on.failure(User((Text(words),)))
            assert (error.reason, error.retryable) == ("context_overflow", False)

        said = {"error": {"message": "prompt is too long: 250000 tokens > 200000 maximum"}}
        self._try(trial, lambda request: ServiceReply(status=400, body=said))

    def test_an_answer_that_breaks_off_is_an_error(self) -> None:
        async def trial(on: ProviderTrial) -> None:
            error = await on.failure()
            assert error.reason in ("network", "truncated")
            assert error.retryable

        self._try(trial, lambda request: ServiceReply(raw=b": nothing came yet\n\n", cut=True), cut=True)

    def test_a_silent_service_times_out(self) -> None:
        async def trial(on: ProviderTrial) -> None:
            async with asyncio.timeout(self.limit_seconds + 2):
                error = await on.failure()
            assert (error.reason, error.retryable) == ("timeout", True)

        limits = {"beginTimeoutSeconds": 0.3}
        self._try(trial, lambda request: ServiceReply(play=ServiceConnection.hang), silent=True, **limits)

    def test_closing_the_stream_closes_the_connection(self) -> None:
        def story(on: ProviderTrial) -> Any:
            return on.model.stream(on.asks(User((Text("Tell a very long story."),)), max_tokens=1000))

        async def cancelled(on: ProviderTrial) -> None:
            begun = asyncio.Event()

            async def listen() -> None:
                async for event in story(on):
                    if isinstance(event, TextDelta):
                        begun.set()

            task = asyncio.ensure_future(listen())
            await asyncio.wait_for(begun.wait(), 10)
            task.cancel()
            await _left(on.service, self.limit_seconds)
            with pytest.raises(asyncio.CancelledError):
                await task

        async def closed(on: ProviderTrial) -> None:
            stream = story(on)
            while not isinstance(await anext(stream), TextDelta):
                pass
            await stream.aclose()
            await _left(on.service, self.limit_seconds)

        for trial in (cancelled, closed):
            self._try(trial, [ServiceReply(text="a long story without an end", hang=True)])

    def test_one_attempt_is_one_request(self) -> None:
        async def trial(on: ProviderTrial) -> None:
            await on.failure()
            assert on.asked == 1, "claw decides when to try again, and with which key"

        refusal = ServiceReply(status=503, body={"error": {"message": "not now"}})
        self._try(trial, lambda request: refusal, apiKey=KEY)

    def test_a_key_is_never_shown(self) -> None:
        async def trial(on: ProviderTrial) -> None:
            shown = [repr(on.model), repr(vars(on.model)), repr(on.model.credentials())]
            for _ in range(2):
                error = await on.failure()
                shown += [str(error), repr(error), repr(vars(error)), repr(error.__cause__)]
            assert KEY not in "\n".join(shown)

        echo = ServiceReply(status=401, body={"error": {"message": f"Incorrect API key provided: {KEY}"}})
        page = ServiceReply(status=500, body=f"<p>{KEY}</p>".encode(), content_type="text/html")
        self._try(trial, [echo, page], apiKey=KEY)

    def _try(
        self,
        trial: Any,
        script: Any,
        piece_bytes: int = 0,
        *,
        cut: bool = False,
        silent: bool = False,
        **section: Any,
    ) -> None:
        """Play ``script``; with a live service, the relay does to its answer what the script would have
        done.
        """

        async def whole() -> None:
            live = self.live
            way = Relay(live.url, piece_bytes, cut=cut, silent=silent) if live else self.service(script)
            async with way as service, self.provider(service.url, **section) as model:
                await trial(ProviderTrial(model, service, live))

        asyncio.run(whole())


_ODD, _LONG = ToolCall("工具/1", "ls", {}), ToolCall("x" * 80, "ls", {})
_AGAIN = ToolCall("call_1", "ls", {"path": "."})
_FOREIGN_PAST = (
    User((Text("look"),)),
    Assistant((Thinking("a secret thought", signature="s", maker="acme"), _ODD, _LONG)),
    tool_result_of(_ODD, "a"),
    tool_result_of(_LONG, is_error=True),
    Assistant((Text(""),)),
    User((Text("again"),)),
    Assistant((Text("well"), _AGAIN)),
    tool_result_of(_AGAIN),
    Assistant((_AGAIN,)),
    tool_result_of(_AGAIN, "b"),
)
"""Ids, thoughts and empty texts as any other provider leaves them, the same id twice."""


def _token_limit(on: ProviderTrial) -> dict[str, int]:
    """Return a larger token limit for a live model, whose tool calls are long."""
    return {"max_tokens": 40} if on.live else {}


async def _left(service: Any, seconds: float) -> None:
    try:
        await asyncio.wait_for(service.left.wait(), seconds)
    except TimeoutError:
        pytest.fail("the connection is still open")
