"""Situations that a person gets into, one row each: the text names what is wrong, where, and the fix; the exit code fits.

Those that need a history (a torn session, a damaged state, two gateways) are in test_bad_input.py and in
test_gateway_process.py.
"""

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from claw_testing.services import OpenAIService, ServiceReply
from third_party import Machine

TOKEN = "123456789:AAH-abcdefghijklmnopqrstuvwxyz01234"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path / "machine")
    machine.home.chmod(0o700)
    return machine


@pytest.fixture
def closed_port() -> Iterator[int]:
    with socket.socket() as taken:  # bound and not listening: no other process gets it meanwhile
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


FILES = [
    ("agents:\n\tdefaults: {}\n", "chat hi", 3, [":2: column 1: the line is indented with a tab. Indent with spaces"]),
    (
        "locale: en\nagents: {list: [{id: a}]\nworkspace: x\n", "chat hi", 3,
        [":2: column 9: the bracket that opens here is never closed. Close it with } or ]"],
    ),
    (
        "agents: {\n  locale: en\n  list: []\n}\n", "chat hi", 3,
        [":3: column 7: is not valid YAML (did not find expected ',' or '}'). Correct the line"],
    ),
    (
        "agents:\n  defaults:\n    modle: x/y\n", "chat hi", 3,
        [":3: agents.defaults.modle: is not a known key. Did you mean model?"],
    ),
    (
        "models: {leastContext: many}\n", "chat hi", 3,
        [":1: models.leastContext: must be a whole number (an integer). Write digits only, without quotes"],
    ),
    (
        "providers: {toy: {type: openai, baseUrl: 'https://toy.example/v1'}}\nagents: {defaults: {model: toy/m}}\n",
        "chat hi", 1,
        ["toy/m: toy has no API key. add one with claw auth add toy, or set providers.toy.apiKey"],
    ),
    (
        "agents: {defaults: {model: toy}}\n", "chat hi", 1,
        ["toy is no model. write it as provider/model: claw models use PROVIDER/MODEL"],
    ),
    (
        "agents: {defaults: {model: offline/rules}}\n", "chat hi --model nowhere/x", 2,
        ["unknown model nowhere/x. no plugin provides nowhere: claw plugins list"],
    ),
    (
        "agents: {defaults: {model: acme/x}}\n", "chat hi", 1,
        ["acme/x: there is no provider acme.", "claw models use PROVIDER/MODEL"],
    ),
    ("locale: en\n", "chat --workspace /nowhere/at/all hi", 2, ["--workspace: there is no folder", "create it first"]),
    (
        "gateway: {bind: 0.0.0.0}\nchannels: {http: {}}\n", "gateway run", 3,
        [":1: gateway.auth: 0.0.0.0 is reachable from the network and no token is set.", "gateway.auth.token"],
    ),
    (
        "bindings: [{agentId: ghost, match: {channel: telegram}}]\n", "chat hi", 3,
        [":1: bindings[0].agentId: there is no agent ghost. Agents: default"],
    ),
    ("tools: {profile: codng}\n", "chat hi", 3, ["codng is not a known value here. Did you mean coding? Known: minimal"]),
    ("locale: de\n", "chat hi", 3, [":1: locale: de is not a known value here. Write one of: en, zh"]),
]  # fmt: skip


@pytest.mark.parametrize(("config", "words", "code", "parts"), FILES, ids=[row[0] for row in FILES])
def test_a_wrong_file_or_option_is_named_with_its_fix(
    machine: Machine, config: str, words: str, code: int, parts: list[str]
) -> None:
    machine.configured(config)
    said = machine.claw(*words.split())
    assert (said.code, said.out) == (code, "")
    assert [part for part in parts if part not in said.line] == [], said.line


