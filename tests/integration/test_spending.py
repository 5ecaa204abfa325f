"""Money in a whole program: what every model call is written down as, and the caps that no call passes."""

import asyncio
from typing import Any

import pytest
from claw import CallAccount
from claw.agent.routing import admit
from claw.contracts.errors import BudgetError, ProviderError
from claw.contracts.messages import Address, Inbound, Sender
from claw.contracts.provider import Request, TextDelta
from claw.contracts.transcript import Usage
from claw.runtime import terminal_message
from claw.storage.clock import Clock
from claw.testing import FakeChannel, FakeProvider, FakeTool, Harness, calls, says
from claw_budgets.caps import SpendingCap
from claw_budgets.middleware import UsageMeter
from claw_channel_sdk.chat_commands import Conversation, run_chat_command

PRICED = {
    "fake": {"models": {"m1": {"price": {"input": 1, "output": 10, "cacheRead": 0.1, "cacheWrite": 1.25}}}}
}
USED = {"input": 1000, "output": 100, "cache_read": 500, "cache_write": 200}
COST = 1000 * 1000 + 100 * 10_000 + 500 * 100 + 200 * 1250  # billionths of a dollar


def config(**budgets: Any) -> dict[str, Any]:
    return {"providers": PRICED, "budgets": budgets}


def meter_of(harness: Harness) -> Any:
    """Return the usage meter among the middleware of a harness."""
    (meter,) = (one.value for one in harness.app.registry.middleware if one.plugin == "budgets")
    return meter


def conversation_of(harness: Harness) -> Conversation:
    """Of the person at the terminal."""
    inbound = terminal_message("/status")
    route = admit(inbound, harness.app.config)
    assert route
    return Conversation(harness.app, inbound, route)


class Slow(FakeProvider):
    """A model that answers everybody once ``together`` calls wait for it, or after a moment."""

    def __init__(self, answer: Any, together: int) -> None:
        super().__init__()
        self.answer, self.together, self.waiting, self.asked = answer, together, 0, 0

    async def stream(self, request):  # type: ignore[no-untyped-def]
        self.asked += 1
        self._answers.append(self.answer)
        self.waiting += 1
        for _ in range(50):
            if self.waiting >= self.together:
                break
            await asyncio.sleep(0.002)
        async for event in super().stream(request):
            yield event


# --- what is written down


async def test_each_call_of_a_turn_is_written_down_with_who_caused_it_and_what_it_cost() -> None:
    model = FakeProvider(calls("look"), says("done", **USED))
    async with Harness(model, tools=[FakeTool("look")], config=config()) as harness:
        await harness.send("look")
        book = meter_of(harness).book

        (agent,) = book.sums("agent")
        (model_sum,) = book.sums("model")
        (plugin,) = book.sums("plugin")
        (purpose,) = book.sums("purpose")
        assert (agent.name, model_sum.name, plugin.name) == ("default", "fake/m1", "builtin")
        assert (purpose.name, agent.calls) == ("answer", 2)
        assert agent.guessed == 1, "the first call did not say what it cost"
        (session,) = book.sums("session")
        assert session.name == "agent:default:main"


async def test_sums_are_those_of_the_services_figures_and_of_the_price() -> None:
    async with Harness(FakeProvider(says("a", **USED), says("b", **USED)), config=config()) as harness:
        await harness.send("one")
        await harness.send("two")
        (both,) = meter_of(harness).book.sums()

    assert both.usage == Usage(2000, 200, 1000, 400, 3600)
    assert (both.calls, both.nanos, both.unpriced, both.guessed) == (2, 2 * COST, 0, 0)


