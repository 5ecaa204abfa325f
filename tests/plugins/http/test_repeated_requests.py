"""Requests that are sent again: by an ``Idempotency-Key``, by the vendor's SDK on its own, after a restart."""

import asyncio
import random
from dataclasses import dataclass

import claw_http
import openai
import pytest
from claw import Address
from claw.runtime import Timeouts
from claw.testing import FakeProvider, FakeTool, Harness, calls, says
from claw_channel_sdk import WebRequest
from claw_http.pending_requests import PendingRequests
from claw_http.repeats import PAUSE_SECONDS, UNCONFIRMED_SECONDS, LostResponses, request_ids, request_line
from plugins.http.pooling_proxy import PoolingProxy
from plugins.http.sdk_gateway import GATEWAY, a_gateway, served, user
from rigs.platform_rig.faults import Fault, Faults
from rigs.platform_rig.relay import Relay


@dataclass
class SlowTool(FakeTool):
    """A tool with an effect, which takes a while."""

    seconds: float = 1.0
    effects: str = "once"

    async def run(self, arguments, context):
        self.calls.append(arguments)
        await asyncio.sleep(self.seconds)
        return "paid"


def keyed(key):
    return {"Idempotency-Key": key}


async def ask(client, text="pay", **more):
    answer = await client.chat.completions.create(model="claw", messages=user(text), **more)
    return answer.choices[0].message.content


async def streamed(client, text="pay", **more):
    stream = await client.chat.completions.create(model="claw", messages=user(text), stream=True, **more)
    return "".join([choice.delta.content or "" async for chunk in stream for choice in chunk.choices])


async def test_the_same_key_at_once_joins_the_turn_and_later_reads_its_answer():
    pay = SlowTool("pay", seconds=0.3)
    async with a_gateway(calls("pay"), says("paid once"), tools=[pay]) as (client, harness):
        together = [ask(client, extra_headers=keyed("k-1")) for _ in range(3)]
        assert await asyncio.gather(*together) == ["paid once"] * 3
        assert await ask(client, extra_headers=keyed("k-1")) == "paid once"
        assert len(harness.app.runtime.turn_log.turns()) == 1
    assert len(pay.calls) == 1


@pytest.mark.parametrize("asked", [ask, streamed])
async def test_a_stream_with_a_known_key_is_the_whole_answer_again(asked):
    async with a_gateway(says("a long and whole answer"), says("another")) as (client, _):
        first = await streamed(client, extra_headers=keyed("k"))
        assert (first, await streamed(client, extra_headers=keyed("k"))) == ("a long and whole answer",) * 2


async def test_a_key_of_another_request_is_refused():
    async with a_gateway(says("one"), says("two")) as (client, _):
        assert await ask(client, "first", extra_headers=keyed("k")) == "one"
        with pytest.raises(openai.UnprocessableEntityError, match="Idempotency-Key") as refused:
            await ask(client, "second", extra_headers=keyed("k"))
        assert refused.value.code == "idempotency_key_reused"
        assert await ask(client, "second", extra_headers=keyed("k2")) == "two"


async def test_requests_without_a_key_are_turns_of_their_own():
    async with a_gateway(says("one"), says("two")) as (client, _):
        assert [await ask(client, user="ann"), await ask(client, user="ann")] == ["one", "two"]


@pytest.mark.parametrize("asked", [ask, streamed])
async def test_a_client_that_waits_shorter_than_a_tool_runs_it_once_and_gets_the_answer(asked):
    pay = SlowTool("pay", seconds=1.2)
    impatient = {"timeout": 0.5, "max_retries": 3}
    async with a_gateway(calls("pay"), says("paid"), tools=[pay], client=impatient) as (client, harness):
        assert await asked(client) == "paid"
        assert len(harness.app.runtime.turn_log.turns()) == 1
    assert len(pay.calls) == 1


