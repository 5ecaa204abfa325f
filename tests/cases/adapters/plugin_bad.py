"""plugin_bad: a plugin made as the row says, in a gateway with two channels and a sound plugin; then a message.

Words of the table → ours: failed = quarantined, active = loaded or idle, skipped = seen and not loadable. ``at`` →
register = a ``register_*`` hook, before_tool_call = a reviewer, before_agent_start and agent_end = an observer,
before_prompt_build = a section's render, message_received = a filter, unload = ``close()``, storage = ``state_dir``.
"""

import asyncio
import importlib
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from claw.agent.turn_context import TurnOptions
from claw.app import App, load_setup
from claw.contracts.transcript import ToolResultMessage
from claw.host.hookspecs import hookimpl
from claw.host.isolation import Timeouts
from claw.host.manifest import find_plugin
from claw.runtime import terminal_message
from claw.testing import FakeChannel, FakeProvider, says, standard_plugins
from claw_gateway.supervisor import ChannelServer
from integration.gateways import Home, Running
from third_party import installed

from cases.made import plugins as made

FUNCTIONS = ("claw.host.manager:Host.gather",)
STATES = {
    "quarantined": "failed",
    "loaded": "active",
    "idle": "active",
    "disabled": "disabled",
    "incompatible": "skipped",
}
GOOD = """
from claw import ToolContext, hookimpl, tool

@tool
def good_news() -> str:
    "Tell good news."
    return "all is well"

@tool
def good_file(context: ToolContext) -> str:
    "Read a file of the workspace."
    return context.files.read("probe.txt").decode()

@hookimpl
def register_tools(config):
    return [good_news, good_file]
"""


class Fakes:
    """Two channels and a model, handed in as a plugin."""

    def __init__(self, *answers: Any) -> None:
        self.alpha, self.beta = FakeChannel("alpha"), FakeChannel("beta")
        self.model = FakeProvider(*answers)

    @hookimpl
    def register_channels(self) -> list[FakeChannel]:
        return [self.alpha, self.beta]

    @hookimpl
    def register_providers(self) -> list[FakeProvider]:
        return [self.model]


async def check(case: dict[str, Any], tmp_path: Path) -> None:
    before = set(sys.modules)
    site = tmp_path / "site"
    site.mkdir(parents=True)
    sys.path.insert(0, str(site))
    folder = os.getcwd()
    try:
        await _run(case, site, tmp_path)
    finally:
        os.chdir(folder)
        sys.path.remove(str(site))
        importlib.invalidate_caches()
        for name in set(sys.modules) - before:
            if str(site) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]


UNNAMED = {
    "tool": "a failed or cut call is in its result, the transcript and the tool log of level debug; the model is "
    "told, and a line in the log of a start would name a plugin for what a model asked of it",
    "storage": "a refused write is the error result of that call, and a full disk is named, not the plugin beside it",
    "channel send": "the log names the channel whose message was not delivered, as people know it",
    "channel receive": "a message in another channel's name is refused to the plugin as an exception, and a flood "
    "that is taken up whole is no failure",
    "import": "what it prints is discarded by design (the fault matrix: no complaint), asyncio.run works in the "
    "thread of an import, and a process that ended is named by the next start, whose log this is not",
    "register": "a mark that claw adds to a tool of a reserved name is the rule for every plugin, not a fault",
    "hook before_prompt_build": "the text is cut to its limit as a long one of any section is",
    "hook any": "its tasks are cancelled with it, and memory stays bounded",
    "*": "nothing failed",
}
"""Point of a plugin that works on → the reason why the log says nothing of it, although the row asks for it."""


@dataclass
class Seen:
    """A gateway that ran with the plugin, and what was seen of it."""

    app: App
    plugin: made.Made
    fakes: Fakes
    case: dict[str, Any]
    tmp_path: Path
    lines: list[str]
    memory_mb: float
    beta_seconds: float = 0.0

    @property
    def odd(self) -> Any:
        """The class of the plugin's channel."""
        return sys.modules["plugin_bad"].Odd


