"""A gateway with one plugin that does one thing wrong, and everybody who must not notice: two channels, a sound tool.

``python faulty.py FILE`` lives through starts in processes of their own, forked from one that has imported claw: for
plugins that end the process.
"""

import asyncio
import json
import os
import sys
import textwrap
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from claw.agent.turn_context import TurnOptions
from claw.app import App, load_setup
from claw.contracts.errors import ClawError
from claw.contracts.provider import Request
from claw.contracts.transcript import Assistant, ToolResultMessage
from claw.host.hookspecs import hookimpl
from claw.host.isolation import Timeouts, reserved_stdout
from claw.host.manifest import find_plugin
from claw.runtime import terminal_message
from claw.testing import FakeChannel, FakeProvider, FakeTool, calls, says, standard_plugins
from claw_gateway.supervisor import ChannelServer

HEAD = """
import asyncio, os, sys, threading, time
from claw import (Address, Assistant, ChannelConfig, Credential, Finished, Inbound, ChannelLimits, PromptSection, Receipt,
                  Section, Sender, Text, hookimpl, tool)

class Wanted(Section):
    number: int = 1

class WantedOfChannel(ChannelConfig):
    number: int = 1

async def linger():
    try:
        await asyncio.sleep(3600)
    finally:
        open(os.path.join(os.path.dirname(__file__), "ended"), "w").close()

@tool
def undeclared() -> str:
    "Not in the manifest."
    return "undeclared"
"""
KINDS = {
    "channel": """
class Odd:
    name, capabilities, limits = NAME, frozenset(), ChannelLimits()
    async def run(self, inbox):
        RUN
        await inbox.submit(Inbound(Address("odd", "c"), "hello", Sender("p"), message_id="1", event_id="1"))
        await asyncio.Event().wait()
    async def send(self, outbound):
        SEND
        return Receipt(("1",))
    async def close(self):
        CLOSE
@hookimpl
def register_channels(config):
    config.channel("odd", WantedOfChannel)
    HOOK
    return [Odd()]
""",
    "provider": """
class Odd:
    name = NAME
    def credentials(self):
        return (Credential("odd", ""),)
    def context_tokens(self, model):
        return 100_000
    async def stream(self, request):
        RUN
        yield Finished(Assistant((Text("odd worked"),)))
    async def close(self):
        CLOSE
@hookimpl
def register_providers(config):
    config.provider("odd", Wanted)
    HOOK
    return [Odd()]
""",
    "tool": """
async def ended():
    CLOSE
async def odd() -> str:
    "Odd."
    RUN
    return "odd worked"
@hookimpl
def register_tools(config):
    config.plugin(Wanted)
    HOOK
    return [tool(name=NAME, close=ended, timeout_seconds=20)(odd)] + EXTRA
""",
    "section": """
def render(facts):
    RUN
    return "## Odd"
def close():
    CLOSE
@hookimpl
def register_prompt_sections(config):
    config.plugin(Wanted)
    HOOK
    return [PromptSection(NAME, 50, render)]
""",
    "reviewer": """
class Odd:
    async def before(self, call, context):
        RUN
    async def close(self):
        CLOSE
@hookimpl
def register_reviewers(config):
    config.plugin(Wanted)
    HOOK
    return [Odd()]
""",
    "filter": """
class Odd:
    def inbound(self, message):
        RUN
        return message
    def close(self):
        CLOSE
@hookimpl
def register_filters(config):
    config.plugin(Wanted)
    HOOK
    return [Odd()]
""",
    "observer": """
class Odd:
    def on_event(self, event):
        RUN
    def close(self):
        CLOSE
@hookimpl
def register_observers(config):
    config.plugin(Wanted)
    HOOK
    return [Odd()]
""",
}
MANIFESTS: dict[str, dict[str, Any]] = {
    "channel": {"kinds": ["channel"], "channels": ["odd"]},
    "provider": {"kinds": ["provider"], "providers": [{"name": "odd"}]},
    "tool": {"kinds": ["tool"], "tools": [{"name": "odd", "description": "Odd.", "timeoutSeconds": 20}]},
    "section": {"kinds": ["section"], "promptSections": ["Odd"]},
    "reviewer": {"kinds": ["reviewer"], "reviewers": ["odd"]},
    "filter": {"kinds": ["filter"], "filters": ["odd"]},
    "observer": {"kinds": ["observer"], "observers": ["odd"]},
}


