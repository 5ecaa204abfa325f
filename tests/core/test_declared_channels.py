"""Channels that a manifest declares: the shapes of their ids, users with a token, names at the top level of the file."""

import json
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
from claw.config.loader import Config, validate_source
from claw.config.source import ConfigSource
from claw.config.summary import outline_config
from claw.contracts.errors import PluginError
from claw.contracts.messages import Address, Inbound, Sender
from claw.host.discovery import plugin_keys
from claw.host.manifest import InstalledPlugin, Manifest, parse_manifest, short_forms
from claw.host.state import decide_states
from claw.security.admission import decide_admission
from claw_admin.config_checks.file_warnings import file_warnings
from claw_config_sdk import get_value, written_path

SHAPES = {
    "userIds": "RU[0-9a-f]{4}",
    "userExample": "RU00ff",
    "groupIds": r"RG-?\d+",
    "groupExample": "RG-1",
}


def plugin(channels: Any, id: str = "acme", **fields: Any) -> InstalledPlugin:
    text = json.dumps({"id": id, "kinds": ["channel"], "channels": channels, **fields})
    return InstalledPlugin(id, id, id, "1", manifest=parse_manifest(text, id))


def config_of(tree: dict[str, Any], *found: InstalledPlugin) -> Config:
    states = decide_states(found, outline_config(tree, short_forms(found)), ())
    return validate_source(
        ConfigSource(Path("config.json"), "", tree), Path("/home"), {}, plugin_keys(states)
    )


def radio_message(id: str, **fields: Any) -> Inbound:
    return Inbound(Address("radio", id), "hi", Sender(id), message_id="1", mentions_us=True, **fields)


RADIO = plugin({"radio": SHAPES})


# --- shapes of ids


def test_a_name_in_place_of_a_declared_id_is_a_warning_and_admits_nobody() -> None:
    section = {"allowFrom": ["RU12ab", "bob"], "groups": {"RG7": {}, "team": {}}}
    config = config_of({"channels": {"radio": section}, "owners": ["radio:ann"]}, RADIO)
    assert [(one.key, one.problem) for one in file_warnings(config)] == [
        ("owners[0]", "ann is not a stable id and matches nobody: on radio an id looks like RU00ff"),
        (
            "channels.radio.allowFrom[1]",
            "bob is not a stable id and matches nobody: on radio an id looks like RU00ff",
        ),
        (
            "channels.radio.groups.team",
            "team is not a group id and admits no group: on radio a group id looks like RG-1",
        ),
    ]
    assert decide_admission(radio_message("RU12ab"), config).kind == "admitted"
    refused = decide_admission(radio_message("bob"), config)
    assert (refused.kind, refused.owner) == ("refused", False)
    assert not decide_admission(radio_message("ann"), config).owner


def test_without_a_declared_shape_any_text_may_be_an_id() -> None:
    config = config_of({"channels": {"radio": {"allowFrom": ["bob"]}}}, plugin(["radio"]))
    assert file_warnings(config) == ()
    assert decide_admission(radio_message("bob"), config).kind == "admitted"


def test_a_second_plugin_does_not_take_a_shape_away() -> None:
    loose = plugin({"radio": {"userIds": r"[^/]+", "userExample": "x"}}, "aaa")
    for found in ((loose, RADIO), (plugin(["radio"], "aaa"), RADIO)):
        config = config_of({"channels": {"radio": {"allowFrom": ["bob"]}}}, *found)
        assert decide_admission(radio_message("bob"), config).kind == "refused"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"userIds": "(a+)+", "userExample": "a"}, "groups, alternatives or anchors"),
        ({"userIds": "a|b", "userExample": "a"}, "groups, alternatives or anchors"),
        ({"userIds": "^a$", "userExample": "a"}, "groups, alternatives or anchors"),
        ({"userIds": "[b-a]", "userExample": "a"}, "not a regular expression"),
        ({"userIds": r"\d+"}, "does not have the shape"),
        ({"groupIds": r"\d+", "groupExample": "team"}, "does not have the shape"),
        ({"userPattern": "a"}, "userPattern"),
        ({"tokenUser": "*"}, "tokenUser"),
        ({"tokenUser": "a b"}, "tokenUser"),
    ],
)
def test_a_wrong_declaration_quarantines_the_plugin_and_names_the_fault(
    fields: dict[str, str], problem: str
) -> None:
    with pytest.raises(PluginError, match=problem):
        plugin({"radio": fields})


def test_a_shape_takes_linear_time() -> None:
    slow = plugin({"radio": {"userIds": r"a*a*a*a*a*a*a*a*b", "userExample": "aab"}})
    assert isinstance(slow.manifest, Manifest) and isinstance(slow.manifest.channels, dict)
    began = perf_counter()
    assert slow.manifest.channels["radio"].example_unless_id("a" * 100_000)
    assert perf_counter() - began < 1


# --- users with a token


def test_users_with_a_token_are_admitted_unless_the_file_says_otherwise() -> None:
    bridge = plugin({"bridge": {"tokenUser": "caller"}})
    caller = Inbound(Address("bridge", "c"), "hi", Sender("caller"), message_id="1")
    admitted = decide_admission(caller, config_of({"channels": {"bridge": {}}}, bridge))
    assert (admitted.kind, admitted.owner) == ("admitted", False)
    closed = config_of({"channels": {"bridge": {"allow_from": []}}}, bridge)
    assert decide_admission(caller, closed).kind == "refused"
    undeclared = config_of({"channels": {"bridge": {}}}, plugin(["bridge"]))
    assert decide_admission(caller, undeclared).kind == "unknown sender"


def test_a_second_plugin_admits_nobody_to_the_channel_of_another() -> None:
    claim = plugin({"radio": {"tokenUser": "RU6666"}}, "aaa")
    config = config_of({"channels": {"radio": {}}}, claim, RADIO)
    assert decide_admission(radio_message("RU6666"), config).kind == "unknown sender"


# --- names at the top level


def test_the_section_of_a_declared_channel_may_stand_at_the_top_level() -> None:
    tree = {"radio": {"historyLimit": 3}}
    config = config_of(tree, RADIO)
    assert config.settings.channels["radio"].history_limit == 3
    forms = short_forms([RADIO])
    assert get_value(tree, "channels.radio.historyLimit", forms) == 3
    assert get_value(tree, "radio.historyLimit", forms) == 3
    assert written_path(tree, "channels.radio.enabled", forms, must_exist=False) == ("radio", "enabled")
    assert "radio" in outline_config(tree, forms).channels


def test_a_short_key_of_a_plugin_stands_for_the_key_in_its_own_section() -> None:
    acme = plugin([], shortKeys=["stations"])
    config = config_of({"stations": {"one": {}}}, acme)
    assert config.settings.plugins.entries["acme"].config == {"stations": {"one": {}}}


@pytest.mark.parametrize("key", ["tools", "owners", "budgets", "approvals", "compaction"])
def test_no_manifest_takes_a_key_of_core_or_of_another_plugin(key: str) -> None:
    assert config_of({"tools": {"deny": ["x"]}}, plugin([key])).settings.tools.deny == ("x",)
    owned = {"budgets": ["budgets"], "approvals": ["approvals"], "compaction": ["agents.compaction"]}
    owner = plugin([], "owner", configKeys=owned.get(key, []))
    forms = short_forms([owner, plugin([key], shortKeys=[key])])
    tree = {key: {"a": 1}}
    long = ("agents", "defaults", key) if key == "compaction" else (key,)
    assert get_value(tree, key, forms) == {"a": 1}
    assert written_path({}, key, forms, must_exist=False) == long
