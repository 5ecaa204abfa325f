"""Config files that are wrong: each message names the key, a way out, and no secret.

The table's keys are ours already. What is installed is the rows' own supposition: the channels and providers that
the seeds name, the tools of core, and a plugin ``demo``.
"""

import json
import time
from pathlib import Path
from typing import Any

from claw.app import load_setup
from claw.config.plugin_view import PluginConfig
from claw.contracts.errors import ConfigError
from claw.host.health import PluginHealth
from claw.host.manager import Host
from claw.security.http_client import HttpClients
from claw_admin.config_checks.file_warnings import file_warnings
from claw_admin.config_checks.installed_warnings import InstalledNames, check_installed as check_names
from claw_admin.config_checks.tool_lists import unknown_words
from claw_gateway.process.reload import reread_config

FUNCTIONS = (
    "claw.app:load_setup",
    "claw_admin.config_checks.installed_warnings:check_installed",
    "claw_gateway.process.reload:reread_config",
    "claw.host.manager:Host.ask",
)

_CHANNELS = {"feishu", "telegram"}  # whose plugins judge their own keys


def check(case: dict[str, Any], tmp_path: Path) -> None:
    text = case["text"] if "text" in case else json.dumps(case["config"], ensure_ascii=False, indent=2)
    (tmp_path / f"config.{case['format']}").write_text(text, encoding="utf-8")
    of_channel = case["effect"] == "part_disabled" and case["config"].get("channels", {}).keys() & _CHANNELS
    messages_of = _live_messages if case.get("live") else _plugin_messages if of_channel else _messages
    started = time.monotonic()
    messages = [message.replace(str(tmp_path), "HOME") for message in messages_of(case, tmp_path)]
    assert time.monotonic() - started < case.get("limit_s", 30)
    fitting = [message for message in messages if case["error_path"] in message]
    assert len(fitting) == 1, messages
    assert any(hint.lower() in fitting[0].lower() for hint in case["hint_any"]), fitting[0]
    assert "Traceback" not in fitting[0]
    assert not Path(case.get("must_not_create", tmp_path / "never")).exists()


def _live_messages(case: dict[str, Any], home: Path) -> list[str]:
    """Return the output of a gateway that runs with an empty file when the file of the row replaces it."""
    assert case["effect"] == "keep_last_good"
    [path] = home.glob("config.*")
    wrong, environ = path.read_bytes(), {"CLAW_HOME": str(home)}
    path.write_text("{}")
    running = load_setup(environ, ())
    path.write_bytes(wrong)
    verdict = reread_config(environ, running)
    assert verdict.setup is None
    return [verdict.problem]


def _plugin_messages(case: dict[str, Any], home: Path) -> list[str]:
    """Return the reason for which the host disables the channel's plugin."""
    setup = load_setup({"CLAW_HOME": str(home)})
    [name] = case["config"]["channels"]
    view = PluginConfig(setup.config, name, HttpClients().client, home / "plugins" / name)
    host = Host(setup.plugin_states, lambda id: view, PluginHealth(home / "plugins"))
    assert host.ask(name) is None
    [state] = [one for one in host.plugin_states if one.id == name]
    assert state.stage == "config"
    return [f"{state.why}. {state.fix}"]


def _messages(case: dict[str, Any], home: Path) -> list[str]:
    """The one refusal, or every warning."""
    try:
        config = load_setup({"CLAW_HOME": str(home)}).config
    except ConfigError as why:
        refused = why
    else:
        refused = None
    assert (refused is not None) == (case["effect"] == "refuse_start"), refused
    if refused is not None:
        assert refused.exit_code == 3
        return [str(refused)]
    assert case["effect"] in ("warn", "part_disabled")
    known = InstalledNames(
        plugins=frozenset({"demo", "anthropic", "telegram", "feishu"}),
        channels=frozenset({"terminal", "telegram", "feishu", "discord"}),
        providers=frozenset({"anthropic", "openai"}),
        schemas=case.get("plugin_schema", {}),
    )
    words = unknown_words(config, (), known.plugins)
    return [str(warning) for warning in (*file_warnings(config), *check_names(config, known), *words)]