@dataclass
class Plan:
    """One start of a gateway with a faulty plugin.

    :param put: point of the plugin's code (TOP, HOOK, RUN, SEND, CLOSE, NAME, EXTRA, END) → the code there.
    :param awaited: words that must have been said before claw stops.
    """

    root: str
    kind: str
    put: dict[str, str] = field(default_factory=dict)
    manifest: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    timeouts: dict[str, float] = field(default_factory=dict)
    required: bool = False
    enabled: bool = True
    awaited: str = ""


@dataclass
class Lived:
    """The observed behaviour: the state of the plugin at the end, the reports, the answers to people."""

    state: str = ""
    stage: str = ""
    why: str = ""
    fix: str = ""
    complaints: list[str] = field(default_factory=list)
    alpha: str = ""
    beta: str = ""
    provoked: str = ""
    tools: list[str] = field(default_factory=list)
    exit_code: int = 0
    stopped_by: str = ""


class Fakes:
    """Two channels, a model that uses the given tool, and a sound tool."""

    def __init__(self) -> None:
        self.alpha, self.beta = FakeChannel("alpha"), FakeChannel("beta")
        self.model = FakeProvider(*[_answer] * 60)

    @hookimpl
    def register_channels(self) -> list[FakeChannel]:
        return [self.alpha, self.beta]

    @hookimpl
    def register_providers(self) -> list[FakeProvider]:
        return [self.model]

    @hookimpl
    def register_tools(self) -> list[Any]:
        return [FakeTool("good_news", "all is well").tool]


def _answer(request: Request) -> Assistant:
    last = request.messages[-1]
    if isinstance(last, ToolResultMessage):
        return says("told: " + " ".join(getattr(block, "text", "") for block in last.content))
    _, uses, name = "".join(block.text for block in last.content).rpartition("use ")
    return calls(name) if uses else says("hello")


def write(plan: Plan) -> None:
    """The plugin's package and the home's file."""
    package = Path(plan.root) / "site" / package_of(plan)
    if not package.exists():
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(_code(plan))
        (package / "claw-plugin.json").write_text(
            json.dumps({"id": "bad", **MANIFESTS[plan.kind], **plan.manifest})
        )
    home = Path(plan.root) / "claw"
    home.mkdir(exist_ok=True)
    anybody = {"dmPolicy": "open", "allowFrom": ["*"]}
    entry = {"required": plan.required, "enabled": plan.enabled}
    tree = {
        "locale": "en",
        "agents": {"defaults": {"model": "fake/m1", "workspace": plan.root}},
        "channels": {"alpha": anybody, "beta": anybody, "odd": anybody},
        "plugins": {"entries": {"bad": entry}},
    }
    for key, value in plan.config.items():
        section = tree.setdefault(key.partition(".")[0], {})
        for word in key.split(".")[1:-1]:
            section = section.setdefault(word, {})
        section[key.rpartition(".")[2]] = value
    (home / "config.yaml").write_text(json.dumps(tree))


def package_of(plan: Plan) -> str:
    """A name of its own for each root, so that no cell imports another's module."""
    return "odd_" + "".join(c for c in Path(plan.root).name if c.isalnum())


def _code(plan: Plan) -> str:
    usual = {"NAME": "'odd'", "EXTRA": "[]"}
    put = {**dict.fromkeys(("RUN", "SEND", "CLOSE", "HOOK"), "pass"), **usual, **plan.put}
    code = HEAD + KINDS[plan.kind]
    for point, text in put.items():
        if point in usual:
            code = code.replace(point, text)
        elif point not in ("TOP", "END"):
            lines = [line for line in code.splitlines() if line.strip() == point]
            for line in lines:
                code = code.replace(line, textwrap.indent(text, line[: -len(point)]))
    return "\n".join([plan.put.get("TOP", ""), code, plan.put.get("END", "")])


