"""Fixtures of every test of the channel: the service, and a gateway that records its messages."""

from collections.abc import AsyncIterator

import pytest
from claw_discord.fake import FakeDiscord
from plugins.discord.living import RecordingInbox


@pytest.fixture
async def service() -> AsyncIterator[FakeDiscord]:
    async with FakeDiscord() as running:
        yield running


@pytest.fixture
def harness() -> RecordingInbox:
    return RecordingInbox()
