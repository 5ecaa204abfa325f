"""A part of a loaded plugin that fails in turns is named by every command that shows plugins, until it works."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from claw.host.health import PartHealth, PluginHealth
from claw.host.manifest import InstalledPlugin
from claw_testing.services import OpenAIService
from third_party import Machine, engine_code, installed

CODE = """
import os
from claw import PromptSection, hookimpl

def broken(part):
    path = os.path.join(os.path.dirname(__file__), "broken")
    if os.path.exists(path) and part in open(path).read().split():
        raise LookupError(f"no table for the {part}")

def render(facts):
    broken("section")
    return "## Tides\\nHigh at noon."

class Parts:
    def inbound(self, message):
        broken("filter")
        return message
    def on_event(self, event):
        broken("observer")

@hookimpl
def register_prompt_sections(config):
    return [PromptSection("tides", 50, render)]

@hookimpl
def register_filters(config):
    return [Parts()]

@hookimpl
def register_observers(config):
    return [Parts()]
"""
ENGINE = """
async def ask(messages, tool_choice):
    async for event in call(messages, tool_choice):
        yield event

broken("engine")
return ask
"""
PARTS = {
    "section": "prompt section tides",
    "filter": "filter",
    "observer": "observer",
    "engine": "context engine",
}


class Home:
    """A machine with the plugin; ``breaks`` says which of its parts fail from now on."""

    def __init__(self, folder: Path) -> None:
        site = installed(folder / "site", "tides", CODE + engine_code("tides", ENGINE))
        self.machine = Machine(folder / "machine", [site])
        self.code = next(site.glob("*tides*/__init__.py"))

    def breaks(self, *parts: str) -> None:
        self.code.with_name("broken").write_text(" ".join(parts))

    async def turn(self, answered: bool = True) -> None:
        """Take one turn in a process of its own."""
        async with OpenAIService(["So it is."]) as model:
            self.machine.configured(
                json.dumps(
                    {
                        "providers": {"openai": {"baseUrl": model.url, "apiKey": "sk-test-of-parts"}},
                        "agents": {"defaults": {"model": "openai/gpt-4o"}},
                        "plugins": {"slots": {"context": "tides"}},
                    }
                ),
                "config.json",
            )
            said = await asyncio.to_thread(self.machine.claw, "chat", "--model", "openai/gpt-4o", "hi")
        assert (said.code == 0) is answered, said.err

    def said(self, *words: str) -> str:
        printed = self.machine.claw(*words)
        return printed.out + printed.err

    def row(self) -> dict[str, str]:
        rows = json.loads(self.machine.claw("plugins", "list", "--json").out)["plugins"]
        return next(one for one in rows if one["id"] == "tides")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.mark.parametrize("part", PARTS)
async def test_every_surface_names_a_part_that_failed_in_the_last_turn(home: Home, part: str) -> None:
    home.breaks(part)
    await home.turn(part != "engine")
    await home.turn(part != "engine")

    row = home.row()
    assert (row["state"], row["stage"]) == ("loaded", "run")
    assert row["why"].count("no table") == 1, "once, however many turns failed"
    for words in (
        ("plugins", "list"),
        ("plugins", "info", "tides"),
        ("doctor",),
        ("plugins", "doctor"),
        ("status",),
    ):
        said = " ".join(home.said(*words).split())
        assert f"its {PARTS[part]} failed: LookupError: no table for the {part}" in said, words


async def test_it_is_forgotten_when_the_part_works_in_a_turn_and_not_because_the_plugin_loads(
    home: Home,
) -> None:
    home.breaks("section", "observer")
    await home.turn()
    home.said("plugins", "doctor")  # a process that loads it
    assert "tides" in home.row()["why"] and "observer" in home.row()["why"]

    home.breaks("observer")
    await home.turn()
    assert "prompt section" not in home.row()["why"] and "observer" in home.row()["why"]

    home.breaks()
    await home.turn()
    assert "no table" not in home.row()["why"]
    assert "no table" not in home.said("doctor")


async def test_an_engine_is_forgotten_when_it_works_in_a_turn(home: Home) -> None:
    home.breaks("engine")
    await home.turn(answered=False)
    assert "its context engine failed" in home.row()["why"]

    home.breaks()
    await home.turn()
    assert "no table" not in home.row()["why"]


async def test_it_is_forgotten_when_the_files_of_the_plugin_change_or_the_operator_says_so(
    home: Home,
) -> None:
    home.breaks("observer")
    await home.turn()
    home.code.write_text(home.code.read_text() + "\n# corrected\n")
    assert "no table" not in home.row()["why"]

    await home.turn()
    assert "no table" in home.row()["why"]
    assert home.machine.claw("plugins", "retry", "tides").code == 0
    assert "no table" not in home.row()["why"]


async def test_a_changed_configuration_does_not_hide_it(home: Home) -> None:
    home.breaks("observer")
    await home.turn()
    home.machine.configured(json.dumps({"logging": {"level": "debug"}}), "config.json")
    assert "no table" in home.row()["why"]


class CountedHealth(PluginHealth):
    """Counts what is written about parts."""

    writes = 0

    def replace_part(self, *given: Any) -> None:
        self.writes += 1
        super().replace_part(*given)


def test_a_part_that_fails_in_every_other_turn_is_one_record_and_few_writes(home: Home) -> None:
    found = InstalledPlugin("tides", "stranger_tides", "stranger_tides", "1.0", home.code.parent)
    health = CountedHealth(home.machine.home / "plugins")
    parts = PartHealth(health, [found])
    for number in range(50):
        parts.failed("tides", "its filter failed: {name}{why}", name="", why=f"turn {number}")
        parts.worked("tides", "its filter failed: {name}{why}")
    parts.worked("tides", "its observer failed: {name}{why}")

    assert health.writes == 3  # it failed, it worked, it failed again
    assert [one for one, *_ in health.failed_parts()] == ["tides"]
    PartHealth(health, [found]).worked("tides", "its filter failed: {name}{why}")  # in a later process
    assert list(health.failed_parts()) == []