def live(plan: Plan) -> Lived:
    """One start, a message in each channel, what provokes the plugin, and the end."""
    write(plan)
    site = str(Path(plan.root) / "site")
    sys.path.insert(0, site)
    try:
        with reserved_stdout():  # as every process of claw that takes turns
            return asyncio.run(_lived(plan))
    except ClawError as stopped:
        return Lived(exit_code=stopped.exit_code, stopped_by=str(stopped))
    finally:
        sys.path.remove(site)
        sys.modules.pop(package_of(plan), None)


async def _lived(plan: Plan) -> Lived:
    found = find_plugin("bad", package_of(plan), "claw-plugin-bad", "1.0")
    environ = {"CLAW_HOME": str(Path(plan.root) / "claw"), "HOME": plan.root, "PATH": "/usr/bin:/bin"}
    models = ["odd/m1"] if plan.kind == "provider" else []
    fakes, lived = Fakes(), Lived()
    app = App(
        load_setup(environ, [*standard_plugins(), found], models),
        plugins={"fakes": fakes},
        log=lived.complaints.append,
        timeouts=Timeouts(**{"pause_seconds": 0.001, "worker_seconds": 0.1, **plan.timeouts}),
    )
    stop = asyncio.Event()
    serving = asyncio.ensure_future(ChannelServer(app).run(stop))
    fresh_ids = dict.fromkeys(
        ("message_id", "event_id"), uuid4().hex
    )  # a start before this one had messages too
    try:
        fakes.alpha.says("use good_news", **fresh_ids)
        await fakes.alpha.until_shown(within_seconds=10)
        provoked = asyncio.ensure_future(_provoke(plan, app, lived))
        fakes.beta.says("use good_news", **fresh_ids)
        await fakes.beta.until_shown(within_seconds=10)
        lived.provoked = await asyncio.wait_for(provoked, 10)
        lived.tools = [tool.name for tool in app.registry.tools]
    finally:
        stop.set()
        await asyncio.wait_for(serving, 10)
        await asyncio.wait_for(app.close(), 10)
    [state] = [state for state in app.host.plugin_states if state.id == "bad"]
    lived.state, lived.stage, lived.why, lived.fix = (
        state.state,
        state.stage,
        state.why,
        state.fix,
    )
    lived.alpha, lived.beta = " ".join(fakes.alpha.shown), " ".join(fakes.beta.shown)
    return lived


async def _provoke(plan: Plan, app: App, lived: Lived) -> str:
    if plan.kind == "channel":
        await _until(lambda: any(plan.awaited in line for line in ["", *lived.complaints]))
        return ""
    options = TurnOptions(session="odd", model="odd/m1" if plan.kind == "provider" else "", fallbacks=())
    try:
        words = {"tool": "use odd", "provider": "hello"}.get(plan.kind, "use good_news")
        answer = await app.handle(terminal_message(words), _nowhere, options)
        return answer.text if answer else ""
    except ClawError as failed:
        return str(failed)


async def _nowhere(event: Any) -> None:
    pass


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(8):
        while not true():
            await asyncio.sleep(0.002)


def main() -> None:
    """Live through lists of starts; of each, write how its process ended and what was seen."""
    plans = json.loads(Path(sys.argv[1]).read_text())
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    endings = [[_forked(Plan(**plan)) for plan in starts] for starts in plans]
    Path(sys.argv[2]).write_text(json.dumps(endings))


def _forked(plan: Plan) -> list[Any]:
    seen = Path(plan.root) / "seen.json"
    seen.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        try:
            seen.write_text(json.dumps(asdict(live(plan))))
        except BaseException as why:
            print(repr(why), file=sys.stderr)
            os._exit(99)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return [code, json.loads(seen.read_text()) if seen.exists() else {}]


if __name__ == "__main__":
    main()
