"""One judgement of the config file: ``config validate``, ``doctor``, ``config set``, ``gateway start`` and ``channels
status`` say the same of it.
"""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from claw.cli.main import app
from third_party import Machine, installed, plugin_code
from typer.testing import CliRunner, Result


def claw(*words: str) -> Result:
    return CliRunner().invoke(app, [*words])


def configured(home: Path, text: str) -> None:
    (home / "config.yaml").write_text(text, encoding="utf-8")
    (home / "config.yaml").chmod(0o600)


TOKEN = "abcdefghijklmnop0123"

ERROR, PROBLEM, NOTE = "error", "problem", "note"
"""An error: the file is refused. A problem: something does not work. A note: something has no effect."""

CASES = [
    ("providers: {openai: {baseUrl: sk-not-a-url}}", "providers.openai.baseUrl", PROBLEM, "not an HTTP address"),
    ("providers: {openai: {baseUrl: 'ftp://x/y'}}", "providers.openai.baseUrl", PROBLEM, "not an HTTP address"),
    ("providers: {openai: {baseUrl: 'http://'}}", "providers.openai.baseUrl", PROBLEM, "not an HTTP address"),
    ("providers: {openai: {baseUrl: 'http://[::1/v1'}}", "providers.openai.baseUrl", PROBLEM, "not an HTTP address"),
    ("providers: {openai: {baseUrl: 'http://h/v1?key=abc'}}", "providers.openai.baseUrl", PROBLEM, "is not sent"),
    ("providers: {openai: {baseUrl: 'http://h/v1/chat/completions'}}", "providers.openai.baseUrl", PROBLEM,
     "Remove /chat/completions"),
    ("providers: {openai: {apiKey: '${OPENAI_API_KEY:-sk-x}'}}", "providers.openai.apiKey", PROBLEM, "a variable"),
    ("providers: {openai: {apiKey: '$OPENAI_API_KEY'}}", "providers.openai.apiKey", PROBLEM, "a variable"),
    ("tools: {byProvider: {'openai/*': {deny: [exec]}}}", "tools.byProvider.openai/*", PROBLEM, "patterns"),
    ("providers: {acme: {apiKey: x}}", "providers.acme", NOTE, "write its baseUrl"),
    ("providers: {acme: {apiKey: x}}\nagents: {defaults: {model: acme/m}}", "agents.defaults.model", PROBLEM,
     "providers.acme has no baseUrl"),
    ("agents: {defaults: {toolChoice: exce}}", "agents.defaults.toolChoice", PROBLEM, "Did you mean exec?"),
    ('providers: {openai: {apiKey: "sk-a\\nb"}}\nagents: {defaults: {model: openai/m}}', "providers.openai.apiKey",
     PROBLEM, "in one line"),
    ("providers: {openai: {apiKey: {file: /dev/null}}}\nagents: {defaults: {model: openai/m}}", "providers.openai",
     PROBLEM, "no API key"),
    ("channels: {acme: {}}", "channels.acme", NOTE, "no installed plugin provides"),
    ("plugins: {entries: {nix: {}}}", "plugins.entries.nix", NOTE, "not installed"),
    ("models: {aliases: {m: a/b}}\nmodel: {primary: m, fallbacks: [a/b]}", "model.fallbacks[0]", NOTE, "no fallback"),
    ("tools: {allow: []}", "tools.allow", NOTE, "restricts nothing"),
    ("tools: {allow: [raed]}", "tools.allow[0]", NOTE, "Did you mean read?"),
    ("tools: {deny: [dangerous_tool]}", "tools.deny[0]", NOTE, "claw tools list --all"),
    ("plugins: {deny: [sandbox]}\nsandbox: {mode: all}", "sandbox.mode", PROBLEM, "every turn is refused"),
    ("plugins: {deny: [sandbox]}\nagents: {list: [{id: a, sandbox: {mode: all}}]}", "agents.list[0].sandbox.mode",
     PROBLEM, "a sandbox"),
    ("sandbox: {mode: all, backend: docker}", "sandbox.mode", PROBLEM, "the sandbox docker"),
    ("cron: {jobs: [{id: a, schedule: '0 9 * * *'}]}", "cron", NOTE, "not built yet"),
    ("agents: {defaults: {temperature: 0.5}}", "agents.defaults.temperature", NOTE, "no effect"),
    ("agents: {list: [{id: a, timeoutSeconds: 9}]}", "agents.list[0].timeoutSeconds", NOTE, "no effect"),
    ("subagents: {maxChildrenPerAgent: 2}", "subagents.maxChildrenPerAgent", NOTE, "no effect"),
    ("heartbeat: {lightContext: true}", "heartbeat", NOTE, "not built yet"),
    ("channels: {http: {}}", "gateway.auth.token", PROBLEM, "the API refuses all requests"),
    ("channels: {http: {dmPolicy: allowlist, allowFrom: []}}", "channels.http", PROBLEM, "no one may write there"),
    ("channels: {telegram: {botToken: '1:a', mode: webhook}}", "channels.telegram.mode", PROBLEM, "webhooks need"),
    ("channels: {telegram: {groups: {'-1': {allowFrom: []}}}}", "channels.telegram.groups.-1.allowFrom", NOTE, "no one"),
    ("telegram: {groupAllowFrom: [], groups: {'-1': {}}}", "channels.telegram.groupAllowFrom", NOTE, "no one"),
    ("prompt: {disabled: [Saftey]}", "prompt.disabled[0]", NOTE, "Did you mean Safety?"),
    ("prompt: {disabled: [Skills, Weather]}", "prompt.disabled[1]", NOTE, "claw prompt show"),
    ("prompt: {positions: {Idenity: 5}}", "prompt.positions.Idenity", NOTE, "Did you mean Identity?"),
    ("skills: [none-such]", "skills[0]", NOTE, "no skill has the name none-such"),
    ("agents: {list: [{id: a, skills: {allow: [x]}}]}", "agents.list[0].skills.allow[0]", NOTE, "claw skills list"),
    ("bindings: [{agent: default, match: {channel: telegramm}}]", "bindings[0].match.channel", NOTE, "telegram?"),
    ("session: {resetByChannel: {irc: {mode: daily}}}", "session.resetByChannel.irc", NOTE, "provides the channel irc"),
    ("bindings: [{agent: default}, {agent: main, match: {}}]", "bindings[1]", NOTE, "bindings[0] has the same"),
    ("tools: {byProvider: {opnai: {deny: [exec]}}}", "tools.byProvider.opnai", NOTE, "Did you mean openai?"),
    ("agents: {list: [{id: a, tools: {byProvider: {nope/m: {deny: [exec]}}}}]}",
     "agents.list[0].tools.byProvider.nope/m", NOTE, "no provider nope"),
    ("plugins: {entries: {budgets: {config: {a: 1}}}}", "plugins.entries.budgets.config.a", NOTE, "has no settings"),
    ("plugins: {entries: {offline: {config: {a: 1}}}}", "plugins.entries.offline.config.a", NOTE, "has no settings"),
    ("channels: {telegram: {botToken: hello}}", "channels.telegram.botToken", PROBLEM, "no token of a bot"),
    ("channels: {telegram: {botToken: '1:a', groupPolicy: allowlist}}", "channels.telegram.groupPolicy", NOTE,
     "no group"),
    ("channels: {http: {}}\ngateway: {auth: {token: a}}", "gateway.auth.token", PROBLEM, "at least 16 random"),
    ("owners: ['telegramm:5']", "owners[0]", NOTE, "Did you mean telegram?"),
    ("owners: ['telegram: ']", "owners[0]", NOTE, "does not name a person"),
    ("workspace: '${NO_SUCH_FOLDER}/x'", "workspace", ERROR, "${NO_SUCH_FOLDER} cannot be resolved"),
    ("workspace: '~no-such-user/x'", "workspace", ERROR, "no such user"),
    ("channels: {http: {}}\ngateway: {bind: '127.0.0.1:80'}", "gateway.bind", ERROR, "the port is gateway.port"),
    ("channels: {http: {}}\ngateway: {bind: 256.1.1.1}", "gateway.bind", ERROR, "is no address"),
    ("channels: {http: {}}\ngateway: {allowOrigins: [example.com]}", "gateway.allowOrigins[0]", ERROR, "no origin"),
    ("workspace: linked", "workspace", ERROR, "beside keys and conversations"),
    ("agents: {list: [{id: ../evil}]}", "agents.list[0].id", ERROR, "is a path"),
    ("agents: {list: [{id: '..'}]}", "agents.list[0].id", ERROR, "is no name"),
    (f"agents: {{list: [{{id: {'a' * 65}}}]}}", "agents.list[0].id", ERROR, "at most 64 characters"),
    ("owners: ['']", "owners[0]", ERROR, "is empty"),
    ("workspace: /etc/passwd", "workspace", ERROR, "is a file"),
    ("workspace: .", "workspace", ERROR, "beside keys and conversations"),
    ("agents: {list: [{id: a, workspace: agents/a}]}", "agents.list[0].workspace", ERROR, "beside keys"),
    ("logging: {redactPatterns: ['fine', '(a+)+$']}", "logging.redactPatterns[1]", ERROR, "exponential time"),
    ("logging: {redactPatterns: ['([a-z]+[0-9]?)*x$']}", "logging.redactPatterns[0]", ERROR, "exponential time"),
    ("channels: {acme: {enabled: 'yes'}}", "channels.acme.enabled", ERROR, "true or false"),
    ("tools: {suppliers: {read: nosuch}}", "tools.suppliers.read", PROBLEM, "plugin nosuch is not installed"),
    ("tools: {suppliers: {read: memory}}", "tools.suppliers.read", PROBLEM, "provides no tool read"),
    ("tools: {message: {targets: ['nosuch:1']}}", "tools.message.targets[0]", NOTE, "provides the channel nosuch"),
    ("tools: {message: {targets: [bob]}}", "tools.message.targets[0]", NOTE, "Write channel:id"),
    ("session: {identityLinks: {bob: ['telegramm:1']}}", "session.identityLinks.bob[0]", NOTE, "telegram?"),
    ("bindings: [{agent: default, match: {account: nosuch}}]", "bindings[0].match.account", NOTE, "no account nosuch"),
    ("channels: {telegram: {botToken: '1:a', accounts: {work: {botToken: '2:b'}}}}\n"
     "bindings: [{agent: default, match: {channel: telegram, account: wrk}}]", "bindings[0].match.account", NOTE,
     "Did you mean work?"),
    ("channels: {telegram: {botToken: '1:a', accounts: {a: {botToken: '2:b', accounts: {c: {}}}}}}",
     "channels.telegram.accounts.a.accounts", NOTE, "an account has no accounts"),
    ("channels: {telegram: {botToken: '1:a', dms: {bob: {historyLimit: 3}}}}", "channels.telegram.dms.bob", NOTE,
     "not a stable id"),
    ("channels: {telegram: {botToken: '1:a', dmPolicy: open}}", "channels.telegram.allowFrom", PROBLEM,
     "does not contain '*'"),
    ("channels: {telegram: {botToken: '1:a', dmPolicy: disabled}}", "channels.telegram", PROBLEM,
     "dmPolicy is disabled"),
    ("agents: {defaults: {plugins: {nosuch: {a: 1}}}}", "agents.defaults.plugins.nosuch", NOTE, "not installed"),
    ("providers: {openai: {apiKey: x, headers: {'X:A': v}}}", "providers.openai.headers.X:A", PROBLEM,
     "no name of a header"),
    ('providers: {openai: {apiKey: x, headers: {X-A: "a\\nb"}}}', "providers.openai.headers.X-A", PROBLEM, "line break"),
    ("agents: {defaults: {compaction: {model: nosuch/x}}}", "agents.defaults.compaction.model", PROBLEM,
     "no plugin provides nosuch"),
    ("models: {aliases: {fast: nosuch/y}}", "models.aliases.fast", PROBLEM, "no plugin provides nosuch"),
    ("providers: {openai: {apiKey: x, models: {m: {contextTokens: 100}}}}\nmodel: openai/m", "openai/m", PROBLEM,
     "its context window is 100 tokens"),
    ("providers: {my: {baseUrl: 'https://my.example/v1', apiKey: x}}\nmodel: my/m\nbudgets: {all: {usd: 4}}",
     "budgets.all.usd", PROBLEM, "the price of my/m is unknown"),
    ("plugins: {deny: [openai]}\nproviders: {openai: {apiKey: x}}\nmodel: openai/gpt-5", "agents.defaults.model",
     PROBLEM, "openai is blocked"),
    ("plugins: {entries: {telegram: {enabled: false}}}\nchannels: {telegram: {botToken: '1:a'}}", "channels.telegram",
     NOTE, "plugin telegram is disabled"),
    ("plugins: {entries: {memory: {required: true, enabled: false}}}", "plugins.entries.memory.required", PROBLEM,
     "claw does not start"),
    ("plugins: {entries: {nix: {required: true}}}", "plugins.entries.nix", PROBLEM, "not installed"),
    ("skills: {extraDirs: [/no/such/folder]}", "skills.extraDirs[0]", NOTE, "no folder /no/such/folder"),
    ("skills: {entries: {nosuch: {enabled: false}}}", "skills.entries.nosuch", NOTE, "no skill has the name nosuch"),
    ("tools: {exec: {trustedDirs: [/no/such]}}", "tools.exec.trustedDirs[0]", NOTE, "no folder /no/such"),
    ("tools: {exec: {allow: [nosuchprog]}}", "tools.exec.allow[0]", NOTE, "no program nosuchprog"),
    ("tools: {exec: {allow: [/no/such]}}", "tools.exec.allow[0]", NOTE, "no program /no/such"),
    ("tools: {exec: {allow: [sh]}}", "tools.exec.allow[0]", NOTE, "it is trusted as a shell is"),
    ("tools: {exec: {allow: ['/opt/*/bin/x']}}", "tools.exec.allow[0]", NOTE, "it is trusted as a shell is"),
    ("tools: {exec: {allow: [{argv: [nosuchprog, x]}]}}", "tools.exec.allow[0]", NOTE, "no program nosuchprog"),
    ("session: {identityLinks: {bob: []}}", "session.identityLinks.bob", NOTE, "the list is empty"),
    ("tools: {exec: {safeBins: [no/such]}}", "tools.exec.safeBins[0]", NOTE, "no name of a program"),
    ("tools: {exec: {envAllow: [A B]}}", "tools.exec.envAllow[0]", NOTE, "no name of an environment variable"),
    ("tools: {loopDetection: {warningThreshold: 40}}", "tools.loopDetection.warningThreshold", NOTE, "comes first"),
    ("session: {keep: {removeAfter: 1d, compressAfter: 2d}}", "session.keep.compressAfter", NOTE, "removed before"),
    ("contextPruning: {mode: cache-ttl, softTrimRatio: 0.9}", "contextPruning.softTrimRatio", NOTE, "hardClearRatio"),
    ("contextPruning: {mode: cache-ttl, softTrim: {maxChars: 10}}", "contextPruning.softTrim.maxChars", NOTE,
     "nothing is cut"),
    ("logging: {redactPatterns: ['']}", "logging.redactPatterns[0]", ERROR, "nothing is masked"),
    ("logging: {redactPatterns: ['(ab|a|b)*c']}", "logging.redactPatterns[0]", ERROR, "on some texts"),
    ("logging: {redactPatterns: ['(.*)(.*)(.*)x']}", "logging.redactPatterns[0]", ERROR, "repetitions overlap"),
    ("channels: {http: {}}\ngateway: {auth: {token: {file: /no/such}}}", "gateway.auth.token", PROBLEM,
     "the secret file /no/such cannot be read"),
    ("memorySearch: {provider: nosuch}", "memorySearch.provider", PROBLEM, "there is no embedder nosuch"),
    ("memorySearch: {provider: of}", "memorySearch.provider", PROBLEM, "Did you mean off?"),
    ("agents: {list: [{id: a, memorySearch: {model: nosuch}}]}", "agents.list[0].memorySearch.model", PROBLEM,
     "there is no embedder nosuch"),
    ("sandbox: {backend: bubblewrp}", "sandbox.backend", NOTE, "Did you mean bubblewrap?"),
    ("providers: {my: {baseUrl: 'http://h/v1', type: opnai}}", "providers.my.type", PROBLEM, "Did you mean openai?"),
    ("channels: {telegram: {botToken: '1:a', groups: {'-1': {requireMentoin: false}}}}",
     "channels.telegram.groups.-1.requireMentoin", NOTE, "Did you mean requireMention?"),
    ("session: {resetByType: {nosuch: {mode: daily}}}", "session.resetByType.nosuch", ERROR, "direct, group, thread"),
    ("messages: {silentToken: ''}", "messages.silentToken", ERROR, "is empty"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "key", "severity", "said"), CASES, ids=[one[0] for one in CASES])
