"""Tools of llm plugins as a person meets them: installed, opted in, called, broken. The plugins are written here."""

import asyncio
import base64
import hashlib
import importlib
import re
import sys
import textwrap
import threading
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import claw_llm_bridge
import pytest
from claw import Tool, ToolResult
from claw.testing import FakeProvider, Harness, calls, check_and_run, plugin_config, says, tool_context
from claw_llm_bridge import inspection
from claw_llm_bridge.bridge import tools_of
from claw_llm_bridge.catalogue import BridgeSettings, LlmPlugin, PluginCatalogue, inspect_plugins
from claw_llm_bridge.repair import commands
from claw_tool_sdk import changed_files
from typer.testing import CliRunner

THINGS = """
import threading
import llm

class Shelf(llm.Toolbox):
    def __init__(self, room: str = "hall"):
        self.room, self.things, self.thread = room, [], threading.get_ident()

    def put(self, thing: str) -> str:
        "Put a thing on the shelf."
        assert threading.get_ident() == self.thread
        self.things.append(thing)
        return f"{self.room}: {', '.join(self.things)}"

class Vault(llm.Toolbox):
    def __init__(self, key: str):
        self.key = key

    def open(self) -> str:
        "Open it."
        return f"opened with {self.key}"

def weigh(thing: str, twice: bool = False) -> dict:
    "Weigh a thing."
    return {"kg": len(thing) * (2 if twice else 1)}

async def wait(thing: str) -> str:
    "Wait for it."
    return f"{thing} came"

def draw() -> llm.ToolOutput:
    "Draw."
    return llm.ToolOutput("a dot", attachments=[llm.Attachment(type="image/png", content=b"PNG")])

def call_id(llm_tool_call) -> str:
    "Tell the id of the call."
    return llm_tool_call.tool_call_id

def fail() -> str:
    "Fail."
    raise ValueError("it is stuck")

@llm.hookimpl
def register_tools(register):
    for one in (Shelf, Vault, weigh, wait, draw, call_id, fail):
        register(one)
    register(weigh, name="weigh again!")
"""