async def test_a_call_that_waited_too_long_is_waited_for_by_the_retry():
    config = {"channels": {"http": {"answerSeconds": 0.3}}}
    pay = SlowTool("pay", seconds=0.8)
    async with a_gateway(
        calls("pay"), says("paid"), tools=[pay], config=config, client={"max_retries": 5}
    ) as (client, _):
        assert await ask(client) == "paid"
    assert len(pay.calls) == 1


@pytest.mark.parametrize("headers", [None, keyed("over-a-restart")])
async def test_a_restart_under_a_call_runs_its_effects_once_and_the_retry_reads_the_answer(tmp_path, headers):
    plugins, pay = {"http": claw_http}, SlowTool("pay", seconds=5)
    quick = Timeouts(stop_seconds=0.4, grace_seconds=0.2)
    async with Harness(
        FakeProvider(calls("pay")), config=GATEWAY, tools=[pay], plugins=plugins, home=tmp_path
    ) as first:
        first.app.timeouts = quick
        async with served(first) as client:
            asking = asyncio.ensure_future(ask(client, extra_headers=headers))
            async with asyncio.timeout(20):
                while not pay.calls:
                    await asyncio.sleep(0.01)
        with pytest.raises(openai.InternalServerError) as stopped:
            await asking
    assert (stopped.value.status_code, stopped.value.code) == (503, "stopping")
    assert stopped.value.response.headers["x-should-retry"] == "true"

    model = FakeProvider(says("I do not know if it was paid"))
    async with (
        Harness(model, config=GATEWAY, tools=[pay], plugins=plugins, home=tmp_path) as second,
        served(second) as client,
    ):
        again = headers or {"x-stainless-retry-count": "1"}
        for _ in range(2):
            assert await ask(client, extra_headers=again) == "I do not know if it was paid"
        assert len(second.app.runtime.turn_log.turns()) == 1
    assert len(pay.calls) == 1


async def test_an_answered_request_is_read_again_after_a_restart(tmp_path):
    plugins = {"http": claw_http}
    for model in (FakeProvider(says("once")), FakeProvider()):
        async with (
            Harness(model, config=GATEWAY, plugins=plugins, home=tmp_path) as harness,
            served(harness) as client,
        ):
            assert await ask(client, extra_headers=keyed("k")) == "once"


async def test_a_retry_whose_first_try_never_came_is_a_new_request():
    async with a_gateway(says("one"), says("two")) as (client, _):
        assert await ask(client, user="ann") == "one"
        retry = {"x-stainless-retry-count": "1"}  # of the second "pay", whose first try was lost on its way
        assert await ask(client, user="ann", extra_headers=retry) == "two"


@pytest.mark.parametrize("asked", [ask, streamed])
@pytest.mark.parametrize("cuts", [1, 2])
async def test_a_response_that_is_cut_behind_the_gateway_is_read_by_the_retry(asked, cuts):
    pay = SlowTool("pay", seconds=0)
    faults = Faults(random.Random(1))
    faults.order("connection", *[Fault.CUT_AFTER] * cuts)
    async with (
        a_gateway(calls("pay"), says("paid"), calls("pay"), says("again"), tools=[pay]) as (client, harness),
        Relay(client.base_url.port, faults) as relay,
        openai.AsyncOpenAI(
            api_key=client.api_key, base_url=f"http://127.0.0.1:{relay.port}/v1", max_retries=2
        ) as behind,
    ):
        assert await asked(behind) == "paid"
        assert await asked(behind) == "again"  # a new request, not a retry
        assert len(harness.app.runtime.turn_log.turns()) == 2
    assert len(pay.calls) == 2


