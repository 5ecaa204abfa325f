"""The state of an installed plugin under a configuration."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from claw.config.errors import ConfigErrors
from claw.config.loader import validate_source
from claw.config.source import ConfigSource, parse_config
from claw.config.summary import PluginKeys, outline_config, package_of, plugins_that_bring
from claw.contracts.errors import ConfigError
from claw.host.discovery import plugin_keys
from claw.host.manifest import InstalledPlugin, parse_manifest
from claw.host.state import (
    choose_default_model,
    config_key_errors,
    decide_states,
)
from claw.policy.catalog import CORE_TOOLS


def plugin(id: str = "acme", **manifest: object) -> InstalledPlugin:
    return InstalledPlugin(
        id,
        f"claw_{id}",
        f"claw-plugin-{id}",
        "1.0",
        manifest=parse_manifest(json.dumps({"id": id, **manifest}), id),
    )


def state(found: InstalledPlugin, config: dict, used: tuple[str, ...] = ()) -> tuple[str, str]:
    [state] = decide_states([found], outline_config(config), used)
    return state.state, state.why


TOOLS = plugin(tools=[{"name": "acme_status"}])
OPTIONAL = plugin(tools=[{"name": "acme_wipe", "optional": True}])
CHANNEL = plugin("tele", channels=["telegram"])
PROVIDER = plugin("openai", providers=[{"name": "openai"}, {"name": "*"}])


def test_a_plugin_with_required_tools_is_in_use_by_itself():
    assert state(TOOLS, {}) == ("loaded", "it provides tools")


@pytest.mark.parametrize("word", ["acme_wipe", "acme", "group:plugins"])
def test_optional_tools_wait_until_an_allow_list_names_them(word):
    assert state(OPTIONAL, {})[0] == "idle"
    assert "no allow list" in state(OPTIONAL, {})[1]
    assert state(OPTIONAL, {"tools": {"alsoAllow": [word]}})[0] == "loaded"
    assert state(OPTIONAL, {"agents": {"list": [{"id": "a", "tools": {"allow": [word]}}]}})[0] == "loaded"


@pytest.mark.parametrize(
    "part",
    [
        {"kinds": ["skill"], "skills": ["brew"]},
        {"kinds": ["mcp-server"], "mcpServers": {"docs": {"url": "https://docs.example"}}},
    ],
)
def test_a_plugin_whose_files_alone_are_used_is_idle_and_says_so(part):
    assert state(plugin(**part), {}) == ("idle", "its skills and MCP servers are used without its code")
    assert state(plugin(tools=[{"name": "acme_status"}], **part), {})[0] == "loaded"


def test_a_channel_is_used_when_its_section_is_there_and_on():
    assert state(CHANNEL, {}) == ("idle", "channel telegram is not configured")
    assert state(CHANNEL, {"channels": {"telegram": {"token": "x"}}})[0] == "loaded"
    assert state(CHANNEL, {"channels": {"telegram": {"enabled": False}}})[0] == "idle"


def test_a_provider_is_used_when_a_model_refers_to_it():
    assert state(PROVIDER, {}, ("offline",))[0] == "idle"
    assert state(PROVIDER, {}, ("openai",))[0] == "loaded"


def test_an_endpoint_that_nobody_else_serves_is_the_star_provider_s():
    config = {"providers": {"ollama": {"baseUrl": "http://127.0.0.1:11434/v1"}}}

    assert state(PROVIDER, config, ("ollama",))[0] == "loaded"
    assert state(PROVIDER, {}, ("ollama",))[0] == "idle"


@pytest.mark.parametrize(
    ("config", "wanted", "names"),
    [
        ({"plugins": {"entries": {"acme": {"enabled": False}}}}, "disabled", "plugins.entries.acme.enabled"),
        ({"plugins": {"deny": ["acme"]}}, "blocked", "plugins.deny"),
        ({"plugins": {"allow": ["other"]}}, "blocked", "plugins.allow"),
    ],
)
def test_the_operator_decides_first_and_the_reason_names_the_key(config, wanted, names):
    assert state(TOOLS, config)[0] == wanted
    assert names in state(TOOLS, config)[1]


def test_a_list_of_allowed_plugins_need_not_name_the_parts_of_claw_itself():
    part = replace(plugin("models", kinds=["models"], standard=True), is_first_party=True)
    config = {"plugins": {"allow": ["other"]}}

    assert state(part, config)[0] == "loaded"
    assert state(part, {"plugins": {"deny": ["models"]}})[0] == "blocked"
    assert state(replace(part, is_first_party=False), config)[0] == "blocked", "the id gives no right"


def key_errors(file: str, *found) -> list[ConfigError]:
    """The keys without an owner in a file, under the plugins that are installed."""
    tree, lines = parse_config(file)
    states = decide_states(found, outline_config(tree), ())
    read = ConfigSource(text=file, tree=tree, lines=lines)
    try:
        config = validate_source(read, Path("/home"), {}, plugin_keys(states))
    except ConfigErrors as wrong:
        return list(wrong.errors)
    except ConfigError as wrong:
        return [wrong]
    return config_key_errors(config, states)


def test_a_key_whose_plugin_is_not_installed_is_an_error_that_names_the_package():
    [error] = key_errors("locale: en\nbudgets:\n  day: {usd: 1}")

    assert (error.key, error.line, "claw-budgets is not installed" in str(error)) == ("budgets", 2, True)
    assert "claw plugins install claw-budgets" in error.fix
    assert key_errors("budgets: {}") == []


OWNER = plugin("acme", kinds=["reviewer"], configKeys=["tools.loopDetection", "agents.tools.loopDetection"])


def test_a_key_whose_plugin_is_disabled_is_an_error_that_names_the_command():
    file = "tools: {loopDetection: {warningThreshold: 3}}\nplugins: {entries: {acme: {enabled: false}}}"

    [error] = key_errors(file, OWNER)

    assert error.key == "tools.loopDetection"
    assert "plugin acme is disabled" in str(error)
    assert "claw config set plugins.entries.acme.enabled true" in error.fix


RADIO = plugin("radio", kinds=["channel"], channels=["radio"], configKeys=["waves"])
MAST = plugin("mast", kinds=["reviewer"], configKeys=["waves"])


@pytest.mark.parametrize(("owner", "count"), [(RADIO, 0), (MAST, 1)])
def test_the_keys_of_a_quarantined_channel_stop_nothing_else_and_those_of_a_guard_do(owner, count):
    states = [replace(one, state="quarantined", why="it failed", fix="Known keys here: a, b.") for one in decide_states(
        [owner], outline_config({}), ()
    )]  # fmt: skip
    config = validate_source(
        ConfigSource(text="", tree={"waves": {"length": 3}}),
        Path("/home"),
        {},
        PluginKeys({"waves": None}),
    )

    errors = config_key_errors(config, states)

    assert len(errors) == count
    assert all(one.fix == "Known keys here: a, b." for one in errors)


def test_one_usable_owner_of_a_key_is_enough():
    other = plugin("other", kinds=["reviewer"], configKeys=["tools.loopDetection"])
    file = "tools: {loopDetection: {warningThreshold: 3}}\nplugins: {deny: [acme]}"

    assert key_errors(file, OWNER, other) == []


@pytest.mark.parametrize(
    ("file", "keys"),
    [
        ("tools: {loop_detection: {warningThreshold: 3}}", ["tools.loop_detection"]),
        ("tools: {loopDetection: {enabled: false}}", []),
        ("tools: {loopDetection: {}}", []),
        (
            "agents:\n  defaults:\n    tools: {loopDetection: {historySize: 3}}\n  list:\n"
            "    - {id: a, tools: {deny: [exec]}}\n    - {id: b, tools: {loopDetection: {historySize: 3}}}",
            ["agents.defaults.tools.loopDetection", "agents.list[1].tools.loopDetection"],
        ),
        ("agents: {entries: {b: {skills: [x]}}}", ["agents.entries.b.skills"]),
        ("skills: [x]", ["skills"]),
        ("models: {wait: off, cooldowns: {window: 1h}}", ["models.cooldowns"]),
        ("providers: {any: {tools: prompt}}", ["providers.any.tools"]),
        ("providers: {any: {models: {m: {tools: none}}}}", ["providers.any.models.m.tools"]),
        ("logging: {level: debug, redactPatterns: [x]}", ["logging.level"]),
        ("channels: {irc: {allowFrom: [a], queue: {mode: collect}}}", ["channels.irc.queue"]),
    ],
)
def test_every_key_without_an_owner_is_found_where_it_is_written(file, keys):
    assert [error.key for error in key_errors(file)] == keys


def test_the_hints_name_the_keys_of_our_own_manifests():
    folders = Path(__file__).parents[2].glob("plugins/*/claw_*/claw-plugin.json")
    manifests = [json.loads(path.read_text()) for path in folders]

    owned = {key: each["id"] for each in manifests for key in each.get("configKeys", ())}

    assert owned == plugins_that_bring("configKeys")


def test_the_hints_name_the_core_tools_of_our_own_manifests():
    folders = Path(__file__).parents[2].glob("plugins/*/claw_*/claw-plugin.json")
    manifests = [json.loads(path.read_text()) for path in folders]

    brought = {
        tool["name"]: each["id"]
        for each in manifests
        for tool in each.get("tools", ())
        if tool["name"] in CORE_TOOLS
    }

    released = plugins_that_bring("tools").items()
    assert brought == {name: id for name, id in released if package_of(id)}


def test_another_api_version_is_incompatible():
    assert state(plugin(api=">=2,<3", tools=[{"name": "x"}]), {})[0] == "incompatible"


def test_a_plugin_that_needs_another_one_is_quarantined_when_that_is_missing():
    needy = plugin("needy", requires=["acme"], tools=[{"name": "n"}])

    [alone] = decide_states([needy], outline_config({}), ())
    together = {state.id: state for state in decide_states([needy, TOOLS], outline_config({}), ())}

    assert alone.state == "quarantined"
    assert "acme" in alone.why
    assert alone.fix == "install the package that provides acme"
    assert together["needy"].state == "loaded"


def test_what_fixes_the_plugin_that_another_one_needs_fixes_both():
    needy = plugin("needy", requires=["acme"], tools=[{"name": "n"}])
    off = {"plugins": {"entries": {"acme": {"enabled": False}}}}

    by_id = {state.id: state for state in decide_states([needy, TOOLS], outline_config(off), ())}

    assert by_id["needy"].state == "quarantined"
    assert by_id["needy"].fix == by_id["acme"].fix == "claw config set plugins.entries.acme.enabled true"


def test_a_required_plugin_that_is_not_installed_is_listed():
    [state] = decide_states([], outline_config({"plugins": {"entries": {"gone": {"required": True}}}}), ())

    assert (state.id, state.state, state.required) == ("gone", "quarantined", True)


def test_a_provider_whose_library_is_missing_is_not_chosen_for_its_key_alone():
    lines = [{"name": "a", "env": ["A_KEY"], "defaultModel": "m", "needs": "no-such-thing"}]
    found = [
        plugin("a", providers=lines),
        plugin("b", providers=[{**lines[0], "name": "b", "needs": "pluggy"}]),
    ]
    nothing = outline_config({})

    assert choose_default_model(found, nothing, {"A_KEY": "k"}) == "b/m"
    assert (
        choose_default_model(found, outline_config({"providers": {"a": {"apiKey": "k"}}}), {"A_KEY": "k"})
        == "a/m"
    )


def test_the_default_model_is_of_the_first_provider_with_a_key():
    found = [
        plugin("rules", providers=[{"name": "rules", "defaultModel": "r", "fallback": True}]),
        plugin("a", providers=[{"name": "a", "env": ["A_KEY"], "defaultModel": "m"}]),
    ]
    nothing = outline_config({})

    assert choose_default_model(found, nothing, {"A_KEY": "k"}) == "a/m"
    assert choose_default_model(found, nothing, {"A_KEY": "  "}) == "rules/r"
    assert choose_default_model(found, outline_config({"providers": {"a": {"apiKey": "k"}}}), {}) == "a/m"
    assert choose_default_model(found, nothing, {}) == "rules/r"


def test_there_is_no_default_model_without_a_key_and_without_a_provider_that_needs_none():
    found = [plugin("a", providers=[{"name": "a", "env": ["A_KEY"], "defaultModel": "m"}])]

    assert choose_default_model(found, outline_config({}), {}) == ""
    assert choose_default_model([], outline_config({}), {}) == ""
