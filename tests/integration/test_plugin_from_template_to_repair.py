"""The whole story of a plugin, in a fresh venv: written, built, installed, let in, called, switched off and on,
quarantined by the next core, and updated. No network but the package index; the model of the turns is on loopback."""

import asyncio
import json
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from claw_testing.services import OpenAIService, ReceivedRequest, ServiceReply
from core.source import ROOT, with_core
from integration.test_packaging import Venv, wheel_of

pytestmark = [pytest.mark.index, pytest.mark.timeout(300), pytest.mark.xdist_group("story")]
VERSION = {'version = "0.1.0"': 'version = "0.2.0"'}
WIDER = {'"api": ">=1,<2"': '"api": ">=1,<3"'}
MEMBERS = with_core("claw-author", "claw-openai")
TOOL = "doorbell_status"
MODEL = ("--model", "openai/gpt-4o")


def edited(file: Path, changes: Mapping[str, str]) -> None:
    """Change each text of ``changes``, which has to be there, into its other."""
    text = file.read_text()
    for old, new in changes.items():
        assert old in text, f"{file.name} has no {old}"
        text = text.replace(old, new)
    file.write_text(text)


def next_release(member: Path, folder: Path) -> str:
    """The wheel 0.2.0 of a member: of core with plugin API 2, of a plugin with a range that admits it."""
    source = folder / member.name
    shutil.copytree(member, source, ignore=shutil.ignore_patterns("__pycache__"))
    project = source / "pyproject.toml"
    project.write_text(project.read_text().replace(" ==0.1.*", " ==0.2.*"))  # one release train
    if member.name == "core":
        edited(source / "claw/__init__.py", {'__version__ = "0.1.0"': '__version__ = "0.2.0"'})
        edited(source / "claw/host/manifest.py", {"API_VERSION = (1, 0)": "API_VERSION = (2, 0)"})
    else:
        edited(source / "pyproject.toml", VERSION)
        for manifest in source.glob("*/claw-plugin.json"):  # a library has none
            edited(manifest, WIDER)
    return str(wheel_of(source, folder / "wheels"))


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Venv:
    """Core with what an author and a caller of models need, as of now."""
    place = tmp_path_factory.mktemp("story")
    venv = Venv(place)
    ours = [str(wheel_of(member, place / "now")) for member in MEMBERS]
    venv.install(*ours, "-c", str(ROOT / "constraints.txt"))
    return venv


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The next release of core, and of those two, which fit both."""
    folder = tmp_path_factory.mktemp("released")
    return {member.name: next_release(member, folder) for member in MEMBERS}


def does(venv: Venv, *words: str) -> str:
    """Return the output of a command that must succeed."""
    done = venv.claw(*words)
    assert done.returncode == 0, f"claw {' '.join(words)}\n{done.stdout}{done.stderr}"
    return done.stdout


def printed(text: str, command: str) -> list[str]:
    """The words behind ``claw`` of a command that claw printed.

    :param command: a pattern for all of it.
    """
    found = re.search(f"claw ({command})", text)
    assert found, text
    return shlex.split(found[1])


def model(request: ReceivedRequest) -> ServiceReply | str:
    """Calls the tool that it has to; then says what came of it."""
    [*_, last] = request.body["messages"]
    if last["role"] == "tool":
        return f"I heard: {last['content']}"
    choice = request.body.get("tool_choice")
    named = choice["function"]["name"] if isinstance(choice, dict) else ""
    return ServiceReply(calls=[(named, {"name": "front door"})]) if named else "Nothing was asked of me."


def turn(venv: Venv, *words: str) -> tuple[str, list[ReceivedRequest]]:
    """A turn of ``claw chat`` with a model on loopback: the answer, and what the model was asked."""

    async def with_service() -> tuple[str, list[ReceivedRequest]]:
        async with OpenAIService(model) as service:
            does(venv, "config", "set", "providers.openai.baseUrl", service.url)
            said = await asyncio.to_thread(does, venv, "chat", *MODEL, *words)
            assert service.refusals == []
            return said, service.requests

    return asyncio.run(with_service())


def offered(request: ReceivedRequest) -> set[str]:
    return {tool["function"]["name"] for tool in request.body.get("tools", ())}


def is_in_every_turn(venv: Venv) -> None:
    """It is called by command, by the offline rules, and by a model, and the result comes back."""
    assert "front door: fine" in does(venv, "tools", "call", TOOL, "--args", '{"name": "front door"}')
    assert "front door: fine" in does(
        venv, "chat", "--model", "offline/rules", "--tool-choice", TOOL, "front door"
    )
    said, requests = turn(venv, "--tool-choice", TOOL, "how is the door?")
    assert "I heard: front door: fine" in said
    assert TOOL in offered(requests[0])


def is_out_of_every_turn(venv: Venv, why: str) -> str:
    """It is neither called nor offered, while the turn goes well; what claw says of it."""
    refused = venv.claw("tools", "call", TOOL, "--args", '{"name": "front door"}')
    explained = venv.claw("tools", "explain", TOOL)
    assert (refused.returncode, explained.returncode) == (1, 1)
    assert why in explained.stdout
    assert "there is no tool" not in refused.stderr
    said, [request] = turn(venv, "good morning")
    assert "Nothing was asked of me." in said
    assert TOOL not in offered(request)
    return explained.stdout


def built(venv: Venv, project: Path, folder: Path) -> str:
    """The wheel that its author makes, once code and manifest say the same."""
    does(venv, "plugins", "build", str(project), "--check")
    does(venv, "plugins", "check", str(project))
    return str(wheel_of(project, folder))


def written(venv: Venv) -> Path:
    """A new plugin; its author makes the tool an optional one, and the manifest follows the code."""
    does(venv, "plugins", "new", "doorbell")
    project = venv.home / "claw-plugin-doorbell"
    edited(project / "claw_plugin_doorbell/__init__.py", {"@tool(": "@tool(optional=True, "})
    stale = venv.claw("plugins", "build", str(project), "--check")
    assert stale.returncode == 1
    does(venv, *printed(stale.stdout + stale.stderr, r"plugins build \S+"))
    return project


def test_a_plugin_from_its_first_line_to_its_update_under_the_next_core(
    venv: Venv, released: dict[str, str], tmp_path: Path
) -> None:
    def listed_state() -> tuple[str, str, str]:
        plugin = venv.plugins()["doorbell"]
        return plugin["state"], plugin["version"], plugin["origin"]

    does(venv, "config", "set", "providers.openai.apiKey", "sk-of-a-test")
    project = written(venv)

    does(venv, "plugins", "install", built(venv, project, tmp_path), "--yes")
    assert listed_state() == ("idle", "0.1.0", "layer")
    explanation = is_out_of_every_turn(venv, "it is optional")

    does(venv, *printed(explanation, r"config set .*"))  # opted in by allow list
    assert listed_state() == ("loaded", "0.1.0", "layer")
    is_in_every_turn(venv)

    does(venv, "plugins", "disable", "doorbell")
    assert listed_state()[0] == "disabled"
    is_out_of_every_turn(venv, "its plugin doorbell is disabled")
    does(venv, "plugins", "enable", "doorbell")
    is_in_every_turn(venv)

    warned = venv.claw("upgrade", "--check", "--to", released["core"], "--json")
    assert warned.returncode == 1
    why = {one["plugin"]: one["why"] for one in json.loads(warned.stdout)["plugins"]}
    assert "it needs plugin API >=1,<2" in why["doorbell"]
    assert does(venv, "--version") == "claw 0.1.0\n"
    assert listed_state()[0] == "loaded"

    venv.install(*released.values(), "-c", str(ROOT / "constraints.txt"))
    assert does(venv, "--version") == "claw 0.2.0\n"
    assert listed_state() == ("incompatible", "0.1.0", "layer")
    explanation = is_out_of_every_turn(venv, "it needs plugin API >=1,<2; this claw has 2")
    assert "nothing to do" in does(
        venv, *printed(explanation, r"plugins update \w+"), "--yes"
    )  # no release yet

    edited(project / "pyproject.toml", VERSION)
    edited(project / "claw_plugin_doorbell/claw-plugin.json", WIDER)
    done = does(venv, "plugins", "install", built(venv, project, tmp_path), "--yes")
    assert "doorbell 0.2.0: loaded" in done
    assert listed_state() == ("loaded", "0.2.0", "layer")
    is_in_every_turn(venv)
