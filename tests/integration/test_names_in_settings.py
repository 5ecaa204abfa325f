"""Settings that name a provider, model, channel, agent, plugin, tool, skill or file: an unknown name is reported."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from claw.cli.main import app
from claw.host.manifest import InstalledPlugin
from claw_memory.settings import MemorySearch
from typer.testing import CliRunner

BOT = "botToken: '1:a'"
NAMES = {
    "agents.defaults.compaction.model": "{compaction: {model: nosuch/m}}",
    "agents.defaults.contextPruning.tools.allow[]": "{contextPruning: {tools: {allow: [nosuch]}}}",
    "agents.defaults.contextPruning.tools.deny[]": "{contextPruning: {tools: {deny: [nosuch]}}}",
    "agents.defaults.heartbeat.model": "{heartbeat: {model: nosuch/m}}",
    "agents.defaults.heartbeat.model.fallbacks[]": "{heartbeat: {model: {primary: a/b, fallbacks: [nosuch/m]}}}",
    "agents.defaults.heartbeat.model.primary": "{heartbeat: {model: {primary: nosuch/m}}}",
    "agents.defaults.heartbeat.session": "{heartbeat: {session: nosuch}}",
    "agents.defaults.heartbeat.target": "{heartbeat: {target: nosuch}}",
    "agents.defaults.memorySearch.model": "{memorySearch: {model: nosuch}}",
    "agents.defaults.memorySearch.provider": "{memorySearch: {provider: nosuch}}",
    "agents.defaults.model": "{model: nosuch/m}",
    "agents.defaults.model.fallbacks[]": "{model: {primary: offline/rules, fallbacks: [nosuch/m]}}",
    "agents.defaults.model.primary": "{model: {primary: nosuch/m}}",
    "agents.defaults.plugins.<key>": "{agents: {defaults: {plugins: {nosuch: {a: 1}}}}}",
    "agents.defaults.sandbox.backend": "{sandbox: {backend: nosuch}}",
    "agents.defaults.sandbox.tools.allow[]": "{sandbox: {tools: {allow: [nosuch]}}}",
    "agents.defaults.sandbox.tools.alsoAllow[]": "{sandbox: {tools: {alsoAllow: [nosuch]}}}",
    "agents.defaults.sandbox.tools.deny[]": "{sandbox: {tools: {deny: [nosuch]}}}",
    "agents.defaults.skills.allow[]": "{skills: {allow: [nosuch]}}",
    "agents.defaults.skills.entries.<key>": "{skills: {entries: {nosuch: {enabled: false}}}}",
    "agents.defaults.skills.extraDirs[]": "{skills: {extraDirs: [/no/such]}}",
    "agents.defaults.skills[]": "{skills: [nosuch]}",
    "agents.defaults.subagents.model": "{subagents: {model: nosuch/m}}",
    "agents.defaults.subagents.model.fallbacks[]": "{subagents: {model: {primary: a/b, fallbacks: [nosuch/m]}}}",
    "agents.defaults.subagents.model.primary": "{subagents: {model: {primary: nosuch/m}}}",
    "agents.defaults.toolChoice": "{toolChoice: nosuch}",
    "agents.defaults.tools.allow[]": "{agents: {defaults: {tools: {allow: [nosuch]}}}}",
    "agents.defaults.tools.alsoAllow[]": "{agents: {defaults: {tools: {alsoAllow: [nosuch]}}}}",
    "agents.defaults.tools.byProvider.*.allow[]": "{tools: {byProvider: {openai: {allow: [nosuch]}}}}",
    "agents.defaults.tools.byProvider.*.alsoAllow[]": "{tools: {byProvider: {openai: {alsoAllow: [nosuch]}}}}",
    "agents.defaults.tools.byProvider.*.deny[]": "{tools: {byProvider: {openai: {deny: [nosuch]}}}}",
    "agents.defaults.tools.byProvider.<key>": "{tools: {byProvider: {nosuch: {deny: [exec]}}}}",
    "agents.defaults.tools.deny[]": "{agents: {defaults: {tools: {deny: [nosuch]}}}}",
    "agents.defaults.tools.exec.trustedDirs[]": "{tools: {exec: {trustedDirs: [/no/such]}}}",
    "agents.defaults.tools.message.targets[]": "{tools: {message: {targets: ['nosuch:1']}}}",
    "agents.defaults.tools.sandbox.tools.allow[]": "{tools: {sandbox: {tools: {allow: [nosuch]}}}}",
    "agents.defaults.tools.sandbox.tools.alsoAllow[]": "{tools: {sandbox: {tools: {alsoAllow: [nosuch]}}}}",
    "agents.defaults.tools.sandbox.tools.deny[]": "{tools: {sandbox: {tools: {deny: [nosuch]}}}}",
    "agents.defaults.tools.subagents.tools.allow[]": "{tools: {subagents: {tools: {allow: [nosuch]}}}}",
    "agents.defaults.tools.subagents.tools.alsoAllow[]": "{tools: {subagents: {tools: {alsoAllow: [nosuch]}}}}",
    "agents.defaults.tools.subagents.tools.deny[]": "{tools: {subagents: {tools: {deny: [nosuch]}}}}",
    "agents.defaults.tools.suppliers.*": "{tools: {suppliers: {read: nosuch}}}",
    "agents.defaults.tools.suppliers.<key>": "{tools: {suppliers: {nosuch: memory}}}",
    "approvals.approvers[]": "{approvals: {approvers: ['nosuch:1']}}",
    "approvals.tools[]": "{approvals: {tools: [nosuch]}}",
    "bindings[].agent": "{bindings: [{agent: nosuch}]}",
    "bindings[].match.account": "{bindings: [{agent: default, match: {account: nosuch}}]}",
    "bindings[].match.channel": "{bindings: [{agent: default, match: {channel: nosuch}}]}",
    "budgets.*.agent": "{budgets: {all: {usd: 4, agent: nosuch}}}",
    "channels.*.groups.*.tools.allow[]": f"{{telegram: {{{BOT}, groups: {{'-1': {{tools: {{allow: [nosuch]}}}}}}}}}}",
    "channels.<key>": "{channels: {nosuch: {}}}",
    "gateway.auth.token.file": "{channels: {http: {}}, gateway: {auth: {token: {file: /no/such}}}}",
    "models.aliases.*": "{models: {aliases: {fast: nosuch/m}}}",
    "owners[]": "{owners: ['nosuch:1']}",
    "plugins.allow[]": "{plugins: {allow: [nosuch]}}",
    "plugins.deny[]": "{plugins: {deny: [nosuch]}}",
    "plugins.entries.<key>": "{plugins: {entries: {nosuch: {}}}}",
    "plugins.slots.approvals": "{plugins: {slots: {approvals: nosuch}}}",
    "plugins.slots.context": "{plugins: {slots: {context: nosuch}}}",
    "plugins.slots.models": "{plugins: {slots: {models: nosuch}}}",
    "plugins.slots.sessions": "{plugins: {slots: {sessions: nosuch}}}",
    "plugins.slots.turnLog": "{plugins: {slots: {turnLog: nosuch}}}",
    "prompt.disabled[]": "{prompt: {disabled: [Nosuch]}}",
    "prompt.docsPath": "{prompt: {docsPath: /no/such}}",
    "prompt.positions.<key>": "{prompt: {positions: {Nosuch: 5}}}",
    "providers.*.apiKey.file": "{providers: {openai: {apiKey: {file: /no/such}}}}",
    "providers.*.authOrder[]": "{providers: {openai: {apiKey: x, authOrder: [nosuch]}}}",
    "providers.<key>": "{providers: {nosuch: {apiKey: x}}}",
    "session.identityLinks.*[]": "{session: {identityLinks: {bob: ['nosuch:1']}}}",
    "session.resetByChannel.<key>": "{session: {resetByChannel: {nosuch: {mode: daily}}}}",
}
"""Key as the schema has it → a file with an unknown name there."""

ELSEWHERE = {
    "providers.*.defaultModel": "only the service knows its models; one that it does not have is an error of the turn",
    "providers.*.models.<key>": "as above",
    "tools.exec.safeBins[]": "the programs of another machine may be named",
    "tools.exec.allow[]": "patterns of commands",
    "workspace": "a folder that is not there is made",
    "agents.defaults.workspace": "as above",
    "agents.defaults.tools.exec.allow[]": "patterns of commands",
    "agents.defaults.tools.exec.safeBins[]": "the programs of another machine may be named",
    "plugins.entries.llm-bridge.config.toolboxes.<key>": "the plugin llm-bridge reports it when it is loaded",
    "plugins.entries.mcp.config.mcpServers.*.command": "the server is reported by every surface that shows plugins",
    "plugins.entries.mcp.config.mcpServers.*.cwd": "as above",
    "identity.ownerDisplaySecret.file": "read when a person is shown",
    "agents.defaults.identity.ownerDisplaySecret.file": "as above",
    "hooks.token.file": "web hooks are not built yet, which is reported",
    "budgets.*.job": "jobs of the clock are not built yet, which is reported",
    "budgets.*.session": "conversations that may come",
    "session.resetByType.<key>": "an error of its own: the kinds of chat are fixed",
    "providers.*.headers.*.file": "as providers.*.apiKey.file",
    "providers.*.authProfiles[].apiKey.file": "as providers.*.apiKey.file",
}
"""Keys that name something, and why no command that judges the file can say it."""

_NAMING = re.compile(
    r"(model|models\.<key>|fallbacks\[\]|primary|aliases\.\*|provider|byProvider\.<key>|backend|target|targets\[\]|agent"
    r"|channel|account|approvers\[\]|owners\[\]|(^|\.)tools\[\]|allow\[\]|alsoAllow\[\]|deny\[\]|suppliers\.(\*|<key>)"
    r"|skills\[\]|entries\.<key>|plugins\.<key>|slots\.\w+|^(channels|providers)\.<key>|resetByChannel\.<key>|file|docsPath"
    r"|Dirs\[\]|authOrder\[\]|toolChoice|disabled\[\]|positions\.<key>|identityLinks\.\*\[\]|command|cwd|toolboxes\.<key>"
    r"|safeBins\[\]|workspace|defaultModel|job|session)$"
)


def _strings(schema: Any, node: Any, path: str, inside: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the path of every text without fixed words, and of every map's keys."""
    if not isinstance(node, dict) or len(inside) > 12:
        return
    if (reference := node.get("$ref")) and reference not in inside:
        there = schema
        for step in reference.removeprefix("#/").split("/"):
            there = there[step.replace("~1", "/").replace("~0", "~")]
        yield from _strings(schema, there, path, (*inside, reference))
    for form in (*node.get("anyOf", ()), *node.get("allOf", ()), *node.get("oneOf", ())):
        yield from _strings(schema, form, path, inside)
    for key, below in node.get("properties", {}).items():
        yield from _strings(schema, below, f"{path}.{key}" if path else key, inside)
    if isinstance(below := node.get("additionalProperties"), dict):
        yield f"{path}.<key>"
        yield from _strings(schema, below, f"{path}.*", inside)
    yield from _strings(schema, node.get("items"), f"{path}[]", inside)
    if node.get("type") == "string" and not {"enum", "const"} & node.keys():
        yield path


