"""A channel that cannot receive, or cannot start, is reported at once in the log, and in its state."""

import asyncio
import json
import socket

import claw_http
import claw_telegram
import pytest
from claw.host.isolation import Timeouts
from claw.testing import FakeProvider, Harness
from claw_gateway.commands.channel_table import channel_table
from claw_gateway.supervisor import ChannelServer
from claw_telegram.fake import FakeTelegram
from integration.channels.platforms import until
from integration.gateways import home  # noqa: F401
from third_party import Machine

SECRET = "a-secret-of-the-webhook_1"


@pytest.mark.xdist_group("telegram")
@pytest.mark.parametrize("listens", [False, True])
async def test_webhook_mode_without_the_listener_has_failed_and_names_what_is_missing(tmp_path, listens):
    async with FakeTelegram() as service:
        section = {
            "botToken": service.token, "apiBase": service.url, "mode": "webhook", "webhookSecret": SECRET,
        }  # fmt: skip
        more = {"http": {}} if listens else {}
        config = {"channels": {"telegram": section, **more}, "gateway": {"port": 0}}
        plugins = {"telegram": claw_telegram, "http": claw_http}
        async with Harness(FakeProvider(), home=tmp_path, config=config, plugins=plugins) as harness:
            serving, stop = ChannelServer(harness.app), asyncio.Event()
            running = asyncio.ensure_future(serving.run(stop))

            def state():
                return next(one.state for one in serving.report().channels if one.name == "telegram")

            first = state()  # what the line "ready" of the log names
            await until(lambda: state().state in ("up", "failed"))
            reported = state()
            stop.set()
            await running
    assert reported.state == ("up" if listens else "failed")
    assert ("channels.http" in reported.detail) is not listens
    assert (first.state == "failed" and "channels.http" in first.detail) is not listens


@pytest.mark.parametrize("name", ["telegram", "feishu"])
def test_the_check_of_one_channel_says_that_nothing_accepts_its_webhooks(tmp_path, name):
    machine = Machine(tmp_path)
    own = {"telegram": {"botToken": "1:x", "apiBase": "http://127.0.0.1:9", "webhookSecret": SECRET},
           "feishu": {"appId": "cli_1", "appSecret": "s", "domain": "http://127.0.0.1:9", "encryptKey": "k"}}  # fmt: skip
    for more, count in ({}, 1), ({"http": {}}, 0):
        channels = {name: {"mode": "webhook", **own[name]}, **more}
        machine.configured(json.dumps({"channels": channels}), "config.json")
        said = machine.claw("doctor", name)
        assert said.out.count("no message can arrive: webhooks need channels.http") == count, said.out


@pytest.mark.parametrize("name", ["telegram", "feishu"])
def test_the_check_of_the_file_says_so_too_for_each_account(tmp_path, name):
    machine = Machine(tmp_path)
    accounts = {"work": {"mode": "webhook"}, "home": {}, "off": {"mode": "webhook", "enabled": False}}
    machine.configured(json.dumps({"channels": {name: {"accounts": accounts}}}), "config.json")
    keys = [one["key"] for one in json.loads(machine.claw("config", "validate", "--json").out)["warnings"]]
    assert keys.count(f"channels.{name}.accounts.work.mode") == 1
    assert not any("home" in key or "off" in key for key in keys)


def test_a_wrong_name_of_a_channel_is_answered_with_the_right_one_and_no_package(tmp_path):
    machine = Machine(tmp_path)
    machine.configured(json.dumps({"channels": {"telegrem": {"botToken": "1:x"}}}), "config.json")
    for words in (("channels", "list"), ("channels", "status"), ("gateway", "status")):
        said = machine.claw(*words)
        assert "claw-telegrem" not in said.out + said.err
        if words[1] == "list":
            assert "Did you mean telegram?" in said.out


async def test_a_port_that_is_taken_is_in_the_log_at_the_first_try(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = {"channels": {"http": {}}, "gateway": {"port": taken.getsockname()[1]}}
        async with Harness(
            FakeProvider(), home=tmp_path, config=config, plugins={"http": claw_http}
        ) as harness:
            harness.app.timeouts = Timeouts(pause_seconds=30.0)
            stop = asyncio.Event()
            serving = ChannelServer(harness.app)
            running = asyncio.ensure_future(serving.run(stop))
            [line] = await until(lambda: [line for line in harness.log_lines if "in use" in line])
            assert serving.report().channels[0].state.state == "failed"
            stop.set()
            await running
            assert [one for one in harness.log_lines if "in use" in one] == [line], "once"
    assert "gateway.port" in line and "Retrying" in line


def test_what_a_channel_that_is_up_has_to_say_is_in_the_table():
    row = {"channel": "http", "account": "default", "state": "up", "lastFrameAt": None, "reconnects": 0}
    said = [
        {**row, "detail": detail, "lastError": error} for detail, error in (("http://x:1", ""), ("", "late"))
    ]
    assert [line[-1] for line in channel_table(said, 0.0)[1]] == ["http://x:1", "earlier: late"]


@pytest.mark.xdist_group("telegram")
async def test_a_token_that_telegram_refuses_is_said_by_every_command_and_heals_without_one(home):  # noqa: F811
    async def claw(*words):
        return await asyncio.to_thread(home.claw, *words)

    async def row():
        return json.loads((await claw("channels", "status", "--json")).out)["channels"][0]

    async def comes(state):
        async with asyncio.timeout(60):
            while (await row())["state"] != state:
                fake.says("ends a poll that is held")

    async with FakeTelegram() as fake:
        telegram = {"botToken": fake.token, "apiBase": fake.url, "dmPolicy": "open", "allowFrom": ["*"]}
        home.configured(json.dumps({"channels": {"telegram": telegram}}), "config.json")
        try:
            assert (await claw("gateway", "start")).code == 0
            await comes("up")
            token, fake.token = fake.token, "1:another"
            await comes("failed")
            channels, gateway = await claw("channels", "status"), await claw("gateway", "status")
            doctor, plugins = await claw("doctor", "--json"), await claw("plugins", "list", "--json")
            assert (channels.code, doctor.code, gateway.code) == (1, 1, 0), "the gateway itself runs"
            for said in (channels.out, gateway.out, doctor.out):
                assert "channels.telegram.botToken" in " ".join(said.split()), said
            states = {one["id"]: one["state"] for one in json.loads(plugins.out)["plugins"]}
            assert states["telegram"] == "loaded"
            fake.token = token
            await comes("up")
            assert (await claw("channels", "status")).code == 0
            assert sum("no bot with this token" in line["text"] for line in home.log()) == 1, "said once"
        finally:
            await claw("gateway", "stop")
