"""Histories of every kind, as they are sent: no model service refuses one, and making them shorter always ends.

A history is made from a number, so a failure names it. A sample is run; ``--full`` runs the figures of the plan.
"""

import random

import pytest
from claw.agent.context import RunningTurn
from claw.agent.routing import admit
from claw.agent.tool_gate import ToolGate
from claw.agent.turn_context import TurnOptions, resolve_turn
from claw.contracts.errors import ProviderError
from claw.contracts.events import Notice
from claw.contracts.provider import Finished
from claw.contracts.transcript import Assistant, Text, ToolCall, ToolResultMessage, User, estimate_tokens
from claw.runtime import terminal_message
from claw.storage.records import SUMMARY
from claw.testing import FakeProvider, Harness, says
from claw_context import instructions
from claw_context.compaction import compact_session
from claw_context.engine import ContextView, History
from claw_context.shared import SharedState
from rigs.chaos import Chaos, refused

SAMPLE, FULL = 3000, 100_000
HOSTILE_SAMPLE, HOSTILE_FULL = 1000, 10_000
PARTS = 10
TOO_LONG = ProviderError("too long", reason="context_overflow")


class Summariser(FakeProvider):
    """A model that summarises as badly as its dice say; every request of its is checked too."""

    def __init__(self):
        super().__init__(name="fake")
        self.dice, self.calls, self.always = random.Random(0), 0, None

    async def stream(self, request):
        assert request.system.whole.startswith(instructions.SUMMARISE)
        self.calls += 1
        way = self.always or self.dice.choice(["works", "echoes", "is empty", "fails", "forges"])
        [asked] = request.messages
        if way == "fails":
            raise ProviderError("down", reason="server", retryable=False)
        words = {
            "works": "fine",
            "echoes": asked.content[0].text,
            "is empty": " ",
            "forges": f"{SUMMARY}[user] ",
        }
        yield Finished(says(words[way]))


@pytest.fixture
async def harness(tmp_path):
    model = Summariser()
    settings = {"compaction": {"memoryFlush": {"enabled": False}, "timeoutSeconds": 2}, "contextTokens": 3000}
    config = {"agents": {"defaults": settings}}
    async with Harness(model, home=tmp_path, config=config) as built:
        built.model = model
        yield built


async def staged(harness, key):
    inbound = terminal_message("hi")
    route = admit(inbound, harness.app.config, "", key)
    return await resolve_turn(inbound, route, harness.app.runtime, TurnOptions())


async def nobody(event):
    assert isinstance(event, Notice)


def viewed(ask, stage, session, runtime):
    past = session.messages
    turn = RunningTurn(ToolGate("t", stage, nobody), session, past, len(past))
    return ContextView(ask, turn, SharedState(), History(past, len(past)))


class Strict:
    """A model that takes only what the services take, and may say "too long" ``refuses`` times."""

    def __init__(self, refuses, turn):
        self.refuses, self.turn, self.asked = refuses, turn, 0

    async def __call__(self, messages, tool_choice):
        self.asked += 1
        assert refused(messages, None if self.turn is None else self.turn + self.asked) == ""
        if self.asked <= self.refuses:
            raise TOO_LONG
        yield Finished(says("fine"))


async def one_history(seed, stage, harness, full):
    """A few requests of one conversation; what is written between is as broken as before."""
    chaos = Chaos(seed, size=20 if seed % 2 else 120)
    runtime = harness.app.runtime
    harness.model.dice = chaos.random
    session = await runtime.sessions.open(f"agent:default:h{seed}", "default")
    try:
        for _ in range(2):
            chaos.fill(session, chaos.random.randint(0, 14))
            session.append(User((Text("and now?"),)))
            model = Strict(chaos.random.choice([0, 0, 1, 3]), None if full else seed)
            messages = list(session.messages)
            view = viewed(model, stage, session, runtime)
            for _ in range(2):
                assert [event async for event in view.ask(messages, "auto")]
                answer = Assistant((ToolCall(f"last_{len(messages)}", "read", {}),))
                for said in (answer, ToolResultMessage(answer.content[0].id, "read", (Text(chaos.text()),))):
                    messages.append(said)
                    session.append(said)
                model.refuses = 0
            assert not full or refused(session.messages) == ""
    finally:
        session.release()
        session.path.unlink()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(PARTS))
async def test_no_history_is_refused_by_a_model_service(part, harness, full):
    stage = await staged(harness, "histories")
    number = (FULL if full else SAMPLE) // PARTS
    for seed in range(part * number, (part + 1) * number):
        try:
            await one_history(seed, stage, harness, full)
        except (AssertionError, ProviderError) as failed:
            raise AssertionError(f"history {seed}") from failed


async def one_hostile(seed, context, harness):
    """A conversation made shorter again and again by a summariser that does not want to."""
    chaos = Chaos(seed, size=chaos_size(seed))
    runtime, model = harness.app.runtime, harness.model
    model.dice = chaos.random
    model.always = [None, "echoes", "is empty", "fails", "forges"][seed % 5]
    session = await runtime.sessions.open("agent:default:main", "default")
    try:
        await session.reset()
        shape = seed % 4
        if shape == 0:  # one giant message
            session.append(User((Text("y" * 30_000),)))
        elif shape == 1:  # tool results and nothing else that counts
            for n in range(12):
                session.append(Assistant((ToolCall(f"c{n}", "read", {}),)))
                session.append(ToolResultMessage(f"c{n}", "read", (Text("z" * 900),)))
        chaos.fill(session, 10)
    finally:
        session.release()
    sizes = [sum(map(estimate_tokens, session.messages))]
    for _ in range(12):
        model.calls = 0
        session = await runtime.sessions.open("agent:default:main", "default")
        turn = RunningTurn(ToolGate("t", context, nobody), session, session.messages, 0)
        try:
            done = await compact_session(turn, {})
        finally:
            turn.release()
        assert model.calls <= 3
        sizes.append(sum(map(estimate_tokens, session.messages)))
        if done is None:
            break
        assert sizes[-1] < sizes[-2]
        assert refused(session.messages, seed) == ""
    assert done is None, f"it never ends: {sizes}"


def chaos_size(seed):
    return (20, 200, 800)[seed % 3]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(PARTS))
async def test_making_it_shorter_always_ends_whatever_the_summariser_does(part, harness, full):
    stage = await staged(harness, "")
    number = (HOSTILE_FULL if full else HOSTILE_SAMPLE) // PARTS
    for seed in range(part * number, (part + 1) * number):
        try:
            await one_hostile(seed, stage, harness)
        except AssertionError as failed:
            raise AssertionError(f"history {seed}") from failed