def test_validate_and_doctor_say_the_same(home: Path, text: str, key: str, severity: str, said: str) -> None:
    (home.parent / "linked").symlink_to(home)
    configured(home, text.replace("linked", str(home.parent / "linked")))

    validated, checked = claw("config", "validate", "--json"), claw("doctor", "--json")

    judged = json.loads(validated.stdout)
    warnings = {one["key"]: f"{one['problem']}. {one['fix']}" for one in judged["warnings"]}
    errors = {one["key"]: f"{one['problem']}. {one['fix']}" for one in judged["errors"]}
    assert said in (errors if severity == ERROR else warnings)[key]
    problems = [one["key"] for one in judged["warnings"] if one["grave"]]
    assert (key in problems) is (severity == PROBLEM)
    assert validated.exit_code == (3 if errors else 1 if problems else 0)
    assert judged["valid"] is (validated.exit_code == 0)
    found = [one for one in json.loads(checked.stdout)["findings"] if one["kind"] == "config"]
    findings = [one for one in found if ": " in one["about"]]
    assert [one["about"].partition(": ")[2].partition(" ")[0] for one in findings] == [*errors, *warnings]
    [finding] = [one for one in findings if one["about"].partition(": ")[2].partition(" ")[0] == key]
    assert said in f"{finding['problem']}. {finding['mend']}"
    assert finding["grave"] is (severity != NOTE)
    assert checked.exit_code == min(validated.exit_code, 1)


