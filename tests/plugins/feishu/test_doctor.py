"""``claw doctor feishu``: what the platform says of the app; nothing is sent to anybody."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from claw import Finding
from claw_feishu.fake import FakeAnswer, FakeFeishu
from claw_feishu.fake.service import HEARING
from plugins.feishu.places import channel
from third_party import Machine

LISTED = {
    "code": 99991672,
    "msg": "Access denied. One of the following scopes is required: [im:message, im:resource].",
}


async def found(feishu: FakeFeishu, **settings: Any) -> list[Finding]:
    async with channel(feishu, **settings) as one:
        return list(await one.diagnose())


@pytest.mark.parametrize("mode", ["websocket", "webhook"])
async def test_an_app_with_all_its_rights_has_nothing_wrong_and_nothing_is_sent(mode: str) -> None:
    async with FakeFeishu() as feishu:
        assert await found(feishu, mode=mode) == []
        assert feishu.messages == {} and feishu.reactions == {}
        assert len(feishu.cards) == 1, "one card was made, in no chat"
        assert len(feishu.calls("/callback/ws/endpoint")) == (mode == "websocket")
        assert feishu.connections == 0


@pytest.mark.parametrize(
    ("scope", "purpose"),
    [
        ("cardkit:card:write", "answers can grow on cards"),
        ("im:message:send_as_bot", "answers can be sent"),
        ("im:resource", "files can be fetched"),
        ("im:message.reactions:write_only", "a reaction can show"),
        ("im:chat:readonly", "names of chats"),
        ("contact:user.base:readonly", "names of people"),
    ],
)
async def test_a_missing_scope_is_named_with_what_it_is_for_and_where_to_add_it(
    scope: str, purpose: str
) -> None:
    async with FakeFeishu() as feishu:
        feishu.missing_scopes.add(scope)
        [one] = await found(feishu)
        assert (one.kind, one.grave) == ("scope", True)
        assert scope in one.problem and purpose in one.problem
        assert f"{feishu.url}/app/{feishu.app_id}/auth?q={scope}&" in one.fix and "publish" in one.fix


GROUPS: dict[str, Any] = {"groups": {"oc_team": {}}}


@pytest.mark.parametrize(
    ("scope", "settings", "purpose", "grave"),
    [
        ("im:message.p2p_msg:readonly", {}, "direct messages are received", True),
        ("im:message.group_msg", GROUPS, "earlier group messages", False),
        ("im:message.group_msg", {"groups": {"oc_1": {"requireMention": False}}}, "without a mention", True),
    ],
)
async def test_what_would_never_be_received_is_named(
    scope: str, settings: dict[str, Any], purpose: str, grave: bool
) -> None:
    async with FakeFeishu() as feishu:
        assert await found(feishu, **settings) == []
        feishu.missing_scopes.add(scope)
        [one] = await found(feishu, **settings)
        assert (one.kind, one.grave) == ("scope", grave)
        assert purpose in one.problem and scope in one.fix


async def test_groups_are_received_with_either_scope() -> None:
    both = {"im:message.group_at_msg:readonly", "im:message.group_msg"}
    async with FakeFeishu() as feishu:
        feishu.missing_scopes |= both
        [mentions, before] = await found(feishu, groupPolicy="open")
        assert "mention the bot" in mentions.problem and mentions.grave and not before.grave
        feishu.missing_scopes -= {"im:message.group_msg"}
        assert await found(feishu, groupPolicy="open") == []


@pytest.mark.parametrize(
    "settings",
    [{"dmPolicy": "disabled"}, {"dmPolicy": "disabled", **GROUPS, "groupPolicy": "disabled"},
     {"dmPolicy": "disabled", "groups": {"oc_1": {"enabled": False}}}],
)  # fmt: skip
async def test_a_group_that_is_not_read_needs_no_scope(settings: dict[str, Any]) -> None:
    async with FakeFeishu() as feishu:
        feishu.missing_scopes |= set(HEARING)
        assert await found(feishu, **settings) == []


async def test_who_wants_no_history_of_groups_needs_no_scope_for_it() -> None:
    async with FakeFeishu() as feishu:
        feishu.missing_scopes.add("im:message.group_msg")
        assert await found(feishu, **GROUPS, groupHistory=0) == []


@pytest.mark.parametrize(
    "answer",
    [FakeAnswer(400, {"code": 210508, "msg": "no"}), FakeAnswer(body={"code": 0, "data": {}}),
     FakeAnswer(body={"code": 0, "data": {"scopes": []}}), FakeAnswer(body={"code": 0, "data": {"scopes": [{}]}})],
)  # fmt: skip
async def test_a_platform_that_does_not_say_what_was_granted_is_no_finding(answer: FakeAnswer) -> None:
    async with FakeFeishu() as feishu:
        feishu.fail("/application/v6/scopes", answer)
        assert await found(feishu, **GROUPS) == []


async def test_every_missing_scope_is_named_once() -> None:
    async with FakeFeishu() as feishu:
        feishu.missing_scopes |= {"cardkit:card:write", "im:resource", "im:chat:readonly"}
        assert len(await found(feishu)) == 3


async def test_of_several_scopes_that_would_do_all_are_named() -> None:
    async with FakeFeishu() as feishu:
        feishu.fail("/resources/", FakeAnswer(400, LISTED))
        [one] = await found(feishu)
        assert "im:message, im:resource" in one.problem and "q=im:message,im:resource&" in one.fix


async def test_what_the_settings_do_not_want_needs_no_scope() -> None:
    async with FakeFeishu() as feishu:
        feishu.missing_scopes |= {
            "cardkit:card:write", "im:message.reactions:write_only", "im:chat:readonly", "contact:user.base:readonly",
        }  # fmt: skip
        plain = {"renderMode": "text", "streaming": False, "typingReaction": "", "resolveNames": False}
        assert await found(feishu, **plain) == []


async def test_wrong_credentials_are_the_only_finding() -> None:
    async with FakeFeishu() as feishu:
        [one] = await found(feishu, appSecret="wrong")
        assert one.kind == "credentials" and "appSecret" in one.fix
        assert "wrong" not in one.problem.split()


async def test_an_app_without_a_bot_is_reported_with_where_to_add_it() -> None:
    async with FakeFeishu() as feishu:
        feishu.fail("/bot/v3/info", FakeAnswer(body={"code": 0, "msg": "ok", "bot": {}}))
        [one] = await found(feishu)
        assert "bot" in one.problem and "developer console" in one.fix


async def test_a_platform_that_cannot_be_reached_ends_the_questions() -> None:
    async with FakeFeishu() as feishu:
        url = feishu.url
    [one] = await found(feishu, domain=url)
    assert one.kind == "unreachable"


async def test_a_refused_long_connection_is_a_finding() -> None:
    async with FakeFeishu() as feishu:
        feishu.fail(
            "/callback/ws/endpoint", FakeAnswer(body={"code": 1000040350, "msg": "exceed conn limit"})
        )
        [one] = await found(feishu)
        assert one.kind == "connection" and "another gateway" in one.problem


# From the command line


def a_machine(folder: Path, feishu: FakeFeishu, **more: Any) -> Machine:
    machine = Machine(folder)
    machine.configured(json.dumps({"channels": {"feishu": {**feishu.config, **more}}}), "config.json")
    return machine


async def asked(machine: Machine, *words: str) -> tuple[int, list[dict[str, Any]]]:
    said = await asyncio.to_thread(machine.claw, "doctor", *words, "--json")
    return said.code, json.loads(said.out)["findings"] if said.out else [{"problem": said.err}]


async def test_claw_doctor_feishu_ends_with_1_when_a_scope_is_missing(tmp_path: Path) -> None:
    async with FakeFeishu() as feishu:
        machine = a_machine(tmp_path, feishu)
        assert await asked(machine, "feishu") == (0, [])
        fine = await asyncio.to_thread(machine.claw, "doctor", "feishu")
        fact = "channels.feishu: bot claw, websocket, no groups allowed"
        assert (fine.code, fine.out.splitlines()) == (0, [fact, "no problems found"])

        feishu.missing_scopes.add("cardkit:card:write")
        code, [one] = await asked(machine, "feishu")
        assert (code, one["about"], one["kind"]) == (1, "channels.feishu", "scope")
        said = await asyncio.to_thread(machine.claw, "doctor", "feishu")
        assert said.code == 1 and "cardkit:card:write" in said.out and "/auth?q=" in said.out
        assert feishu.app_secret not in said.out + said.err


async def test_each_account_is_asked_and_one_can_be_named(tmp_path: Path) -> None:
    async with FakeFeishu() as feishu:
        second = {"appId": "cli_second", "appSecret": "x"}
        machine = a_machine(tmp_path, feishu, accounts={"second": second})
        code, [one] = await asked(machine, "feishu")
        assert (code, one["about"], one["kind"]) == (1, "channels.feishu.accounts.second", "credentials")
        assert await asked(machine, "feishu/default") == (0, [])


async def test_a_webhook_without_an_encrypt_key_is_found(tmp_path: Path) -> None:
    async with FakeFeishu() as feishu:
        machine = a_machine(tmp_path, feishu, mode="webhook", encryptKey="")
        code, found = await asked(machine, "feishu")
        [one] = [one for one in found if "channels.feishu.encryptKey" in one["problem"]]
        assert (code, one["about"]) == (1, "channels.feishu") and one["mend"]


async def test_a_gateway_that_is_looked_at_without_online_calls_nobody(tmp_path: Path) -> None:
    async with FakeFeishu() as feishu:
        machine = a_machine(tmp_path, feishu)
        await asyncio.to_thread(machine.claw, "doctor")
        assert feishu.log == []
        await asyncio.to_thread(machine.claw, "doctor", "--online")
        assert feishu.calls("/bot/v3/info")


async def test_a_channel_that_nobody_configured_is_a_mistake_that_names_the_nearest(tmp_path: Path) -> None:
    async with FakeFeishu() as feishu:
        said = await asyncio.to_thread(a_machine(tmp_path, feishu).claw, "doctor", "feisu")
        assert said.code == 2 and "did you mean feishu?" in said.line
