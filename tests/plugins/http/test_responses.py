"""The Responses API with the vendor's own client: text, histories, continuation, streams, refusals."""

import asyncio
import json

import claw_http
import openai
import pytest
from claw import Assistant, Text, TextDelta
from claw.testing import FakeProvider, Harness, says
from claw_http.agent_request import RequestRules
from claw_http.failures import BadRequest
from claw_http.responses import read
from claw_provider_sdk import provider_error
from hypothesis import given, strategies as st
from openai.types.responses import Response
from plugins.http.sdk_gateway import GATEWAY, a_gateway, served

ALLOWED = {"channels": {"http": {"callerInstructions": "allow"}}}
CUT = Assistant((Text("half a sen"),), stop_reason="length")
REFUSED = Assistant((), stop_reason="error", error="the model refused to answer this")


def said_to(harness, number=-1):
    """The request of a model call as the provider got it."""
    return harness.app.registry.providers["fake"].value.requests[number].request


def texts(request):
    return ["".join(b.text for b in one.content if isinstance(b, Text)) for one in request.messages]


async def respond(client, given="hello", **more):
    return await client.responses.create(model="claw", input=given, **more)


def strictly(answer):
    """The response, validated by the types of the SDK, which builds its objects without a check."""
    return Response.model_validate(answer.to_dict(), strict=False)


async def test_a_text_is_answered_by_a_turn_of_the_agent():
    async with a_gateway(says("Nothing is on today.", input=7, output=3)) as (client, harness):
        answer = await respond(client, "What is on today?")

    assert answer.output_text == "Nothing is on today."
    assert (answer.status, answer.error, answer.incomplete_details) == ("completed", None, None)
    assert (answer.usage.input_tokens, answer.usage.output_tokens, answer.usage.total_tokens) == (7, 3, 10)
    assert answer.id.startswith("resp_") and answer.model == "claw"
    strictly(answer)
    assert harness.log_lines == []


async def test_a_response_is_continued_by_its_id_also_after_a_restart(tmp_path):
    plugins = {"http": claw_http}
    previous = openai.omit
    for number, model in enumerate(
        (FakeProvider(says("Hello Ann")), FakeProvider(says("Ann"), says("Still Ann")))
    ):
        async with (
            Harness(model, config=GATEWAY, plugins=plugins, home=tmp_path) as harness,
            served(harness) as client,
        ):
            for text in ("I am Ann",) if number == 0 else ("who am I?", "and now?"):
                answer = await respond(client, text, previous_response_id=previous)
                previous = answer.id
            newest = said_to(harness)
    assert [one.splitlines()[-1] for one in texts(newest)] == [
        "I am Ann", "Hello Ann", "who am I?", "Ann", "and now?",
    ]  # fmt: skip
    assert answer.output_text == "Still Ann"


async def test_only_the_newest_kept_response_of_the_same_agent_can_be_continued():
    agents = {"agents": {"list": [{"id": "main", "default": True}, {"id": "coder"}]}}
    async with a_gateway(*[says(str(number)) for number in range(9)], config=agents) as (client, harness):
        first = await respond(client)
        await respond(client, previous_response_id=first.id)
        lost = await respond(client, store=False)
        other = await respond(client)
        before = len(harness.app.registry.providers["fake"].value.requests)
        for previous, why, model in (
            (first.id, "only the newest", "claw"), (lost.id, "was not kept", "claw"),
            (other.id, "another agent", "claw/coder"), ("resp_" + "0" * 32, "kept for 7 days", "claw"),
            ("resp_*", "no such response", "claw"),
        ):  # fmt: skip
            with pytest.raises(openai.BadRequestError, match=why) as refused:
                await client.responses.create(model=model, input="x", previous_response_id=previous)
            assert refused.value.code == "previous_response_not_found"
            assert refused.value.param == "previous_response_id"
        assert len(harness.app.registry.providers["fake"].value.requests) == before


