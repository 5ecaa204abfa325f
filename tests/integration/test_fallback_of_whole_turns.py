"""A model that fails in a whole program: another key, another model, said once; half an answer is never shown twice."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
import yaml
from claw.contracts.errors import ClawError, ConfigError, ProviderError
from claw.contracts.events import AttemptFailed, Notice, Retrying
from claw.contracts.provider import Credential, TextDelta
from claw.host.hookspecs import hookimpl
from claw.testing import FakeChannel, FakeProvider, FakeTool, Harness, calls, says
from claw_testing.services import OpenAIService, ServiceReply

BUSY = ProviderError("slow down", reason="rate_limit", retryable=True, retry_after_seconds=0.2)
DOWN = ProviderError("the connection broke", reason="network", retryable=True)
FALLBACK = {"agents": {"defaults": {"model": {"primary": "fake/m1", "fallbacks": ["spare/m2"]}}}}
OWNED = {**FALLBACK, "owners": ["fake:user-1"]}


class Breaking(FakeProvider):
    """Says its first words and breaks off."""

    def __init__(self, *pieces: str, name: str = "fake") -> None:
        super().__init__(name=name)
        self._pieces = pieces

    async def stream(self, request):
        self.requests.append(request)
        for piece in self._pieces:
            yield TextDelta(piece)
        raise DOWN


class Unset(FakeProvider):
    """A provider whose key is in a variable that is not set."""

    def credentials(self):
        raise ConfigError("providers.fake.apiKey", "the environment variable KEY is not set")


def fallback(*answers) -> FakeProvider:
    return FakeProvider(*answers, name="spare")


def transcript(home: Path) -> list[tuple[str, str, str]]:
    [path] = home.glob("agents/*/sessions/*.jsonl")
    said = [json.loads(line).get("message") for line in path.read_text(encoding="utf-8").splitlines()]
    return [
        (one["role"], "".join(block.get("text", "") for block in one["content"]), one.get("stopReason", ""))
        for one in said
        if one
    ]


async def test_half_an_answer_is_kept_as_broken_off_and_the_next_model_answers():
    async with Harness(
        Breaking("It is"), fallbacks=[fallback(says("All is well."))], config=FALLBACK
    ) as harness:
        reply = await harness.send("how is it?")

        assert reply.text == "All is well."
        half, whole = transcript(harness.home)[1:]
        assert half == ("assistant", "It is", "error")
        assert whole[:2] == ("assistant", "All is well.")
        notices = [event.text for event in harness.events if isinstance(event, Notice)]
        assert notices == ["fake/m1 failed: the connection broke. Switched to spare/m2."]


async def test_one_notice_is_shown_in_a_turn_of_many_calls():
    model = FakeProvider(*[BUSY] * 5)
    other = fallback(calls("look"), calls("look"), says("done"))
    async with Harness(model, fallbacks=[other], tools=[FakeTool("look")], config=FALLBACK) as harness:
        await harness.send("look twice")

        assert len([event for event in harness.events if isinstance(event, Notice)]) == 1
        assert len(model.requests) == 1


GONE = ProviderError("no such model", reason="model_not_found")


async def test_one_notice_is_shown_while_it_lasts_and_another_when_it_comes_back():
    model = FakeProvider(GONE, GONE, GONE, says("back"), GONE)
    other = fallback(*[says("instead")] * 4)
    notified: list[int] = []
    async with Harness(model, fallbacks=[other], config=FALLBACK) as harness:
        for session in ("", "", "another", "", ""):
            harness.events.clear()
            await harness.send("hello", session=session)
            notified.append(len([event for event in harness.events if isinstance(event, Notice)]))

    assert notified == [1, 0, 1, 0, 1], (
        "first, still so, another conversation, the usual model again, fails again"
    )


async def test_a_file_with_a_key_that_cannot_be_read_keeps_no_other_model_from_answering():
    async with Harness(Unset(), fallbacks=[fallback(says("fine"))], config=FALLBACK) as harness:
        assert (await harness.send("hello")).text == "fine"
        [notice] = [event.text for event in harness.events if isinstance(event, Notice)]

    assert "KEY is not set" in notice and notice.endswith("Switched to spare/m2.")


async def test_a_growing_reply_shows_the_new_answer_in_the_place_of_the_half_one(tmp_path):
    channel = FakeChannel(streaming=True)
    harness = Harness(
        Breaking("It ", "is "),
        fallbacks=[fallback(says("All is well."))],
        channels=[channel],
        config=OWNED,
        home=tmp_path,
    )
    async with harness, harness.serving():
        channel.says("how is it?")
        while not channel.sent:
            await asyncio.sleep(0.01)
        [shown] = channel.shown

    assert shown == ("All is well.\n\n(fake/m1 failed: the connection broke. Switched to spare/m2.)")
    assert all(state.startswith(("It", "All")) for state in channel.stream_states)
    assert not any("It is" in state and "All" in state for state in channel.stream_states)


async def test_what_was_not_sent_of_a_half_answer_in_blocks_never_is(tmp_path):
    paragraph = "One. " + "word " * 190
    channel = FakeChannel()
    config = {**OWNED, "channels": {"fake": {"blockStreaming": True}}}
    model = Breaking(*(f"{paragraph}\n\nTwo, and")[0::1].partition("Two")[::1])
    harness = Harness(
        model, fallbacks=[fallback(says("Three."))], channels=[channel], config=config, home=tmp_path
    )
    async with harness, harness.serving():
        channel.says("tell me")
        while not any("Three." in text for text in channel.shown):
            await asyncio.sleep(0.01)

    assert [text.split(".")[0] for text in channel.shown] == ["One", "Three"]


async def test_an_unknown_sender_in_a_chat_does_not_get_the_service_s_words(tmp_path):
    channel = FakeChannel()
    model = FakeProvider(BUSY)
    async with (
        Harness(
            model, fallbacks=[fallback(says("hello"))], channels=[channel], config=FALLBACK, home=tmp_path
        ) as harness,
        harness.serving(),
    ):
        channel.says("hi")
        assert await channel.until_shown() == ["hello"]


async def test_a_key_that_rests_is_not_asked_again_by_the_next_turn():
    keys = [Credential("one", "sk-1"), Credential("two", "sk-2")]
    slow = ProviderError("slow down", reason="rate_limit", retryable=True)
    model = FakeProvider(slow, says("a"), says("b"), keys=keys)
    async with Harness(model) as harness:
        await harness.send("x")
        await harness.send("y", session="another")

        used = [recorded.request.credential.name for recorded in model.requests]
        assert (len(set(used[:2])), used[1]) == (2, used[2])


async def test_policy_is_judged_over_all_candidates_and_the_strictest_is_kept():
    config = {**FALLBACK, "tools": {"byProvider": {"spare": {"deny": ["look"]}}}}
    model = FakeProvider(says("ok"))
    async with Harness(model, fallbacks=[fallback()], tools=[FakeTool("look")], config=config) as harness:
        await harness.send("hi")

        assert "look" not in model.requests[0].tool_names


async def test_a_model_asked_for_comes_first_and_the_usual_ones_follow_it():
    slow = ProviderError("slow down", reason="rate_limit")
    model, other = FakeProvider(says("usual")), fallback(slow, slow)
    async with Harness(model, fallbacks=[other]) as harness:
        assert (await harness.send("hi", model="spare/m2")).text == "usual"
        with pytest.raises(ClawError, match="slow down"):
            await harness.send("hi", model="spare/m2", fallbacks=())


async def test_a_turn_waits_for_a_model_that_says_when_and_observers_are_notified():
    recorded: list[str] = []

    class Ear:
        @hookimpl
        def register_observers(self):
            return [self]

        def on_event(self, event):
            recorded.append(type(event).__name__)

    model = FakeProvider(BUSY, says("now"))
    async with Harness(model, plugins={"ear": Ear()}, config={"models": {"wait": "30s"}}) as harness:
        reply = await harness.send("hi")

    assert reply.text == "now"
    assert recorded.index(AttemptFailed.__name__) < recorded.index(Retrying.__name__)


CONFLICT = ProviderError("the model call failed", reason="unknown", retryable=True, status=409)


@pytest.mark.parametrize("accident", [DOWN, CONFLICT], ids=["network", "unknown"])
async def test_an_accident_is_asked_for_once_more_before_anybody_sees_it(accident):
    model = FakeProvider(accident, says("fine"))
    async with Harness(model, config={"models": {"wait": "30s"}}) as harness:
        assert (await harness.send("hi")).text == "fine"
        assert [event.reason for event in harness.events if isinstance(event, Retrying)] == [accident.reason]


async def test_a_gateway_that_learned_of_no_credit_knows_it_after_a_restart(tmp_path):
    broke = ProviderError("no credit", reason="billing")
    for answers in ([broke], []):
        model = FakeProvider(*answers, keys=[Credential("main", "sk-1")])
        async with Harness(model, home=tmp_path) as harness:
            with pytest.raises(ClawError, match="no credit"):
                await harness.send("hi")
            assert len(model.requests) == len(answers)


async def chat(home: Path, *words: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "claw", "chat", *words, cwd=home, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={"CLAW_HOME": str(home), "HOME": str(home), "PATH": os.defpath, "LANG": "C.UTF-8"},
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(), 30)
    return process.returncode or 0, out.decode(), err.decode()


@pytest.mark.parametrize(("locale", "notified"), [("en", "Switched to"), ("zh", "已切换到")])
async def test_in_claw_chat_the_answer_is_there_once_and_the_switch_is_reported(tmp_path, locale, notified):
    words = [
        b'data: {"choices": [{"index": 0, "delta": {"content": "%s"}}]}\n\n' % word
        for word in (b"It ", b"is ")
    ]
    first = ServiceReply(raw=b"".join(words), cut=True)
    async with OpenAIService(lambda asked: first) as broken, OpenAIService(["All is well."]) as well:
        config = {
            "locale": locale,
            "agents": {"defaults": {"model": {"primary": "broken/m", "fallbacks": ["well/m"]}}},
            "providers": {"broken": {"baseUrl": broken.url}, "well": {"baseUrl": well.url}},
        }
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
        code, out, err = await chat(tmp_path, "how is it?")

    assert (code, out) == (0, "All is well.\n"), err
    assert err.count(notified) == 1
