"""Chat commands come from plugins: of third parties too, within limits, and their absence is said."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from claw import ClawError, hookimpl
from claw.agent.turn_context import TurnOptions
from claw.app import App, load_setup
from claw.config.summary import plugins_that_bring
from claw.host.isolation import Timeouts
from claw.runtime import FunctionCommand, terminal_message
from claw.testing import FakeChannel, FakeProvider, Harness, says, standard_plugins
from claw_channel_sdk import Conversation
from claw_channel_sdk.chat_commands import run_chat_command
from claw_terminal.command import TerminalConversation
from integration.test_chat_commands import type_in
from integration.test_serving import Channels
from msgspec.structs import replace as msgspec_replace

OPEN = {"channels": {"fake": {"allowFrom": ["u1"], "groups": {"g1": {}}}}, "owners": ["fake:boss"]}


class Commands:
    """A plugin that registers chat commands."""

    def __init__(self, *commands: Any) -> None:
        self.commands = commands
        self.asked = 0

    @hookimpl
    def register_chat_commands(self) -> tuple[Any, ...]:
        self.asked += 1
        return self.commands


async def _mood(arguments: str, conversation: Conversation) -> str:
    who = "owner" if conversation.is_owner else "person"
    return f"{who} {conversation.inbound.sender.id} of {conversation.session_key}: {arguments or 'calm'}"


MOOD = FunctionCommand("mood", "how the agent feels", _mood, "[word]")


def command(run: Callable[..., Any], name: str = "mood", **traits: Any) -> FunctionCommand:
    return FunctionCommand(name, "for a test", run, **traits)


def app_of(
    home: Path, plugins: Mapping[str, Any], found: Sequence[Any] | None = None, **options: Any
) -> tuple[App, list[str]]:
    """A claw with these plugin objects, and what it logs."""
    environ, lines = {"CLAW_HOME": str(home), "HOME": str(home), "PATH": "/usr/bin:/bin"}, list[str]()
    setup = load_setup(environ, standard_plugins() if found is None else found)
    return App(setup, plugins=plugins, log=lines.append, **options), lines


def terminal(app: App, line: str) -> TerminalConversation:
    return TerminalConversation(app, terminal_message(line), TurnOptions())


async def test_a_command_of_a_third_party_works_at_the_terminal_and_is_listed_by_help() -> None:
    async with Harness(FakeProvider(), plugins={"acme": Commands(MOOD)}) as harness:
        assert await type_in(harness, "/mood glad") == "owner local of agent:default:main: glad"
        lines = (await type_in(harness, "/help") or "").splitlines()
        menu = harness.app.host._views["acme"].chat_menu()
    assert "/mood [word] — how the agent feels" in lines
    assert ("mood", "how the agent feels", "[word]") in menu


async def test_it_works_in_a_chat_and_answers_the_same(tmp_path: Path) -> None:
    channel = FakeChannel()
    plugins = {"channels": Channels(channel), "acme": Commands(MOOD)}
    async with (
        Harness(FakeProvider(), plugins=plugins, home=tmp_path, config=OPEN) as harness,
        harness.serving(),
    ):
        channel.says("/mood glad", "u1")
        shown = await channel.until_shown()
    assert shown == ["person u1 of agent:default:fake:direct:u1: glad"]


async def test_a_command_may_reply_before_its_answer_and_submit_a_message(tmp_path: Path) -> None:
    async def ask(arguments: str, conversation: Conversation) -> str:
        await conversation.reply("first")
        await conversation.submit(f"please {arguments}")
        return "second"

    channel, model = FakeChannel(), FakeProvider(says("done"))
    plugins = {"channels": Channels(channel), "acme": Commands(command(ask, "ask"))}
    async with Harness(model, plugins=plugins, home=tmp_path, config=OPEN) as harness, harness.serving():
        channel.says("/ask tidy", "u1")
        shown = await channel.until_shown(3)
    assert shown == ["first", "second", "done"]
    assert model.requests[0].request.messages[-1].content[0].text.endswith("please tidy")


async def test_a_plain_message_asks_no_plugin_for_commands() -> None:
    harness = Harness(FakeProvider(says("hi")))
    # Our own plugins with commands have other things to do in a turn: one that has not.
    found = [one for one in standard_plugins() if one.id != "sessions"]
    [sessions] = (one for one in standard_plugins() if one.id == "sessions")
    manifest = msgspec_replace(sessions.manifest, kinds=("chat-command",), config_keys=(), config_models={})
    environ = {"CLAW_HOME": str(harness.home), "HOME": str(harness.home), "PATH": "/usr/bin:/bin"}
    setup = load_setup(environ, [*found, replace(sessions, manifest=manifest)])
    harness._app = App(setup, plugins=harness._plugins)
    async with harness:
        await harness.send("hello")
        loaded = {plugin for plugin, _, _ in harness.app.host._things()}
        assert "sessions" not in loaded
        assert await type_in(harness, "/stop")
        assert "sessions" not in {plugin for plugin, _, _ in harness.app.host._things()}
        await type_in(harness, "/status")
        assert "sessions" in {plugin for plugin, _, _ in harness.app.host._things()}


async def test_one_that_raises_is_named_in_the_log_and_the_person_gets_an_answer() -> None:
    async def broken(arguments: str, conversation: Conversation) -> str:
        raise ValueError("no mood today")

    async with Harness(FakeProvider(), plugins={"acme": Commands(command(broken))}) as harness:
        answer = await type_in(harness, "/mood")
        assert answer == "/mood failed: an error of plugin acme. The log says more"
        [line] = [line for line in harness.log_lines if "no mood today" in line]
        assert "acme" in line and "/mood" in line
        assert "model: fake/m1" in (await type_in(harness, "/status") or "")


async def test_an_error_of_claw_is_the_answer() -> None:
    async def refuses(arguments: str, conversation: Conversation) -> str:
        raise ClawError("there is no mood {name}", name=arguments)

    async with Harness(FakeProvider(), plugins={"acme": Commands(command(refuses))}) as harness:
        assert await type_in(harness, "/mood blue") == "there is no mood blue"


async def test_what_is_no_text_is_an_error_of_its_plugin() -> None:
    async def number(arguments: str, conversation: Conversation) -> Any:
        return 7

    async with Harness(FakeProvider(), plugins={"acme": Commands(command(number))}) as harness:
        assert "plugin acme" in (await type_in(harness, "/mood") or "")
        assert any("answers with text, not int" in line for line in harness.log_lines)


@pytest.mark.parametrize("blocks", [False, True], ids=["waits", "blocks its thread"])
async def test_one_that_hangs_is_given_up_and_holds_nobody_else_up(tmp_path: Path, blocks: bool) -> None:
    async def hangs(arguments: str, conversation: Conversation) -> str:
        if blocks:
            time.sleep(3)
        await asyncio.sleep(60)
        return "never"

    limits = Timeouts(command_seconds=0.3, worker_seconds=0.2)
    app, log_lines = app_of(tmp_path, {"acme": Commands(command(hangs))}, timeouts=limits)
    async with app:
        began, ticks = time.monotonic(), 0
        asked = asyncio.ensure_future(run_chat_command("/mood", terminal(app, "/mood")))
        while not asked.done():
            await asyncio.sleep(0.01)
            ticks += 1
        assert "plugin acme" in (asked.result() or "")
        assert time.monotonic() - began < 2.5 and ticks > 10, "claw's own loop went on meanwhile"
        assert any("did not answer within 0.3 s" in line for line in log_lines)


async def test_of_two_with_one_name_the_lower_position_has_it_then_the_plugin_id_and_the_other_is_named() -> (
    None
):
    async def one(arguments: str, conversation: Conversation) -> str:
        return "one"

    async def two(arguments: str, conversation: Conversation) -> str:
        return "two"

    by_id = {"beta": Commands(command(two)), "alpha": Commands(command(one))}
    async with Harness(FakeProvider(), plugins=by_id) as harness:
        assert await type_in(harness, "/mood") == "one"
        assert "/mood of plugin beta is skipped: plugin alpha already provides that name" in harness.log_lines
        assert (await type_in(harness, "/help") or "").count("/mood") == 1
    by_position = {"beta": Commands(command(two, position=5)), "alpha": Commands(command(one))}
    async with Harness(FakeProvider(), plugins=by_position) as harness:
        assert await type_in(harness, "/mood") == "two"
        assert "/mood of plugin alpha is skipped: plugin beta already provides that name" in harness.log_lines


@pytest.mark.parametrize("name", ["stop", "help"])
async def test_nobody_takes_a_command_of_core(name: str) -> None:
    async def mine(arguments: str, conversation: Conversation) -> str:
        return "mine"

    plugins = {"acme": Commands(command(mine, name, position=-1000))}
    async with Harness(FakeProvider(), plugins=plugins) as harness:
        assert await type_in(harness, f"/{name}") != "mine"
        await type_in(harness, "/status")
        assert any(f"/{name} of plugin acme is skipped" in line for line in harness.log_lines)


@pytest.mark.parametrize(
    ("traits", "line", "refused"),
    [
        ({"owner_only": True}, "/mood", "only an owner may use /mood"),
        ({"changes": "always"}, "/mood", "only an owner may"),
        ({"changes": "with-arguments"}, "/mood x", "only an owner may"),
        ({"changes": "with-arguments"}, "/mood", ""),
        ({}, "/mood x", ""),
    ],
)
async def test_who_may_use_it_is_held_by_core(traits: Any, line: str, refused: str) -> None:
    config = {"channels": {"acme": {"allowFrom": ["u1", "u2"], "groups": {"g1": {}}}}, "owners": ["acme:u1"]}
    plugins = {"third": Commands(command(_mood, **traits))}
    async with Harness(FakeProvider(), plugins=plugins, config=config) as harness:
        by_other = await type_in(harness, line, sender="u2", group=True) or ""
        assert refused in by_other and bool(refused) != by_other.startswith("person")
        assert (await type_in(harness, line, sender="u1", group=True) or "").startswith("owner")


@pytest.mark.parametrize("wrong", ["Mood", "my mood", "/mood", "", "m" * 33, "7up"])
async def test_a_name_that_nobody_could_type_quarantines_its_plugin(wrong: str) -> None:
    async with Harness(FakeProvider(), plugins={"acme": Commands(command(_mood, wrong))}) as harness:
        assert harness.app
        assert any("acme" in line and "named" in line for line in harness.log_lines)


HINTS = list(plugins_that_bring("chatCommands").items())


@pytest.mark.parametrize(("name", "plugin"), HINTS)
async def test_a_command_whose_plugin_is_not_in_use_says_which_one_provides_it(
    tmp_path: Path, name: str, plugin: str
) -> None:
    (tmp_path / "config.yaml").write_text(f"plugins: {{entries: {{{plugin}: {{enabled: false}}}}}}")
    app, _ = app_of(tmp_path, {})
    async with app:
        if name in app.chat_commands:
            pytest.skip("another plugin brings it until its owner does")
        answer = await run_chat_command(f"/{name}", terminal(app, "")) or ""
        assert await run_chat_command(f"/{name} something", terminal(app, "")) == answer
    assert f"/{name} comes with " in answer and plugin in answer
    assert f"plugins.entries.{plugin}.enabled true" in answer


async def test_one_whose_package_is_not_installed_names_the_package(tmp_path: Path) -> None:
    app, _ = app_of(tmp_path, {}, found=[one for one in standard_plugins() if one.id != "sessions"])
    async with app:
        answer = await run_chat_command("/new", terminal(app, "/new"))
    assert (
        answer == "/new comes with claw-sessions, which is not installed: claw plugins install claw-sessions"
    )


async def test_in_a_served_chat_a_long_command_leaves_the_conversation_open(tmp_path: Path) -> None:
    going = asyncio.Event()

    async def waits(arguments: str, conversation: Conversation) -> str:
        await conversation.call(going.wait)
        return "waited"

    channel = FakeChannel()
    plugins = {"channels": Channels(channel), "acme": Commands(command(waits, "wait", is_long=True))}
    async with (
        Harness(FakeProvider(), plugins=plugins, home=tmp_path, config=OPEN) as harness,
        harness.serving(),
    ):
        channel.says("/wait", "u1")
        channel.says("/help", "u1")
        assert "/wait" in (await channel.until_shown(1))[0]
        going.set()
        assert "waited" in await channel.until_shown(2)


def test_the_hint_table_names_no_command_of_core() -> None:
    assert HINTS and not {"help", "stop"} & dict(HINTS).keys()
