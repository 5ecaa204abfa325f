"""Calls while claw stops: they have the time that chats have, and an answer whatever happens."""

import asyncio
from dataclasses import dataclass

import claw_http
import openai
import pytest
from claw.runtime import Timeouts
from claw.testing import FakeProvider, FakeTool, Harness, calls, says
from plugins.http.sdk_gateway import GATEWAY, served, user


@dataclass
class SlowTool(FakeTool):
    """A tool that takes a while."""

    seconds: float = 1.0

    async def run(self, arguments, context):
        self.calls.append(arguments)
        await asyncio.sleep(self.seconds)
        return "done"


async def ask(client, text="work", **more):
    answer = await client.chat.completions.create(model="claw", messages=user(text), **more)
    if not more.get("stream"):
        return answer.choices[0].message.content
    return "".join([choice.delta.content or "" async for chunk in answer for choice in chunk.choices])


async def respond(client):
    return (await client.responses.create(model="claw", input="work")).output_text


async def a_call_under_a_stop(asked, seconds, stop_seconds):
    """Ask, and stop claw while the tool of that call works; ask once more when the stop has begun.

    :returns: the call, and the one that came too late, both ended.
    """
    work = SlowTool("work", seconds=seconds)
    model, plugins = FakeProvider(calls("work"), says("worked")), {"http": claw_http}
    async with Harness(model, config=GATEWAY, tools=[work], plugins=plugins) as harness:
        harness.app.timeouts = Timeouts(stop_seconds=stop_seconds, grace_seconds=0.2)

        async def late(client):
            await asyncio.sleep(0.3)
            return await ask(client, "too late")

        async with served(harness) as client:
            first = asyncio.ensure_future(asked(client))
            async with asyncio.timeout(20):
                while not work.calls:
                    await asyncio.sleep(0.01)
            second = asyncio.ensure_future(late(client))
        await asyncio.wait({first, second}, timeout=20)
        return first, second


@pytest.mark.parametrize("asked", [ask, lambda client: ask(client, stream=True), respond])
async def test_a_call_that_runs_at_a_stop_is_answered_within_the_time_of_chats(asked):
    first, second = await a_call_under_a_stop(asked, seconds=1.0, stop_seconds=8)
    assert first.result() == "worked"
    refused = second.exception()
    assert isinstance(refused, openai.InternalServerError)
    assert (refused.status_code, refused.code) == (503, "not_accepted")
    assert refused.response.headers["x-should-retry"] == "true"


async def test_a_call_that_takes_longer_gets_an_error_that_asks_for_a_retry():
    first, _ = await a_call_under_a_stop(ask, seconds=20, stop_seconds=2)
    cut = first.exception()
    assert isinstance(cut, openai.InternalServerError)
    assert (cut.status_code, cut.code) == (503, "stopping")
    assert cut.response.headers["x-should-retry"] == "true"
    assert int(cut.response.headers["retry-after"]) > 0
