"""A past that a service refuses does not end a conversation (P42): it is repaired, then cut, then reported."""

import pytest
from claw.contracts.errors import ProviderError
from claw.contracts.events import Notice
from claw.contracts.transcript import Assistant, Text, ToolResultMessage, User
from claw.testing import FakeProvider, FakeTool, Harness, calls, says
from claw_provider_sdk.errors import provider_error

KEY = "agent:default:main"
ORPHANS = "messages.3: `tool_use` ids were found without `tool_result` blocks immediately after"


class Strict(FakeProvider):
    """A service that refuses every request as long as the poisoned pair is in it.

    :param refuses: whether a request is refused; ``text`` in which words.
    """

    def __init__(self, *answers, refuses=None, text=ORPHANS):
        super().__init__(*answers)
        self.asked, self._refuses, self._text = [], refuses or is_poisoned, text

    async def stream(self, request):
        self.asked.append(request.messages)
        if self._refuses(request.messages):
            raise provider_error("fake/m", status=400, text=self._text)
        async for event in super().stream(request):
            yield event


def is_poisoned(messages):
    return any(isinstance(message, ToolResultMessage) and "poison" in message.text for message in messages)


def poisoned_harness(model, **more):
    return Harness(model, tools=[FakeTool("acme_look", result="poison")], **more)


async def refused(harness, text) -> str:
    with pytest.raises(ProviderError) as error:
        await harness.send(text)
    return str(error.value)


def said(messages) -> list[str]:
    return [
        message.text if isinstance(message, Assistant) else message.content[0].text for message in messages
    ]


def notices(harness) -> list[str]:
    return [event.text for event in harness.events if isinstance(event, Notice)]


async def test_what_is_refused_a_second_time_is_left_out_and_the_conversation_goes_on():
    model = Strict(says("Good morning."), calls("acme_look"), says("All is well."), says("And still."))
    async with poisoned_harness(model) as harness:
        await harness.send("good morning")
        first = await refused(harness, "look at it")
        reply = await harness.send("are you there?")
        again = await harness.send("and now?")

    assert "/new" in first and "send it again" in first and "settings" not in first
    assert (reply.text, again.text) == ("All is well.", "And still.")
    kept = model.asked[4]
    assert "good morning" in said(kept)[0] and said(kept)[1] == "Good morning."
    assert "are you there?" in said(kept)[-1]
    assert not any(isinstance(message, ToolResultMessage) for message in kept)
    assert len(model.asked) == 6
    assert any(
        "rejected this conversation twice" in line and "3 newer messages" in line for line in notices(harness)
    )


async def test_the_request_that_was_refused_twice_is_never_made_a_third_time():
    model = Strict(calls("acme_look"), says("Here."))
    async with poisoned_harness(model) as harness:
        await refused(harness, "look at it")
        await harness.send("hello?")

    assert [is_poisoned(messages) for messages in model.asked] == [False, True, True, False]


async def test_what_was_left_out_stays_in_the_file_and_out_of_the_next_process(tmp_path):
    model = Strict(calls("acme_look"), says("Here."))
    async with poisoned_harness(model, home=tmp_path) as harness:
        await refused(harness, "look at it")
        await harness.send("hello?")
    later = Strict(says("Still here."))
    async with poisoned_harness(later, home=tmp_path) as harness:
        reply = await harness.send("and after a restart?")
        (file,) = tmp_path.glob("agents/*/sessions/*.jsonl")

    assert reply.text == "Still here." and len(later.asked) == 1
    assert "hello?" in str(later.asked[0]) and not is_poisoned(later.asked[0])
    assert "poison" in file.read_text()


async def test_the_model_reads_what_people_asked_for_in_the_part_that_was_left_out():
    model = Strict(calls("acme_look"), says("Here."))
    async with poisoned_harness(model) as harness:
        await refused(harness, "look at invoice 4711")
        await harness.send("hello?")

    assert "invoice 4711" in str(model.asked[-1])


async def test_a_refusal_that_comes_a_third_time_names_the_way_out_and_nothing_is_cut_any_more():
    model = Strict(says("Hi."), calls("acme_look"), refuses=lambda messages: len(messages) > 2)
    async with poisoned_harness(model) as harness:
        await harness.send("hi")
        shown_errors = [await refused(harness, text) for text in ("one", "two", "three")]
        fresh = await refused(harness, "four")

    assert "send it again" in shown_errors[0]
    assert "3 times" in shown_errors[1] and "/new" in shown_errors[1]
    assert "4 times" in shown_errors[2] and "/new" in shown_errors[2] and "/new" in fresh
    assert len([line for line in notices(harness) if "rejected this conversation" in line]) == 1