async def _run(case: dict[str, Any], site: Path, tmp_path: Path) -> None:
    expect = case["expect"]
    extra = dict(expect.get("extra", {}))
    plugin = made.plugin(case, site, tmp_path)
    (site / "plugin_good").mkdir()
    (site / "plugin_good" / "__init__.py").write_text(GOOD)
    good = find_plugin("good", "plugin_good", "claw-plugin-good", "1.0")
    found = [*standard_plugins(), *plugin.found, good]
    fakes = Fakes(*plugin.answers, *[says("a reply")] * 3)
    lines: list[str] = []
    started, memory = time.monotonic(), _memory_mb()
    limits, environ = Timeouts(pause_seconds=0.01), _environ(tmp_path, plugin.config)
    app = App(load_setup(environ, found), plugins={"fakes": fakes}, log=lines.append, timeouts=limits)
    seen = Seen(app, plugin, fakes, case, tmp_path, lines, memory)
    stop = asyncio.Event()
    serving = asyncio.ensure_future(ChannelServer(app).run(stop))
    may_be = {expect.get("plugin_state"), *extra.pop("state_may_be", ()), *case.get("state_may_be", ())}
    try:
        await _answers(seen, expect)
        if plugin.after:
            await plugin.after(app, fakes)
        await _other_plugins(seen, expect)
        assert not serving.done() and expect["gateway_up"] is True
        for name in extra.keys() & RUNNING.keys():
            await RUNNING[name](seen, extra[name])
    finally:
        stop.set()
        await asyncio.wait_for(serving, 20)
        await asyncio.wait_for(app.close(), 15)
    took = time.monotonic() - started
    assert took < expect.get("within_s", 120), took
    state = _state(app, plugin, may_be) if expect.get("plugin_state") else ""
    for name in extra.keys() - RUNNING.keys():
        assert name in STOPPED, f"nothing looks at {name}"
        STOPPED[name](seen, extra[name])
    if expect.get("log_names_plugin") and not any(plugin.id in line for line in lines):
        assert state not in ("failed", "skipped"), (
            f"{plugin.id} was refused, and the log does not name it: {lines}"
        )
        why = next((why for at, why in UNNAMED.items() if at in (case["at"], "*")), "")
        pytest.xfail(f"the log does not name it, and its state is {state or 'not judged'}: {why}")


async def _answers(seen: Seen, expect: dict[str, Any]) -> None:
    """Write in both chats; both are answered, and so the turns end."""
    assert expect["message_round_trip_ok"] is True and expect.get("turn_ends", True) is True
    seen.fakes.alpha.says("hello")
    await _until(lambda: "a reply" in seen.fakes.alpha.shown, expect.get("within_s", 20))
    began = time.monotonic()
    seen.fakes.beta.says("hello there")
    await _until(lambda: "a reply" in seen.fakes.beta.shown, 20)
    seen.beta_seconds = time.monotonic() - began
    if expect.get("tool_error"):
        assert _has_failed_call(seen)


async def _other_plugins(seen: Seen, expect: dict[str, Any]) -> None:
    assert expect["other_plugins_ok"] is True
    message = terminal_message("")
    if seen.plugin.reviews:
        assert "good_news" in (await seen.app.resolve_turn(message)).tools
    else:
        assert (await seen.app.call_tool("good_news", {}, message, TurnOptions())).content == "all is well"


def _environ(tmp_path: Path, config: dict[str, Any]) -> dict[str, str]:
    home = tmp_path / "claw-home"
    home.mkdir()
    anybody = {"dmPolicy": "open", "allowFrom": ["*"]}
    tree = {
        "locale": "en",
        "agents": {"defaults": {"model": "fake/m1", "workspace": str(tmp_path / "workspace")}},
        "channels": {"alpha": anybody, "beta": anybody, **config.pop("channels", {})},
        **config,
    }
    (tmp_path / "workspace").mkdir(exist_ok=True)
    (home / "config.yaml").write_text(json.dumps(tree))
    return {"CLAW_HOME": str(home), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}


async def _until(true: Any, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.005)


def _state(app: App, plugin: made.Made, may_be: set[Any]) -> str:
    """Return the plugin's state in the table's words; it is one of those that the row allows."""
    if plugin.stopped:
        assert "disabled" in may_be, "the gateway has stopped, and so has the plugin"
    if plugin.state_of is None:
        return ""
    state = STATES[{state.id: state.state for state in app.host.plugin_states}[plugin.state_of]]
    assert state in may_be | set(plugin.also)
    return state


def _memory_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _has_failed_call(seen: Seen) -> bool:
    requests = [one.request for one in seen.fakes.model.requests]
    return any(m.is_error for one in requests for m in one.messages if isinstance(m, ToolResultMessage))


async def _tool_count(seen: Seen, count: int) -> None:
    assert list((await seen.app.resolve_turn(terminal_message(""))).tools).count("bad_tool") == count