async def test_a_list_of_messages_is_the_history_of_a_response_that_is_not_kept():
    async with a_gateway(says("Hello Ann"), says("Ann"), says("x")) as (client, harness):
        first = await respond(client, "I am Ann", store=False)
        history = [
            {"role": "user", "content": [{"type": "input_text", "text": "I am Ann"}]},
            *[item.to_dict() for item in first.output],
            {"role": "user", "content": "who am I?"},
        ]
        second = await respond(client, history)
        assert [one.splitlines()[-1] for one in texts(said_to(harness))] == [
            "I am Ann",
            "Hello Ann",
            "who am I?",
        ]
        with pytest.raises(openai.BadRequestError, match="was not kept"):
            await respond(client, previous_response_id=second.id)
        kept = await respond(client)
        with pytest.raises(openai.BadRequestError, match="one message"):
            await respond(client, history, previous_response_id=kept.id)


async def test_instructions_need_the_setting_and_come_after_the_agents_prompt():
    async with a_gateway() as (client, _):
        for asked in ({"instructions": "Be brief."}, {"given": [{"role": "developer", "content": "Be brief."},
                                                                {"role": "user", "content": "x"}]}):  # fmt: skip
            with pytest.raises(openai.BadRequestError, match="callerInstructions") as refused:
                await respond(client, **asked)
            assert refused.value.code == "instructions_not_allowed"
    async with a_gateway(says("ok"), config=ALLOWED) as (client, harness):
        answer = await respond(client, instructions="Be brief.")
        assert said_to(harness).system.volatile.endswith("Be brief.")
    assert answer.instructions == "Be brief."


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 0.2), ("tools", [{"type": "web_search"}]), ("background", True), ("store", "yes"),
        ("stream", "yes"), ("conversation", "conv_1"), ("truncation", "auto"), ("reasoning", {"effort": "high"}),
        ("text", {"format": {"type": "json_object"}}), ("max_output_tokens", 0), ("user", "ann"),
        ("include", ["reasoning.encrypted_content"]), ("tool_choice", "always"),
    ],
)  # fmt: skip
async def test_a_field_that_would_not_be_obeyed_is_refused_by_its_name(name, value):
    async with a_gateway() as (client, _):
        with pytest.raises(openai.BadRequestError) as refused:
            await respond(client, extra_body={name: value})
    assert refused.value.param == name


async def test_items_that_are_no_messages_are_refused():
    async with a_gateway() as (client, _):
        result = {"type": "function_call_output", "call_id": "c", "output": "root"}
        with pytest.raises(openai.BadRequestError, match="must be a message") as refused:
            await respond(client, [result, {"role": "user", "content": "x"}])
    assert refused.value.param == "input[0].type"