def test_a_tool_that_the_operator_gave_to_another_plugin_is_no_problem(home: Path, tmp_path: Path) -> None:
    code = plugin_code("read", options="effects='none'")
    declared = {"name": "read", "description": "Say how it is.", "effects": "none"}
    site = installed(tmp_path / "site", "acme", code, {"kinds": ["tool"], "tools": [declared]})
    machine = Machine(tmp_path / "machine", [site])
    machine.configured("tools: {suppliers: {read: acme}}")
    machine.claw("doctor", "--fix")  # permissions

    said = machine.claw("doctor")

    assert (said.code, said.out) == (0, "no problems found\n"), said


def test_an_error_about_a_key_whose_name_is_that_of_a_secret_is_shown_whole(home: Path) -> None:
    configured(home, "messages: {silentToken: ''}")

    assert "messages.silentToken: is empty" in str(claw("status").exception)
    command = [sys.executable, "-m", "claw", "status"]
    said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "messages.silentToken: is empty. Write a string" in said.stderr


def test_a_key_that_no_header_can_hold_is_named_and_not_shown(home: Path) -> None:
    key = '"sk-a\\nb12345678"'
    service = f"providers: {{openai: {{baseUrl: 'http://127.0.0.1:1/v1', apiKey: {key}}}}}"
    configured(home, f"{service}\nagents: {{defaults: {{model: openai/m}}}}")

    said = claw("chat", "hi")

    text = f"{said.output}{said.exception}"
    assert said.exit_code == 1 and "providers.openai.apiKey" in text and "in one line" in text
    assert "b12345678" not in text