async def _owner_only(seen: Seen, wanted: bool) -> None:
    offered = any("bad_tool" in one.tool_names for one in seen.fakes.model.requests)
    assert offered is not wanted, "those who wrote are no owners"


async def _workspace_is_right(seen: Seen, wanted: bool) -> None:
    (seen.tmp_path / "workspace" / "probe.txt").write_text("probe")
    read = await seen.app.call_tool("good_file", {}, terminal_message(""), TurnOptions())
    assert (read.content == "probe") is wanted


async def _sigterm_stops(seen: Seen, seconds: float) -> None:
    """A real gateway with the plugin ends in time."""

    def stop_one() -> None:
        home = Home(seen.tmp_path / "machine").with_channel()
        manifest = {"kinds": ["tool"]}
        installed(seen.tmp_path / "machine" / "site", "bad", seen.case["python"], manifest)
        with Running(home) as running:
            began = time.monotonic()
            running.end()
            assert time.monotonic() - began < seconds

    await asyncio.to_thread(stop_one)


async def _was_refused(seen: Seen, wanted: bool) -> None:
    assert ("alpha" in seen.odd.refused) is wanted
    assert not any("forged" in str(one.request) for one in seen.fakes.model.requests)


async def _restarts(seen: Seen, most: int) -> None:
    assert seen.odd.runs <= most
    state = {one.id: one.state for one in seen.app.host.plugin_states}["bad"]
    assert state == "quarantined", "it is started no more"


async def _sends(seen: Seen, most: int) -> None:
    await asyncio.sleep(0.3)
    assert seen.odd.sends <= most


async def _lost(seen: Seen, count: int) -> None:
    waiting, _ = seen.app.runtime.turn_log.counts()
    assert waiting == count, "every message that was acknowledged belongs to a turn that has ended"


RUNNING: dict[str, Any] = {
    "tool_count": _tool_count,
    "tool_owner_only": _owner_only,
    "workspace_paths_still_right": _workspace_is_right,
    "sigterm_stops_within_s": _sigterm_stops,
    "rejected": _was_refused,
    "restarts_first_minute_max": _restarts,
    "sends_max": _sends,
    "acknowledged_lost": _lost,
}
"""``expect.extra``: what is looked at while the gateway runs."""


def _not_imported(seen: Seen, wanted: bool) -> None:
    assert (seen.tmp_path / "imported").exists() is not wanted


def _absent(seen: Seen, names: list[str]) -> None:
    assert not set(names) & {tool.name for tool in seen.app.registry.tools}


def _names_both(seen: Seen, wanted: bool) -> None:
    assert any("good" in line and seen.plugin.id in line for line in seen.lines) is wanted


def _log_growth(seen: Seen, most_mb: float) -> None:
    assert sum(map(len, seen.lines)) < most_mb * 1_000_000


def _reports(seen: Seen, words: str) -> None:
    assert words == "core function replaced"
    assert any("replaced claw's function" in line for line in seen.lines)


def _call_was(seen: Seen, outcome: str) -> None:
    assert outcome == "denied" and _has_failed_call(seen)


def _session_growth(seen: Seen, most_kb: float) -> None:
    sizes = [path.stat().st_size for path in seen.tmp_path.rglob("*.jsonl")]
    assert sum(sizes) < most_kb * 1024


def _memory_growth(seen: Seen, most_mb: float) -> None:
    assert _memory_mb() - seen.memory_mb < most_mb


def _other_reply(seen: Seen, seconds: float) -> None:
    assert seen.beta_seconds < seconds


def _deaths(seen: Seen, most: int) -> None:
    assert 0 < seen.plugin.deaths <= most


def _path_refused(seen: Seen, wanted: bool) -> None:
    assert _has_failed_call(seen) is wanted
    assert not list(seen.tmp_path.glob("**/core.json"))


STOPPED: dict[str, Any] = {
    "code_not_imported": _not_imported,
    "tools_absent": _absent,
    "message_names_both": _names_both,
    "log_growth_max_mb": _log_growth,
    "audit_reports": _reports,
    "tool_call": _call_was,
    "session_growth_max_kb": _session_growth,
    "rss_growth_max_mb": _memory_growth,
    "other_session_reply_within_s": _other_reply,
    "deaths_max": _deaths,
    "path_refused": _path_refused,
}
"""``expect.extra``: what is looked at once it has stopped."""
