"""The record of a server, and the tools made from its offers: pure rules, without a server."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from claw import ClawError
from claw.security.redaction import Redactor
from claw.testing import plugin_config
from claw_mcp.offers import RESOURCES, all_offers, full_name, known_names, result_of
from claw_mcp.record import (
    Offer,
    ServerRecord,
    ServerRecords,
    accepted,
    pause_seconds,
    with_failure,
    with_offers,
)
from claw_mcp.settings import McpSettings
from hypothesis import given, strategies as st

names = st.text(min_size=1, max_size=80)
offers = st.lists(
    st.builds(Offer, st.sampled_from(["a", "b", "c"]), st.sampled_from(["one", "two"])),
    unique_by=lambda offer: offer.name,
).map(tuple)


@given(first=offers, later=offers)
def test_only_what_the_operator_has_seen_as_it_is_now_is_ever_used(first: Any, later: Any) -> None:
    record = with_offers(with_offers(ServerRecord("x"), first), later)

    assert list(record.visible) == [offer for offer in later if offer in first]
    assert [offer for offer, _ in record.withheld] == [offer for offer in later if offer not in first]


@given(first=offers, later=offers)
def test_accepting_keeps_all_of_it_and_meeting_again_changes_nothing(first: Any, later: Any) -> None:
    record = accepted(with_offers(with_offers(ServerRecord("x"), first), later))

    assert record.visible == later
    assert record.withheld == ()
    assert with_offers(record, later) == record


@given(first=offers, later=offers, name=st.sampled_from(["a", "b", "c"]))
def test_accepting_one_leaves_the_others_as_they_were(first: Any, later: Any, name: str) -> None:
    before = with_offers(with_offers(ServerRecord("x"), first), later)
    after = accepted(before, [name])

    assert all(offer in after.visible for offer in before.visible)
    assert all(offer.name == name for offer in after.visible if offer not in before.visible)


def test_a_tool_that_went_away_and_comes_back_otherwise_is_still_withheld() -> None:
    tool = Offer("weigh", "Weigh it.")
    gone = with_offers(with_offers(ServerRecord("x"), [tool]), [])
    back = with_offers(gone, [replace(tool, description="Steal it.")])
    assert [why for _, why in back.withheld] == ["changed"]


def test_a_server_that_could_not_be_reached_keeps_what_was_known_of_it(tmp_path: Path) -> None:
    record = with_failure(with_offers(ServerRecord("x"), [Offer("weigh")]), ClawError("it was down"), at=5.0)
    records = ServerRecords(tmp_path / "state")
    records.write("things", record)

    assert records.read("things", "x") == record
    assert record.visible == (Offer("weigh"),)
    assert (tmp_path / "state" / "things.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"identity": "x"}', '{"identity": "x", "offers": [{}], "odd": 1}']
)
def test_a_note_that_cannot_be_read_is_no_note(text: str, tmp_path: Path) -> None:
    (tmp_path / "things.json").write_text(text)
    assert ServerRecords(tmp_path).read("things", "x") == ServerRecord("x")


@given(failures=st.integers(0, 1000))
def test_pauses_grow_and_end_at_the_longest(failures: int) -> None:
    assert pause_seconds(failures, 60) <= pause_seconds(failures + 1, 60) <= 60


@given(server=names, tool=names)
def test_a_tools_name_is_one_that_every_model_service_takes(server: str, tool: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", full_name(server, tool))


def test_long_names_that_differ_only_at_their_end_stay_apart() -> None:
    long = "x" * 80
    assert full_name("s", long + "1") != full_name("s", long + "2")


def test_names_of_another_script_or_with_another_sign_stay_apart() -> None:
    offers = [Offer(name) for name in ("工具", "搜索", "a.b", "a b", "a.b")]
    named = known_names({"s": offers})

    assert [offer.name for _, offer in named.values()] == ["工具", "搜索", "a.b", "a b"]
    assert list(named)[2] == "s__a_b" and all(re.fullmatch(r"s__[A-Za-z0-9_-]+", name) for name in named)


def test_a_servers_own_tool_has_the_first_right_to_a_name() -> None:
    own = SimpleNamespace(
        name="resource_read", description="Mine.", title=None, input_schema={}, annotations=None
    )
    found = all_offers([own], resources=True, prompts=False)

    assert [offer.name for offer in found] == ["resource_read", "resource_list"]
    assert found[0].description == "Mine."
    assert list(known_names({"s": [*found, *RESOURCES]})) == ["s__resource_read", "s__resource_list"]


def test_what_a_call_answers_is_reported_as_text_and_pictures() -> None:
    part = SimpleNamespace
    answer = part(
        content=[
            part(type="text", text="hello"),
            part(type="image", data="UE5H", mime_type="image/png"),
            part(type="audio", data="", mime_type="audio/wav"),
            part(type="resource", resource=part(uri="a://b", text="inside", mime_type=None)),
            part(type="resource", resource=part(uri="a://b", blob="AA==", mime_type="application/zip")),
            part(type="resource_link", uri="a://c", name="c", description=None),
        ],
        structured_content=None,
        is_error=False,
    )
    result = [getattr(block, "text", "[image]") for block in result_of(answer).blocks]
    assert result == [
        "hello",
        "[image]",
        "[audio: audio/wav]",
        "inside",
        "[a://b: application/zip]",
        "a://c: c",
    ]
    bare = part(content=[], structured_content={"kg": 5}, is_error=False)
    assert [getattr(block, "text", "") for block in result_of(bare).blocks] == ['{"kg": 5}']


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        ({}, "either a command"),
        ({"command": "x", "url": "http://localhost"}, "either a command"),
        ({"url": "ftp://localhost"}, "http://"),
        ({"command": "x", "args": "y"}, "args"),
        ({"command": "x", "odd": 1}, "odd"),
    ],
)
def test_a_wrong_server_is_reported_with_its_key_as_written(server: dict[str, Any], problem: str) -> None:
    config = plugin_config({"mcpServers": {"things": server}}, "mcp")
    with pytest.raises(Exception, match=problem) as why:
        config.plugin(McpSettings)
    assert "mcpServers.things" in str(why.value)
    assert "plugins.entries" not in str(why.value)


def test_the_shared_spelling_of_other_clients_is_read() -> None:
    tree = {
        "type": "stdio",
        "command": "uvx",
        "args": ["x"],
        "env": {"A": "b"},
        "disabled": True,
        "timeout": 5,
    }
    settings = plugin_config({"mcpServers": {"things": tree}}, "mcp").plugin(McpSettings)

    assert settings.mcp_servers["things"].timeout_seconds == 5
    assert settings.servers == {}


def test_names_that_would_blur_server_and_tool_are_refused() -> None:
    with pytest.raises(Exception, match="no name for a server"):
        plugin_config({"mcpServers": {"a__b": {"command": "x"}}}, "mcp").plugin(McpSettings)


def test_every_secret_of_a_server_is_masked_whatever_its_name(tmp_path: Path) -> None:
    environ = {"GH_PAT": "gh-value-of-no-known-shape", "PG_URL": "postgres://ann@db/of-the-house"}
    env = {
        "GH_PAT": "${GH_PAT}",
        "DATABASE_URL": {"env": "PG_URL"},
        "NOTION": "n0t10n-plain-text",
        "LOG_LEVEL": "debug",
    }
    servers = {
        "things": {"command": "things", "env": env},
        "far": {"url": "https://far.example/mcp", "headers": {"X-Who": "ann-of-the-house"}},
        "later": {"command": "later", "env": {"ABSENT": "${ABSENT}"}},
    }
    config = plugin_config({"mcpServers": servers}, "mcp", environ=environ)
    redact = Redactor()
    config.learn_secrets = redact.add_values

    config.plugin(McpSettings)

    said = f"debug: {' '.join(environ.values())} n0t10n-plain-text ann-of-the-house"
    assert redact(said) == "debug: *** *** *** ***"