@pytest.mark.parametrize("asked", [ask, streamed])
@pytest.mark.parametrize(
    ("marks", "trusted", "user"),
    [
        ("X-Forwarded-For: 10.0.0.7\r\n", [], {"user": "ann"}),
        ("", ["127.0.0.1"], {"user": "ann"}),
        ("", [], {}),
    ],
    ids=["marked", "trusted", "stateless"],
)
async def test_a_response_that_is_lost_in_a_proxy_whose_connection_others_use_is_read_by_the_retry(
    asked, marks, trusted, user
):
    pay = SlowTool("pay", seconds=0)
    model = FakeProvider(calls("pay"), says("paid"), says("others"))
    gateway = {"gateway": {**GATEWAY["gateway"], "trustedProxies": trusted}}
    async with (
        a_gateway(model=model, tools=[pay], config=gateway) as (direct, harness),
        PoolingProxy(direct.base_url.port, 1, marks) as proxy,
        openai.AsyncOpenAI(
            api_key=direct.api_key, base_url=f"http://127.0.0.1:{proxy.port}/v1", max_retries=2
        ) as behind,
    ):
        paying = asyncio.ensure_future(asked(behind, **user))
        async with asyncio.timeout(20):
            while proxy.lost < 1:
                await asyncio.sleep(0.005)
        assert await asked(behind, "other", **user) == "others"  # over the connection of the lost response
        assert await paying == "paid"
        assert len(harness.app.runtime.turn_log.turns()) == 2
    assert len(pay.calls) == 1


@pytest.mark.parametrize("asked", [ask, streamed])
async def test_behind_a_proxy_that_shows_no_sign_of_itself_a_key_keeps_a_retry_from_a_second_turn(asked):
    pay = SlowTool("pay", seconds=0)
    model = FakeProvider(calls("pay"), says("paid"), says("others"))
    async with (
        a_gateway(model=model, tools=[pay]) as (direct, harness),
        PoolingProxy(direct.base_url.port, 1) as proxy,
        openai.AsyncOpenAI(
            api_key=direct.api_key, base_url=f"http://127.0.0.1:{proxy.port}/v1", max_retries=2
        ) as behind,
    ):
        paying = asyncio.ensure_future(asked(behind, user="ann", extra_headers=keyed("k1")))
        async with asyncio.timeout(20):
            while proxy.lost < 1:
                await asyncio.sleep(0.005)
        assert (
            await asked(behind, "other", user="ann") == "others"
        )  # over the connection of the lost response
        assert await paying == "paid"
        assert len(harness.app.runtime.turn_log.turns()) == 2
    assert len(pay.calls) == 1


async def test_a_response_that_the_end_of_the_process_may_have_lost_is_read_by_the_retry(tmp_path):
    plugins = {"http": claw_http}
    for headers in (None, {"x-stainless-retry-count": "1"}):
        async with (
            Harness(FakeProvider(says("once")), config=GATEWAY, plugins=plugins, home=tmp_path) as harness,
            served(harness) as client,
        ):
            assert await ask(client, user="ann", extra_headers=headers) == "once"
            assert len(harness.app.runtime.turn_log.turns()) == 1


async def test_a_turn_that_ends_without_a_caller_is_read_by_a_retry_after_any_number_of_restarts(tmp_path):
    plugins, pay = {"http": claw_http}, SlowTool("pay", seconds=5)
    quick = Timeouts(stop_seconds=0.4, grace_seconds=0.2)
    async with Harness(
        FakeProvider(calls("pay")), config=GATEWAY, tools=[pay], plugins=plugins, home=tmp_path
    ) as first:
        first.app.timeouts = quick
        async with served(first) as client:
            asking = asyncio.ensure_future(ask(client, user="ann"))
            async with asyncio.timeout(20):
                while not pay.calls:
                    await asyncio.sleep(0.01)
        with pytest.raises(openai.InternalServerError):
            await asking
    async with Harness(
        FakeProvider(says("paid")), config=GATEWAY, tools=[pay], plugins=plugins, home=tmp_path
    ) as second:
        async with served(second), asyncio.timeout(20):
            while not second.app.database.read("SELECT * FROM turns WHERE outcome = 'delivered'"):
                await asyncio.sleep(0.01)
        minute = 60_000  # the second process ends a minute later
        for column, table in (
            ("ended_at_ms", "turns"),
            ("accepted_at_ms", "inbox"),
            ("lost_at_ms", "http_lost"),
        ):
            second.app.database.write(f"UPDATE {table} SET {column} = {column} - {minute}")
    async with (
        Harness(FakeProvider(), config=GATEWAY, tools=[pay], plugins=plugins, home=tmp_path) as third,
        served(third) as client,
    ):
        assert await ask(client, user="ann", extra_headers={"x-stainless-retry-count": "1"}) == "paid"
        assert not third.app.database.read("SELECT * FROM http_lost")
    assert len(pay.calls) == 1