class Shop:
    """A folder on the import path into which llm plugins are installed, as pip would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(self, name: str, code: str, needs: str = "") -> None:
        module = name.replace("-", "_")
        info = self.folder / f"{module}-1.0.dist-info"
        info.mkdir()
        (self.folder / f"{module}.py").write_text(textwrap.dedent(code))
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}")
        (info / "entry_points.txt").write_text(f"[llm]\n{module} = {module}\n")
        digest = base64.urlsafe_b64encode(
            hashlib.sha256((self.folder / f"{module}.py").read_bytes()).digest()
        )
        (info / "RECORD").write_text(f"{module}.py,sha256={digest.decode().rstrip('=')},\n")
        importlib.invalidate_caches()


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    yield Shop(folder)
    for name in [name for name in sys.modules if name.startswith("llm_tools_")]:
        del sys.modules[name]


@pytest.fixture
def things(shop: Shop) -> Shop:
    shop.install("llm-tools-things", THINGS)
    return shop


def catalogue(tmp_path: Path, **settings: Any) -> PluginCatalogue:
    return PluginCatalogue(tmp_path / "state", BridgeSettings.model_validate(settings), {})


def tools(tmp_path: Path, **settings: Any) -> dict[str, Tool]:
    plugins, _ = catalogue(tmp_path, **settings).current()
    return {tool.name: tool for tool in tools_of(plugins, BridgeSettings.model_validate(settings))}


def said(result: ToolResult) -> list[str]:
    return [getattr(block, "text", "[image]") for block in result.blocks]


def test_functions_and_toolboxes_become_optional_tools_that_name_their_plugin(
    things: Shop, tmp_path: Path
) -> None:
    found = tools(tmp_path)

    assert set(found) == {
        *(
            "things__Shelf_put",
            "things__weigh",
            "things__wait",
            "things__draw",
            "things__call_id",
            "things__fail",
        ),
        "things__weigh_again_",
    }
    weigh = found["things__weigh"]
    assert weigh.optional
    assert weigh.description == "Weigh a thing.\n(llm plugin llm-tools-things)"
    assert weigh.parameters["required"] == ["thing"]
    assert "llm_tool_call" not in str(found["things__call_id"].parameters)


async def test_they_are_called_as_llm_calls_them(things: Shop, tmp_path: Path) -> None:
    found, context = tools(tmp_path), tool_context(tmp_path)

    async def call(name: str, **arguments: Any) -> list[str]:
        return said(await check_and_run(found[f"things__{name}"], arguments, context))

    assert await call("weigh", thing="anvil", twice=True) == ['{"kg": 10}']
    assert await call("weigh_again_", thing="anvil") == ['{"kg": 5}']
    assert await call("wait", thing="spring") == ["spring came"]
    assert await call("draw") == ["a dot", "[image]"]
    assert await call("call_id") == ["call_1"]
    assert await call("fail") == ["ValueError: it is stuck (llm plugin llm-tools-things)"]
    assert "thing" in (await call("weigh"))[0]


async def test_a_plugin_that_uses_llm_itself_is_called(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import llm.plugins

    monkeypatch.setattr("llm.plugins._loaded", False)  # llm loads all plugins at the first use in a process
    others = [one.name for one in entry_points(group="llm")]  # they may lack a library that they need
    for other in others:
        llm.plugins.pm.set_blocked(other)
    code = """
        import llm
        def known() -> str:
            "Count the models that llm knows."
            return f"{len(list(llm.get_models()))} models"
        @llm.hookimpl
        def register_tools(register):
            register(known)
    """
    shop.install("llm-tools-models", code)
    result = await check_and_run(tools(tmp_path)["models__known"], {}, tool_context(tmp_path))
    for other in others:
        llm.plugins.pm.unblock(other)
    assert not result.is_error, said(result)


async def test_a_toolbox_is_kept_for_its_conversation_in_one_thread_and_for_no_other(
    things: Shop, tmp_path: Path
) -> None:
    put = tools(tmp_path, toolboxes={"Shelf": {"room": "attic"}})["things__Shelf_put"]

    async def call(session: str, thing: str) -> list[str]:
        return said(await check_and_run(put, {"thing": thing}, tool_context(tmp_path, session_key=session)))

    assert await call("one", "anvil") == ["attic: anvil"]
    assert await call("one", "rope") == ["attic: anvil, rope"]
    assert await call("two", "lamp") == ["attic: lamp"]
    assert put.close is not None
    await put.close()
    assert await call("one", "box") == ["attic: box"]


def test_a_toolbox_that_needs_settings_is_left_out_until_it_has_them(things: Shop, tmp_path: Path) -> None:
    [plugin], _ = catalogue(tmp_path).current()
    assert plugin.lacking == {"Vault": ["key"]}
    assert "things__Vault_open" in tools(tmp_path, toolboxes={"Vault": {"key": "k"}})


BROKEN = """
import llm

class Shed(llm.Toolbox):
    def __init__(self, path: str = "/nowhere/shed.db"):
        open(path)

    def tidy(self) -> str:
        "Tidy it."
        return "tidy"

def weigh(thing: str) -> int:
    "Weigh a thing."
    return len(thing)

@llm.hookimpl
def register_tools(register):
    register(Shed)
    register(weigh)
"""


def test_a_toolbox_that_cannot_be_opened_costs_none_of_the_other_tools(
    shop: Shop, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from claw_llm_bridge.commands import bridge_app

    shop.install("llm-tools-shed", BROKEN)

    assert set(tools(tmp_path)) == {"shed__weigh"}
    claw_llm_bridge.register_tools(plugin_config({}, "llm-bridge", home=tmp_path / "home"))
    assert "toolbox Shed of llm-tools-shed is left out: FileNotFoundError" in caplog.text
    listed = CliRunner().invoke(bridge_app, ["list"]).output
    assert "shed__weigh" in listed
    assert "! these toolboxes cannot be opened: Shed (FileNotFoundError: " in listed
    assert CliRunner().invoke(bridge_app, ["check"]).exit_code == 1
    (tmp_path / "shed.db").touch()
    assert "shed__Shed_tidy" in tools(tmp_path, toolboxes={"Shed": {"path": str(tmp_path / "shed.db")}})


KEYED = """
import os
import llm

def search() -> str:
    "Search."
    return "found"

@llm.hookimpl
def register_tools(register):
    if os.environ.get("ANVIL_URL"):
        register(search)