async def test_the_call_that_a_service_names_says_where_to_cut():
    poisoned = Assistant(calls("acme_look").content)
    id = poisoned.tool_calls[0].id
    armed: list[bool] = []

    def refuses(messages):
        return bool(armed) and is_poisoned(messages)

    model = Strict(
        says("One."), poisoned, says("Looked."), says("Three."), says("Fine."), refuses=refuses,
        text=f"{ORPHANS}: {id}.",
    )  # fmt: skip
    async with poisoned_harness(model) as harness:
        for text in ("first", "second", "third"):
            await harness.send(text)
        armed.append(True)
        await refused(harness, "fourth")
        reply = await harness.send("fifth")

    assert reply.text == "Fine."
    assert "first" in said(model.asked[-1])[0] and said(model.asked[-1])[1] == "One."
    assert "fifth" in said(model.asked[-1])[-1] and "third" not in said(model.asked[-1])[0]


async def test_without_a_name_the_newest_turn_with_calls_is_what_a_service_can_have_meant():
    armed: list[bool] = []
    model = Strict(
        says("One."), calls("acme_look"), says("Looked."), says("Fine."),
        refuses=lambda messages: bool(armed) and is_poisoned(messages),
    )  # fmt: skip
    async with poisoned_harness(model) as harness:
        await harness.send("first")
        await harness.send("second")
        armed.append(True)
        await refused(harness, "third")
        second = await harness.send("fourth")

    assert second is not None and second.text == "Fine."
    assert said(model.asked[-1])[1] == "One."


@pytest.mark.parametrize(
    "text",
    [
        "Invalid value for max_tokens",
        "temperature: range: -1..1",
        "thinking.budget_tokens: Input should be greater than or equal to 1024",
        "tools.0.custom.input_schema: field required",
        "Unsupported parameter: 'reasoning_effort' is not supported with this model.",
    ],
)
async def test_a_refusal_of_settings_cuts_nothing_however_often_it_comes(text):
    model = Strict(says("Hi."), refuses=lambda messages: len(messages) > 1, text=text)
    async with Harness(model) as harness:
        await harness.send("hi")
        shown_errors = [await refused(harness, "again") for _ in range(3)]

    assert all("check the settings" in line for line in shown_errors)
    assert len(model.asked) == 4 and notices(harness) == []


@pytest.mark.parametrize(
    "text",
    [
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.",
        "Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls'.",
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "Please ensure that function call turn comes immediately after a user turn or after a function response turn.",
        "Not the same number of function calls and responses",
        "Unexpected role 'user' after role 'tool'",
    ],
)
async def test_every_vendor_is_understood_when_it_speaks_of_messages(text):
    model = Strict(calls("acme_look"), says("Here."), text=text)
    async with poisoned_harness(model) as harness:
        await refused(harness, "look at it")
        reply = await harness.send("hello?")

    assert reply.text == "Here."


async def test_an_answer_in_between_restarts_the_count():
    odd: list[bool] = []
    model = Strict(says("Hi."), says("Yes."), refuses=lambda messages: bool(odd))
    async with Harness(model) as harness:
        await harness.send("hi")
        odd.append(True)
        await refused(harness, "one")
        odd.clear()
        await harness.send("two")
        odd.append(True)
        shown_errors = await refused(harness, "three")

    assert "send it again" in shown_errors and notices(harness) == []


async def test_another_model_that_takes_the_past_as_it_is_answers_before_anything_is_cut():
    model, fallback = Strict(calls("acme_look")), FakeProvider(says("Seen."), name="spare")
    config = {"agents": {"defaults": {"model": {"primary": "fake/m", "fallbacks": ["spare/m"]}}}}
    async with poisoned_harness(model, fallbacks=[fallback], config=config) as harness:
        reply = await harness.send("look at it")

    assert reply.text == "Seen."
    assert fallback.requests[0].tool_results[0].text == "poison"


async def test_a_refused_past_is_known_among_the_failures_of_several_models():
    fallback = FakeProvider(*[provider_error("spare/m", status=401, text="no such key")] * 2, name="spare")
    model = Strict(calls("acme_look"), says("Here."))
    config = {"agents": {"defaults": {"model": {"primary": "fake/m", "fallbacks": ["spare/m"]}}}}
    async with poisoned_harness(model, fallbacks=[fallback], config=config) as harness:
        await refused(harness, "look at it")
        reply = await harness.send("hello?")

    assert reply.text == "Here."


async def test_the_person_is_notified_in_a_chat_too():
    model = Strict(calls("acme_look"), says("Here."))
    async with poisoned_harness(model) as harness:
        await refused(harness, "look at it")
        await harness.send("hello?")
        session = await harness.app.runtime.sessions.open(KEY, "default")
        spoken = [message for message in session.unpaired_messages if isinstance(message, User)]
        session.release()

    assert [message.content[0] for message in spoken] == [Text("hello?")]
