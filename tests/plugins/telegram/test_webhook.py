"""Webhook mode and settings: who may start, who may call, and what an answer means."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import claw_telegram
import pytest
from claw import ConfigError, HttpClients
from claw.testing import plugin_config
from claw_channel_sdk import UnavailableChannel, WebAnswer, WebRequest, WebRoute
from claw_telegram.fake import FakeTelegram
from claw_telegram.fake_http import answer as answered, read_request
from claw_telegram.settings import accounts
from claw_telegram.webhook import Receiver
from plugins.telegram.bench import QUICK, TOKEN, RecordingInbox, running, soon

SECRET = "Example_secret-token_0123456789"
HOOKED = {"mode": "webhook", "webhookSecret": SECRET}


def post(route: WebRoute, secret: str | None = SECRET, body: bytes = b"") -> WebRequest:
    headers = {} if secret is None else {"x-telegram-bot-api-secret-token": secret}
    return WebRequest("POST", route.path, headers=headers, body=body)


class Listener:
    """The gateway's listener, in small: routes on one loopback port."""

    def __init__(self) -> None:
        self.routes: dict[str, WebRoute] = {}
        self.url = ""

    async def __aenter__(self) -> "Listener":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await read_request(reader)
        if asked and (route := self.routes.get(asked.path)):
            request = WebRequest(
                asked.verb, asked.path, headers=asked.headers, body=json.dumps(asked.params).encode()
            )
            try:
                said = route.admit(request) or await route.answer(request)
            except OSError:  # what claw-http says when a route raises
                said = WebAnswer(500)
            writer.write(answered(said.status, said.body))
        writer.close()


@asynccontextmanager
async def hooked(
    fake: FakeTelegram, *answers: bool, inbox: RecordingInbox | None = None
) -> AsyncIterator[RecordingInbox]:
    """A channel in webhook mode that the fake calls."""
    network, inbox = HttpClients(), inbox or RecordingInbox(*answers)
    async with Listener() as gateway:
        address = f"{gateway.url}/webhook/telegram/default"
        section = {"botToken": TOKEN, "apiBase": fake.url, "webhookUrl": address, **HOOKED}
        config = plugin_config({"channels": {"telegram": section}}, "telegram", network=network)
        gateway.routes = {route.path: route for route in claw_telegram.register_routes(config)}
        (channel,) = claw_telegram.register_channels(config)
        channel.pace = QUICK  # type: ignore[attr-defined]
        async with running(channel, inbox):  # type: ignore[arg-type]
            await soon(lambda: channel.state.state == "up")  # type: ignore[attr-defined]
            yield inbox
    await network.aclose()


async def test_telegram_gets_the_webhook_address_and_what_it_posts_is_received() -> None:
    async with FakeTelegram() as fake, hooked(fake) as inbox:
        (call,) = fake.calls("setWebhook")
        assert call["secret_token"] == SECRET and "message_reaction" in call["allowed_updates"]
        fake.says("one")
        fake.says("two")
        await soon(lambda: not fake.pending)
        assert inbox.texts == ["one", "two"]


async def test_what_is_not_taken_is_posted_again() -> None:
    async with FakeTelegram() as fake, hooked(fake, False) as inbox:
        fake.says("one")
        await soon(lambda: not fake.pending)
        assert inbox.texts == ["one", "one"]


async def test_an_album_is_one_message_and_acknowledged_after_it_was_taken() -> None:
    async with FakeTelegram() as fake, hooked(fake, False) as inbox:
        for number in (1, 2, 3):
            fake.says(photo=[{"file_id": f"p{number}"}], media_group_id="g")
        await soon(lambda: not fake.pending)
        assert [[file.key for file in one.attachments] for one in inbox.received] == [["p1", "p2", "p3"]] * 2


