"""``claw doctor telegram``: token, privacy mode and webhook, with nothing changed."""

from typing import Any

import pytest
from claw import Finding
from claw_telegram.fake import FakeRefusal, FakeTelegram
from plugins.telegram.bench import TOKEN, channel_at

HOOK = {"mode": "webhook", "webhookSecret": "s3cret-s3cret-s3cret"}


async def found(service: FakeTelegram, **section: Any) -> list[Finding]:
    async with channel_at(service.url, **section) as channel:
        return list(await channel.diagnose())


async def test_a_bot_that_is_set_up_well_has_nothing_wrong_and_nothing_is_changed() -> None:
    async with FakeTelegram(TOKEN) as service:
        assert await found(service, groups={"-100": {}}) == []
        assert [call.method for call in service.log] == ["getMe", "getWebhookInfo"]


async def test_the_facts_name_the_bot_its_mode_and_its_groups() -> None:
    async with FakeTelegram(TOKEN) as service:
        async with channel_at(service.url, groups={"-100": {}, "-200": {"enabled": False}}) as channel:
            assert await channel.facts() == [f"bot @{service.bot['username']}, polling, 1 group allowed"]
        async with channel_at(service.url, groupPolicy="disabled", **HOOK) as channel:
            assert await channel.facts() == [f"bot @{service.bot['username']}, webhook, no groups allowed"]


async def test_a_token_that_nobody_has_is_named_by_its_key() -> None:
    async with FakeTelegram("1:another") as service:
        [one] = await found(service)
        assert (one.about, one.kind) == ("channels.telegram.botToken", "credentials")
        assert TOKEN not in one.problem + one.fix


async def test_privacy_mode_is_reported_when_a_group_is_to_be_received_whole() -> None:
    async with FakeTelegram(TOKEN) as service:
        [one] = await found(service, groups={"-100": {"requireMention": False}})
        assert one.kind == "privacy" and "-100" in one.problem and "/setprivacy" in one.fix


async def test_a_webhook_that_is_beside_polling_is_reported_and_counts_for_nothing() -> None:
    async with FakeTelegram(TOKEN) as service:
        service.webhook["url"] = "https://elsewhere.example/hook"
        [one] = await found(service)
        assert (one.kind, one.grave) == ("webhook", False) and "elsewhere.example" in one.problem


async def test_webhook_mode_without_a_webhook_receives_nothing() -> None:
    async with FakeTelegram(TOKEN) as service:
        [one] = await found(service, **HOOK)
        assert one.grave and "channels.telegram.webhookUrl" in one.fix
        [other] = await found(service, webhookUrl="https://here.example/hook", **HOOK)
        assert not other.grave, "the next start replaces it"
        service.webhook["url"] = "https://here.example/hook"
        assert await found(service, webhookUrl="https://here.example/hook", **HOOK) == []


async def test_a_webhook_that_answers_badly_is_reported_with_what_telegram_says_of_it() -> None:
    async with FakeTelegram(TOKEN) as service:
        service.webhook = {"url": "https://here.example/hook", "last_error_message": "Connection refused"}
        [one] = await found(service, webhookUrl="https://here.example/hook", **HOOK)
        assert one.grave and "Connection refused" in one.problem and "/webhook/telegram/default" in one.fix


async def test_a_token_of_no_shape_is_no_token() -> None:
    async with FakeTelegram(TOKEN) as service:
        [one] = await found(service, botToken="no-token")
        assert (one.about, one.kind) == ("channels.telegram.botToken", "credentials")


@pytest.mark.parametrize("status", [500, 429])
async def test_a_service_that_does_not_answer_well_is_reported(status: int) -> None:
    async with FakeTelegram(TOKEN) as service:
        service.fail("getMe", FakeRefusal(status, "not now"))
        [one] = await found(service)
        assert one.grave and "not now" in one.problem
    [one] = await found(service)
    assert one.kind == "unreachable"
