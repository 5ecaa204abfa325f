"""standing: how an installed plugin stands under a configuration."""

import json

import pytest
from claw.config.summary import outline_config
from claw.contracts.errors import ConfigError
from claw.host.manifest import InstalledPlugin, parse_manifest
from claw.host.state import choose_default_model, decide_states, require_config_owners


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
    assert state(TOOLS, {}) == ("loaded", "its tools are offered")


@pytest.mark.parametrize("word", ["acme_wipe", "acme", "group:plugins"])
def test_optional_tools_wait_until_an_allow_list_names_them(word):
    assert state(OPTIONAL, {})[0] == "idle"
    assert "no allow list" in state(OPTIONAL, {})[1]
    assert state(OPTIONAL, {"tools": {"alsoAllow": [word]}})[0] == "loaded"
    assert state(OPTIONAL, {"agents": {"list": [{"id": "a", "tools": {"allow": [word]}}]}})[0] == "loaded"


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
    part = plugin("models", kinds=["models"], standard=True)
    config = {"plugins": {"allow": ["other"]}}

    assert state(part, config)[0] == "loaded"
    assert state(part, {"plugins": {"deny": ["models"]}})[0] == "blocked"
    assert state(plugin(standard=True, tools=[{"name": "x"}]), config)[0] == "blocked", "a third party's"


def test_a_key_whose_plugin_is_not_installed_is_an_error_that_names_the_package():
    with pytest.raises(ConfigError, match="claw-budgets is not installed"):
        require_config_owners({"budgets": {"day": {}}}, ())
    require_config_owners({"budgets": {}}, ())


def test_another_api_version_is_incompatible():
    assert state(plugin(api=">=2,<3", tools=[{"name": "x"}]), {})[0] == "incompatible"


def test_a_plugin_that_needs_another_one_is_set_aside_when_that_is_missing():
    needy = plugin("needy", requires=["acme"], tools=[{"name": "n"}])

    [alone] = decide_states([needy], outline_config({}), ())
    together = {state.id: state for state in decide_states([needy, TOOLS], outline_config({}), ())}

    assert alone.state == "quarantined"
    assert "acme" in alone.why
    assert alone.fix == "claw plugins install claw-acme"
    assert together["needy"].state == "loaded"


def test_what_mends_the_plugin_that_another_one_needs_mends_both():
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

    assert choose_default_model(found, nothing, {"A_KEY": "k"}, {}) == "b/m"
    assert (
        choose_default_model(found, nothing, {"A_KEY": "k"}, {"providers": {"a": {"apiKey": "k"}}}) == "a/m"
    )


def test_the_default_model_is_of_the_first_provider_with_a_key():
    found = [
        plugin("rules", providers=[{"name": "rules", "defaultModel": "r", "fallback": True}]),
        plugin("a", providers=[{"name": "a", "env": ["A_KEY"], "defaultModel": "m"}]),
    ]
    nothing = outline_config({})

    assert choose_default_model(found, nothing, {"A_KEY": "k"}, {}) == "a/m"
    assert choose_default_model(found, nothing, {"A_KEY": "  "}, {}) == "rules/r"
    assert choose_default_model(found, nothing, {}, {"providers": {"a": {"apiKey": "k"}}}) == "a/m"
    assert choose_default_model(found, nothing, {}, {}) == "rules/r"


def test_there_is_no_default_model_without_a_key_and_without_a_provider_that_needs_none():
    found = [plugin("a", providers=[{"name": "a", "env": ["A_KEY"], "defaultModel": "m"}])]

    assert choose_default_model(found, outline_config({}), {}, {}) == ""
    assert choose_default_model([], outline_config({}), {}, {}) == ""
