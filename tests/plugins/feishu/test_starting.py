"""The accounts that start, and the reports on those that cannot."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import claw_feishu
import pytest
from claw import ConfigError
from claw.testing import plugin_config
from claw_channel_sdk import WebRequest
from claw_feishu.settings import FeishuSettings, check

GOOD: dict[str, Any] = {"appId": "cli_x", "appSecret": "s"}
HOOK: dict[str, Any] = {**GOOD, "mode": "webhook", "encryptKey": "k", "verificationToken": "v"}


def channels(
    section: dict[str, Any], environ: dict[str, str] | None = None, home: Path = Path("/a")
) -> list[Any]:
    config = plugin_config({"channels": {"feishu": section}}, "feishu", environ=environ, home=home)
    return list(claw_feishu.register_channels(config))


def routes(section: dict[str, Any]) -> list[Any]:
    config = plugin_config({"channels": {"feishu": section}}, "feishu", home=Path("/a"))
    list(claw_feishu.register_channels(config))
    return list(claw_feishu.register_routes(config))


def test_nothing_configured_is_no_channel() -> None:
    assert list(claw_feishu.register_channels(plugin_config({}, "feishu"))) == []
    assert channels({**GOOD, "enabled": False}) == []


def test_each_account_is_a_channel() -> None:
    section = {**GOOD, "domain": "lark", "accounts": {"sales": {"appId": "cli_y"}, "off": {"enabled": False}}}
    made = {one.account: one.settings for one in channels(section)}
    assert {name: one.app_id for name, one in made.items()} == {"default": "cli_x", "sales": "cli_y"}
    assert made["sales"].base_url == "https://open.larksuite.com"


@pytest.mark.parametrize(
    ("section", "key"),
    [
        ({"appSecret": "s"}, "channels.feishu.appId"),
        ({"appId": "cli_x"}, "channels.feishu.appSecret"),
        ({"appId": "cli_x", "appSecret": "  "}, "channels.feishu.appSecret"),
        ({"appId": "cli_x", "appSecret": "${NOT_SET}"}, "channels.feishu.appSecret"),
        ({**HOOK, "encryptKey": None}, "channels.feishu.encryptKey"),
        ({**HOOK, "encryptKey": ""}, "channels.feishu.encryptKey"),
        ({**HOOK, "encryptKey": " \t "}, "channels.feishu.encryptKey"),
        ({**HOOK, "encryptKey": {"env": "NOT_SET"}}, "channels.feishu.encryptKey"),
        ({**HOOK, "verificationToken": None}, "channels.feishu.verificationToken"),
        ({**HOOK, "verificationToken": "  "}, "channels.feishu.verificationToken"),
        ({"accounts": {"a": {"appId": "x"}}}, "channels.feishu.accounts.a.appSecret"),
        ({"accounts": {"a": {**GOOD, "mode": "webhook"}}}, "channels.feishu.accounts.a.encryptKey"),
        ({**GOOD, "mode": "polling"}, "channels.feishu.mode"),
        ({**GOOD, "appID": "x"}, "channels.feishu.appID"),
        ({**GOOD, "domain": "feishuu"}, "channels.feishu.domain"),
        ({**GOOD, "domain": "open.feishu.cn"}, "channels.feishu.domain"),
        ({**GOOD, "domain": ""}, "channels.feishu.domain"),
        ({"accounts": {"a": {**GOOD, "domain": "wss://x"}}}, "channels.feishu.accounts.a.domain"),
    ],
)
def test_an_account_without_its_secrets_does_not_start_and_the_key_is_named(
    section: dict[str, Any], key: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        channels(section)
    assert caught.value.key == key
    assert caught.value.fix


def test_the_credentials_may_come_from_the_environment() -> None:
    (one,) = channels({"appId": "cli_x", "appSecret": "${S}"}, {"S": "hidden"})
    assert one.tenant.secret == "hidden"
    assert "hidden" not in repr(one.settings)


def test_a_webhook_is_served_where_the_account_is() -> None:
    section = {
        **HOOK,
        "accounts": {
            "b": {"appId": "cli_b", "webhookPath": "/b"},
            "c": {"appId": "cli_c", "mode": "websocket"},
        },
    }
    assert [route.path for route in routes(section)] == ["/webhook/feishu/default", "/b"]
    assert [route.path for route in routes(HOOK)] == ["/webhook/feishu/default"]


def test_two_configurations_in_one_process_share_no_channel() -> None:
    old, new = (plugin_config({"channels": {"feishu": HOOK}}, "feishu", home=Path("/a")) for _ in range(2))
    (running,), (other,) = claw_feishu.register_channels(old), claw_feishu.register_channels(new)
    assert old.shared == {"default": running} and new.shared == {"default": other}
    del new, other
    assert len(list(claw_feishu.register_routes(old))) == 1


def test_a_second_account_of_one_app_is_refused_and_both_keys_are_named() -> None:
    section = {**GOOD, "accounts": {"b": {"typingReaction": ""}, "c": {"appId": "cli_c"}}}
    config = plugin_config({"channels": {"feishu": section}}, "feishu")
    *channels, unavailable = claw_feishu.register_channels(config)
    assert [one.account for one in channels] == ["default", "c"]
    refused = unavailable.error
    assert refused.key == "channels.feishu.accounts.b.appId" and "channels.feishu.appId" in refused.problem


async def test_before_it_runs_a_webhook_answers_that_it_is_not_ready() -> None:
    from claw_feishu.fake import FakeFeishu, events

    feishu = FakeFeishu(encrypt_key="k", verification_token="v")
    (one,) = channels(HOOK)
    (route,) = routes(HOOK)
    said = events.message("om_1", "oc_1", "ou_1", "text", {"text": "hi"}, at=1.0)
    headers, body = events.request(feishu.event("im.message.receive_v1", said), "k", at=one.now())
    head = {name.lower(): value for name, value in headers.items()}
    assert (await route.answer(WebRequest("POST", route.path, headers=head, body=body))).status == 503


def test_the_plugin_and_its_channel_import_no_library_of_the_network() -> None:
    code = (
        "import sys, claw_feishu, claw_feishu.channel, claw_feishu.webhook, claw_feishu.longconn\n"
        "print([name for name in ('httpx2', 'websockets', 'cryptography', 'lark_oapi') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_blank_account_id_is_missing() -> None:
    with pytest.raises(ConfigError, match="appId"):
        check("default", FeishuSettings(appId="  ", appSecret="s"))


def test_a_second_account_at_one_path_is_refused_as_nobody_would_call_it() -> None:
    hooked = {"mode": "webhook", "encryptKey": "k", "verificationToken": "t", "webhookPath": "/in"}
    accounts = {
        "b": {"appId": "cli_b", "appSecret": "b"},
        "c": {"appId": "cli_c", "appSecret": "c", "webhookPath": ""},
        "d": {"appId": "cli_d", "appSecret": "d", "mode": "websocket"},
    }
    section = {**hooked, "appId": "cli_a", "appSecret": "a", "accounts": accounts}
    config = plugin_config({"channels": {"feishu": section}}, "feishu")

    *channels, unavailable = claw_feishu.register_channels(config)
    assert [one.account for one in channels] == ["default", "c", "d"]
    refused = unavailable.error
    assert refused.key == "channels.feishu.accounts.b.webhookPath"
    assert "/in is also the path of channels.feishu" in refused.problem