async def test_the_parts_of_an_album_that_come_one_after_the_other_are_waited_for() -> None:
    async with FakeTelegram() as fake:
        network, inbox = HttpClients(), RecordingInbox()
        section = {"botToken": TOKEN, "apiBase": fake.url, **HOOKED}
        config = plugin_config({"channels": {"telegram": section}}, "telegram", network=network)
        (channel,), (route,) = claw_telegram.register_channels(config), claw_telegram.register_routes(config)
        channel.pace = replace(QUICK, album=0.6)  # type: ignore[attr-defined]
        async with running(channel, inbox):  # type: ignore[arg-type]
            await soon(lambda: channel.state.state == "up")  # type: ignore[attr-defined]
            calls = []
            for id in (2, 1):
                photo = fake.message(photo=[{"file_id": f"p{id}"}], media_group_id="g")
                update = json.dumps({"update_id": id, "message": photo}).encode()
                calls.append(asyncio.ensure_future(route.answer(post(route, body=update))))
                await asyncio.sleep(0.03)
            assert [answer.status for answer in await asyncio.gather(*calls)] == [200, 200]
        await network.aclose()
    assert [[file.key for file in one.attachments] for one in inbox.received] == [["p1", "p2"]]


async def test_a_route_whose_channel_stopped_takes_nothing_more() -> None:
    async with FakeTelegram() as fake:
        network, inbox = HttpClients(), RecordingInbox()
        section = {"botToken": TOKEN, "apiBase": fake.url, **HOOKED}
        config = plugin_config({"channels": {"telegram": section}}, "telegram", network=network)
        (channel,), (route,) = claw_telegram.register_channels(config), claw_telegram.register_routes(config)
        update = json.dumps({"update_id": 1, "message": fake.message("too late")}).encode()
        async with running(channel, inbox):  # type: ignore[arg-type]
            await soon(lambda: channel.state.state == "up")  # type: ignore[attr-defined]
            assert fake.calls("setWebhook") == [], "whoever set it, set it"
        assert (await route.answer(post(route, body=update))).status == 503 and inbox.received == []
        await network.aclose()


async def test_a_gateway_that_cannot_write_it_down_is_asked_again() -> None:
    class FailingInbox(RecordingInbox):
        async def submit(self, inbound):  # type: ignore[no-untyped-def]
            if not self.received:
                self.received.append(inbound)
                raise OSError("disk full")
            return await super().submit(inbound)

    async with FakeTelegram() as fake, hooked(fake, inbox=FailingInbox()) as inbox:
        fake.says("one")
        await soon(lambda: not fake.pending)
        assert inbox.texts == ["one", "one"]


def routes(**section: object) -> list[WebRoute]:
    config = plugin_config({"channels": {"telegram": {"botToken": TOKEN, **section}}}, "telegram")
    return list(claw_telegram.register_routes(config))


async def test_a_route_whose_channel_does_not_run_says_503_to_telegram_and_401_to_others() -> None:
    (route,) = routes(**HOOKED)
    assert route.path == "/webhook/telegram/default"
    for secret, status in ((SECRET, 503), ("wrong", 401), (SECRET[:-1], 401), ("", 401), (None, 401)):
        refused = route.admit(post(route, secret))
        assert refused and refused.status == status
    assert (await route.answer(post(route, "wrong", b"{}"))).status == 401


def test_polling_has_no_route_and_a_path_of_ones_own_is_taken() -> None:
    assert routes() == []
    assert [route.path for route in routes(**HOOKED, webhookPath="/in")] == ["/in"]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"{}", b'{"update_id":"x"}', b'{"update_id":true}', b"[" * 100_000]
)
async def test_a_body_that_is_no_update_is_refused(body: bytes) -> None:
    async with FakeTelegram() as fake:
        section = {"botToken": TOKEN, "apiBase": fake.url, **HOOKED}
        network = HttpClients()
        config = plugin_config({"channels": {"telegram": section}}, "telegram", network=network)
        (channel,), (route,) = claw_telegram.register_channels(config), claw_telegram.register_routes(config)
        async with running(channel, RecordingInbox()):  # type: ignore[arg-type]
            await soon(lambda: channel.state.state == "up")  # type: ignore[attr-defined]
            assert (await route.answer(post(route, body=body))).status == 400
        await network.aclose()


# settings


