"""Admission of senders, and routing to an agent and a session."""

from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any, ClassVar

import pytest
from claw.agent.routing import (
    Route,
    SessionRules,
    admit,
    build_key,
    parse_key,
    route_message as route,
)
from claw.config.loader import Config, validate_source
from claw.config.source import ConfigSource
from claw.contracts.errors import ConfigError, UsageError
from claw.contracts.messages import Address, Inbound, Sender
from claw.security.admission import Admission, decide_admission
from config_files import keys_of_plugins
from hypothesis import given, settings, strategies as st

DIRECT = Inbound(Address("telegram", "7"), "hi", Sender("7", name="owner"))
GROUP = replace(DIRECT, address=Address("telegram", "-100"), chat_type="group", mentions_us=True)
TERMINAL = Inbound(Address("terminal", "here"), "hi", Sender("local"))
WORDS = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=8)


def config_of(**tree: Any) -> Config:
    read = ConfigSource(Path("config.json"), "", tree)
    return validate_source(read, Path("home"), {}, keys_of_plugins("home", read))


class TestKeys:
    @given(WORDS, WORDS, st.sampled_from(["direct", "group", "channel"]), WORDS)
    def test_a_key_that_was_built_reads_back(self, agent: str, channel: str, kind: str, peer: str) -> None:
        key = build_key(agent.lower(), channel, kind, peer)
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
        keys = {build_key("a", channel, "direct", peer, rules=SessionRules(scope)) for peer in (one, other)}
        assert len(keys) == len({one.lower(), other.lower()})

    def test_a_thread_has_a_session_of_its_own_and_knows_its_parent(self) -> None:
        key = build_key("a", "discord", "channel", "7", thread="T1")
        assert key == "agent:a:discord:channel:7:thread:t1"
        assert parse_key(key).thread_parent == "agent:a:discord:channel:7"