@pytest.mark.parametrize("key", NAMES)
def test_an_unknown_name_is_reported_with_its_key(home: Path, key: str) -> None:
    (home / "config.yaml").write_text(NAMES[key])
    (home / "config.yaml").chmod(0o600)

    said = json.loads(CliRunner().invoke(app, ["config", "validate", "--json"]).stdout)

    steps = {*re.split(r"[.\[\]]+", key), "nosuch"}
    told = (*said["errors"], *said["warnings"])
    lines = [
        f"{one['key']}: {one['problem']}" for one in told if steps & {*re.split(r"[.\[\]]+", one["key"])}
    ]
    assert any(
        re.search("nosuch|/no/such|no effect|not built yet|does not read it", line, re.I) for line in lines
    )


def test_the_table_has_every_key_that_names_something(home: Path) -> None:
    schema = json.loads(CliRunner().invoke(app, ["config", "schema"]).stdout)
    written = {path for path in _strings(schema, schema, "") if _NAMING.search(path)}
    short = {path.removeprefix("agents.defaults.") for path in (*NAMES, *ELSEWHERE)}
    # Each provider, channel and agent repeats the keys of all; a short form at the top is that of the defaults.
    own = {
        path
        for path in written
        if not re.match(
            r"agents\.list|providers\.(?![*<])|channels\.(?![*<])|channels\.\*\.(accounts|groups)", path
        )
        and path.removeprefix("agents.defaults.") not in short
    }
    assert own == set()


def test_a_plugin_that_may_bring_embedders_leaves_the_name_to_the_search(tmp_path: Path) -> None:
    code = tmp_path / "acme"
    code.mkdir()
    (code / "__init__.py").write_text("def register_embedders(config):\n    return []\n")
    brings = InstalledPlugin("acme", "acme", "acme", "1.0", code)
    plain = InstalledPlugin("plain", "plain", "plain", "1.0", tmp_path / "absent")

    assert list(MemorySearch(provider="acme").unknown_names([brings])) == []
    [(path, problem, *_)] = MemorySearch(provider="acme").unknown_names([plain])
    assert (path, problem) == (("provider",), "there is no embedder {name}")
