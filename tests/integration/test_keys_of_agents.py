"""Keys of several agents in one home: each is masked for all of them, and an agent uses its own first."""

from collections.abc import Iterable
from pathlib import Path

from claw.contracts.provider import Credential
from claw.contracts.transcript import ToolResultMessage
from claw.storage.clock import Clock
from claw.testing import FakeProvider, FakeTool, Harness, calls, says
from claw_models.credentials import ProfileFile
from claw_models.key_pool import KeyPool

OTHER = "plain-words-of-the-accountant"
TWO_AGENTS = {"agents": {"list": [{"id": "default"}, {"id": "accounting"}]}}


def key_of(home: Path, agent: str, secret: str, name: str = "own") -> None:
    folder = home / "agents" / agent
    folder.mkdir(parents=True, exist_ok=True)
    ProfileFile(folder).add(Credential(name, secret, provider="fake"))


def results(harness: Harness) -> str:
    said = [getattr(event, "message", None) for event in harness.events]
    blocks = [block for one in said if isinstance(one, ToolResultMessage) for block in one.content]
    return "".join(getattr(block, "text", "") for block in blocks)


async def test_a_key_of_another_agent_is_masked(tmp_path: Path) -> None:
    key_of(tmp_path, "accounting", OTHER)
    leak = FakeTool("leak", f"the key is {OTHER}")
    model = FakeProvider(calls("leak"), says(f"it is {OTHER}"))
    async with Harness(model, tools=[leak], home=tmp_path, config=TWO_AGENTS) as harness:
        reply = await harness.send("print it")
    assert "the key is ***" in results(harness)
    assert reply and reply.text == "it is ***"
    assert OTHER not in str(model.requests[-1].request.messages)


async def test_a_key_of_another_agent_is_masked_before_any_model_was_asked(tmp_path: Path) -> None:
    key_of(tmp_path, "accounting", OTHER)
    async with Harness(FakeProvider(), home=tmp_path, config=TWO_AGENTS) as harness:
        assert harness.app.redact(f"it is {OTHER}") == "it is ***"


def test_a_key_that_another_process_adds_is_learnt_with_the_next_check(tmp_path: Path) -> None:
    learnt, now = list[str](), [0.0]

    def learn(secrets: Iterable[str]) -> None:
        learnt.extend(secrets)

    keys = KeyPool(None, Clock(lambda: now[0], lambda: now[0]), learn=learn)
    keys.profiles(tmp_path / "agents/default")
    key_of(tmp_path, "accounting", OTHER)
    now[0] += 5
    keys.profiles(tmp_path / "agents/default")
    assert OTHER in learnt
    count = len(learnt)
    now[0] += 5
    keys.profiles(tmp_path / "agents/default")
    assert len(learnt) == count, "an unchanged file is not read again"


def test_a_damaged_file_of_another_agent_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "agents/accounting").mkdir(parents=True)
    (tmp_path / "agents/accounting/auth-profiles.json").write_text("{")
    key_of(tmp_path, "default", "sk-own")
    assert [key.name for key in KeyPool().profiles(tmp_path / "agents/default").keys] == ["own"]


def test_the_agents_own_key_comes_before_the_shared_ones(tmp_path: Path) -> None:
    folder = tmp_path / "agents/default"
    key_of(tmp_path, "default", "sk-own")
    provider = FakeProvider(keys=[Credential("shared", "sk-shared")])
    keys = KeyPool()
    for conversation in ("a", "b", "c"):
        first, *_ = keys.keys_for(provider, folder, conversation)
        assert first.name == "own"
        keys.record_success("fake", first, "m", conversation, alone=False)