"""


def test_a_plugin_that_registers_tools_only_with_its_variable_gets_it_by_name(
    shop: Shop, tmp_path: Path
) -> None:
    from claw_llm_bridge.commands import bridge_app

    shop.install("llm-tools-keyed", KEYED)

    def found(environ: dict[str, str], *allowed: str) -> list[str]:
        settings = BridgeSettings.model_validate({"envAllow": allowed})
        plugins, _ = PluginCatalogue(tmp_path / "state", settings, environ).current()
        return [line.name for plugin in plugins for line in plugin.tools]

    assert found({"ANVIL_URL": "http://127.0.0.1"}) == []
    listed = CliRunner().invoke(bridge_app, ["list"]).output
    assert "! it registers no tools; some plugins do so only when a variable is set" in listed
    assert "run: claw config set 'plugins.entries.llm-bridge.config.envAllow[]' VARIABLE" in listed
    assert CliRunner().invoke(bridge_app, ["check"]).exit_code == 0
    assert found({}, "ANVIL_URL") == []
    assert found({"ANVIL_URL": "http://127.0.0.1"}, "ANVIL_URL") == ["search"]
    assert "127.0.0.1" not in (tmp_path / "state" / "catalogue.json").read_text()


def test_contributions_are_read_again_only_when_the_environment_changed(things: Shop, tmp_path: Path) -> None:
    first, fresh = catalogue(tmp_path).current()
    second, again = catalogue(tmp_path).current()
    things.install("llm-tools-more", "import llm  # no register_tools")
    third, changed_now = catalogue(tmp_path).current()

    assert (fresh, again, changed_now) == (True, False, True)
    assert first == second
    assert [plugin.name for plugin in third] == ["llm-tools-more", "llm-tools-things"]


def test_a_start_with_a_note_imports_neither_llm_nor_a_plugin(things: Shop, tmp_path: Path) -> None:
    config = plugin_config({}, "llm-bridge", home=tmp_path)
    claw_llm_bridge.register_tools(config)

    assert len(list(claw_llm_bridge.register_tools(config))) == 7
    assert "llm_tools_things" not in sys.modules


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import no_such_thing", "ModuleNotFoundError: No module named 'no_such_thing'"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("def (", "SyntaxError: "),
        ("import os; os._exit(0)", "it ends the process that imports it"),
        ("import time; time.sleep(60)", "it was not read within 12 s"),
    ],
)
def test_a_plugin_that_cannot_be_read_is_left_out_with_its_cause_and_the_others_work(
    code: str, why: str, things: Shop
) -> None:
    things.install("llm-tools-aaa", f"{code}\ndef register_tools(register): ...")  # the others are behind it

    seconds = 12 if "sleep" in code else 60
    plugins = {plugin.name: plugin for plugin in inspect_plugins(BridgeSettings(), {}, seconds)}

    assert plugins["llm-tools-aaa"].why.startswith(why)
    assert len(plugins["llm-tools-things"].tools) == 7


def test_a_plugin_that_was_not_read_as_others_took_the_time_is_named(things: Shop) -> None:
    for name in ("llm-tools-aaa", "llm-tools-bbb"):
        things.install(name, "import time; time.sleep(60)\ndef register_tools(register): ...")

    plugins = {plugin.name: plugin for plugin in inspect_plugins(BridgeSettings(), {}, 2)}

    assert plugins["llm-tools-bbb"].why == "it was not read within 2 s"
    assert plugins["llm-tools-things"].why == "others before it were not read within 2 s"


async def test_a_plugin_that_breaks_later_answers_with_what_fixes_it(things: Shop, tmp_path: Path) -> None:
    weigh = tools(tmp_path)["things__weigh"]
    (things.folder / "llm_tools_things.py").write_text("def (")

    answer = await check_and_run(weigh, {"thing": "x"}, tool_context(tmp_path))

    assert answer.is_error
    assert "the llm plugin llm-tools-things cannot be used: SyntaxError" in said(answer)[0]
    assert "install --force-reinstall --no-deps llm-tools-things==1.0" in said(answer)[0].replace(
        "--reinstall", ""
    )


async def test_a_call_that_hangs_is_left_behind_and_the_next_one_gets_a_toolbox_of_its_own(
    shop: Shop, tmp_path: Path
) -> None:
    shop.install(
        "llm-tools-stuck",
        """
        import time, llm
        class Box(llm.Toolbox):
            def hang(self, seconds: float) -> str:
                "Hang."
                time.sleep(seconds)
                return "free"
        @llm.hookimpl
        def register_tools(register):
            register(Box)
        """,
    )
    hang = tools(tmp_path)["stuck__Box_hang"]
    context = tool_context(tmp_path)
    task = asyncio.create_task(check_and_run(hang, {"seconds": 30}, context))
    await asyncio.sleep(0.5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert said(await check_and_run(hang, {"seconds": 0}, context)) == ["free"]
    assert all(thread.daemon for thread in threading.enumerate() if thread.name.startswith("llm "))


@pytest.mark.parametrize("word", ["llm-bridge", "group:plugins", "things__weigh"])
async def test_an_allow_list_switches_them_on_and_nothing_else_does(word: str, things: Shop) -> None:
    model = FakeProvider(calls("things__weigh", thing="anvil"), says("5"))
    plugins = {"llm-bridge": claw_llm_bridge}
    async with Harness(model, config={"tools": {"alsoAllow": [word]}}, plugins=plugins) as harness:
        await harness.send("weigh the anvil")
    [answer] = model.requests[1].tool_results
    assert not answer.is_error

    silent = FakeProvider(says("no"))
    async with Harness(silent, config={"tools": {"profile": "full"}}, plugins=plugins) as harness:
        await harness.send("weigh the anvil")
    assert not [name for name in silent.requests[0].tool_names if name.startswith("things__")]


def test_a_plugin_that_provides_models_is_never_imported(things: Shop) -> None:
    things.install("llm-models", "raise SystemExit\ndef register_models(register): ...")
    assert [plugin.name for plugin in inspect_plugins(BridgeSettings(), {})] == ["llm-tools-things"]


def test_a_fix_is_named_only_where_pips_note_shows_the_fault(things: Shop) -> None:
    assert commands("llm-tools-things", absent=False) == []
    assert commands("llm-tools-things", absent=True)[0].endswith("install llm-tools-things==1.0")
    module = things.folder / "llm_tools_things.py"
    module.write_text(module.read_text() + " ")
    from importlib.metadata import distribution

    assert list(changed_files(distribution("llm-tools-things"))) == ["llm_tools_things.py"]


def test_a_digest_in_hex_is_a_digest_too(things: Shop) -> None:
    from importlib.metadata import distribution

    module = things.folder / "llm_tools_things.py"
    record = things.folder / "llm_tools_things-1.0.dist-info" / "RECORD"
    record.write_text(f"llm_tools_things.py,sha256={hashlib.sha256(module.read_bytes()).hexdigest()},\n")
    assert list(changed_files(distribution("llm-tools-things"))) == []


@pytest.mark.parametrize(
    ("distribution", "short"),
    [
        ("llm-tools-readonly-fs", "readonly_fs"),
        ("llm-jq", "jq"),
        ("LLM_Tools.X", "x"),
        ("datasette-llm", "datasette_llm"),
    ],
)
def test_a_plugins_short_name_leaves_out_what_they_all_share(distribution: str, short: str) -> None:
    assert LlmPlugin(distribution, "1", "x", "x").short == short


def test_the_list_shows_what_is_provided_and_what_to_type(
    things: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    from claw_llm_bridge.commands import bridge_app

    things.install("llm-tools-zzz", "import no_such_thing  # register_tools")
    listed = CliRunner().invoke(bridge_app, ["list"])
    checked = CliRunner().invoke(bridge_app, ["check"])

    assert "things__weigh" in listed.output
    assert re.search(r"^    about 2\d\d tokens in each request$", listed.output, re.M)
    assert "! these toolboxes need settings: Vault (key)" in listed.output
    assert "run: claw config set plugins.entries.llm-bridge.config.toolboxes.Vault.key VALUE" in listed.output
    assert "install llm-tools-zzz==1.0" in checked.output
    assert checked.exit_code == 1


def test_it_knows_every_installed_plugin_without_importing_one(things: Shop) -> None:
    assert "llm-tools-things" in [entry.dist.name for entry in inspection.plugins() if entry.dist]
    assert "llm_tools_things" not in sys.modules