async def test_the_limit_is_obeyed_and_a_cut_response_is_incomplete():
    async with a_gateway(CUT) as (client, harness):
        answer = await respond(client, max_output_tokens=7)
        assert said_to(harness).max_tokens == 7
    assert (answer.status, answer.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert (answer.output_text, answer.max_output_tokens) == ("half a sen", 7)
    strictly(answer)


async def test_a_refusal_is_a_part_of_the_response():
    async with a_gateway(REFUSED) as (client, _):
        answer = await respond(client)
    (part,) = answer.output[0].content
    assert (part.type, answer.incomplete_details.reason) == ("refusal", "content_filter")
    strictly(answer)


WHOLE_STREAM = [
    "response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
    "response.output_text.delta", "response.output_text.done", "response.content_part.done",
    "response.output_item.done", "response.completed",
]  # fmt: skip


def once_each(events):
    """The types of the events, those that come several times in a row once."""
    return [one.type for at, one in enumerate(events) if at == 0 or events[at - 1].type != one.type]


async def test_a_stream_has_the_events_of_the_protocol_in_order():
    async with a_gateway(says("Nothing is on today, as far as I can see.")) as (client, _):
        stream = await respond(client, stream=True)
        events = [event async for event in stream]

    assert once_each(events) == WHOLE_STREAM
    assert [event.sequence_number for event in events] == list(range(len(events)))
    deltas = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert deltas == events[-1].response.output_text == "Nothing is on today, as far as I can see."
    assert {event.item_id for event in events if hasattr(event, "item_id")} == {
        events[-1].response.output[0].id
    }
    for event in events:
        assert type(event).model_validate(event.to_dict()) == event


async def test_the_sdks_helper_for_streams_collects_the_response():
    async with (
        a_gateway(says("Nothing is on today.")) as (client, _),
        client.responses.stream(model="claw", input="What is on?") as stream,
    ):
        async for _ in stream:
            pass
        final = await stream.get_final_response()
    assert final.output_text == "Nothing is on today."


@pytest.mark.parametrize(
    ("answer", "end", "reason"),
    [(CUT, "incomplete", "max_output_tokens"), (REFUSED, "incomplete", "content_filter")],
)
async def test_a_stream_ends_with_the_state_of_the_response(answer, end, reason):
    async with a_gateway(answer) as (client, _):
        events = [event async for event in await respond(client, stream=True)]
    assert (events[-1].type, events[-1].response.incomplete_details.reason) == (f"response.{end}", reason)
    if answer is REFUSED:
        assert "response.refusal.done" in [event.type for event in events]


async def test_a_silent_answer_is_an_empty_message():
    async with a_gateway(says("NO_REPLY"), says("NO_REPLY")) as (client, _):
        events = [event async for event in await respond(client, stream=True)]
        whole = await respond(client)
    assert [one for one in once_each(events) if one != "response.output_text.delta"] == [
        one for one in WHOLE_STREAM if one != "response.output_text.delta"
    ]
    assert (events[-1].response.output_text, whole.output_text) == ("", "")


class BreaksOff(FakeProvider):
    """A service that fails within its answer."""

    async def stream(self, request):
        self.requests.append(request)
        yield TextDelta("half an ans")
        await asyncio.sleep(0.6)
        raise provider_error("fake/m", reason="server")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_failure_before_the_first_text_has_a_status(stream):
    failing = [provider_error("fake/m", reason="server") for _ in range(9)]
    async with a_gateway(*failing) as (client, _):
        with pytest.raises(openai.InternalServerError) as failed:
            await respond(client, stream=stream)
    assert (failed.value.status_code, failed.value.code) == (502, "model_server")


async def test_a_stream_that_fails_midway_ends_with_a_failed_response():
    async with a_gateway(model=BreaksOff()) as (client, _):
        events = [event async for event in await respond(client, stream=True)]
    assert "half an ans" in "".join(getattr(event, "delta", "") for event in events)
    assert (events[-1].type, events[-1].response.status) == ("response.failed", "failed")
    assert events[-1].response.error.code == "server_error"
    assert "(model_server)" in events[-1].response.error.message
    strictly(events[-1].response)


async def test_a_retry_of_the_sdk_reads_the_answer_of_the_first_try():
    async with a_gateway(says("one"), says("two")) as (client, harness):
        first = await respond(client, extra_headers={"Idempotency-Key": "a"})
        assert (await respond(client, extra_headers={"Idempotency-Key": "a"})).id == first.id
        more = {"previous_response_id": first.id, "extra_headers": {"Idempotency-Key": "b"}}
        second = await respond(client, "again", **more)
        assert await respond(client, "again", **more) == second
        assert len(harness.app.runtime.turn_log.turns()) == 2
    assert first.id[:21] == second.id[:21] and first.id != second.id


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8"), max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["role", "content", "type", "text", "image_url", "input", "instructions", "store"]), inner
    ),
    max_leaves=15,
)  # fmt: skip


@given(
    st.dictionaries(st.sampled_from(["input", "instructions", "store", "stream", "tools", "text"]), ANYTHING)
)
def test_any_request_is_read_or_refused(plain):
    try:
        assert read(json.dumps(plain).encode(), RequestRules(instructions="allow")).text.strip()
    except BadRequest as refused:
        assert refused.status == 400  # noqa: PT017