@pytest.mark.parametrize(
    ("count", "seconds"), [("0", 30), ("2", 30), ("11", 120), ("1e3", 30), ("99999", 30)]
)
def test_a_client_that_repeated_often_may_ask_for_an_older_response(count, seconds):
    request = WebRequest("POST", "/", headers={"x-stainless-retry-count": count})
    ids, lost = request_ids(request, "chatcmpl-"), LostResponses()
    lost.sent(f"m1:{ids.digest}", "c1", 0.0)
    assert ids.lost_seconds == seconds
    assert lost.find(ids.digest, seconds - 1, 0.0, ids.lost_seconds) == "m1"
    assert lost.find(ids.digest, seconds, 0.0, ids.lost_seconds) == ""


def test_a_response_that_vanishes_is_found_by_the_retry_after_the_time_that_the_sdk_waits():
    lost = LostResponses()
    lost.sent("m1:abc", "c1", 200.0, 100.0)
    assert (
        lost.find("abc", 200.0 + UNCONFIRMED_SECONDS, 600.0) == ""
    )  # no SDK that waits so long repeats it now
    assert lost.find("abc", 699.0, 600.0) == ""
    assert lost.find("abc", 701.0, 600.0) == "m1"
    assert lost.find("abc", 200.0 + 600.0 + PAUSE_SECONDS, 600.0) == ""
    assert lost.find("abc", 701.0) == ""


@pytest.mark.parametrize("mark", ["x-forwarded-for", "forwarded", "via", "x-real-ip"])
def test_a_line_is_that_of_one_caller_only_if_he_named_a_conversation_and_no_proxy_is_between(mark):
    def line(conversation="ann", connection="10.0.0.7 50001", **headers):
        request = WebRequest("POST", "/", headers=headers, connection=connection)
        return request_line(request, conversation, 1.0).name

    assert line() and line() != line("bob") and line() != line(connection="10.0.0.7 50002")
    assert [line(**{mark: "x"}), line(""), line(connection="")] == ["", "", ""]


def test_a_retry_joins_the_turn_whose_caller_left_before_that_of_a_caller_who_waits():
    waiting = PendingRequests()
    left, waits = (waiting.open(id, f"{id}:abc", Address("http", chat=id)) for id in ("left", "waits"))
    assert waiting.running("abc") is waits
    waiting.close(left)
    assert waiting.running("abc") is left
    waiting.close(waits)
    assert waiting.running("abc") is waits and waiting.running("other") is None


def test_a_sent_response_may_be_lost_until_its_connection_brings_another_request():
    lost = LostResponses()
    lost.sent("m1:abc", "c1", 0.0)
    lost.sent("m2:abc", "c2", 1.0)
    assert lost.find("abc", 2.0) == "m2" and lost.find("other", 2.0) == ""
    lost.confirm("c2")
    assert lost.find("abc", 2.0) == "m1"
    assert lost.find("abc", UNCONFIRMED_SECONDS) == ""
    lost.add("m1:abc", 2.0)
    assert lost.find("abc", UNCONFIRMED_SECONDS) == "m1"
    lost.sent("m1:abc", "", 3.0)
    assert lost.find("abc", UNCONFIRMED_SECONDS) == ""


@pytest.mark.parametrize("key", ["", "k" * 256])
async def test_a_key_that_cannot_be_one_is_refused(key):
    async with a_gateway() as (client, _):
        with pytest.raises(openai.BadRequestError, match="Idempotency-Key"):
            await ask(client, extra_headers=keyed(key))