async def test_the_row_of_a_call_is_written_in_the_commit_that_ends_its_turn() -> None:
    async with Harness(FakeProvider(says("a", **USED), says("b", **USED)), config=config()) as harness:
        await harness.send("one")
        commits: list[Any] = []
        database = meter_of(harness).book._database
        connection = database._open()
        connection.set_trace_callback(lambda sql: commits.append(sql) if sql.startswith("COMMIT") else None)
        before = len(commits)
        await harness.send("two")
        connection.set_trace_callback(None)

    async with Harness(FakeProvider(says("a"), says("b"))) as plain:
        await plain.send("one")
        bare: list[Any] = []
        connection = meter_of(plain).book._database._open()
        connection.set_trace_callback(lambda sql: bare.append(sql) if sql.startswith("COMMIT") else None)
        await plain.send("two")
        connection.set_trace_callback(None)
    assert len(commits) - before == len(bare)


async def test_a_call_that_was_refused_by_the_service_costs_nothing_and_one_that_broke_off_what_was_received() -> (
    None
):
    class Breaks(FakeProvider):
        async def stream(self, request):  # type: ignore[no-untyped-def]
            self.requests.append(request)
            if len(self.requests) > 1:
                yield TextDelta("half of it " * 30)
            raise ProviderError("no", reason="bad_request")

    async with Harness(Breaks(), config=config()) as harness:
        for _ in range(2):
            with pytest.raises(Exception, match="no"):
                await harness.send("hello")
        (only,) = meter_of(harness).book.sums()

    assert (only.calls, only.guessed) == (1, 1)
    assert only.usage.output and only.usage.output > 100 and only.nanos > 0


async def test_summaries_go_on_the_same_bill_under_a_purpose_of_their_own() -> None:
    def summary(request):  # type: ignore[no-untyped-def]
        return says("THE SUMMARY", **USED)

    long = "word " * 2000
    model = FakeProvider(says(long), says(long), says(long), summary, summary, summary, context_tokens=8000)
    compaction = {"memoryFlush": {"enabled": False}}
    async with Harness(
        model, config={**config(), "agents": {"defaults": {"compaction": compaction}}}
    ) as harness:
        for number in range(3):
            await harness.send(f"say {number}")
        await run_chat_command("/compact", conversation_of(harness))
        names = {one.name: one for one in meter_of(harness).book.sums("purpose")}
        sessions = meter_of(harness).book.sums("session", purpose="summary")

    assert names["summary"].calls >= 1
    assert [one.name for one in sessions] == ["agent:default:main"]


# --- caps


async def test_a_turn_over_its_cap_ends_with_words_what_how_much_when_and_which_setting() -> None:
    model = FakeProvider(says("a", input=20_000, output=100))
    async with Harness(model, config=config(daily={"usd": 0.1})) as harness:
        await harness.send("one")
        with pytest.raises(BudgetError) as over:
            await harness.send("more")

    notice = str(over.value)
    assert "the budget daily is too small for this call: $0.0" in notice and "of $0.1000 a day" in notice
    assert "budgets.daily" in notice and "resets in" in notice
    assert not over.value.skips


async def test_64_turns_at_once_never_pass_a_cap() -> None:
    model = Slow(says("fine", input=100, output=100), together=8)
    limits = {"tokens": 20_000, "per": "day"}
    async with Harness(
        model, config={**config(harness=limits), "agents": {"defaults": {"maxTokens": 1000}}}
    ) as harness:
        book, most = meter_of(harness).book, 0

        async def turn(number: int) -> bool:
            nonlocal most
            try:
                await harness.send("hello", session=f"s{number}")
            except BudgetError:
                return False
            finally:
                cap = meter_of(harness).caps[0]
                most = max(most, book.spent(cap, CallAccount())[0].tokens)
            return True

        went = await asyncio.gather(*(turn(number) for number in range(64)))
        (total,) = book.sums()

    assert 0 < sum(went) == model.asked < 64
    assert most <= 20_000
    assert total.usage.total == 200 * model.asked, "what was set aside was given back"


