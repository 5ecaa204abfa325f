"""State kept across a reset of a conversation, calls that are charged outside of it, and compaction in the background."""

import asyncio

import pytest
from claw.contracts.provider import Finished
from claw.contracts.transcript import Text, ToolResultMessage, Usage, User
from claw.storage.clock import Clock
from claw.testing import FakeChannel, FakeProvider, FakeTool, Harness, calls, says
from claw_context import instructions
from claw_sessions.usage import usage_of
from msgspec.structs import replace

DAY = 86_400.0
NOON = 1_772_366_400.0  # 1 March 2026
DAILY = {
    "session": {"reset": {"mode": "daily"}},
    "agents": {"defaults": {"userTimezone": "UTC"}},
    "tools": {"suppliers": {"write": "acme"}},
}
WRITE = {
    "type": "object", "properties": {"file_path": {"type": "string"}, "content": {"type": "string"}},
    "required": ["file_path", "content"],
}  # fmt: skip


class Talker(FakeProvider):
    """It talks, notes the newest word of a person when it is asked to save, and summarises when its gate is open.

    :ivar saved: the requests to save; ``summaries`` those to summarise; ``talked`` the others.
    """

    def __init__(self, window=200_000):
        super().__init__(context_tokens=window)
        self.saved, self.summaries, self.talked = [], [], []
        self.gate = asyncio.Event()
        self.gate.set()

    async def stream(self, request):
        if request.system.whole.startswith(instructions.SUMMARISE):
            self.summaries.append(request)
            await self.gate.wait()
            yield Finished(says("THE SUMMARY", input=500, output=20))
        elif any(isinstance(m, User) and m.kind == "memory_flush" for m in request.messages):
            self.saved.append(request)
            yield Finished(self._save(request.messages))
        else:
            self.talked.append(request)
            yield Finished(says("fine", input=1000, output=5))

    def _save(self, messages):
        if isinstance(messages[-1], ToolResultMessage):
            return says("NO_REPLY", input=70, output=2)
        path = next(line for line in last(messages).splitlines() if line.startswith("File: "))
        said = next(m for m in reversed(messages[:-1]) if isinstance(m, User))
        asked = calls("write", file_path=path.removeprefix("File: "), content=f"- {said.content[0].text}")
        return replace(asked, usage=Usage(input=60, output=10))


def last(messages):
    return "".join(block.text for block in messages[-1].content if isinstance(block, Text))


class Watch:
    """A clock that a test sets."""

    def __init__(self):
        self.now = NOON
        self.clock = Clock(now=lambda: self.now)


@pytest.fixture
def watch():
    return Watch()


@pytest.fixture
async def harness(watch):
    model = Talker()
    async with Harness(
        model, tools=[FakeTool("write", parameters=WRITE)], config=DAILY, clock=watch.clock
    ) as built:
        built.model = model
        yield built


def notes(harness):
    found = sorted(harness.home.glob("agents/default/agent/**/memory/**/*.md"))
    return {path.name: path.read_text() for path in found}


async def usage(harness):
    session = await harness.app.runtime.sessions.open("agent:default:main", "default")
    try:
        return usage_of(session.entries)
    finally:
        session.release()


async def test_what_a_conversation_knows_is_saved_before_a_new_day_starts_it_over(harness, watch):
    await harness.send("The door is blue.")
    watch.now += DAY

    await harness.send("Good morning.")

    [note] = notes(harness).values()
    assert "- The door is blue." in note
    assert [last(request.messages) for request in harness.model.talked] == [
        "The door is blue.",
        "Good morning.",
    ]
    assert len(harness.model.talked[1].messages) == 1  # the new conversation has seen nothing of it


async def test_a_conversation_in_which_nothing_was_said_since_is_not_saved_again(harness, watch):
    await harness.send("The door is blue.")
    watch.now += DAY
    await harness.send("Good morning.")
    watch.now += DAY
    await harness.send("Good morning again.")
    requests = len(harness.model.saved)
    watch.now += 60

    await harness.send("And one more thing.")

    assert len(harness.model.saved) == requests == 4  # two savings, of two steps each


