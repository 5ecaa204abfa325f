"""The chat commands as Discord's own: listed behind a slash, received as lines, and confirmed in time."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from claw_discord.channel import DiscordChannel
from claw_discord.commands import line_of, menu_of, registration
from claw_discord.fake import FakeDiscord, ForcedAnswer
from claw_discord.fake.objects import THREAD
from claw_discord.fake.rest import check_command
from plugins.discord.living import MENU, RecordingInbox, channel_of, here, listening, until

pytestmark = pytest.mark.xdist_group("discordpy")
COMMANDS = f"/applications/{FakeDiscord.ME}/commands"
OURS = menu_of(MENU)
FOREIGN = {"id": "1", "type": 1, "name": "weather", "description": "Another program's"}


@pytest.fixture
async def channel(
    service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
) -> AsyncIterator[DiscordChannel]:
    made = channel_of(service, tmp_path)
    async with listening(made, harness):
        await until(lambda: service.rest.registered)
        yield made


class TestTheMenu:
    def test_it_holds_every_chat_command_as_discord_takes_it(self) -> None:
        assert [one["name"] for one in OURS] == [name for name, _, _ in MENU]
        for one in OURS:
            check_command(one)

    def test_what_is_there_already_is_left(self) -> None:
        stored = [{"id": "5", "version": "9", "nsfw": False, **one} for one in OURS]
        assert registration(stored, OURS) is None and registration([FOREIGN, *stored], OURS) is None

    def test_commands_of_another_program_stay_and_ours_are_renewed(self) -> None:
        old: list[dict[str, Any]] = [{**one, "id": "5", "description": "as it was"} for one in OURS]
        message_command = {"id": "2", "type": 3, "name": "status", "description": ""}
        assert registration([FOREIGN, *old, message_command], OURS) == [FOREIGN, message_command, *OURS]
        assert registration(old[:-1], OURS) == registration([], OURS) == OURS

    @pytest.mark.parametrize("change", [{"options": []}, {"options": [{"type": 4, "name": "text"}]}])
    def test_a_command_with_other_options_is_another(self, change: dict[str, Any]) -> None:
        first = next(one for one in OURS if one.get("options"))
        assert registration([one | (change if one == first else {}) for one in OURS], OURS) == OURS

    @pytest.mark.parametrize(
        ("chosen", "line"),
        [
            ({"name": "status"}, "/status"),
            ({"name": "model", "options": [{"name": "text", "value": "openai/gpt"}]}, "/model openai/gpt"),
            ({"name": "new", "options": [{"name": "text", "value": " "}]}, "/new"),
            ({"name": "weather"}, ""),
            ({"name": "status", "type": 3, "target_id": "5"}, ""),
            ({}, ""),
        ],
    )
    def test_a_command_is_the_line_that_it_stands_for_and_one_of_another_program_is_none(
        self, chosen: dict[str, Any], line: str
    ) -> None:
        assert line_of(chosen, [name for name, _, _ in MENU]) == line

    async def test_it_is_registered_once_and_not_again_when_it_is_there(
        self, service: FakeDiscord, harness: RecordingInbox, channel: DiscordChannel, tmp_path: Path
    ) -> None:
        service.gateway.forget()
        await service.drop()
        await service.gateway.until(lambda: service.gateway.count(2) == 2)
        async with listening(channel_of(service, tmp_path), RecordingInbox()):
            await until(lambda: len(service.asked("GET", COMMANDS)) == 2)
            await asyncio.sleep(0.05)
        assert len(service.asked("PUT", COMMANDS)) == 1 and len(service.asked("GET", COMMANDS)) == 2

    async def test_it_may_be_left_out(
        self, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
    ) -> None:
        async with listening(channel_of(service, tmp_path, commands=False), harness):
            await service.says("hi")
            await harness.until(1)
        assert service.asked("GET", COMMANDS) == [] and service.rest.registered == []

    @pytest.mark.parametrize(
        "answer",
        [
            ForcedAnswer(403, {"code": 50001, "message": "Missing Access"}),
            ForcedAnswer(body="odd"),
            ForcedAnswer(503),
        ],
    )
    async def test_a_service_that_will_not_list_them_ends_nothing(
        self,
        service: FakeDiscord,
        harness: RecordingInbox,
        tmp_path: Path,
        answer: ForcedAnswer,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        service.fail(f"GET {COMMANDS}", answer)
        async with listening(channel_of(service, tmp_path), harness):
            await until(lambda: "could not be listed" in caplog.text)
            await service.says("hi")
            await harness.until(1)


class TestChoosing:
    async def test_a_command_is_received_as_its_line_and_shown_as_thought_about_to_that_person_alone(
        self, service: FakeDiscord, harness: RecordingInbox, channel: DiscordChannel
    ) -> None:
        id = await service.commands("model", "openai/gpt")
        [inbound] = await harness.until(1)
        assert (inbound.kind, inbound.text, inbound.mentions_us) == ("message", "/model openai/gpt", True)
        assert (inbound.message_id, inbound.event_id, inbound.address) == (id, id, here())
        assert (inbound.sender.id, inbound.chat_type) == (FakeDiscord.ALICE, "group")
        await until(lambda: service.rest.thinking == {id: True})
        kind, seconds = service.rest.confirmed[id]
        assert kind == 5 and seconds < 3
        await channel.settled(inbound.address, inbound.message_id)
        await until(lambda: service.rest.thinking == {})

    async def test_one_that_is_answered_before_it_is_confirmed_is_not_thought_about_for_long(
        self, service: FakeDiscord, harness: RecordingInbox, channel: DiscordChannel
    ) -> None:
        service.fail("POST /interactions/*", ForcedAnswer(body={}, hang_seconds=0.1, done=True))
        id = await service.commands("status")
        await harness.until(1)
        await channel.settled(here(), id)
        await until(lambda: service.asked("DELETE", "/messages/@original"))
        await until(lambda: service.rest.thinking == {})

    async def test_one_that_was_not_taken_is_not_confirmed(
        self, service: FakeDiscord, harness: RecordingInbox, channel: DiscordChannel
    ) -> None:
        harness.answers = [False]
        await service.commands("status")
        await until(lambda: not harness.answers)
        await asyncio.sleep(0.05)
        assert service.rest.confirmed == {}

    async def test_one_that_comes_twice_ends_nothing(
        self, service: FakeDiscord, harness: RecordingInbox, channel: DiscordChannel
    ) -> None:
        id = await service.commands("status")
        assert service.gateway.session
        frame = service.gateway.session.frames[-1]
        await service.gateway.dispatch("INTERACTION_CREATE", frame["d"])
        await service.says("still here")
        await until(lambda: "still here" in harness.texts and service.asked("POST", "/callback"))
        await channel.settled(here(), id)
        await until(lambda: service.rest.thinking == {})
        assert len(service.asked("POST", "/callback")) == 1

    @pytest.mark.parametrize("expected", [True, False])
    async def test_in_a_thread_it_belongs_to_the_threads_channel(
        self, service: FakeDiscord, harness: RecordingInbox, channel: DiscordChannel, expected: bool
    ) -> None:
        thread = service.place("talk", kind=THREAD, parent=FakeDiscord.CHANNEL)
        if expected:
            await service.says("first", channel=thread)
            await harness.until(1)
        await service.commands("status", channel=thread)
        await until(lambda: "/status" in harness.texts)
        assert harness.taken[-1].address == here(thread=thread)

    async def test_in_private_it_is_private(
        self, service: FakeDiscord, harness: RecordingInbox, channel: DiscordChannel
    ) -> None:
        await service.commands("status", channel=service.direct_with(FakeDiscord.ALICE)["id"])
        [inbound] = await harness.until(1)
        assert (inbound.chat_type, inbound.sender.name) == ("direct", "Alice")