async def test_64_turns_at_once_spend_no_cent_more_than_the_cap_when_each_takes_all_that_it_may() -> None:
    def greedy(request):  # type: ignore[no-untyped-def]
        return says("fine", input=1, output=request.max_tokens)

    model = Slow(greedy, together=8)
    async with Harness(
        model, config={**config(harness={"usd": 0.2}), "agents": {"defaults": {"maxTokens": 500}}}
    ) as harness:
        turns = (harness.send("hello", session=f"s{number}") for number in range(64))
        ended = await asyncio.gather(*turns, return_exceptions=True)
        (total,) = meter_of(harness).book.sums()

    assert total.nanos <= 200_000_000
    assert any(isinstance(one, BudgetError) for one in ended) and model.asked


async def test_without_a_cap_nothing_is_asked_and_no_length_is_set() -> None:
    model = FakeProvider(says("a"))
    async with Harness(model, config=config(other={"usd": 1, "agent": "somebody-else"})) as harness:
        await harness.send("hello")
    assert model.requests[0].request.max_tokens is None


async def test_under_a_cap_an_answer_has_a_longest_length() -> None:
    model = FakeProvider(says("a"))
    async with Harness(model, config=config(daily={"usd": 100})) as harness:
        await harness.send("hello")
    assert model.requests[0].request.max_tokens == 8192


async def test_what_is_reserved_is_the_longest_answer_to_the_request_as_it_is_sent() -> None:
    class Thoughtful(FakeProvider):
        def answer_tokens(self, request: Request) -> int | None:
            """It thinks ten thousand tokens besides what it is asked for."""
            return request.max_tokens and request.max_tokens + 10_000

    model = Thoughtful(says("never"))
    async with Harness(model, config=config(harness={"tokens": 15_000})) as harness:
        with pytest.raises(BudgetError):
            await harness.send("hello")
    assert model.requests == []


async def test_a_cap_for_a_turn_counts_its_own_calls_alone() -> None:
    step = {"input": 20_000, "output": 10}
    looks = [calls("look") for _ in range(2)]
    looks = [type(one)(one.content, stop_reason="tool_use", usage=Usage(**step)) for one in looks]
    model = FakeProvider(says("a", **step), says("b", **step), *looks, says("never"))
    async with Harness(
        model, tools=[FakeTool("look")], config=config(each={"tokens": 45_000, "per": "turn"})
    ) as harness:
        await harness.send("one")
        await harness.send("two")
        with pytest.raises(BudgetError, match="with the next message"):
            await harness.send("look twice")
    assert len(model.requests) == 4


async def test_a_cap_for_a_conversation_is_free_again_with_a_new_one() -> None:
    step = {"input": 45_000, "output": 10}
    model = FakeProvider(says("a", **step), says("b", **step))
    async with Harness(model, config=config(chat={"tokens": 50_000, "per": "session"})) as harness:
        await harness.send("one")
        with pytest.raises(BudgetError, match="in a new conversation"):
            await harness.send("two")
        session = await harness.app.runtime.sessions.open("agent:default:main", "default")
        await session.reset()
        session.release()
        assert (await harness.send("three")).text == "b"


async def test_a_cap_in_dollars_stops_a_model_whose_price_nobody_knows() -> None:
    async with Harness(FakeProvider(), config={"budgets": {"daily": {"usd": 1}}}) as harness:
        with pytest.raises(BudgetError) as over:
            await harness.send("hello")
    assert "the price of fake/m1 is unknown" in str(over.value)
    assert "providers.fake.models.m1.price" in str(over.value)


async def test_a_new_day_begins_with_nothing_spent() -> None:
    now = [1_773_500_000.0]
    model = FakeProvider(says("a", input=95_000), says("b"))
    async with Harness(
        model, config=config(daily={"tokens": 100_000}), clock=Clock(now=lambda: now[0])
    ) as harness:
        await harness.send("one")
        with pytest.raises(BudgetError):
            await harness.send("two")
        now[0] += 24 * 3600
        assert (await harness.send("three")).text == "b"