def test_no_check_fails_for_an_address_that_cannot_be_read(home: Path) -> None:
    configured(home, "providers: {openai: {baseUrl: 'http://[::1/v1'}}\nmodel: openai/m")

    assert "its check" not in claw("config", "validate").output + claw("doctor").output


@pytest.mark.parametrize(
    "text",
    [
        "workspace: workspace-mine",
        "bindings: [{agent: default}, {agent: default, match: {channel: telegram}}]",
        "providers: {mine: {baseUrl: 'http://localhost:1/v1'}}\ntools: {byProvider: {Mine/m: {}, openai: {}}}",
        "channels: {telegram: {botToken: '1:a', groupPolicy: allowlist, groups: {'-1': {}}}}",
        "logging: {redactPatterns: ['(?:\\w+\\.)+example\\.com', 'tok_[0-9a-f]{32}', '[A-Z]{3,}-\\d+']}",
        "channels: {http: {}}\ngateway: {auth: {token: abcdefghijklmnop0123}}",
        "tools: {allow: [read, group:fs], deny: [exec]}",
        "prompt: {disabled: [Safety, 'Current Date & Time'], positions: {Skills: 300}}",
        "bindings: [{agent: default, match: {channel: Terminal}}, {agent: default, match: {group: '-1'}}]",
        "session: {resetByChannel: {telegram: {mode: daily}, cron: {mode: off}}}",
        "providers: {openai: {baseUrl: 'localhost:11434/v1'}, local: {baseUrl: models.example.com}}",
        "channels: {telegram: {enabled: false, botToken: '${NO_SUCH_TOKEN}'}}",
        "tools: {message: {targets: ['telegram:1', 'telegram/work:-100']}}\nskills: {extraDirs: [.]}",
        "session: {identityLinks: {bob: ['telegram:1', 'discord:2']}}",
        "tools: {exec: {trustedDirs: [/], safeBins: [cut]}}",
        "tools: {exec: {allow: [cat, /bin/cat, {argv: [sh, x]}, {pattern: sh, argv: [y]}]}}",
    ],
)
def test_a_sound_file_has_no_finding(home: Path, text: str) -> None:
    configured(home, text)

    judged = json.loads(claw("config", "validate", "--json").stdout)

    assert judged["errors"] + judged["warnings"] == []


