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
from pathlib import Path
from typing import Any

from claw.agent.turn_context import TurnOptions
from claw.app import App, load_setup, terminal_message
from claw.contracts.transcript import ToolResultMessage
from claw.host.hookspecs import hookimpl
from claw.host.isolation import Timeouts
from claw.host.manifest import find_plugin
from claw.testing import FakeChannel, FakeProvider, says, standard_plugins
from claw_gateway.supervisor import ChannelServer

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
from claw import hookimpl, tool

@tool
def good_news() -> str:
    "Tell good news."
    return "all is well"

@hookimpl
def register_tools(config):
    return [good_news]
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


async def _run(case: dict[str, Any], site: Path, tmp_path: Path) -> None:
    expect, extra = case["expect"], case["expect"].get("extra", {})
    plugin = made.plugin(case, site, tmp_path)
    (site / "plugin_good").mkdir()
    (site / "plugin_good" / "__init__.py").write_text(GOOD)
    found = [
        *standard_plugins(),
        *plugin.found,
        find_plugin("good", "plugin_good", "claw-plugin-good", "1.0"),
    ]
    fakes = Fakes(*plugin.answers, *[says("a reply")] * 3)
    log_lines: list[str] = []
    started = time.monotonic()
    app = App(
        load_setup(_environ(tmp_path, plugin.config), found),
        plugins={"fakes": fakes},
        log=log_lines.append,
        timeouts=Timeouts(pause_seconds=0.01),
    )
    stop = asyncio.Event()
    serving = asyncio.ensure_future(ChannelServer(app).run(stop))
    try:
        fakes.alpha.says("hello")
        await _until(
            lambda: "a reply" in fakes.alpha.shown, expect.get("within_s", 20)
        )  # message_round_trip_ok
        fakes.beta.says("hello there")
        await _until(lambda: "a reply" in fakes.beta.shown, 20)
        if plugin.after:
            await plugin.after(app, fakes)
        if plugin.reviews:
            assert "good_news" in (await app.resolve_turn(terminal_message(""))).tools
        else:
            assert (
                await app.call_tool("good_news", {}, terminal_message(""), TurnOptions())
            ).content == "all is well"
    finally:
        stop.set()
        await asyncio.wait_for(serving, 20)
        await asyncio.wait_for(app.close(), 15)
    if limit := expect.get("within_s"):
        assert time.monotonic() - started < limit
    if expect.get("log_names_plugin") and plugin.named:
        assert any(plugin.id in line for line in log_lines), log_lines
    _states(app, plugin, expect, [*extra.get("state_may_be", ()), *case.get("state_may_be", ())])
    _extras(app, plugin, fakes, extra, log_lines, case, tmp_path)


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


def _states(app: App, plugin: Any, expect: dict[str, Any], may_be: list[str]) -> None:
    if "plugin_state" not in expect or plugin.state_of is None:
        return
    state = STATES[{state.id: state.state for state in app.host.standings}[plugin.state_of]]
    allowed = {expect["plugin_state"], *may_be, *plugin.also}
    assert state in allowed, f"{state} is none of {allowed}"


def _extras(
    app: App,
    plugin: Any,
    fakes: Fakes,
    extra: dict[str, Any],
    log_lines: list[str],
    case: dict[str, Any],
    tmp_path: Path,
) -> None:
    told = "\n".join(log_lines)
    if extra.get("code_not_imported"):
        assert not (tmp_path / "imported").exists()
    for name in extra.get("tools_absent", ()):
        assert name not in {tool.name for tool in app.registry.tools}
    if extra.get("message_names_both"):
        assert "good" in told
        assert plugin.id in told
    if "log_growth_max_mb" in extra:
        assert len(told) < extra["log_growth_max_mb"] * 1_000_000
    if "audit_reports" in extra:
        assert "replaced claw's function" in told
    if extra.get("tool_call") == "denied" or case["expect"].get("tool_error"):
        results = [
            m
            for heard in fakes.model.requests
            for m in heard.request.messages
            if isinstance(m, ToolResultMessage)
        ]
        assert any(result.is_error for result in results)
    if "session_growth_max_kb" in extra:
        sizes = [path.stat().st_size for path in tmp_path.rglob("*.jsonl")]
        assert sum(sizes) < extra["session_growth_max_kb"] * 1024