async def test_a_summary_over_the_cap_is_made_without_a_model_and_the_turn_fails_by_its_own_call_alone() -> (
    None
):
    model = FakeProvider(
        says("word " * 2000, input=100), says("word " * 2000, input=100), context_tokens=8000
    )
    compaction = {"memoryFlush": {"enabled": False}}
    async with Harness(
        model,
        config={**config(daily={"tokens": 30_000}), "agents": {"defaults": {"compaction": compaction}}},
    ) as harness:
        await harness.send("one")
        await harness.send("two")
        book = meter_of(harness).book
        book.record(CallAccount(), "fake/m1", Usage(input=29_000), 0, "said")
        said = await run_chat_command("/compact", conversation_of(harness)) or ""
        names = [one.name for one in book.sums("purpose")]

    assert "compacted without a summary" in said
    assert "summary" not in names


async def test_in_a_chat_the_owner_gets_the_figures_and_everybody_else_that_it_is_over_and_until_when() -> (
    None
):
    channel = FakeChannel()
    limits = {"owners": ["fake:boss"], **config(daily={"tokens": 100})}
    async with Harness(FakeProvider(), channels=[channel], config=limits) as harness, harness.serving():
        channel.says("hello", chat="a", sender="boss")
        channel.says("hello", chat="b", sender="guest")
        async with asyncio.timeout(20):
            while len(channel.sent) < 2:
                await asyncio.sleep(0.01)

    notice = {one.address.chat: one.text for one in channel.sent}
    assert (
        "the budget daily is too small for this call: 0 of 100 tokens a day" in notice["a"]
        and "budgets.daily" in notice["a"]
    )
    assert notice["b"].startswith("The spending limit here is used up. I can answer again in ")
    assert "budget" not in notice["b"]


async def test_a_cap_that_comes_with_a_new_configuration_counts_what_went_before() -> None:
    async with Harness(FakeProvider(says("a", input=45_000)), config=config()) as harness:
        await harness.send("one")
        book = meter_of(harness).book
        session = await harness.app.runtime.sessions.open("agent:default:main", "default")
        bill = CallAccount("default", "agent:default:main", session.id)
        session.release()
        later = UsageMeter(
            book,
            [SpendingCap("chat", tokens=50_000, per="session"), SpendingCap("each", tokens=1, per="turn")],
        )

        assert later.book.spent(later.caps[0], bill)[0].tokens == 45_000
        (names,) = zip(
            *book._database.read("SELECT name FROM sqlite_master WHERE name GLOB 'spending_*'"), strict=True
        )

    assert set(names) == {"spending_sessions", "spending_turns"}


# --- jobs of the clock


async def heartbeat(harness: Harness) -> Any:
    inbound = Inbound(Address("heartbeat", "beat"), "anything?", Sender("u1"), mentions_us=True)
    return await harness.send(inbound)


async def test_a_heartbeat_over_its_cap_is_skipped_and_does_not_fail() -> None:
    model = FakeProvider(says("a", input=9000))
    clock = FakeChannel(name="heartbeat")
    limits = {"beats": {"tokens": 12_000, "job": "*"}}
    async with Harness(model, channels=[clock], config={"budgets": limits}) as harness:
        assert (await heartbeat(harness)) is not None
        assert (await heartbeat(harness)) is None
        (turn, _) = harness.app.runtime.turn_log.turns()
        (job,) = meter_of(harness).book.sums("job")

    assert turn["outcome"] == "skipped"
    assert job.name == "beat" and job.calls == 1
    assert any("beats" in line for line in harness.log_lines)


async def test_the_cap_of_the_clock_leaves_people_alone() -> None:
    model = FakeProvider(says("a", input=9000), says("b"))
    async with Harness(
        model,
        channels=[FakeChannel(name="heartbeat")],
        config={"budgets": {"beats": {"tokens": 12_000, "job": "*"}}},
    ) as harness:
        await heartbeat(harness)
        await heartbeat(harness)
        assert (await harness.send("hello")).text == "b"
