"""What every test of the channel has: the service, and a gateway that writes down what it is handed."""

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
