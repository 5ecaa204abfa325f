"""Wheels of core and one provider in a plain environment; and third-party packages in the places of ours, by pip."""

import asyncio
import json
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from claw_testing.services import OpenAIService, ServiceReply
from core.source import ROOT
from environments import Environment, closure_of, libraries_of, projects
from integration.test_packaging import wheel_of
from third_party import installed

pytestmark = pytest.mark.xdist_group("wheels")
SMALL = closure_of(["claw-core", "claw-openai"])
"""The distributions that pip installs for core and one provider."""

PROBE = '''
from claw import Assistant, Credential, Finished, Review, Text, ToolCall, ToolResultMessage, User, hookimpl, tool
from claw_provider_sdk import Price

class Probe:
    """Answers with the name of the model and the number of questions that it was sent."""

    name = "probe"

    async def stream(self, request):
        last = request.messages[-1]
        if isinstance(last, User) and "risky" in last.content[0].text:
            yield Finished(Assistant((ToolCall("c1", "risky", {}),)))
            return
        questions = sum(isinstance(message, User) for message in request.messages)
        results = [block.text for block in last.content] if isinstance(last, ToolResultMessage) else []
        yield Finished(Assistant((Text(" ".join([f"{request.model} was sent {questions}", *results])),)))

    def context_tokens(self, model):
        return 200_000

    def credentials(self):
        return (Credential("probe", "k"),)

    def price(self, model):
        return Price(9.0, 9.0) if model == "dear" else Price(0.1, 0.1)

class Careful:
    name = "careful"

    def before(self, call, context):
        return Review("ask", "it is risky") if call.name == "risky" else None

@tool
def risky() -> str:
    """Need a person."""
    return "risky ran"

@hookimpl
def register_providers(config):
    return [Probe()]

@hookimpl
def register_reviewers(config):
    return [Careful()]

@hookimpl
def register_tools(config):
    return [risky]
'''
MANIFEST = {
    "kinds": ["provider", "reviewer", "tool"],
    "providers": [{"name": "probe", "defaultModel": "dear"}],
    "reviewers": ["careful"],
    "tools": [{"name": "risky", "description": "Need a person."}],
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """A plain environment with the wheels of core, one provider, and what they declare: pip finds no other library."""
    folder = tmp_path_factory.mktemp("wheels")
    wheels = [wheel_of(projects()[name][0], folder) for name in sorted(SMALL)]
    environment = Environment(tmp_path_factory.mktemp("small"), (), libraries=libraries_of(SMALL))
    environment.install(*(wheel for wheel in wheels if wheel.name.startswith(("claw_core-", "claw_openai-"))))
    return environment


async def test_core_and_a_provider_answer_in_a_terminal(small: Environment) -> None:
    async with OpenAIService([ServiceReply("The answer of the service.")]) as service:
        provider = {"apiKey": "sk-not-a-real-one-0123", "baseUrl": service.url}
        small.configure(
            {"agents": {"defaults": {"model": "openai/gpt-test"}}, "providers": {"openai": provider}}
        )
        done = await asyncio.to_thread(small.claw, "chat", "hello")
    assert done.returncode == 0, done.stderr
    assert "The answer of the service." in done.stdout
    assert len(service.requests) == 1


def test_tools_are_explained_without_the_package_that_provides_them(small: Environment) -> None:
    small.configure({})
    done = small.claw("tools", "explain", "read")
    assert done.returncode == 1
    assert "claw-tools-std" in done.stdout


MISSING = {
    "claw-admin": ("doctor",),
    "claw-approvals": ("approvals", "list"),
    "claw-author": ("plugins", "new", "acme"),
    "claw-budgets": ("usage",),
    "claw-gateway": ("gateway", "status"),
    "claw-llm-bridge": ("llm-bridge", "list"),
    "claw-local": ("local", "setup"),
    "claw-mcp": ("mcp", "list"),
    "claw-memory-search": ("memory", "search", "x"),
    "claw-models": ("models", "list"),
    "claw-prompt": ("prompt", "show"),
    "claw-sessions": ("sessions", "list"),
    "claw-skills": ("skills", "list"),
}


@pytest.mark.parametrize("name", sorted(MISSING))
def test_a_missing_command_names_its_package(name: str, small: Environment) -> None:
    small.configure({})
    done = small.claw(*MISSING[name])
    assert done.returncode == 2
    assert name in done.stderr


def test_a_missing_owner_of_a_key_is_named(small: Environment) -> None:
    small.configure({"budgets": {"day": {"usd": 1, "per": "day"}}})
    done = small.claw("chat", "hello")
    assert done.returncode == 3
    assert "claw-budgets" in done.stderr


@pytest.mark.parametrize(
    ("line", "name"),
    [
        *(("/compact", "claw-context"), ("/approve x", "claw-approvals"), ("/new", "claw-sessions")),
        *(("/model openai/other", "claw-models"), ("/queue collect", "claw-gateway")),
    ],
)
def test_a_missing_chat_command_names_its_package(line: str, name: str, small: Environment) -> None:
    small.configure(
        {"agents": {"defaults": {"model": "openai/gpt-test"}}, "providers": {"openai": {"apiKey": "k"}}}
    )
    done = small.claw("chat", line)
    assert name in done.stdout + done.stderr
    assert "claw-terminal" in done.stderr


# Third-party packages in the places of ours


EXAMPLES = ROOT / "examples"
REPLACEMENTS = ("acme-approver", "acme-models", "acme-turn-log", "sliding-window")


@pytest.fixture(scope="module")
def replaced(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Everything of ours, and the examples that take a slot, installed by pip from their wheels."""
    folder = tmp_path_factory.mktemp("wheels")
    probe = installed(tmp_path_factory.mktemp("probe"), "probe", PROBE, MANIFEST)
    environment = Environment(tmp_path_factory.mktemp("replaced"), projects(), [probe])
    environment.install(*(wheel_of(EXAMPLES / name, folder) for name in REPLACEMENTS))
    return environment


def _config(**slots: str) -> dict[str, Any]:
    models = {"primary": "probe/dear", "fallbacks": ["probe/cheap"]}
    return {"agents": {"defaults": {"model": models}}, "plugins": {"slots": slots}}


def _in_force(environment: Environment, slot: str) -> list[str]:
    done = environment.claw("hooks", "list", "--json")
    assert done.returncode == 0, done.stderr
    [hook] = [hook for hook in json.loads(done.stdout)["hooks"] if hook["slot"] == slot]
    return [answer["plugin"] for answer in hook["answers"] if answer["inForce"]]


def _say(environment: Environment, text: str) -> str:
    done = environment.claw("chat", text)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("chosen", "plugin", "answer"), [("failover", "models", "dear"), ("acme-models", "acme-models", "cheap")]
)
def test_the_model_selector_of_the_slot_is_the_one_asked(
    chosen: str, plugin: str, answer: str, replaced: Environment
) -> None:
    """The turn has two calls: ours stays with the first model, the example goes on to the next one."""
    replaced.configure(_config(models=chosen))
    assert _in_force(replaced, "models") == [plugin]
    assert _say(replaced, "something risky").startswith(f"{answer} was sent")


def test_the_turn_log_of_the_slot_is_the_one_asked(replaced: Environment) -> None:
    replaced.configure(_config(turnLog="acme-turn-log", models="failover"))
    ours, theirs = _rows(replaced, "turns"), _rows(replaced, "acme_turns")
    _say(replaced, "hello")

    assert _in_force(replaced, "turnLog") == ["acme-turn-log"]
    assert _rows(replaced, "acme_turns") == theirs + 1
    assert _rows(replaced, "turns") == ours


def test_the_context_engine_of_the_slot_is_the_one_asked(replaced: Environment) -> None:
    """Ours shows the whole of a short conversation, the example its newest turn alone."""
    seen = {}
    for engine, settings in (("context", {}), ("sliding-window", {"turns": 1})):
        config = _config(context=engine, models="failover")
        config["plugins"]["entries"] = {"sliding-window": {"config": settings}}
        replaced.configure(config)
        assert _in_force(replaced, "context") == [engine]
        _say(replaced, "first")
        seen[engine] = int(_say(replaced, "second").split()[-1])
    assert seen["sliding-window"] == 1
    assert seen["context"] >= 2


@pytest.mark.parametrize(("answer", "outcome"), [("yes", "risky ran"), ("no", "the person said no")])
def test_the_approver_of_the_slot_is_the_one_asked(answer: str, outcome: str, replaced: Environment) -> None:
    folder = replaced.home / "questions"
    config = _config(approvals="acme-approver", models="failover")
    config["plugins"]["entries"] = {"acme-approver": {"config": {"folder": str(folder)}}}
    replaced.configure(config)
    assert _in_force(replaced, "approvals") == ["acme-approver"]
    with ThreadPoolExecutor() as pool:
        said = pool.submit(_say, replaced, "something risky")
        while not (questions := list(folder.glob("*.question"))):
            assert not said.done(), said.result()
            time.sleep(0.05)
        assert "risky" in questions[0].read_text()
        questions[0].with_suffix(".answer").write_text(answer)
        assert outcome in said.result()


def _rows(environment: Environment, table: str) -> int:
    """Return how many rows a table of ``state.db`` has; the log of claw-gateway is ``turns``."""
    database = sqlite3.connect(environment.home / ".claw" / "state.db")
    try:
        return int(database.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
    except sqlite3.OperationalError:  # there is no such table
        return 0
    finally:
        database.close()


def test_a_slot_that_names_nobody_lists_who_could_be_chosen(replaced: Environment) -> None:
    replaced.configure(_config(models="best"))
    done = replaced.claw("chat", "hello")
    assert done.returncode == 3
    assert "plugins.slots.models" in done.stderr
    assert "acme-models" in done.stderr
    assert "failover" in done.stderr