class TestAdmission:
    def test_the_person_at_the_terminal_is_the_owner_and_talks_to_the_default_agent(self) -> None:
        route = admit(TERMINAL, config_of(agents={"list": [{"id": "coder"}]}))
        assert route is not None
        assert (route.agent_id, route.owner, route.session_key) == ("coder", True, "agent:coder:main")

    def test_the_person_at_the_terminal_may_choose_agent_and_session(self) -> None:
        config = config_of(agents={"list": [{"id": "a"}, {"id": "b"}]})
        chosen = admit(TERMINAL, config, "b", "Work")
        named = admit(TERMINAL, config, None, "agent:b:telegram:direct:7")
        assert chosen is not None and chosen.session_key == "agent:b:work"
        assert named is not None and named.session_key == "agent:b:telegram:direct:7"
        with pytest.raises(UsageError, match="there is no agent c"):
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
    def test_an_unknown_sender_is_not_admitted(self, section: dict[str, Any] | None) -> None:
        assert admit(DIRECT, config_of(channels={"telegram": section} if section is not None else {})) is None

    @pytest.mark.parametrize(
        "section",
        [{"allowFrom": ["7"]}, {"allowFrom": ["telegram:7"]}, {"dmPolicy": "open", "allowFrom": ["*"]}],
    )
    def test_a_listed_person_is_admitted_and_is_no_owner(self, section: dict[str, Any]) -> None:
        route = admit(DIRECT, config_of(channels={"telegram": section}))
        assert route is not None
        assert (route.owner, route.session_key) == (False, "agent:default:telegram:direct:7")

    @pytest.mark.parametrize(("owner", "is_one"), [("telegram:7", True), ("discord:7", False), ("7", False)])
    def test_an_owner_is_known_by_channel_and_id(self, owner: str, is_one: bool) -> None:
        route = admit(DIRECT, config_of(owners=[owner], channels={"telegram": {}}))
        assert (route is not None and route.owner) == is_one

    def test_a_phone_number_may_name_an_owner(self) -> None:
        config = config_of(
            agents={"defaults": {"identity": {"ownerNumbers": ["+123"]}}}, channels={"telegram": {}}
        )
        route = admit(replace(DIRECT, sender=Sender("7", e164="+123")), config)
        assert route is not None and route.owner

    @pytest.mark.parametrize(
        ("groups", "mentioned", "expected"),
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
    def test_a_group_is_admitted_when_it_is_listed_and_speaks_to_us(
        self, groups: dict[str, Any], mentioned: bool, expected: bool
    ) -> None:
        config = config_of(channels={"telegram": {"groups": groups}})
        route = admit(replace(GROUP, mentions_us=mentioned), config)
        assert (route is not None) == expected
        if route:
            assert route.session_key == "agent:default:telegram:group:-100"

    def test_a_list_of_direct_chats_opens_no_group(self) -> None:
        assert admit(GROUP, config_of(channels={"telegram": {"allowFrom": ["7", "-100"]}})) is None


class TestBindings:
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
        config = config_of(
            agents={"list": [{"id": "a"}, {"id": "b"}]},
            bindings=[{"agentId": "b", "match": match}],
            channels={"telegram": {"allowFrom": ["7"]}},
        )
        route = admit(DIRECT, config)
        assert route is not None and route.agent_id == agent

    @pytest.mark.parametrize("turned", [False, True])
    @pytest.mark.parametrize(
        ("least", "most"),
        list(
            pairwise(
                [
                    {},
                    {"channel": "telegram"},
                    {"account": "work"},
                    {"channel": "telegram", "account": "work"},
                    {"group": "-100"},
                    {"group": "-100", "channel": "telegram", "account": "work"},
                    {"peer": {"kind": "group", "id": "-100"}},
                    {"thread": "9"},
                    {"thread": "9", "group": "-100"},
                ]
            )
        ),
    )
    def test_the_one_that_says_most_wins_wherever_it_is(
        self, least: dict[str, Any], most: dict[str, Any], turned: bool
    ) -> None:
        both = [{"agent": "a", "match": least}, {"agent": "b", "match": most}]
        config = config_of(
            agents={"list": [{"id": "a"}, {"id": "b"}]}, bindings=both[::-1] if turned else both
        )
        there = replace(GROUP, address=Address("telegram", "-100", "work", "9"))
        assert route(there, config).agent_id == "b"
        assert route(there, config).binding == f"bindings[{0 if turned else 1}]"

    def test_of_two_that_say_as_much_the_first_in_the_file_wins(self) -> None:
        bindings = [{"agent": name, "match": {"channel": "telegram"}} for name in ("b", "a")]
        config = config_of(agents={"list": [{"id": "a"}, {"id": "b"}]}, bindings=bindings)
        assert route(DIRECT, config).agent_id == "b"

    @pytest.mark.parametrize("account", ["default", "work"])
    def test_a_star_is_any_account_and_says_no_more_than_the_channel(self, account: str) -> None:
        bindings = [
            {"agent": "b", "match": {"channel": "telegram", "account": "*"}},
            {"agent": "a", "match": {"channel": "telegram", "account": "work"}},
        ]
        config = config_of(agents={"list": [{"id": "a"}, {"id": "b"}]}, bindings=bindings)
        inbound = replace(DIRECT, address=replace(DIRECT.address, account=account))
        assert route(inbound, config).binding == ("bindings[1]" if account == "work" else "bindings[0]")

    @pytest.mark.parametrize(
        "match",
        [{"group": "7"}, {"thread": "9"}, {"group": "-100", "channel": "discord"}, {"account": "work"}],
    )
    def test_one_that_names_something_else_does_not_fit(self, match: dict[str, Any]) -> None:
        config = config_of(
            agents={"list": [{"id": "a"}, {"id": "b"}]}, bindings=[{"agent": "b", "match": match}]
        )
        assert route(DIRECT, config) == Route("a", "agent:a:telegram:direct:7", False, "direct")

    @pytest.mark.parametrize(
        ("asked", "agent"), [("c", "c"), (" C ", "c"), ("nobody", "b"), ("", "b"), ("*", "b")]
    )
    def test_a_caller_who_names_an_agent_gets_it_when_there_is_one(self, asked: str, agent: str) -> None:
        config = config_of(
            agents={"list": [{"id": "a"}, {"id": "b"}, {"id": "c"}]}, bindings=[{"agent": "b", "match": {}}]
        )
        assert route(replace(DIRECT, agent=asked), config).agent_id == agent


class TestSessions:
    def test_one_person_on_two_channels_shares_a_session_when_linked(self) -> None:
        config = config_of(
            session={"dmScope": "per-peer", "identityLinks": {"alice": ["telegram:7", "discord:9"]}},
            channels={"telegram": {"allowFrom": ["7"]}, "discord": {"allowFrom": ["9"]}},
        )
        other = replace(DIRECT, address=Address("discord", "9"), sender=Sender("9"))
        routes = [admit(DIRECT, config), admit(other, config)]
        assert {route.session_key for route in routes if route} == {"agent:default:direct:alice"}

    @given(
        st.text(min_size=1, max_size=30), st.text(min_size=1, max_size=30), st.sampled_from(["", "a:b", "9"])
    )
    def test_no_two_senders_reach_one_session_whatever_their_ids_look_like(
        self, one: str, other: str, thread: str
    ) -> None:
        config = config_of()
        first, second = (
            route(replace(DIRECT, sender=Sender(id), address=Address("telegram", id, thread=thread)), config)
            for id in (one, other)
        )
        same = one.strip().lower() == other.strip().lower()
        assert (first.session_key == second.session_key) == same

    @given(
        st.one_of(
            st.text(max_size=60),
            st.builds(
                "agent:{}:{}".format,
                st.sampled_from(["default", "a", "b", ""]),
                st.sampled_from(
                    ["main", "telegram:direct:8", "cron:x", "subagent:1", "telegram:direct:7:thread:x"]
                ),
            ),
        )
    )
    @settings(max_examples=500)
    def test_a_session_that_an_outsider_names_lies_below_their_own(self, forged: str) -> None:
        config = config_of(agents={"list": [{"id": "a"}, {"id": "b"}]})
        own = route(DIRECT, config).session_key
        chosen = route(DIRECT, config, session=forged).session_key
        assert chosen == own or chosen.startswith(f"{own}:thread:")
        assert ":" not in chosen.removeprefix(f"{own}:thread:").removeprefix(own)


LISTS: dict[str, dict[str, Any]] = {
    "allowFrom": {"channels": {"telegram": {"allowFrom": ["7"], "groupAllowFrom": []}}},
    "groupAllowFrom": {"channels": {"telegram": {"groups": {"-100": {}}, "groupAllowFrom": ["7"]}}},
    "groups": {"channels": {"telegram": {"groups": {"-100": {}}}}},
    "owners": {"channels": {"telegram": {}}, "owners": ["telegram:7"]},
    "approvers": {"channels": {"telegram": {}}, "approvals": {"approvers": ["telegram:7"]}},
    "paired": {"channels": {"telegram": {"groupAllowFrom": []}}},
    "none": {"channels": {"telegram": {}}},
}
KINDS = {
    "direct": DIRECT,
    "direct button": replace(DIRECT, kind="button"),
    "direct reaction": replace(DIRECT, kind="reaction"),
    "group": GROUP,
    "group thread": replace(GROUP, address=replace(GROUP.address, thread="5")),
    "group button": replace(GROUP, kind="button", mentions_us=False),
    "channel": replace(GROUP, chat_type="channel"),
    "another group": replace(GROUP, address=Address("telegram", "-200")),
    "another account": replace(DIRECT, address=Address("telegram", "7", "work")),
    "another channel": replace(DIRECT, address=Address("discord", "7")),
    "unknown kind of chat": replace(DIRECT, chat_type="secret"),
}
IN_DIRECT = {"direct", "direct button", "direct reaction"}
IN_GROUP = {"group", "group thread", "group button", "channel"}
OPENS = {
    "allowFrom": IN_DIRECT,
    "groupAllowFrom": IN_GROUP,
    "groups": IN_GROUP,
    "owners": IN_DIRECT,
    "paired": IN_DIRECT,
    "approvers": set[str](),
    "none": set[str](),
}


CLUB = config_of(
    owners=["matrix:7Ann", "+49301"],
    channels={
        place: {
            "allowFrom": ["7Ann", "matrix:7Ann", "+49301"],
            "groups": {"-100": {"allowFrom": ["7Ann"]}},
        }
        for place in ("matrix", "signal")  # where any text may be an id: the lists alone decide
    },
)


class TestListsDoNotMix:
    @pytest.mark.parametrize(("name", "kind"), list(product(LISTS, KINDS)))
    def test_a_list_admits_to_what_it_is_for_and_to_nothing_else(self, name: str, kind: str) -> None:
        config = config_of(**LISTS[name])
        verdict = decide_admission(KINDS[kind], config, {"7"} if name == "paired" else frozenset())
        assert (verdict.kind == "admitted") == (kind in OPENS[name]), verdict
        assert verdict.owner == (name == "owners" and kind != "another channel")

    def test_who_was_paired_is_still_an_unknown_sender_where_only_the_list_counts(self) -> None:
        config = config_of(channels={"telegram": {"dmPolicy": "allowlist", "allowFrom": ["8"]}})
        assert decide_admission(DIRECT, config, {"7"}).kind == "refused"

    @given(st.data())
    @settings(max_examples=2000, deadline=None)
    def test_nobody_who_merely_resembles_a_listed_person_is_admitted(self, data: st.DataObject) -> None:
        near = data.draw(
            st.sampled_from(["7ann", "7ANN", "7An", "7Ann ", " 7Ann", "7Annn", "07Ann", "7\u0410nn", "matrix:7Ann",
                             "@7Ann", "7Ann\n", "7Ann\0", "*", "", " ", "\u200b7Ann", "7Ａnn", "49301", "49301", "301",
                             "null", "None", "0", "user:7Ann", "mx:7Ann", "id:7Ann", "/7Ann", "7Ann/", "7Ann,8"])
            | st.text(max_size=6).filter(lambda id: id not in ("7Ann", "+49301"))
        )  # fmt: skip
        name = data.draw(st.sampled_from(["7Ann", "matrix:7Ann", "+49301", "owner", "*", ""]))
        sender = Sender(
            near, name=name, username=name, e164=data.draw(st.sampled_from(["", "+4930", "49301", "+"]))
        )
        inbound = replace(data.draw(st.sampled_from([DIRECT, GROUP])), sender=sender)
        place = data.draw(st.sampled_from(["matrix", "signal"]))
        inbound = replace(inbound, address=replace(inbound.address, channel=place))
        verdict = decide_admission(inbound, CLUB)
        assert verdict.kind in ("refused", "unknown sender")
        assert not verdict.owner and not route(inbound, CLUB).owner

    @pytest.mark.parametrize(
        ("place", "sender", "kind", "owner"),
        [
            ("matrix", Sender("7Ann"), "admitted", True),
            ("signal", Sender("7Ann"), "admitted", False),
            ("signal", Sender("8", e164="+49 30-1"), "admitted", True),
            ("signal", Sender("+49301"), "admitted", False),
            ("signal", Sender("8"), "unknown sender", False),
        ],
        ids=["id", "the id of another channel's owner", "number", "a number as id", "nobody"],
    )
    def test_who_is_listed_is_admitted_and_an_owner_only_by_the_list_of_owners(
        self, place: str, sender: Sender, kind: str, owner: bool
    ) -> None:
        inbound = replace(DIRECT, address=Address(place, "7"), sender=sender)
        verdict = decide_admission(inbound, CLUB)
        assert (verdict.kind, verdict.owner, route(inbound, CLUB).owner) == (kind, owner, owner)


class TestVerdicts:
    @pytest.mark.parametrize(
        ("inbound", "section", "kind", "key"),
        [
            (DIRECT, {"allowFrom": ["8", "7"]}, "admitted", "channels.telegram.allowFrom[1]"),
            (DIRECT, {"dmPolicy": "open", "allowFrom": ["*"]}, "admitted", "channels.telegram.allowFrom[0]"),
            (DIRECT, {}, "unknown sender", "channels.telegram.dmPolicy"),
            (replace(DIRECT, kind="reaction"), {}, "refused", "channels.telegram.allowFrom"),
            (DIRECT, {"dmPolicy": "allowlist"}, "refused", "channels.telegram.allowFrom"),
            (DIRECT, {"dmPolicy": "disabled"}, "refused", "channels.telegram.dmPolicy"),
            (DIRECT, {"enabled": False}, "refused", "channels.telegram.enabled"),
            (replace(DIRECT, sender=Sender("7", is_bot=True)), {"allowFrom": ["7"]}, "refused",
             "channels.telegram.allowBots"),
            (replace(DIRECT, sender=Sender("7", is_bot=True)), {"allowFrom": ["7"], "allowBots": True}, "admitted",
             "channels.telegram.allowFrom[0]"),
            (GROUP, {"groups": {"-100": {}}}, "admitted", "channels.telegram.groups.-100"),
            (GROUP, {"groups": [{"chatId": 5}, {"chatId": -100}]}, "admitted", "channels.telegram.groups[1]"),
            (GROUP, {"groups": {"*": {}}, "groupAllowFrom": ["7"]}, "admitted", "channels.telegram.groupAllowFrom[0]"),
            (GROUP, {"groups": {"*": {}}, "groupAllowFrom": []}, "refused", "channels.telegram.groupAllowFrom"),
            (GROUP, {"groups": {"-100": {"allowFrom": ["8"]}}}, "refused", "channels.telegram.groups.-100.allowFrom"),
            (GROUP, {"groups": {"-100": {"enabled": False}}}, "refused", "channels.telegram.groups.-100.enabled"),
            (GROUP, {"groupPolicy": "open"}, "admitted", "channels.telegram.groupPolicy"),
            (GROUP, {"groupPolicy": "open", "groupAllowFrom": ["8"]}, "refused", "channels.telegram.groupAllowFrom"),
            (GROUP, {"groupPolicy": "disabled", "groups": {"-100": {}}}, "refused", "channels.telegram.groupPolicy"),
            (GROUP, {}, "refused", "channels.telegram.groups"),
            (replace(GROUP, mentions_us=False), {"groups": {"-100": {}}}, "unaddressed",
             "channels.telegram.groups.-100.requireMention"),
            (replace(GROUP, mentions_us=False), {"groups": {"-100": {"allowFrom": ["8"]}}}, "refused",
             "channels.telegram.groups.-100.allowFrom"),
            (replace(GROUP, mentions_us=False), {"groupPolicy": "open"}, "unaddressed", "channels.telegram.groupPolicy"),
        ],
    )  # fmt: skip
    def test_a_verdict_names_the_key_that_decided(
        self, inbound: Inbound, section: dict[str, Any], kind: str, key: str
    ) -> None:
        verdict = decide_admission(inbound, config_of(channels={"telegram": section}))
        assert (verdict.kind, verdict.key) == (kind, key)
        assert verdict.why

    def test_a_key_is_named_as_it_is_written(self) -> None:
        verdict = decide_admission(DIRECT, config_of(telegram={"allowFrom": ["7"]}, owners=["x:1"]))
        assert verdict == Admission("admitted", "allowFrom lists the sender", "telegram.allowFrom[0]", False)

    def test_an_owner_is_admitted_by_the_entry_that_names_them(self) -> None:
        config = config_of(owners=["x:1", "Telegram:7"], channels={"telegram": {}})
        assert decide_admission(DIRECT, config) == Admission(
            "admitted", "the sender is an owner", "owners[1]", True
        )


class TestAccounts:
    SECTION: ClassVar[dict[str, Any]] = {
        "allowFrom": ["7"],
        "groups": {"-100": {}},
        "accounts": {
            "work": {"allowFrom": ["9"], "groups": {}},
            "open": {"dmPolicy": "open", "allowFrom": ["*"]},
            "off": {"enabled": False},
            "same": {},
        },
    }

    @pytest.mark.parametrize(
        ("account", "sender", "kind", "key"),
        [
            ("default", "7", "admitted", "channels.telegram.allowFrom[0]"),
            ("default", "9", "unknown sender", "channels.telegram.dmPolicy"),
            ("work", "9", "admitted", "channels.telegram.accounts.work.allowFrom[0]"),
            ("work", "7", "unknown sender", "channels.telegram.dmPolicy"),
            ("open", "8", "admitted", "channels.telegram.accounts.open.allowFrom[0]"),
            ("off", "7", "refused", "channels.telegram.accounts.off.enabled"),
            ("same", "7", "admitted", "channels.telegram.allowFrom[0]"),
            ("unheard-of", "7", "refused", "channels.telegram.accounts"),
        ],
    )
    def test_an_account_has_its_own_keys_and_the_channels_for_the_rest(
        self, account: str, sender: str, kind: str, key: str
    ) -> None:
        inbound = replace(DIRECT, address=Address("telegram", sender, account), sender=Sender(sender))
        verdict = decide_admission(inbound, config_of(channels={"telegram": self.SECTION}))
        assert (verdict.kind, verdict.key) == (kind, key)

    @pytest.mark.parametrize(
        ("account", "kind"), [("default", "admitted"), ("work", "refused"), ("same", "admitted")]
    )
    def test_an_account_that_lists_groups_has_only_those(self, account: str, kind: str) -> None:
        inbound = replace(GROUP, address=Address("telegram", "-100", account))
        assert decide_admission(inbound, config_of(channels={"telegram": self.SECTION})).kind == kind

    def test_a_channel_that_is_off_has_no_account_that_is_on(self) -> None:
        section = {"enabled": False, "accounts": {"work": {"enabled": True, "allowFrom": ["7"]}}}
        inbound = replace(DIRECT, address=Address("telegram", "7", "work"))
        verdict = decide_admission(inbound, config_of(channels={"telegram": section}))
        assert (verdict.kind, verdict.key) == ("refused", "channels.telegram.enabled")

    def test_a_wrong_key_of_an_account_refuses_the_file(self) -> None:
        with pytest.raises(ConfigError, match=r"channels\.telegram\.accounts\.work\.dmPolicy.*pairing"):
            config_of(channels={"telegram": {"accounts": {"work": {"dmPolicy": "everyone"}}}})


def test_an_id_that_holds_an_escaped_colon_is_no_thread_of_another_id() -> None:
    ids = ("x:thread:1", "x%3athread:1", "x%253athread:1", "x")
    assert len({build_key("a", "chat", "direct", id) for id in ids}) == len(ids)
