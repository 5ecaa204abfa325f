"""The first channel of a home, by commands alone: each one says what is still missing, and what to type next."""

import json

import pytest
from integration.gateways import home  # noqa: F401
from third_party import Machine

MISSING = {"telegram": "botToken", "discord": "token", "feishu": "appId"}


@pytest.mark.parametrize(("name", "key"), MISSING.items())
def test_from_nothing_each_message_leads_to_the_next_one(tmp_path, name, key):
    machine = Machine(tmp_path)

    begun = machine.claw("channels", "list").out
    assert "claw config set channels.NAME.enabled true" in begun and name in begun

    on = machine.claw("config", "set", f"channels.{name}.enabled", "true")
    assert (on.code, f"claw doctor {name}" in on.err, "claw gateway start" in on.err) == (0, True, True)

    asked = machine.claw("doctor", name)
    assert asked.code == 1
    assert f"claw config set channels.{name}.{key} " in asked.out
    assert asked.out.startswith(f"problem: channels.{name}.{key}: "), "the key is said once"


def test_the_doctor_says_that_the_api_has_no_token_yet_and_is_content_once_it_has(tmp_path):
    machine = Machine(tmp_path)
    machine.claw("config", "set", "channels.http.enabled", "true")
    asked = machine.claw("doctor", "http")
    assert (asked.code, "claw config set gateway.auth.token TOKEN" in asked.out) == (1, True)
    machine.claw("config", "set", "gateway.auth.token", "0123456789abcdef")
    well = machine.claw("doctor", "http")
    assert (well.code, well.out.splitlines()[0]) == (
        0,
        "channels.http: listens at 127.0.0.1, port 18789, while the gateway runs",
    )
    [fact] = json.loads(machine.claw("doctor", "http", "--json").out)["facts"]
    assert fact["about"] == "channels.http"


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("channels.telegram.botTokn", "x", "is not a known key. Did you mean botToken?"),
        ("channels.telegram.accounts.work.botTokn", "x", "is not a known key. Did you mean botToken?"),
        ("channels.telegram.pollSeconds", "many", "must be of the type integer"),
        ("channels.telegram.poll_seconds", "99", "99 is out of range: the limit is 50"),
        (
            "channels.telegran.botToken",
            "x",
            "channels.telegran: no installed plugin provides the channel telegran",
        ),
        ("channels.smoke.signal", "x", "install the package that provides smoke"),
        ("channels.discord.mediaMaxMb", "0", "0 is out of range: it must be at least 1"),
        ("channels.feishu.mode", "polling", "Write one of: websocket, webhook"),
    ],
)
def test_a_key_that_its_plugin_would_not_take_is_reported_when_it_is_set(tmp_path, key, value, problem):
    done = Machine(tmp_path).claw("config", "set", key, value)

    assert problem in done.err
    assert "claw doctor" not in done.err, "one thing at a time"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("channels.telegram.botToken", "{file: SECRET}"),
        ("channels.telegram.poll_seconds", "10"),
        ("channels.telegram.groups", "{'-100': {tools: {also_allow: [read]}}}"),
        ("channels.feishu.appSecret", "{file: SECRET}"),
        ("channels.telegram.queue", "{debounce: 2s}"),
    ],
)
def test_what_the_plugin_takes_is_not_complained_about(tmp_path, key, value):
    secret = tmp_path / "secret"
    secret.write_text(f"1:{'a' * 35}")
    secret.chmod(0o600)
    done = Machine(tmp_path).claw("config", "set", key, value.replace("SECRET", str(secret)))

    assert done.code == 0
    assert "warning" not in done.err and "problem" not in done.err


def test_a_gateway_says_which_channel_it_cannot_serve_and_so_does_the_status(home):  # noqa: F811
    home.configured("channels: {telegram: {enabled: true}}\n")

    started = home.claw("gateway", "start")
    status = home.claw("channels", "status", "--json")

    fix = "claw config set channels.telegram.botToken TOKEN"
    assert started.code == 1
    [line] = [line for line in started.err.splitlines() if "the bot has no token" in line]
    assert line.startswith("channel telegram failed: channels.telegram.botToken: ") and fix in line
    (row,) = json.loads(status.out)["channels"]
    assert (status.code, row["channel"], row["state"]) == (1, "telegram", "failed")
    assert fix in row["detail"]
    assert home.said("no channel of") and not home.said("no channel is configured")


def test_a_gateway_without_any_channel_says_how_to_begin(home):  # noqa: F811
    assert "claw config set channels.NAME.enabled true" in home.claw("gateway", "start").err


def test_a_gateway_says_how_people_are_let_in_until_somebody_is_listed(home):  # noqa: F811
    home.with_channel()
    home.write(dmPolicy="pairing", allowFrom=[])
    assert (
        "post: people who write there receive a code; claw pairing approve CODE"
        in home.claw("gateway", "start").err
    )
    home.claw("gateway", "stop")
    home.write(dmPolicy="pairing", allowFrom=["ann"])
    assert home.claw("gateway", "start").err == ""
