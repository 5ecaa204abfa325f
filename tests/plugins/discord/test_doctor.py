"""``claw doctor discord``: token and intents, with no gateway connection made."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from claw import Finding, HttpClients
from claw_discord.channel import DiscordChannel
from claw_discord.fake import FakeDiscord, ForcedAnswer
from plugins.discord.living import _NETWORKS, channel_of


@pytest.fixture
async def discord() -> AsyncIterator[FakeDiscord]:
    async with FakeDiscord() as service:
        yield service


async def found(channel: DiscordChannel) -> list[Finding]:
    network: HttpClients = _NETWORKS.pop(channel)
    try:
        return list(await channel.diagnose())
    finally:
        await network.aclose()


def application(flags: int) -> ForcedAnswer:
    return ForcedAnswer(200, {"id": "42", "flags": flags})


async def test_a_bot_that_is_set_up_well_has_nothing_wrong_and_connects_nowhere(
    discord: FakeDiscord, tmp_path: Path
) -> None:
    assert await found(channel_of(discord, tmp_path)) == []
    assert [one.path for one in discord.log] == ["/users/@me", "/applications/@me"]


async def test_the_facts_name_the_bot_and_its_groups(discord: FakeDiscord, tmp_path: Path) -> None:
    channel = channel_of(discord, tmp_path, groupPolicy="open")
    try:
        [fact] = await channel.facts()
    finally:
        await _NETWORKS.pop(channel).aclose()
    assert fact.startswith("bot ") and fact.endswith(", websocket, all groups allowed")


async def test_a_token_that_nobody_has_is_reported(discord: FakeDiscord, tmp_path: Path) -> None:
    [one] = await found(channel_of(discord, tmp_path, token="nobody-has-this"))
    assert (one.about, one.kind) == ("channels.discord.token", "credentials")
    assert "developer portal" in one.fix
    assert "nobody-has-this" not in one.problem + one.fix


@pytest.mark.parametrize(
    ("flags", "keys", "kinds"),
    [
        (0, {}, ["intent"]),
        (1 << 18, {}, []),
        (1 << 19, {}, []),
        (1 << 13 | 1 << 15, {}, ["intent"]),
        (0, {"messageContent": False}, []),
    ],
)
async def test_the_intent_for_message_texts_is_looked_for_when_it_is_wanted(
    discord: FakeDiscord, tmp_path: Path, flags: int, keys: dict[str, Any], kinds: list[str]
) -> None:
    discord.fail("GET /applications/@me", application(flags))
    findings = await found(channel_of(discord, tmp_path, **keys))
    assert [one.kind for one in findings] == kinds
    assert all("applications/42/bot" in one.fix for one in findings)


async def test_a_service_that_cannot_be_reached_is_reported(discord: FakeDiscord, tmp_path: Path) -> None:
    discord.fail("GET /users/@me", ForcedAnswer(503, {}))
    [one] = await found(channel_of(discord, tmp_path))
    assert one.kind == "refused"
    discord.fail("GET /users/@me", ForcedAnswer(cut=True))
    [one] = await found(channel_of(discord, tmp_path))
    assert one.kind == "unreachable"