@pytest.mark.parametrize(
    "text",
    [
        "prompt: {disabled: [Weather], positions: {Weather: 5}}",
        "bindings: [{agent: default, match: {channel: irc}}]\nsession: {resetByChannel: {irc: {mode: daily}}}",
    ],
)
def test_names_that_a_plugin_without_a_manifest_may_register_are_not_judged(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    metadata = tmp_path / "site" / "acme_unlisted-1.dist-info"
    metadata.mkdir(parents=True)
    (metadata.parent / "acme_unlisted.py").write_text('"""A plugin of one file."""\n')
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-unlisted\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[claw.plugins]\nunlisted = acme_unlisted\n")
    monkeypatch.syspath_prepend(str(metadata.parent))
    configured(home, text)

    judged = json.loads(claw("config", "validate", "--json").stdout)

    assert judged["errors"] + judged["warnings"] == []


def test_a_skill_of_one_agent_is_judged_by_its_own_folders(home: Path) -> None:
    folder = home / "agents" / "a" / "agent" / "skills" / "weather"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: weather\ndescription: the weather\n---\n")
    configured(home, "skills: [weather]\nagents: {list: [{id: a}, {id: b}, {id: c, skills: [weather]}]}")

    judged = json.loads(claw("config", "validate", "--json").stdout)

    assert [one["key"] for one in judged["warnings"]] == ["agents.list[2].skills[0]"]


def test_doctor_says_nothing_of_plugins_that_nobody_configured(home: Path) -> None:
    checked = claw("doctor")

    assert (checked.exit_code, checked.stdout.splitlines()) == (0, ["no problems found"])


def test_channels_status_prints_the_findings_too(home: Path) -> None:
    configured(home, "channels: {http: {}}\ntools: {allow: []}")

    printed = claw("config", "validate").stderr.splitlines()

    assert len(printed) == 2
    assert claw("channels", "status").stderr.splitlines()[-2:] == printed


def test_config_set_refuses_a_key_that_no_plugin_obeys(home: Path) -> None:
    configured(home, "plugins: {entries: {gateway: {enabled: false}}}")

    refused = claw("config", "set", "cron.jobs[]", "{id: a}")

    assert refused.exit_code != 0
    assert "it has no effect" in str(refused.exception)
    assert "cron" not in (home / "config.yaml").read_text()


def test_comments_in_a_json_file_are_named(home: Path) -> None:
    (home / "config.json").write_text('{\n  // mine\n  "locale": "en"\n}')

    refused = claw("config", "validate")

    assert refused.exit_code == 3
    assert "config.json:2" in refused.stderr and "JSON allows no comments" in refused.stderr


def test_a_start_prints_the_findings_and_the_channel_that_failed(home: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        configured(home, f"channels: {{http: {{}}}}\ngateway: {{port: {port}}}\ntools: {{allow: []}}")
        printed = claw("config", "validate").stderr.splitlines()
        command = [sys.executable, "-m", "claw", "gateway"]
        started = subprocess.run(
            [*command, "start"], capture_output=True, text=True, check=False, timeout=120
        )
        subprocess.run([*command, "stop"], capture_output=True, check=False, timeout=60)

    assert len(printed) == 2
    assert set(printed) <= set(started.stderr.splitlines())
    [failed] = [line for line in started.stderr.splitlines() if line.startswith("channel http failed: ")]
    assert str(port) in failed
    assert started.returncode == 1 and "is ready" not in started.stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("channels: {telegram: {}}", "channels.telegram.botToken: the bot has no token"),
        ("channels: {feishu: {appId: cli_x}}", "channels.feishu.appSecret: is missing"),
        ("channels: {discord: {}}", "channels.discord.token"),
        ("plugins: {entries: {mcp: {config: {mcpServers: {x: {}}}}}}", "has either a command (and args) or a url"),
        ("mcpServers: {x: {}}", "has either a command (and args) or a url"),
        ("channels: {telegram: {accounts: {a: {botToken: '1:abc'}, b: {}}}}", "channels.telegram.accounts.b"),
    ],
)  # fmt: skip
def test_settings_that_a_plugin_refuses_are_named_before_anything_was_started(
    home: Path, text: str, said: str
) -> None:
    configured(home, text)

    first, again = claw("config", "validate"), claw("config", "validate")

    assert said in first.output
    assert again.output == first.output
    assert said in claw("doctor").output


