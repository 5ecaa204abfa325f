"""The vendor's own client against a whole program: config, policy, session, loop; only the model is a fake."""

import asyncio
import base64

import openai
import pytest
from claw import Assistant, Finished, Image, Text, TextDelta, hookimpl
from claw.testing import FakeProvider, FakeTool, calls, says
from claw_channel_sdk import WebAnswer, WebRoute
from plugins.http.sdk_gateway import GATEWAY, a_gateway, user


class Bell:
    """A plugin with a route, and one that fails beside it."""

    @hookimpl
    def register_routes(self, config):
        yield WebRoute("/hooks/bell", self.rang)

    async def rang(self, request):
        return WebAnswer(200, b'{"rang": true}')


class Broken:
    @hookimpl
    def register_routes(self, config):
        raise RuntimeError("no routes today")


async def test_a_completion_is_a_turn_of_the_agent():
    async with a_gateway(says("Nothing is on today.")) as (client, harness):
        answer = await client.chat.completions.create(model="claw", messages=user("What is on today?"))

    assert answer.choices[0].message.content == "Nothing is on today."
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert harness.log_lines == []


async def test_a_stream_is_the_same_text():
    async with a_gateway(says("Nothing is on today, as far as I can see.")) as (client, _):
        stream = await client.chat.completions.create(model="claw", messages=user("Tell"), stream=True)
        pieces = [choice.delta.content or "" async for chunk in stream for choice in chunk.choices]

    assert "".join(pieces) == "Nothing is on today, as far as I can see."


CUT = Assistant((Text("half a sen"),), stop_reason="length")
REFUSED = Assistant((), stop_reason="error", error="the model refused to answer this")


@pytest.mark.parametrize(("answer", "end"), [(CUT, "length"), (REFUSED, "content_filter")])
async def test_the_finish_reason_distinguishes_a_cut_answer_and_a_refusal_from_a_whole_answer(answer, end):
    async with a_gateway(answer, answer) as (client, _):
        whole = await client.chat.completions.create(model="claw", messages=user("Tell"))
        stream = await client.chat.completions.create(model="claw", messages=user("Tell"), stream=True)
        ends = [choice.finish_reason async for chunk in stream for choice in chunk.choices]

    assert whole.choices[0].finish_reason == end
    assert ends[-1] == end and set(ends[:-1]) == {None}


async def test_the_models_are_the_agents():
    agents = {"agents": {"list": [{"id": "main", "default": True}, {"id": "coder"}]}}
    async with a_gateway(config=agents) as (client, _):
        assert [model.id async for model in client.models.list()] == ["claw", "claw/main", "claw/coder"]


async def test_a_model_is_retrieved_by_its_id_and_every_answer_has_a_request_id():
    async with a_gateway(says("fine"), config={"agents": {"list": [{"id": "main"}]}}) as (client, _):
        for id in ("claw", "claw/main"):
            assert (await client.models.retrieve(id)).id == id
        with pytest.raises(openai.NotFoundError) as unknown:
            await client.models.retrieve("gpt-4o")
        assert unknown.value.code == "model_not_found" and "GET /v1/models" in unknown.value.message
        assert unknown.value.request_id.startswith("req_")
        answer = await client.chat.completions.create(model="claw", messages=user("hi"))
        assert answer._request_id.startswith("req_")


async def test_a_user_goes_on_where_he_was_and_no_one_else_does():
    model = FakeProvider(says("Hello Ann."), says("You are Ann."), says("I do not know."))
    async with a_gateway() as (client, harness):
        harness.app.registry.providers["fake"].value._answers += model._answers
        for user_id, text in (("ann", "I am Ann"), ("ann", "who am I?"), ("bob", "who am I?")):
            await client.chat.completions.create(model="claw", user=user_id, messages=user(text))
        requests = harness.app.registry.providers["fake"].value.requests

    assert "I am Ann" in str(requests[1].request.messages)
    assert "Ann" not in str(requests[2].request.messages)


async def test_requests_at_once_each_have_their_own_answer():
    async def ask(client, number):
        said = await client.chat.completions.create(
            model="claw", user=f"u{number % 3}", messages=user(f"number {number}")
        )
        return said.choices[0].message.content

    def echo(request):
        last = [m for m in request.messages if type(m).__name__ == "User"][-1]
        return says(f"echo {last.content[-1].text}")

    async with a_gateway(*[echo] * 9) as (client, _):
        answers = await asyncio.gather(*(ask(client, number) for number in range(9)))

    assert answers == [f"echo number {number}" for number in range(9)]