async def test_the_memory_flush_reads_what_it_saved_of_this_conversation_earlier_that_day(watch):
    config = {**DAILY, "session": {"idleMinutes": 60}}
    model = Talker()
    async with Harness(
        model, tools=[FakeTool("write", parameters=WRITE)], config=config, clock=watch.clock
    ) as harness:
        await harness.send("The cat is grey.", session="other")
        watch.now += 7200
        await harness.send("Hello.", session="other")
        for said in ("The door is blue.", "The roof is red.", "Hello again."):
            await harness.send(said)
            watch.now += 7200

        first, second = (last(request.messages) for request in model.saved[2::2])

        assert "The door is blue." not in first
        assert "The door is blue." in second
        assert "The cat is grey." not in first + second  # that is for the other conversation to know


async def test_what_is_saved_may_fail_and_the_new_day_begins_all_the_same(watch):
    class Broken(Talker):
        def _save(self, messages):
            raise OSError("no more memory")

    async with Harness(
        Broken(), tools=[FakeTool("write", parameters=WRITE)], config=DAILY, clock=watch.clock
    ) as harness:
        await harness.send("The door is blue.")
        watch.now += DAY

        answer = await harness.send("Good morning.")

        assert answer.text == "fine"
        assert any("could not be saved" in line for line in harness.log_lines)


async def test_words_that_came_after_a_saving_are_saved_before_they_are_summarised(watch):
    config = {**DAILY, "agents": {"defaults": {"compaction": {"keepRecentTokens": 200}}}}
    model = Talker(window=8000)
    async with Harness(
        model, tools=[FakeTool("write", parameters=WRITE)], config=config, clock=watch.clock
    ) as harness:
        await harness.send("hello")
        await harness.send("word " + "y" * 11_000)  # near enough to the threshold
        await harness.send("The door is blue.")
        await harness.send("word " + "y" * 12_000)  # over it

        first, again = model.saved[0::2]
        assert not said_in(first, "The door is blue.")
        assert said_in(again, "The door is blue.")
        assert any("The door is blue." in last(request.messages) for request in model.summaries)


def said_in(request, words):
    return any(words in last([message]) for message in request.messages if isinstance(message, User))


async def test_savings_and_summaries_count_in_what_a_session_has_cost_and_not_in_how_full_it_is(watch):
    config = {**DAILY, "agents": {"defaults": {"compaction": {"keepRecentTokens": 200}}}}
    model = Talker(window=8000)
    async with Harness(
        model, tools=[FakeTool("write", parameters=WRITE)], config=config, clock=watch.clock
    ) as harness:
        for n in range(3):
            await harness.send(f"word {n} " + "y" * 12_000)

        spent = await usage(harness)
        assert model.saved and model.summaries
        steps = len(model.saved)
        assert spent.input == 1000 * 3 + 500 * len(model.summaries) + sum(
            (60, 70)[at % 2] for at in range(steps)
        )
        assert spent.context_tokens == 1000


# --- /compact in a chat ---

CHAT = {"owners": ["fake:boss"], "messages": {"queue": {"debounce": 0}}}


@pytest.fixture
async def chat():
    channel, model = FakeChannel(), Talker()
    async with Harness(model, channels=[channel], config=CHAT) as built, built.serving():
        channel.model, channel.harness = model, built
        for n in range(4):
            channel.says(f"word {n} " + "y" * 4000, "boss")
            await channel.until_sent(n + 1)
        model.gate.clear()
        yield channel
        model.gate.set()


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


async def test_while_a_conversation_is_made_shorter_its_chat_is_answered(chat):
    chat.says("/compact", "boss")
    await until(lambda: chat.model.summaries)

    chat.says("Are you there?", "boss")
    sent = await chat.until_sent(5)
    chat.model.gate.set()

    assert sent[4].text == "fine"
    assert "compacted" in (await chat.until_sent(6))[5].text


async def test_stop_ends_a_shortening(chat):
    chat.says("/compact", "boss")
    await until(lambda: chat.model.summaries)

    chat.says("/stop", "boss")
    sent = await chat.until_sent(5)
    chat.says("And now?", "boss")

    assert sent[4].text == "stopped"
    assert (await chat.until_sent(6))[5].text == "fine"
    chat.model.gate.set()
    await asyncio.sleep(0.05)
    assert not any("compacted" in outbound.text for outbound in chat.sent)


async def test_a_second_compaction_is_refused_while_one_runs(chat):
    chat.says("/compact", "boss")
    await until(lambda: chat.model.summaries)

    chat.says("/compact", "boss")

    assert "already" in (await chat.until_sent(5))[4].text
    assert len(chat.model.summaries) == 1