@pytest.mark.parametrize(
    ("text", "key", "fix"),
    [
        (
            "providers: {openai: {baseUrl: 'http://127.0.0.1:99999/v1', apiKey: x}}\nmodel: openai/m",
            "providers.openai.baseUrl",
            "write it as https://host",
        ),
        (
            "plugins: {entries: {mcp: {config: {mcpServers: {x: {}}}}}}",
            "plugins.entries.mcp.config.mcpServers.x",
            "Write one of the two",
        ),
    ],
)
def test_a_setting_that_a_plugin_refuses_is_named_once_with_its_own_fix(
    home: Path, text: str, key: str, fix: str
) -> None:
    configured(home, f"{text}\nchannels: {{http: {{}}}}\ngateway: {{port: 0, auth: {{token: {TOKEN}}}}}")
    claw("chat", "hi")
    command = [sys.executable, "-m", "claw", "gateway"]
    started = subprocess.run([*command, "start"], capture_output=True, text=True, check=False, timeout=120)
    subprocess.run([*command, "stop"], capture_output=True, check=False, timeout=60)
    printed = [started.stderr, claw("doctor").output, claw("config", "validate").output]

    for output in (*printed, claw("plugins", "list").output):
        [line] = [line for line in output.splitlines() if key in line]
        assert fix in line
        assert "uninstall" not in output