async def test_a_chat_command_is_answered_like_a_message():
    async with a_gateway(says("hello again")) as (client, harness):
        for text in ("/status", "/new hello"):
            said = await client.chat.completions.create(model="claw", user="ann", messages=user(text))
            assert said.choices[0].message.content
        assert "hello again" in said.choices[0].message.content
        assert harness.log_lines == []


async def test_the_caller_is_no_owner_unless_the_file_says_so():
    asked = user("hello")
    async with a_gateway(says("ok")) as (client, harness):
        await client.chat.completions.create(model="claw", messages=asked)
        other = harness.app.registry.providers["fake"].value.requests[0].tool_names
    async with a_gateway(says("ok"), config={"owners": ["http:api"]}) as (client, harness):
        await client.chat.completions.create(model="claw", messages=asked)
        owner = harness.app.registry.providers["fake"].value.requests[0].tool_names
    assert set(other) <= set(owner)


async def test_the_sdk_raises_its_own_errors():
    async with a_gateway() as (client, _):
        with pytest.raises(openai.AuthenticationError):
            await client.with_options(api_key="wrong").models.list()
        with pytest.raises(openai.BadRequestError, match="tools"):
            await client.chat.completions.create(
                model="claw", messages=user("hi"),
                tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}],
            )  # fmt: skip
        image = {"type": "image_url", "image_url": {"url": "https://example.org/x.png"}}
        with pytest.raises(openai.BadRequestError, match="data: URL"):
            await client.chat.completions.create(model="claw", messages=user([image]))


@pytest.mark.parametrize("stream", [False, True])
async def test_a_tool_choice_that_the_agent_does_not_have_is_an_error_before_the_call(stream):
    def choice(name):
        return {"type": "function", "function": {"name": name}}

    tools, policy = [FakeTool("look"), FakeTool("wipe")], {"tools": {"deny": ["wipe"]}}
    async with a_gateway(calls("look"), says("fine"), tools=tools, config=policy) as (client, harness):
        for name in ("nope", "wipe"):
            with pytest.raises(openai.BadRequestError, match=name) as refused:
                await client.chat.completions.create(
                    model="claw", messages=user("hi"), tool_choice=choice(name), stream=stream
                )
            assert refused.value.param == "tool_choice"
        assert "tools.deny" in str(refused.value)
        model = harness.app.registry.providers["fake"].value
        assert model.requests == [] and harness.app.runtime.turn_log.turns() == []
        await client.chat.completions.create(model="claw", messages=user("hi"), tool_choice=choice("look"))
        assert model.requests[0].request.tool_choice == "look"


async def test_an_image_is_looked_at_by_the_model_whatever_its_tools():
    data = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    parts = [{"type": "text", "text": "what is this?"}, picture]
    async with a_gateway(says("A pixel.")) as (client, harness):
        answer = await client.chat.completions.create(model="claw", messages=user(parts), tool_choice="none")
        (asked,) = harness.app.registry.providers["fake"].value.requests
    assert answer.choices[0].message.content == "A pixel."
    assert asked.request.messages[-1].content[1:] == (Image(data, "image/png"),)


async def test_a_plugin_with_a_route_is_served_on_the_same_listener_and_a_broken_one_is_set_aside():
    async with a_gateway(bell=Bell(), broken=Broken()) as (client, harness):
        said = await client.post("../hooks/bell", cast_to=dict, body={})
        assert said == {"rang": True}
        standing = {one.id: one for one in harness.app.host.plugin_states}["broken"]
        assert (standing.state, standing.stage) == ("quarantined", "register")


SECRET = "sk-live-4242-Xyz-987654"


class InPieces(FakeProvider):
    """Its words come three characters at a time."""

    async def stream(self, request):
        async for event in super().stream(request):
            if isinstance(event, Finished):
                text = event.message.text
                for at in range(0, len(text), 3):
                    yield TextDelta(text[at : at + 3])
                yield event


@pytest.mark.parametrize("stream", [True, False])
async def test_no_caller_learns_a_key_of_the_settings_however_its_pieces_come(stream):
    keyed = {**GATEWAY, "providers": {"fake": {"apiKey": SECRET}}}
    async with a_gateway(model=InPieces(says(f"It is {SECRET[:9]} or {SECRET}.")), config=keyed) as (
        client,
        _,
    ):
        answer = await client.chat.completions.create(model="claw", messages=user("Tell"), stream=stream)
        if stream:
            text = "".join([choice.delta.content or "" async for chunk in answer for choice in chunk.choices])
        else:
            text = answer.choices[0].message.content

    assert text == f"It is {SECRET[:9]} or ***."