def registered(section: dict[str, object], environ: dict[str, str] | None = None) -> list[str]:
    config = plugin_config({"channels": {"telegram": section}}, "telegram", environ=environ or {})
    channels = claw_telegram.register_channels(config)
    return [one.account for one in channels if not isinstance(one, UnavailableChannel)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("secret", ["", "  ", "no blanks here", "ä", "x" * 257])
def test_webhook_mode_without_a_good_secret_does_not_start(secret: str) -> None:
    with pytest.raises(ConfigError) as refused:
        registered({"botToken": TOKEN, "mode": "webhook", "webhookSecret": secret})
    assert refused.value.key == "channels.telegram.webhookSecret"
    with pytest.raises(ConfigError):
        registered({"botToken": TOKEN, "mode": "webhook"})


@pytest.mark.parametrize("section", [{}, {"botToken": ""}, {"botToken": "  "}, {"accounts": {"work": {}}}])
def test_without_a_token_it_does_not_start(section: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"botToken.*BotFather"):
        registered(section)


def test_a_variable_that_is_not_set_is_named_with_its_key() -> None:
    with pytest.raises(ConfigError, match=r"channels\.telegram\.botToken.*MISSING"):
        registered({"botToken": "${MISSING}"})


def test_the_token_may_come_from_the_environment() -> None:
    assert registered({"enabled": True}, {"TELEGRAM_BOT_TOKEN": TOKEN}) == ["default"]


def test_the_token_of_the_environment_is_not_used_with_several_bots() -> None:
    section = {"accounts": {"home": {"botToken": "1:home"}, "work": {"linkPreview": False}}}
    assert registered(section, {"TELEGRAM_BOT_TOKEN": TOKEN}) == ["home"]


def test_each_account_is_a_channel_with_its_own_keys_over_the_shared_ones() -> None:
    section = {
        "linkPreview": False,
        "accounts": {
            "home": {"botToken": "1:home"},
            "work": {"botToken": "2:work", "mode": "webhook", "webhookSecret": SECRET, "linkPreview": True},
            "old": {"botToken": "3:old", "enabled": False},
        },
    }
    config = plugin_config({"channels": {"telegram": section}}, "telegram")
    found, _ = accounts(config)
    assert [(one.name, one.token, one.settings.link_preview) for one in found] == [
        ("home", "1:home", False),
        ("work", "2:work", True),
    ]
    assert [route.path for route in claw_telegram.register_routes(config)] == ["/webhook/telegram/work"]
    with pytest.raises(ConfigError, match=r"channels\.telegram\.accounts\.work\.webhookSecret"):
        registered({"accounts": {"work": {"botToken": "2:work", "mode": "webhook"}}})


def test_a_second_account_at_one_path_is_refused_as_nobody_would_call_it() -> None:
    work = {"botToken": "2:two", "webhookSecret": SECRET}
    config = plugin_config(
        {
            "channels": {
                "telegram": {**HOOKED, "botToken": "1:one", "webhookPath": "/in", "accounts": {"work": work}}
            }
        },
        "telegram",
    )
    *channels, unavailable = claw_telegram.register_channels(config)
    assert [one.account for one in channels] == ["default"]
    refused = unavailable.error
    assert refused.key == "channels.telegram.accounts.work.webhookPath" and "/in" in refused.problem
    asks = {
        **HOOKED,
        "botToken": "1:one",
        "webhookPath": "/in",
        "accounts": {"b": {**work, "mode": "polling"}},
    }
    assert registered(asks) == ["default", "b"]


def test_a_second_account_with_one_token_is_refused_and_both_keys_are_named() -> None:
    section = {"botToken": "1:one", "accounts": {"b": {"linkPreview": False}, "c": {"botToken": "2:two"}}}
    config = plugin_config({"channels": {"telegram": section}}, "telegram")
    *channels, unavailable = claw_telegram.register_channels(config)
    assert [one.account for one in channels] == ["default", "c"]
    refused = unavailable.error
    assert refused.key == "channels.telegram.accounts.b.botToken"
    assert "channels.telegram.botToken" in refused.problem


@pytest.mark.parametrize(
    "wrong", [{"botTokn": "x"}, {"mode": "push"}, {"pollSeconds": 90}, {"webhookPath": "in"}]
)
def test_a_wrong_key_is_named(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=f"channels.telegram.{next(iter(wrong))}"):
        registered({"botToken": TOKEN, **wrong})


@pytest.mark.parametrize("given", [None, "", SECRET])
def test_a_receiver_without_a_secret_lets_nobody_in(given: str | None) -> None:
    config = plugin_config({"channels": {"telegram": {"botToken": TOKEN, **HOOKED}}}, "telegram")
    [account], _ = accounts(config)
    route = Receiver(replace(account, secret="")).route
    refusal = route.admit(post(route, given))
    assert refusal is not None and refusal.status == 401