def test_an_unknown_key_of_a_channel_is_named_once(home: Path) -> None:
    configured(home, f"channels: {{http: {{prot: 5}}}}\ngateway: {{port: 0, auth: {{token: {TOKEN}}}}}")
    claw("chat", "hi")
    command = [sys.executable, "-m", "claw", "gateway"]
    started = subprocess.run([*command, "start"], capture_output=True, text=True, check=False, timeout=120)
    subprocess.run([*command, "stop"], capture_output=True, check=False, timeout=60)

    surfaces = ("channels", "status"), ("doctor",), ("config", "validate")
    for output in (started.stderr, *(claw(*words).output for words in surfaces)):
        [line] = [line for line in output.splitlines() if "channels.http.prot" in line]
        assert "is not a known key" in line and "its check" not in output


MISFITS = {
    "unknown key": ("channels: {http: {prot: 5}}", "channels.http.prot"),
    "unknown key of an account": ("channels: {telegram: {botToken: '1:a', accounts: {a: {mod: x}}}}",
                                  "channels.telegram.accounts.a.mod"),
    "unknown key of a short form": ("mcpServers: {x: {command: 'true', conectSeconds: 3}}",
                                    "mcpServers.x.conectSeconds"),
    "wrong type": ("channels: {http: {maxTextChars: many}}", "channels.http.maxTextChars"),
    "out of range": ("channels: {http: {maxTextChars: 0}}", "channels.http.maxTextChars"),
    "out of range, of a short form": ("mcpServers: {x: {command: 'true', connectSeconds: -1}}",
                                      "mcpServers.x.connectSeconds"),
    "not one of": ("channels: {telegram: {botToken: '1:a', mode: nosuch}}", "channels.telegram.mode"),
    "not one of, of a provider": ("providers: {openai: {apiKey: x, api: nosuch}}\nmodel: openai/m",
                                  "providers.openai.api"),
    "bad pattern": ("channels: {telegram: {botToken: '1:a', webhookPath: hello}}", "channels.telegram.webhookPath"),
    "missing": ("channels: {feishu: {appId: cli_x}}", "channels.feishu.appSecret"),
}  # fmt: skip