@pytest.mark.parametrize(
    ("more", "provided", "fix"),
    [("", "one", "claw plugins install claw-sandbox"), (", backend: cage", "cage", "install a plugin")],
)
def test_a_missing_sandbox_is_named(machine: Machine, more: str, provided: str, fix: str) -> None:
    machine.configured(f"sandbox: {{mode: all{more}}}\nplugins: {{deny: [sandbox]}}\n")
    [*_, last] = machine.claw("chat", "hi").err.splitlines()
    assert f"this agent runs in a sandbox, and no installed plugin provides {provided}. {fix}" in last


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="a place where even root can create no folder")
@pytest.mark.parametrize("words", ["config set locale en", "gateway start", "init"])
def test_a_home_that_cannot_be_created_is_said_with_its_cause(machine: Machine, words: str) -> None:
    said = machine.claw(*words.split(), home=Path("/proc/claw"))
    assert said.code == 1
    assert "/proc/claw: cannot write: No such file or directory." in said.line
    assert "Correct the permissions of this folder, or set CLAW_HOME to one that you can write" in said.line


SERVICES: list[tuple[str, ServiceReply, dict[str, Any], list[str]]] = [
    (
        "unknown model",
        ServiceReply(status=404, body={"error": {"message": "no model m", "code": "model_not_found"}}), {},
        ["the service does not know this model (no model m). check its name, and providers.toy.baseUrl"],
    ),
    (
        "502 with a page", ServiceReply(status=502, body=b"<html>bad</html>", content_type="text/html"), {},
        ["the service failed (HTTP 502). try again later, or name a second model", "model.fallbacks"],
    ),
    (
        "400", ServiceReply(status=400, body={"error": {"message": "bad things"}}), {},
        ["rejected the request (bad things). check the settings of the model and of providers.toy"],
    ),
    (
        "500", ServiceReply(status=500, body={"error": {"message": "oops"}}), {},
        ["the service failed (oops). try again later", "agents.defaults.model.fallbacks"],
    ),
    (
        "small window", ServiceReply("hello"), {"models": {"m": {"contextTokens": 500}}},
        ["its context window is 500 tokens, and an agent with tools needs at least 16,000.", "models.leastContext"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("reply", "section", "parts"), [row[1:] for row in SERVICES], ids=[row[0] for row in SERVICES]
)
async def test_a_service_that_refuses_is_one_line_with_its_fix(
    machine: Machine, reply: ServiceReply, section: dict[str, Any], parts: list[str]
) -> None:
    async with OpenAIService(lambda request: reply) as service:
        machine.configured(config_of(service.url, **section))
        said = await asyncio.to_thread(machine.claw, "chat", "hi")
    assert (said.code, said.out) == (1, "")
    assert said.line.startswith("claw: toy/m: ")
    assert [part for part in parts if part not in said.line] == [], said.line


async def test_a_model_named_for_this_run_that_its_service_does_not_know_is_an_error(
    machine: Machine,
) -> None:
    gone = ServiceReply(status=404, body={"error": {"message": "no model", "code": "model_not_found"}})
    async with OpenAIService(lambda r: gone if r.body["model"] != "m" else ServiceReply("no")) as service:
        machine.configured(config_of(service.url))
        said = await asyncio.to_thread(machine.claw, "chat", "--model", "toy/mm", "hi")
    assert (said.code, said.out) == (1, "")
    assert (
        "toy/mm: the service does not know this model (no model). did you mean toy/m? Or: check its"
        in said.line
    )


def test_a_closed_port_names_the_key_of_the_address(machine: Machine, closed_port: int) -> None:
    machine.configured(config_of(f"http://127.0.0.1:{closed_port}/v1"))
    said = machine.claw("chat", "hi")
    assert said.code == 1
    assert "the connection to the service failed" in said.line
    assert "check the network and providers.toy.baseUrl" in said.line


async def test_a_service_that_works_again_answers_at_once(machine: Machine) -> None:
    replies = [ServiceReply(status=500), ServiceReply("Hello again.")]
    async with OpenAIService(replies) as service:
        machine.configured(config_of(service.url))
        assert (await asyncio.to_thread(machine.claw, "chat", "hi")).code == 1
        said = await asyncio.to_thread(machine.claw, "chat", "hi")
    assert (said.code, said.out.strip()) == (0, "Hello again.")


def test_a_file_in_the_place_of_the_home_is_named(machine: Machine) -> None:
    file = machine.root / "file"
    file.write_text("x")
    said = machine.claw("chat", "hi", home=file)
    assert said.code == 3
    assert (
        f"the home {file} cannot be read (Not a directory). Set CLAW_HOME to a folder of yours" in said.line
    )


def test_a_home_that_cannot_be_created_is_named_once(machine: Machine) -> None:
    file = machine.root / "file"
    file.write_text("x")
    home = file / "claw"
    said, checked = machine.claw("chat", "hi", home=home), machine.claw("doctor", home=home)
    fix = "set CLAW_HOME to another folder"
    assert said.code == 1 and said.line.count(str(file)) == 1
    assert said.line.startswith(f"claw: {home}: claw's home folder cannot be used: a file is in the place of")
    assert said.line.endswith(fix)
    assert (checked.code, checked.err) == (1, "")
    assert (
        f"problem: {home}: it cannot be created: {file} is no folder or cannot be written ({fix})"
        in checked.out
    )


def test_a_variable_that_is_not_set_is_named_once_with_one_fix(machine: Machine) -> None:
    machine.configured(
        "providers: {openai: {apiKey: '${NOPE_KEY}'}}\nagents: {defaults: {model: openai/gpt-4.1}}\n"
    )
    (machine.home / "config.yaml").chmod(0o600)
    where, problem = "providers.openai.apiKey", "the environment variable NOPE_KEY is not set"
    fix = "Set NOPE_KEY before claw starts, or remove the key"
    said, checked = machine.claw("chat", "hi"), machine.claw("doctor")
    assert said.code == 3 and said.line.endswith(f"config.yaml:1: {where}: {problem}. {fix}")
    assert checked.code == 1 and checked.out.splitlines() == [
        f"problem: {machine.home / 'config.yaml'}:1: {where}: {problem} ({fix})",
        "1 problem found",
    ]


def test_a_config_file_that_others_can_read_is_a_problem(machine: Machine) -> None:
    machine.configured("locale: en\n")
    path = machine.home / "config.yaml"
    path.chmod(0o644)
    said = machine.claw("doctor")
    assert said.code == 1
    assert f"problem: {path}: other users can access it (mode 644) (chmod 600 {path})\n" in said.out


def test_of_two_config_files_none_is_chosen(machine: Machine) -> None:
    machine.configured("locale: en\n")
    machine.configured("{}", "config.json")
    said = machine.claw("chat", "hi")
    assert said.code == 3
    assert f"{machine.home}: there are two config files" in said.line
    assert "Keep one and move the other elsewhere" in said.line


def test_a_bot_without_a_token_or_a_way_to_its_service_is_a_problem(
    machine: Machine, closed_port: int
) -> None:
    machine.configured("channels: {telegram: {}}\n")
    said = machine.claw("doctor", "telegram")
    assert said.code == 1
    assert "channels.telegram.botToken: the bot has no token, so it does not start" in said.out
    assert "claw config set channels.telegram.botToken TOKEN" in said.out

    machine.configured(
        f"channels: {{telegram: {{botToken: '{TOKEN}', apiBase: 'http://127.0.0.1:{closed_port}'}}}}\n"
    )
    said = machine.claw("doctor", "telegram")
    assert said.code == 1
    assert "Telegram cannot be reached" in said.out
    assert "check the network and channels.telegram.apiBase" in said.out
    assert TOKEN not in said.out + said.err


def config_of(url: str, **section: Any) -> str:
    """Return a config file with one model service at ``url``, which is asked once."""
    tree = {
        "providers": {"toy": {"type": "openai", "baseUrl": url, **section}},
        "agents": {"defaults": {"model": "toy/m"}},
        "models": {"wait": "off"},
    }
    return json.dumps(tree)
