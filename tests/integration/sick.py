"""Broken third-party packages in one claw: each is listed, explained, called, and used in a turn.

``python -m integration.sick FAMILY FOLDER`` is that claw, a process of its own; it writes what it saw as JSON to stdout.
"""

import asyncio
import json
import os
import sys
import time
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from claw.agent.routing import terminal_message
from claw.agent.turn_context import TurnOptions
from claw.app import App, load_setup
from claw.contracts.errors import ClawError
from claw.contracts.provider import Request
from claw.contracts.transcript import Assistant, ToolResultMessage
from claw.host.hookspecs import hookimpl
from claw.host.isolation import reserved_stdout
from claw.host.manifest import find_plugin
from claw.testing import FakeProvider, FakeTool, calls, says, standard_plugins
from claw_admin.policy.explain import JudgedTools, explain_tool
from claw_admin.policy.explanation_text import verify_tool
from claw_admin.policy.judged_run import judge_scenario
from claw_config_sdk import Scenario
from typer.testing import CliRunner

SERVER = Path(__file__).with_name("sick_server.py")
WORKS = "5 kg"


@dataclass(frozen=True)
class Sick:
    """One sick thing, and what is said of it.

    :param tool: to explain and call.
    :param said: words of the result of a call; where the tool is not there, of the list that says why.
    :param is_there: its tool can be used.
    :param code: of the plugin.
    :param absent: names of tools of it that cannot be used.
    :param arguments: of the call.
    :param seconds: the limit of a call.
    """

    tool: str
    said: str = WORKS
    is_there: bool = True
    code: str = ""
    absent: tuple[str, ...] = ()
    arguments: dict[str, str] = field(default_factory=dict)
    seconds: float = 10.0


@dataclass
class Seen:
    """All that came of one sick thing: explanation, call and its seconds, answer of a turn, call of a sound tool."""

    listed: bool
    explained: str
    called: str
    seconds: float
    answered: str
    sound: str


class Fakes:
    """A model that uses the tool whose name it is given, and a sound tool."""

    def __init__(self) -> None:
        self.model = FakeProvider(*[_reply] * 1000)

    @hookimpl
    def register_providers(self) -> list[FakeProvider]:
        return [self.model]

    @hookimpl
    def register_tools(self) -> list[Any]:
        return [FakeTool("good_news", "all is well").tool]


def _reply(request: Request) -> Assistant:
    last = request.messages[-1]
    if isinstance(last, ToolResultMessage):
        return says("told: " + " ".join(getattr(block, "text", "") for block in last.content))
    said = json.loads("".join(block.text for block in last.content).rpartition("use ")[2])
    return calls(said["tool"], **said["arguments"])


def main(family: str, root: Path) -> None:
    """Write what was seen."""
    from integration.sick_families import FAMILIES

    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    sick, config, found = FAMILIES[family](root)
    sys.path.insert(0, str(root / "site"))
    for variable in ("CLAW_HOME", "HOME"):
        os.environ[variable] = str(root / "home")
    (root / "home").mkdir(mode=0o700)
    anyone = {"locale": "en", "agents": {"defaults": {"model": "fake/m1", "workspace": str(root)}}}
    (root / "home" / "config.yaml").write_text(json.dumps({**anyone, **config}))
    (root / "home" / "config.yaml").chmod(0o600)
    account = _command("mcp", "refresh") if family == "mcp" else ""
    with reserved_stdout():
        seen = asyncio.run(_lived(sick, found))
    account += _command("llm_bridge", "list") if family == "llm" else ""
    out.write(json.dumps({**seen, "account": account}, default=vars))
    out.close()
    os._exit(0)


def _command(plugin: str, *words: str) -> str:
    """Run a command of a plugin; what it said."""
    commands = import_module(f"claw_{plugin}.commands")
    app = commands.mcp_app if plugin == "mcp" else commands.bridge_app
    return CliRunner().invoke(app, words).output


async def _lived(sick: dict[str, Sick], found: list[tuple[str, str]]) -> dict[str, Any]:
    environ = {name: os.environ[name] for name in ("CLAW_HOME", "HOME", "PATH")}
    plugins = [find_plugin(id, package, f"claw-plugin-{id}", "1.0") for id, package in found]
    log: list[str] = []
    setup = load_setup(environ, [*standard_plugins("mcp", "llm-bridge"), *plugins])
    app = App(setup, plugins={"fakes": Fakes()}, log=log.append)
    judged = judge_scenario(Scenario(), app.runtime)
    rows = {}
    for name, one in sick.items():
        row = explain_tool(one.tool, app.config, JudgedTools(judged), app.host.plugin_states)
        row = verify_tool(row, app.host) if row.available else row
        began = time.monotonic()
        called = await _called(app, one.tool, one.arguments)
        seconds = time.monotonic() - began
        answered = await _turn(app, one.tool, one.arguments)
        sound = await _called(app, "good_news", {})
        rows[name] = Seen(row.available, f"{row.why} {row.fix}", called, seconds, answered, sound)
    began = time.monotonic()
    await asyncio.wait_for(app.close(), 30)
    states = {state.id: f"{state.state}: {state.why} {state.fix}" for state in app.host.plugin_states}
    names = [fact.name for fact in judged.facts if fact.name in judged.allowed_names]
    return {"rows": rows, "log": log, "names": names, "states": states, "close": time.monotonic() - began}


async def _called(app: App, tool: str, arguments: dict[str, str]) -> str:
    """Call a tool as ``claw tools call`` does; the text of the result, or the error."""
    try:
        async with asyncio.timeout(30):
            result = await app.call_tool(tool, arguments, terminal_message("x"), TurnOptions())
    except (ClawError, TimeoutError) as failed:
        return str(failed) or "no answer within 30 s"
    return "\n".join(getattr(block, "text", "[image]") for block in result.blocks)


async def _turn(app: App, tool: str, arguments: dict[str, str]) -> str:
    """Send a message in a conversation of its own; the answer, or the error."""
    message = terminal_message("use " + json.dumps({"tool": tool, "arguments": arguments}))
    try:
        async with asyncio.timeout(30):
            answer = await app.handle(message, _ignore, TurnOptions(session=f"s{time.monotonic_ns()}"))
    except (ClawError, TimeoutError) as failed:
        return str(failed) or "no answer within 30 s"
    return answer.text if answer else ""


async def _ignore(event: Any) -> None:
    pass


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
