"""The host: one bad plugin never stops claw, unless it is required."""

import json
import sys
from pathlib import Path

import pytest
from claw.agent.turn_context import TurnOptions
from claw.app import App, load_setup
from claw.contracts.errors import PluginError
from claw.host.health import CRASHED, LoadFailure, PluginHealth, files_digest
from claw.host.manifest import find_plugin
from claw.runtime import terminal_message
from claw.testing import FakeProvider, FakeTool, Harness, calls, says, standard_plugins


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages, as pip would fill it; what was imported from it is forgotten afterwards."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(folder) in str(sys.modules[name].__file__):
            del sys.modules[name]


def install(site: Path, id: str, code: str, manifest: dict | None = None):
    package = site / f"plugin_{id}"
    package.mkdir()
    (package / "__init__.py").write_text(code, encoding="utf-8")
    if manifest is not None:
        (package / "claw-plugin.json").write_text(json.dumps({"id": id, **manifest}), encoding="utf-8")
    return find_plugin(id, f"plugin_{id}", f"claw-plugin-{id}", "1.0")


def app_of(tmp_path: Path, *found, config: dict | None = None) -> tuple[App, list[str]]:
    home = tmp_path / "claw-home"
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(json.dumps({"locale": "en", **(config or {})}))
    log_lines: list[str] = []
    setup = load_setup(
        {"CLAW_HOME": str(home), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        [*standard_plugins(), *found],
    )
    return App(setup, log=log_lines.append), log_lines


GOOD = """
from claw import hookimpl, tool

@tool
def good_news() -> str:
    "Tell good news."
    return "all is well"

@hookimpl
def register_tools(config):
    return [good_news]
"""


@pytest.mark.parametrize(
    ("code", "stage", "says_why"),
    [
        ("def broken(:", "import", "SyntaxError"),
        ("raise SystemExit(3)", "import", "SystemExit"),
        ("raise KeyboardInterrupt", "import", "KeyboardInterrupt"),
        ("import no_such_library", "import", "no_such_library"),
        ("class X(Exception):\n    def __str__(self): raise RuntimeError\nraise X()", "import", "X"),
        (
            "from claw import hookimpl\n@hookimpl\ndef register_tools(config): raise RuntimeError('half')",
            "register",
            "half",
        ),
        (
            "from claw import hookimpl\n@hookimpl\ndef register_tools(config): return [object()]",
            "register",
            "register_tools",
        ),
        ("from claw import hookimpl\n@hookimpl\ndef register_tools(config, no): return []", "register", "no"),
    ],
)
async def test_a_broken_plugin_is_quarantined_with_its_name_and_the_others_work(
    site, tmp_path, code, stage, says_why
):
    app, log_lines = app_of(tmp_path, install(site, "bad", code), install(site, "good", GOOD))

    plugin_states = {state.id: state for state in app.host.plugin_states}
    assert (plugin_states["bad"].state, plugin_states["bad"].stage) == ("quarantined", stage)
    assert says_why in plugin_states["bad"].why
    assert plugin_states["bad"].fix
    assert any("bad" in line for line in log_lines)
    assert "good_news" in (await app.resolve_turn(terminal_message("hi"))).tools
    await app.close()


@pytest.mark.parametrize(
    "code", ["raise SystemExit", "from claw import hookimpl\n@hookimpl\ndef register_tools(config): 1/0"]
)
def test_a_required_plugin_that_is_broken_stops_the_start(site, tmp_path, code):
    bad = install(site, "bad", code)

    with pytest.raises(PluginError, match="required") as stopped:
        app_of(tmp_path, bad, config={"plugins": {"entries": {"bad": {"required": True}}}})
    assert stopped.value.exit_code == 4
    assert stopped.value.plugin == "bad"


DECLARED = {"tools": [{"name": "good_news", "description": "Tell good news."}]}


async def test_a_tool_with_a_manifest_is_offered_without_its_code_and_imported_at_its_first_call(
    site, tmp_path
):
    app, _ = app_of(tmp_path, install(site, "good", GOOD, DECLARED))

    assert "good_news" in (await app.resolve_turn(terminal_message("hi"))).tools
    assert "plugin_good" not in sys.modules
    result = await app.call_tool("good_news", {}, terminal_message(""), TurnOptions())
    assert result.content == "all is well"
    assert "plugin_good" in sys.modules
    await app.close()


@pytest.mark.parametrize("code", ["raise SystemExit", "x = 1"])
async def test_a_declared_tool_whose_code_fails_is_an_error_result_that_names_the_plugin(
    site, tmp_path, code
):
    app, _ = app_of(tmp_path, install(site, "bad", code, DECLARED))

    result = await app.call_tool("good_news", {}, terminal_message(""), TurnOptions())

    assert result.is_error
    assert "bad" in str(result.content)
    await app.close()


async def test_two_plugins_with_one_tool_name_keep_the_first_and_name_both(site, tmp_path):
    app, log_lines = app_of(tmp_path, install(site, "one", GOOD), install(site, "two", GOOD))

    context = await app.resolve_turn(terminal_message("hi"))
    assert context.tools["good_news"].plugin == "one"
    assert any("one" in line and "two" in line for line in log_lines)
    await app.close()


async def test_two_channels_or_providers_of_one_name_keep_the_first_and_name_both():
    class Second:
        def __init__(self, provider):
            self.provider = provider

        from claw import hookimpl

        @hookimpl
        def register_providers(self):
            return [self.provider]

    twin = FakeProvider(says("I am the second"))
    async with Harness(FakeProvider(says("I am the first")), plugins={"second": Second(twin)}) as harness:
        reply = await harness.send("who are you?")

        assert reply.text == "I am the first"
        assert any("fakes" in line and "second" in line for line in harness.log_lines)


async def test_what_the_plugin_opened_is_closed_at_the_end():
    class Closing(FakeProvider):
        closed = False

        async def close(self):
            self.closed = True

    model = Closing(calls("x"), says("ok"))
    async with Harness(model, tools=[FakeTool("x")]) as harness:
        await harness.send("hi")
    assert model.closed


async def test_one_that_does_not_close_is_named_and_the_rest_is_closed():
    class Sticky(FakeProvider):
        def close(self):
            raise RuntimeError("stuck")

    harness = Harness(Sticky(says("ok")))
    await harness.send("hi")
    await harness.close()

    assert any("stuck" in line and "fakes" in line for line in harness.log_lines)


async def test_a_plugin_that_ended_the_process_twice_waits_until_the_printed_command_tries_it(site, tmp_path):
    good = install(site, "good", GOOD)
    health = PluginHealth(tmp_path / "claw-home" / "plugins")
    health.record(LoadFailure("good", CRASHED, "import", "", digest=files_digest(good), times=2))

    app, _ = app_of(tmp_path, good)
    [state] = [one for one in app.host.plugin_states if one.id == "good"]
    await app.close()
    health.reset("good")
    again, _ = app_of(tmp_path, good)

    assert (state.state, state.stage) == ("quarantined", "import")
    assert "claw crashed 2 times while loading it" in state.why
    assert "claw plugins retry good" in state.fix
    assert [one.state for one in again.host.plugin_states if one.id == "good"] == ["loaded"]
    await again.close()


def test_enable_forgets_the_failure(tmp_path):
    from claw_admin.plugin_manager import commands
    from typer.testing import CliRunner

    folder = tmp_path / "home" / ".claw" / "plugins"
    PluginHealth(folder).record(LoadFailure("tools-std", CRASHED, "import", "", times=2))

    assert CliRunner().invoke(commands.app, ["enable", "tools-std"]).exit_code == 0
    assert PluginHealth(folder).failures() == {}


def test_the_hash_of_a_file_may_be_written_in_hexadecimal(tmp_path):
    from hashlib import sha256
    from importlib.metadata import Distribution

    from claw_tool_sdk import changed_files

    info = tmp_path / "odd-1.0.dist-info"
    info.mkdir()
    (tmp_path / "odd.py").write_text("x = 1")
    (info / "METADATA").write_text("Name: odd\nVersion: 1.0\n")
    (info / "RECORD").write_text(f"odd.py,sha256={sha256(b'x = 1').hexdigest()},5\n")
    odd = Distribution.at(info)

    assert list(changed_files(odd)) == []
    (tmp_path / "odd.py").write_text("x = 2")
    assert list(changed_files(odd)) == ["odd.py"]