@pytest.mark.parametrize("kind", MISFITS)
def test_a_setting_that_does_not_fit_is_named_in_one_line_by_every_command(home: Path, kind: str) -> None:
    text, key = MISFITS[kind]
    configured(home, f"locale: en\n{text}")
    command = [sys.executable, "-m", "claw"]

    def said(*words: str) -> str:
        done = subprocess.run([*command, *words], capture_output=True, text=True, check=False, timeout=120)
        return done.stdout + done.stderr

    printed = {
        words: said(*words.split()) for words in ("config validate", "doctor", "gateway start", "chat hi")
    }
    said("gateway", "stop")

    named = {
        words: [line for line in output.splitlines() if f".{key.rpartition('.')[2]}: " in line]
        for words, output in printed.items()
    }
    assert {words: len(lines) for words, lines in named.items()} == dict.fromkeys(printed, 1), named
    assert all(f" {key}: " in line and "does not fit the plugin" not in line for [line] in named.values()), (
        named
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("channels.telegram.mode", "nosuch"),
        ("channels.telegram.allowForm", "[1]"),
        ("channels.telegram", "{mode: nosuch}"),
        ("channels.http.maxTextChars", "0"),
        ("channels.http.prot", "5"),
        ("mcpServers.x.conectSeconds", "5"),
        ("providers.openai.api", "nosuch"),
    ],
)
def test_config_set_refuses_what_does_not_fit_its_plugin(home: Path, key: str, value: str) -> None:
    configured(home, "locale: en\n")

    refused = claw("config", "set", key, value)

    assert refused.exit_code == 3 or getattr(refused.exception, "exit_code", 0) == 3
    assert (home / "config.yaml").read_text() == "locale: en\n"


def test_config_set_writes_the_keys_of_a_channel_one_after_the_other(home: Path) -> None:
    configured(home, "channels: {telegram: {mode: nosuch}}")

    for key, value in (("channels.feishu.appId", "cli_x"), ("channels.http.maxTextChars", "500")):
        assert claw("config", "set", key, value).exit_code == 0
    assert claw("config", "set", "channels.http.maxTextChars", "0").exit_code != 0
    assert claw("config", "set", "channels.telegram.mode", "polling").exit_code == 0
