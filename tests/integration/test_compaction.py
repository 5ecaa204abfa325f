"""A conversation that grows: saved, compacted, cut, and never an error; shown through the real program."""

import asyncio
import json
import random

import claw_tools_std
import pytest
from claw.cli.main import app
from claw.contracts.errors import ClawError, ProviderError
from claw.contracts.events import Notice
from claw.contracts.provider import Finished, TextDelta, ThinkingDelta
from claw.contracts.transcript import Assistant, Text, ToolResultMessage, User, pair
from claw.storage.records import SUMMARY
from claw.testing import FakeChannel, FakeProvider, FakeTool, Harness, calls, says
from claw_context import instructions
from claw_testing.services import AnthropicService, ServiceReply
from integration.test_serving import OPEN, served
from typer.testing import CliRunner

TOO_LONG = ProviderError("the conversation is too long for this model", reason="context_overflow")
OFF = {"memoryFlush": {"enabled": False}}


KEY = "agent:default:main"
OURS = {"tools": {"suppliers": {"read": "acme", "write": "acme"}}}
"""The tools of these tests may bear the names of core tools."""


def settings(**compaction):
    return {"agents": {"defaults": {"compaction": {**OFF, **compaction}}}, **OURS}


class Model(FakeProvider):
    """A model that talks for ever, reads as much as it says, and summarises when it is asked to.

    :param summary: text, exception, or a function of the request; ``hangs`` = it never comes.
    :param limit: tokens (four characters each) beyond which it says "too long"; None = never.
    """

    def __init__(
        self, *answers, window=8000, summary="THE SUMMARY", hangs=False, limit=None, talk="fine", counts=True
    ):
        super().__init__(*answers, context_tokens=window)
        self.summary, self.hangs, self.limit, self.talk, self.counts = summary, hangs, limit, talk, counts
        self.summaries, self.flushes, self.turns = [], [], []
        self.full, self.thinks = 0, False

    async def stream(self, request):
        messages = request.messages
        assert pair(messages).messages == messages
        tokens = sum(len(block.text) for m in messages for block in m.content if isinstance(block, Text)) // 4
        if request.system.whole.startswith(instructions.SUMMARISE):
            self.summaries.append(request)
            if self.hangs:
                await asyncio.sleep(3600)
            answer = self.summary(request) if callable(self.summary) else self.summary
            if isinstance(answer, BaseException):
                raise answer
            yield Finished(says(answer))
            return
        if any(isinstance(m, User) and m.kind == "memory_flush" for m in messages):
            self.flushes.append(request)
        else:
            self.turns.append(request)
        if self.full:
            self.full -= 1
            if self.thinks:
                yield ThinkingDelta("hm")
            raise TOO_LONG
        if self.limit is not None and tokens > self.limit:
            raise TOO_LONG
        if self._answers:
            answer = self._answers.pop(0)
            answer = answer(request) if callable(answer) else answer
        else:
            usage = {"input": tokens + len(request.system.whole) // 4, "output": 10} if self.counts else {}
            answer = says(self.talk, **usage)
        if answer.text:
            yield TextDelta(answer.text)
        yield Finished(answer)


def records(harness, kind="compaction"):
    found = harness.home.glob("agents/*/sessions/*.jsonl")
    lines = [json.loads(line) for path in found for line in path.read_text().splitlines()]
    return [line for line in lines if line["type"] == kind]


def words(request):
    return [block.text for m in request.messages for block in m.content if isinstance(block, Text)]


def notices(harness):
    return [event.text for event in harness.events if isinstance(event, Notice)]


async def talk(harness, turns, chars=2000):
    for n in range(turns):
        await harness.send(f"question {n} " + "y" * chars)


# --- before the model is asked ---


async def test_a_long_past_becomes_a_summary_and_the_newest_part_stays_word_for_word():
    model = Model()
    async with Harness(model, config=settings()) as harness:
        await talk(harness, 12)

        [first, *_] = records(harness)
        shown = words(model.turns[-1])
        assert shown[0].startswith(SUMMARY + "THE SUMMARY")
        assert shown[-1].startswith("question 11")
        assert first["details"]["by"] == "model"
        assert first["firstKeptEntryId"] in {line["id"] for line in records(harness, "message")}
        begins = [n for n, text in enumerate(notices(harness)) if "summarising its older part" in text]
        ends = [n for n, text in enumerate(notices(harness)) if "conversation compacted" in text]
        assert begins and ends and begins[0] < ends[0]


async def test_the_next_summary_takes_up_the_one_before():
    model = Model(summary=lambda request: f"SUMMARY {len(model.summaries)}")
    async with Harness(model, config=settings()) as harness:
        await talk(harness, 20)

        assert len(records(harness)) > 1
        assert "<summary>\nSUMMARY" in words(model.summaries[-1])[0]
        assert sum(text.startswith(SUMMARY) for text in words(model.turns[-1])) == 1


async def test_the_notice_says_that_a_long_message_was_read_in_part():
    async with Harness(Model(), config=settings()) as harness:
        await harness.send("a report " + "y" * 16_000)
        await talk(harness, 8)

        [text, *_] = [text for text in notices(harness) if "conversation compacted" in text]
        assert records(harness)[0]["details"]["shortened"] == 1
        assert text.endswith("; 1 long message was read in part")


async def test_another_process_goes_on_from_the_summary(tmp_path):
    async with Harness(Model(), config=settings(), home=tmp_path) as harness:
        await talk(harness, 12)
    model = Model()
    async with Harness(model, config=settings(), home=tmp_path) as harness:
        await harness.send("and now?")

        assert words(model.turns[0])[0].startswith(SUMMARY + "THE SUMMARY")
        assert "question 0" not in "".join(words(model.turns[0]))


async def test_every_request_stays_within_the_window_for_months():
    model = Model(limit=8000)
    async with Harness(model, config=settings()) as harness:
        await talk(harness, 60)

        assert len(model.turns) == 60  # none was refused
        assert len(model.summaries) <= len(records(harness)) * 3


@pytest.mark.parametrize("window", [12_000, 40_000])
@pytest.mark.parametrize("density", [0.3, 0.75, 0.9, 1.0, 1.4])
async def test_every_message_of_a_conversation_is_in_a_summary_request_or_in_the_next_one(window, density):
    """For services that count fewer or more tokens than the estimate; 0.3: one that leaves out cached tokens."""
    pick, said = random.Random(f"{window} {density}"), []

    def marked(least, most):
        """A text with a mark of its own at its beginning and at its end."""
        said.append(f"<{len(said)}>")
        return f"{said[-1]} {'word ' * (pick.randint(least, most) // 5)}{said[-1]}"

    def answered(request):
        if pick.random() < 0.5 and not isinstance(request.messages[-1], ToolResultMessage):
            return calls("look")
        tokens = sum(map(len, words(request))) // 4 + len(request.system.whole) // 4
        return says(marked(20, window // 20), input=int(tokens * density), output=10)

    tool = FakeTool("look", result=lambda *_: marked(20, window // 10))
    model = Model(*[answered] * 400, window=window)
    async with Harness(model, tools=[tool], config=settings()) as harness:
        sent = 0
        while sent < window * 4 * 2.4:
            text = marked(20, window // pick.choice((10, 40)))
            sent += len(text) * 2
            await harness.send(text)

        compacted = records(harness)
        shown = [*words(model.turns[-1]), *(text for request in model.summaries for text in words(request))]
        read = "\n".join(shown)
        assert len(compacted) > 0
        assert [mark for mark in said[:-1] if mark not in read] == []
        in_part = sum(record["details"].get("shortened", 0) for record in compacted)
        assert sum(read.count(mark) < 2 for mark in said[:-1]) <= in_part
        before = [record["tokensBefore"] for record in compacted]
        assert max(before) <= window * 0.9
        assert not any("not sent" in said or "no model read" in said for said in notices(harness))


async def test_chinese_takes_more_tokens_than_the_estimate_and_is_compacted_in_time():
    class Chinese(Model):
        async def stream(self, request):
            async for event in super().stream(request):
                if isinstance(event, Finished) and not request.system.whole.startswith(
                    instructions.SUMMARISE
                ):
                    tokens = sum(map(len, words(request)))
                    event = Finished(says("好", input=tokens, output=1))  # noqa: PLW2901
                yield event

    model = Chinese()
    async with Harness(model, config=settings()) as harness:
        for n in range(16):
            await harness.send(f"问题{n}" + "汉" * 500)

        assert records(harness)
        assert all(sum(map(len, words(request))) < 8000 for request in model.turns)


async def test_compaction_can_be_switched_off():
    model = Model()
    async with Harness(model, config=settings(enabled=False)) as harness:
        await talk(harness, 20)

        assert model.summaries == []
        assert records(harness) == []
        assert any("older messages are not sent" in text for text in notices(harness))


async def test_a_turn_that_grows_too_long_by_itself_is_cut_through_and_its_question_stays():
    tool = FakeTool("look", result="z" * 3000)
    model = Model(*[calls("look") for _ in range(12)], says("done"))
    async with Harness(model, tools=[tool], config=settings()) as harness:
        answer = await harness.send("count all the RED-4711 doors")

        assert answer.text == "done"
        assert any("RED-4711" in text for text in words(model.turns[-1]))
        assert any(instructions.PREFIX in request.system.whole for request in model.summaries)


async def test_the_focus_of_the_settings_and_the_rule_for_identifiers_reach_the_summariser():
    model = Model()
    config = settings(
        identifierPolicy="custom", identifierInstructions="Keep tickets.", customInstructions="Doors!"
    )
    async with Harness(model, config=config) as harness:
        await talk(harness, 12)

        rules = model.summaries[0].system.whole
        assert rules.index("Keep tickets.") < rules.index("Doors!")
        assert instructions.IDENTIFIER_RULE not in rules


async def test_another_model_may_write_the_summaries():
    model = Model()
    other = Model(summary="BY ANOTHER")
    other.name = "other"
    async with Harness(model, fallbacks=[other], config=settings(model="other/m9")) as harness:
        await talk(harness, 12)

        assert model.summaries == []
        assert other.summaries[0].model == "m9"
        assert words(model.turns[-1])[0].startswith(SUMMARY + "BY ANOTHER")


# --- a summariser that does not do its work ---


HOSTILE = {
    "echoes": lambda request: words(request)[0] * 2,
    "is empty": "",
    "fails": ProviderError("boom", reason="server", retryable=True),
    "refuses": ProviderError("no key", reason="auth"),
    "breaks": RuntimeError("a plugin's fault"),
}


@pytest.mark.parametrize("summary", HOSTILE.values(), ids=HOSTILE)
async def test_a_summariser_that_does_not_bricks_nothing(summary):
    model = Model(summary=summary)
    async with Harness(model, config=settings(timeoutSeconds=0.2)) as harness:
        await harness.send("remember ticket AB-1234, file /srv/data/plan.txt, and https://example.org/x")
        await talk(harness, 12)

        [first, *_] = records(harness)
        assert len(model.summaries) <= 3 * len(records(harness))
        assert first["details"]["by"] == "cut"
        assert all(
            name in words(model.turns[-1])[0] for name in ("AB-1234", "/srv/data/plan.txt", "example.org/x")
        )
        assert any("compacted without a summary" in text for text in notices(harness))


async def test_a_summariser_that_hangs_is_left_behind_in_time():
    model = Model(hangs=True)
    async with Harness(model, config=settings(timeoutSeconds=0.05)) as harness:
        async with asyncio.timeout(20):
            await talk(harness, 12)

        assert records(harness)[0]["details"]["by"] == "cut"


async def test_in_safeguard_mode_the_file_keeps_the_past_when_no_model_can_summarise():
    model = Model(summary=RuntimeError("down"))
    async with Harness(model, config=settings(mode="safeguard", timeoutSeconds=0.2)) as harness:
        await harness.send("remember ticket AB-1234")
        await talk(harness, 16)

        assert records(harness) == []
        assert len(model.turns) == 17
        assert "AB-1234" in words(model.turns[-1])[0]  # made without a model, in memory only


async def test_fallback_models_count_too_three_calls_and_no_more():
    down = ProviderError("down", reason="server", retryable=True)
    model, fallback = Model(summary=down), Model(summary=down)
    fallback.name = "spare"
    config = settings(timeoutSeconds=0.5)
    config["agents"]["defaults"]["model"] = {"primary": "fake/m1", "fallbacks": ["spare/m2"]}
    async with Harness(model, fallbacks=[fallback], config=config) as harness:
        await talk(harness, 7)

        assert len(records(harness)) == 1
        assert len(model.summaries) + len(fallback.summaries) <= 3


# --- a service that says: too long ---


async def test_a_service_that_says_too_long_is_asked_again_with_a_shorter_past():
    model = Model(window=100_000, limit=4000, counts=False)
    async with Harness(model, config=settings()) as harness:
        await talk(harness, 12)

        assert records(harness)
        assert all(record["details"]["by"] == "model" for record in records(harness))


@pytest.mark.parametrize("thinks", [False, True])
async def test_a_window_that_is_full_before_any_word_is_compacted_and_asked_again(thinks):
    model = Model(window=100_000, counts=False)
    async with Harness(model, config=settings()) as harness:
        await talk(harness, 6)
        model.full, model.thinks = 1, thinks

        assert (await harness.send("and now?")).text == "fine"
        assert len(records(harness)) == 1


async def test_a_window_that_is_full_in_the_answer_keeps_what_was_said_and_the_next_request_is_shorter():
    import claw_anthropic

    cut = ServiceReply(
        text="so far", stop="model_context_window_exceeded", usage={"input": 199_000, "output": 1000}
    )
    seen = []

    def reply(request):
        seen.append(len(json.dumps(request.body["messages"])))
        summary = instructions.SUMMARISE in json.dumps(request.body["system"])
        return "THE SUMMARY" if summary else cut if len(seen) == 4 else "fine"

    async with AnthropicService(reply) as service:
        config = settings()
        config["providers"] = {"anthropic": {"apiKey": "k", "baseUrl": service.url}}
        plugins = {"anthropic": claw_anthropic}
        async with Harness(FakeProvider(), config=config, plugins=plugins) as harness:
            for n in range(3):
                await harness.send(f"question {n} " + "y" * 90_000, model="anthropic/claude-sonnet-4-5")
            answered = await harness.send("tell it all", model="anthropic/claude-sonnet-4-5")
            again = await harness.send("go on", model="anthropic/claude-sonnet-4-5")

            assert (answered.text, again.text) == ("so far", "fine")
            assert any("cut off at the limit of its length" in said for said in notices(harness))
            assert len(records(harness)) == 1
            assert seen[-1] < seen[3]


async def test_a_giant_tool_result_is_cut_when_nothing_else_helps():
    tool = FakeTool("look", result="z" * 60_000)
    model = Model(calls("look"), window=100_000, limit=5000, counts=False)
    async with Harness(model, tools=[tool], config=settings()) as harness:
        assert (await harness.send("look")).text == "fine"


async def test_a_giant_message_is_cut_when_nothing_else_helps():
    model = Model(window=100_000, limit=3000, counts=False)
    async with Harness(model, config=settings()) as harness:
        assert (await harness.send("AB-1 " + "x" * 100_000)).text == "fine"
        assert (await harness.send("and now?")).text == "fine"


async def test_a_service_that_always_says_too_long_ends_the_turn_and_the_next_one_works():
    model = Model(limit=-1)
    async with Harness(model, config=settings()) as harness:
        with pytest.raises(ProviderError, match="too long"):
            await harness.send("hello")
        assert len(model.turns) <= 10
        model.limit = None
        assert (await harness.send("and now?")).text == "fine"


# --- a crash in the middle ---


async def test_a_turn_stopped_while_the_summary_is_written_leaves_the_old():
    model = Model(hangs=True)
    async with Harness(model, config=settings()) as harness:
        turn = asyncio.ensure_future(talk(harness, 12))
        while not model.summaries:
            await asyncio.sleep(0.01)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

        assert records(harness) == []
        model.hangs = False
        await harness.send("and now?")
        assert len(records(harness)) == 1


async def test_half_a_compaction_on_disk_is_no_compaction(tmp_path):
    async with Harness(Model(), config=settings(), home=tmp_path) as harness:
        await talk(harness, 8)
        assert len(records(harness)) == 1
    [path] = tmp_path.glob("agents/*/sessions/*.jsonl")
    data = path.read_bytes()
    at = (
        data.index(b'{"type":"compaction"')
        if b'{"type":"compaction"' in data
        else data.index(b'"compaction"')
    )
    path.write_bytes(data[: at + 60])
    model = Model(window=100_000)
    async with Harness(model, config=settings(), home=tmp_path) as harness:
        await harness.send("and now?")

        assert words(model.turns[0])[0].startswith("question 0")


# --- by hand ---


async def command(harness, line):
    from claw.agent.turn_context import TurnOptions
    from claw.runtime import terminal_message
    from claw_channel_sdk import chat_commands
    from claw_terminal.command import TerminalConversation

    return await chat_commands.run_chat_command(
        line, TerminalConversation(harness.app, terminal_message(line), TurnOptions())
    )


async def test_a_person_has_it_compacted_with_a_focus():
    model = Model(window=200_000)
    async with Harness(model, config=settings()) as harness:
        await talk(harness, 6)
        said = await command(harness, "/compact the colour of the doors")

        assert "conversation compacted" in said
        assert "the colour of the doors" in model.summaries[0].system.whole
        await harness.send("and now?")
        assert words(model.turns[-1])[0].startswith(SUMMARY + "THE SUMMARY")


async def test_the_same_from_the_command_line(tmp_path):
    home = tmp_path / "home" / ".claw"
    async with Harness(Model(window=200_000), config=settings(), home=home) as harness:
        await talk(harness, 6)
    edited = (home / "config.yaml").read_text().replace("fake/m1", "offline/rules")
    (home / "config.yaml").write_text(edited)

    def claw(*words):
        return CliRunner().invoke(app, ["sessions", "compact", *words])

    done = await asyncio.to_thread(claw, "main", "--focus", "doors", "--json")
    document = json.loads(done.stdout)
    assert (document["key"], document["compacted"], document["by"], document["focus"]) == (
        KEY,
        True,
        "cut",
        "doors",
    )
    assert document["tokensAfter"] < document["tokensBefore"]

    assert "older messages" in (await asyncio.to_thread(claw, "main")).stdout
    assert (await asyncio.to_thread(claw, "nobody")).exit_code != 0


async def test_a_short_conversation_has_nothing_to_compact():
    async with Harness(Model(), config=settings()) as harness:
        assert "nothing to compact" in await command(harness, "/compact")


# --- the memory flush ---


def written(path, content):
    return calls("write", file_path=path, content=content)


class Growing(Model):
    """It says that each turn takes ``step`` tokens more, until the past is compacted."""

    def __init__(self, *answers, step, **rest):
        super().__init__(*answers, **rest)
        self.step, self.used, self.order = step, 0, []

    async def stream(self, request):
        flush = any(isinstance(m, User) and m.kind for m in request.messages)
        summary = request.system.whole.startswith(instructions.SUMMARISE)
        self.order.append("summary" if summary else "flush" if flush else "turn")
        self.used = 0 if summary else self.used + self.step * (not flush)
        async for event in super().stream(request):
            if isinstance(event, Finished) and not (flush or summary):
                event = Finished(says("fine " * 700, input=self.used, output=0))  # noqa: PLW2901
            yield event


async def test_with_the_shipped_settings_and_a_window_of_200k_what_matters_is_saved_before_the_first_compaction():
    model = Growing(step=1000, window=200_000)
    async with Harness(model, tools=[FakeTool("write")], config=OURS) as harness:
        for n in range(170):
            await harness.send(f"question {n}")

        flush, *summaries = [word for word in model.order if word != "turn"]
        assert flush == "flush"
        assert set(summaries) == {"summary"}  # one flush in a cycle
        assert len(summaries) <= 3
        assert len(records(harness)) == 1
        assert model.order.index("flush") in (156, 157)  # 4,000 tokens before
        assert model.order.index("summary") in (161, 162)


def memory(harness):
    return "".join(path.read_text() for path in harness.home.glob("agents/default/agent/memory/*.md"))


TEN = {"agents": {"defaults": {"compaction": {"keepRecentTokens": 500}}}, **OURS}


async def test_in_a_flush_memory_can_be_added_to_and_nothing_else_be_changed():
    def save(request):
        text = words(request)[-1]
        path = next(line.removeprefix("File: ") for line in text.splitlines() if line.startswith("File: "))
        return written(path, "The door is blue.")

    script = iter(
        [save, written("/tmp/elsewhere", "x"), written("notes.md", "x"), calls("wipe"), says("NO_REPLY")]
    )

    class Saver(Model):
        async def stream(self, request):
            if any(isinstance(m, User) and m.kind == "memory_flush" for m in request.messages):
                self.flushes.append(request)
                answer = next(script)
                yield Finished(answer(request) if callable(answer) else answer)
                return
            async for event in super().stream(request):
                yield event

    schema = {
        "type": "object", "properties": {"file_path": {"type": "string"}, "content": {"type": "string"}},
        "required": ["file_path", "content"],
    }  # fmt: skip
    wipe, write = FakeTool("wipe"), FakeTool("write", parameters=schema)
    model = Saver(window=8000)
    async with Harness(model, tools=[write, wipe], config=TEN) as harness:
        await talk(harness, 12)

        assert "The door is blue." in memory(harness)
        assert "agent:default:main" in memory(harness)  # where it comes from
        assert wipe.calls == [] and write.calls == []
        assert list(harness.workspace.iterdir()) == []
        results = [m for m in model.flushes[4].messages if isinstance(m, ToolResultMessage)]
        assert [m.is_error for m in results[-4:]] == [False, True, True, True]
        assert len(records(harness, "memory_flush")) >= 1
        assert "NO_REPLY" not in "".join(
            path.read_text() for path in harness.home.glob("agents/*/sessions/*.jsonl")
        )
        assert [spec.name for spec in model.flushes[0].tools] == [spec.name for spec in model.turns[0].tools]


async def test_an_agent_that_may_not_write_is_not_asked_to_save():
    model = Model()
    async with Harness(model, tools=[FakeTool("look")], config=TEN) as harness:
        await talk(harness, 12)

        assert records(harness)
        assert model.flushes == []


async def test_a_flush_that_fails_is_only_complained_about():
    class Fails(Model):
        async def stream(self, request):
            if any(isinstance(m, User) and m.kind == "memory_flush" for m in request.messages):
                raise ClawError("no")
            async for event in super().stream(request):
                yield event

    async with Harness(Fails(), tools=[FakeTool("write")], config=TEN) as harness:
        await talk(harness, 12)

        assert records(harness)
        assert any("could not be saved" in line for line in harness.log_lines)


async def test_a_large_transcript_is_saved_from_too_however_empty_the_window_is():
    config = {
        "agents": {"defaults": {"compaction": {"memoryFlush": {"forceFlushTranscriptBytes": 20_000}}}},
        **OURS,
    }
    model = Model(window=1_000_000)
    async with Harness(model, tools=[FakeTool("write")], config=config) as harness:
        await talk(harness, 14)

        assert len(model.flushes) == 1


# --- old tool results ---


PRUNES = {
    "agents": {
        "defaults": {
            "contextTokens": 20_000,
            "contextPruning": {
                "mode": "cache-ttl", "ttl": "1h", "softTrimRatio": 0.2, "hardClearRatio": 0.9,
                "softTrim": {"maxChars": 1000, "headChars": 100, "tailChars": 100},
            },
        }
    }
}  # fmt: skip


async def test_old_tool_results_are_cut_once_the_cache_is_cold_and_stay_so_and_the_file_keeps_them(tmp_path):
    tool = FakeTool("look", result="h" + "z" * 5000 + "t")
    script = [one for _ in range(6) for one in (calls("look"), says("seen"))]
    async with Harness(Model(*script), tools=[tool], config=PRUNES, home=tmp_path) as harness:
        for _ in range(6):
            await harness.send("look")
    [path] = tmp_path.glob("agents/*/sessions/*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    early = [{**line, "timestamp": "2020-01-01T00:00:00.000Z"} for line in lines]
    path.write_text("".join(json.dumps(line) + "\n" for line in early))

    model = Model()
    async with Harness(model, tools=[tool], config=PRUNES, home=tmp_path) as harness:
        await harness.send("and now?")
        await harness.send("and then?")

        first, second = (
            [m.text for m in turn.messages if isinstance(m, ToolResultMessage)] for turn in model.turns
        )
        assert [len(text) < 1000 for text in first] == [True] * 5 + [False]
        assert second == first  # the prefix is the one that the cache holds now
        assert path.read_text().count("z" * 5000) == 6


# --- tools' answers that are too long ---


async def test_a_long_answer_of_a_tool_can_be_read_further_by_this_conversation_alone():
    from claw_tools_std.files import read

    long = "\n".join(f"line {n} " + "w" * 100 for n in range(2000)) + "\nneedle " + "v" * 4000

    def on(request):
        [handle] = [line for line in words(request)[-1].splitlines() if "chars truncated" in line]
        return calls("read", file_path=handle.split(" is in ")[1].split(": use")[0], offset=2001)

    model = Model(calls("look"), on, says("found"), window=200_000)
    async with Harness(model, tools=[FakeTool("look", result=long), read], config=settings()) as harness:
        await harness.send("look")

        found = [m for m in model.turns[2].messages if isinstance(m, ToolResultMessage)][-1]
        assert not found.is_error
        assert "needle" in found.text

        path = next(harness.home.glob("agents/default/results/*/*.txt"))
        assert path.stat().st_mode & 0o777 == 0o600
        model._answers.append(calls("read", file_path=str(path)))
        await harness.send("read that", session="another")
        assert [m for m in model.turns[-1].messages if isinstance(m, ToolResultMessage)][-1].is_error


async def test_what_a_command_says_at_length_is_shown_in_part_and_can_be_read_further():
    def on(request):
        [handle] = [line for line in words(request)[-1].splitlines() if "chars truncated" in line]
        return calls("read", file_path=handle.split(" is in ")[1].split(": use")[0], offset=30_000, limit=2)

    model = Model(calls("exec", command="seq 1 60000"), on, says("found"), window=200_000)
    config = {"tools": {"exec": {"mode": "full"}}}
    async with Harness(model, plugins={"tools-std": claw_tools_std}, config=config) as harness:
        await harness.send("count")

        shown, further = (words(turn)[-1] for turn in model.turns[1:])
        assert len(shown) <= 30_000
        assert shown.startswith("1\n2\n")
        assert "\n60000\n[exit code 0]" in shown
        assert further.startswith("30000\n30001\n")


# --- in a chat ---


async def test_a_chat_is_notified_with_the_answer_that_the_past_was_made_shorter(tmp_path):
    channel, model = FakeChannel(), Model()
    config = {**OPEN, **settings()}
    async with served(model, channel, home=tmp_path, config=config):
        for n in range(9):
            channel.says(f"question {n} " + "y" * 2000, "u1")
            shown = await channel.until_shown(n + 1)

        assert any("conversation compacted" in text for text in shown)
        assert all(text.startswith("fine") for text in shown)


_ = Assistant
