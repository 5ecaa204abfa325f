"""Who may talk, to which agent, in which session."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from claw.config import Config, judge
from claw.config.source import Source
from claw.errors import UsageError
from claw.message import Address, Inbound, Sender
from claw.route import admit, build_key, parse_key
from hypothesis import given, strategies as st

DIRECT = Inbound(Address("telegram", "7"), "hi", Sender("7", name="owner"))
GROUP = replace(DIRECT, address=Address("telegram", "-100"), chat_type="group", mentions_us=True)
TERMINAL = Inbound(Address("terminal", "here"), "hi", Sender("local"))
WORDS = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=8)


def house(**tree: Any) -> Config:
    return judge(Source(Path("config.json"), "", tree), Path("home"), {})


class TestKeys:
    @given(WORDS, WORDS, st.sampled_from(["direct", "group", "channel"]), WORDS)
    def test_a_key_that_was_built_reads_back(self, agent: str, channel: str, kind: str, peer: str) -> None:
        key = build_key(agent, channel, kind, peer)
        found = parse_key(key)
        assert found.shape == "agent"
        assert found.resolved_agent_id == agent.lower()
        assert key == key.lower()

    @given(st.text())
    def test_any_text_is_some_key(self, text: str) -> None:
        assert parse_key(text).shape in ("agent", "malformed_agent", "legacy_or_alias", "missing")

    @given(WORDS, WORDS, WORDS, st.sampled_from(["per-channel-peer", "per-account-channel-peer", "per-peer"]))
    def test_two_people_never_share_a_session_unasked(
        self, channel: str, one: str, other: str, scope: Any
    ) -> None:
        keys = {build_key("a", channel, "direct", peer, scope=scope) for peer in (one, other)}
        assert len(keys) == len({one.lower(), other.lower()})

    def test_a_thread_has_a_session_of_its_own_and_knows_its_parent(self) -> None:
        key = build_key("a", "discord", "channel", "7", thread="T1")
        assert key == "agent:a:discord:channel:7:thread:t1"
        assert parse_key(key).thread_parent == "agent:a:discord:channel:7"


class TestAdmission:
    def test_the_person_at_the_terminal_is_the_owner_and_talks_to_the_default_agent(self) -> None:
        route = admit(TERMINAL, house(agents={"list": [{"id": "coder"}]}))
        assert route is not None
        assert (route.agent_id, route.owner, route.session_key) == ("coder", True, "agent:coder:main")

    def test_the_person_at_the_terminal_may_choose_agent_and_session(self) -> None:
        config = house(agents={"list": [{"id": "a"}, {"id": "b"}]})
        chosen = admit(TERMINAL, config, "b", "Work")
        named = admit(TERMINAL, config, None, "agent:b:telegram:direct:7")
        assert chosen is not None and chosen.session_key == "agent:b:work"
        assert named is not None and named.session_key == "agent:b:telegram:direct:7"
        with pytest.raises(UsageError, match="no agent is called c"):
            admit(TERMINAL, config, "c")

    @pytest.mark.parametrize(
        "section",
        [
            None,
            {},
            {"allowFrom": []},
            {"allowFrom": ["8", "telegram:8", "owner", "@owner", "*"]},
            {"dmPolicy": "open", "allowFrom": ["8"]},
            {"dmPolicy": "disabled", "allowFrom": ["7"]},
            {"enabled": False, "allowFrom": ["7"]},
            {"groups": {"7": {}}},
        ],
    )
    def test_a_stranger_is_not_heard(self, section: dict[str, Any] | None) -> None:
        assert admit(DIRECT, house(channels={"telegram": section} if section is not None else {})) is None

    @pytest.mark.parametrize(
        "section",
        [{"allowFrom": ["7"]}, {"allowFrom": ["telegram:7"]}, {"dmPolicy": "open", "allowFrom": ["*"]}],
    )
    def test_a_listed_person_is_heard_and_is_no_owner(self, section: dict[str, Any]) -> None:
        route = admit(DIRECT, house(channels={"telegram": section}))
        assert route is not None
        assert (route.owner, route.session_key) == (False, "agent:default:telegram:direct:7")

    @pytest.mark.parametrize(("owner", "is_one"), [("telegram:7", True), ("discord:7", False), ("7", False)])
    def test_an_owner_is_known_by_channel_and_id(self, owner: str, is_one: bool) -> None:
        route = admit(DIRECT, house(owners=[owner], channels={"telegram": {}}))
        assert (route is not None and route.owner) == is_one

    def test_a_phone_number_may_name_an_owner(self) -> None:
        config = house(
            agents={"defaults": {"identity": {"ownerNumbers": ["+123"]}}}, channels={"telegram": {}}
        )
        route = admit(replace(DIRECT, sender=Sender("7", e164="+123")), config)
        assert route is not None and route.owner

    @pytest.mark.parametrize(
        ("groups", "mentioned", "heard"),
        [
            ({}, True, False),
            ({"-200": {}}, True, False),
            ({"-100": {}}, True, True),
            ({"-100": {}}, False, False),
            ({"-100": {"requireMention": False}}, False, True),
            ({"*": {}}, True, True),
            ({"-100": {"enabled": False}, "*": {}}, True, False),
            ({"-100": {"allowFrom": []}}, True, False),
            ({"-100": {"allowFrom": ["8"]}}, True, False),
            ({"-100": {"allowFrom": ["7"]}}, True, True),
        ],
    )
    def test_a_group_is_heard_when_it_is_listed_and_speaks_to_us(
        self, groups: dict[str, Any], mentioned: bool, heard: bool
    ) -> None:
        config = house(channels={"telegram": {"groups": groups}})
        route = admit(replace(GROUP, mentions_us=mentioned), config)
        assert (route is not None) == heard
        if route:
            assert route.session_key == "agent:default:telegram:group:-100"

    def test_a_list_of_direct_chats_opens_no_group(self) -> None:
        assert admit(GROUP, house(channels={"telegram": {"allowFrom": ["7", "-100"]}})) is None

    @pytest.mark.parametrize(
        ("match", "agent"),
        [
            ({}, "b"),
            ({"channel": "telegram"}, "b"),
            ({"channel": "discord"}, "a"),
            ({"peer": {"kind": "direct", "id": "7"}}, "b"),
            ({"peer": {"kind": "group", "id": "7"}}, "a"),
            ({"accountId": "work"}, "a"),
        ],
    )
    def test_a_binding_chooses_the_agent(self, match: dict[str, Any], agent: str) -> None:
        config = house(
            agents={"list": [{"id": "a"}, {"id": "b"}]},
            bindings=[{"agentId": "b", "match": match}],
            channels={"telegram": {"allowFrom": ["7"]}},
        )
        route = admit(DIRECT, config)
        assert route is not None and route.agent_id == agent

    def test_one_person_on_two_channels_shares_a_session_when_linked(self) -> None:
        config = house(
            session={"dmScope": "per-peer", "identityLinks": {"alice": ["telegram:7", "discord:9"]}},
            channels={"telegram": {"allowFrom": ["7"]}, "discord": {"allowFrom": ["9"]}},
        )
        other = replace(DIRECT, address=Address("discord", "9"), sender=Sender("9"))
        routes = [admit(DIRECT, config), admit(other, config)]
        assert {route.session_key for route in routes if route} == {"agent:default:direct:alice"}
