"""The fake speaks the true protocol: discord.py itself, not our plugin, lives with it."""

import asyncio
import io
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from claw_discord.client import point_at, vendor
from claw_discord.fake import FakeDiscord, ForcedAnswer

discord: Any = vendor()
pytestmark = pytest.mark.xdist_group("discordpy")

ALL_OF_OURS = 37377
ME = f"<@{FakeDiscord.ME}>"


class Echo(discord.Client):
    """A bot as its manual shows one; it writes down what it hears."""

    def __init__(self, bits: int = ALL_OF_OURS) -> None:
        wanted = discord.Intents.none()
        wanted.value = bits
        super().__init__(intents=wanted, max_messages=None, heartbeat_timeout=1, guild_ready_timeout=0.02)
        self.received: list[discord.Message] = []
        self.edits: list[discord.RawMessageUpdateEvent] = []
        self.pressed: list[discord.Interaction] = []
        self.resumed = 0

    async def on_message(self, message: discord.Message) -> None:
        self.received.append(message)

    async def on_raw_message_edit(self, event: discord.RawMessageUpdateEvent) -> None:
        self.edits.append(event)

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        if interaction.type is discord.InteractionType.component:
            await interaction.response.defer()
            self.pressed.append(interaction)

    async def on_resumed(self) -> None:
        self.resumed += 1

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        return None


@asynccontextmanager
async def living_with(service: FakeDiscord, client: Echo) -> AsyncIterator[asyncio.Task[None]]:
    point_at(service.api_base, service.gateway_url)
    living = asyncio.ensure_future(client.start(service.token))
    try:
        await service.until(client.is_ready)
        yield living
    finally:
        await client.close()
        with suppress(Exception, asyncio.CancelledError):
            await living


@pytest.fixture
async def service() -> AsyncIterator[FakeDiscord]:
    async with FakeDiscord() as running:
        yield running


async def until_true(client: Echo, holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.005)


async def test_it_connects_receives_and_answers(service: FakeDiscord) -> None:
    client = Echo()
    async with living_with(service, client):
        assert client.user is not None and client.user.id == int(FakeDiscord.ME)
        assert [guild.name for guild in client.guilds] == ["G"]
        said = await service.says(f"{ME} hello")
        await until_true(client, lambda: client.received)
        [message] = client.received
        assert client.user in message.mentions
        answer = await message.reply("hello back", mention_author=False)
        assert answer.reference is not None and answer.reference.message_id == int(said["id"])
        assert service.shown() == ["hello back"]
        await until_true(client, lambda: len(client.received) == 2)  # a bot is told of its own messages
        await answer.edit(content="hello again")
        await until_true(client, lambda: client.edits)
        assert service.shown() == ["hello again"]
        await answer.add_reaction("👍")
        await answer.delete()
        assert service.shown() == []
        async with message.channel.typing():
            assert service.asked("POST", "/typing")


async def test_a_message_sent_twice_with_one_nonce_appears_once(service: FakeDiscord) -> None:
    client = Echo()
    async with living_with(service, client):
        place = client.get_partial_messageable(int(FakeDiscord.CHANNEL))
        first, second = [await place.send("once", nonce="n-1") for _ in range(2)]
        assert first.id == second.id
        assert service.shown() == ["once"]


async def test_a_rate_limit_is_waited_for(service: FakeDiscord) -> None:
    client = Echo()
    limited = ForcedAnswer(
        429, {"message": "slow", "retry_after": 0.2, "global": False}, {"Via": "1.1 google"}
    )
    service.fail("POST /channels/*/messages", limited)
    async with living_with(service, client):
        began = time.monotonic()
        await client.get_partial_messageable(int(FakeDiscord.CHANNEL)).send("late")
        assert time.monotonic() - began >= 0.2
        assert service.shown() == ["late"]


async def test_what_cannot_be_is_refused_with_the_services_numbers(service: FakeDiscord) -> None:
    client = Echo()
    closed = service.place("closed")
    service.closed_channels.add(closed)
    service.deaf_users.add(FakeDiscord.ALICE)
    async with living_with(service, client):
        place = client.get_partial_messageable(int(FakeDiscord.CHANNEL))
        with pytest.raises(discord.HTTPException) as long:
            await place.send("x" * 2001)
        assert (long.value.status, long.value.code) == (400, 50035) and "2000" in long.value.text
        with pytest.raises(discord.HTTPException) as empty:
            await place.send("")
        assert empty.value.code == 50006
        with pytest.raises(discord.Forbidden) as no_access:
            await client.get_partial_messageable(int(closed)).send("x")
        assert no_access.value.code == 50001
        with pytest.raises(discord.NotFound) as nowhere:
            await client.get_partial_messageable(1).send("x")
        assert nowhere.value.code == 10003
        friend = await client.fetch_channel(int(service.direct_with(FakeDiscord.ALICE)["id"]))
        with pytest.raises(discord.Forbidden) as deaf:
            await friend.send("x")
        assert deaf.value.code == 50007


async def test_after_a_break_the_session_is_resumed_and_what_was_missed_is_replayed(
    service: FakeDiscord,
) -> None:
    client = Echo()
    async with living_with(service, client):
        await service.drop(4000)
        await service.says("meanwhile")
        await until_true(client, lambda: client.received)
        assert [message.content for message in client.received] == ["meanwhile"]
        assert client.resumed == 1
        await service.reconnect()
        await until_true(client, lambda: client.resumed == 2)


async def test_a_session_that_is_forgotten_starts_over(service: FakeDiscord) -> None:
    client = Echo()
    async with living_with(service, client):
        await service.invalidate()
        await service.gateway.until(lambda: service.gateway.count(2) == 2)
        await service.says("back")
        await until_true(client, lambda: client.received)


async def test_a_server_that_went_silent_is_noticed(service: FakeDiscord) -> None:
    client = Echo()
    async with living_with(service, client):
        service.gateway.zombie = True
        await service.gateway.until(lambda: not service.gateway.connected)
        service.gateway.zombie = False
        await until_true(client, lambda: client.resumed)


async def test_buttons_are_shown_pressed_and_answered_in_time(service: FakeDiscord) -> None:
    client = Echo()
    async with living_with(service, client):
        view = discord.ui.View(timeout=None)
        view.add_item(discord.ui.Button(label="Yes", custom_id="yes"))
        sent = await client.get_partial_messageable(int(FakeDiscord.CHANNEL)).send("Run?", view=view)
        pressed = await service.presses(str(sent.id), "yes")
        await service.until(lambda: pressed in service.rest.confirmed)
        assert service.rest.confirmed[pressed][0] == 6
        await until_true(client, lambda: client.pressed)
        assert client.pressed[0].data["custom_id"] == "yes"


async def test_commands_are_registered_chosen_and_thought_about_until_that_is_taken_back(
    service: FakeDiscord,
) -> None:
    client = Echo()
    tree = discord.app_commands.CommandTree(client)
    chosen: list[tuple[str, bool]] = []

    @tree.command(name="model", description="Show or choose the model")
    async def model(interaction: discord.Interaction, text: str = "") -> None:
        await interaction.response.defer(ephemeral=True, thinking=True)
        chosen.append((text, service.rest.thinking == {str(interaction.id): True}))
        await interaction.delete_original_response()

    async with living_with(service, client):
        [registered] = await tree.sync()
        assert (registered.name, registered.options[0].name) == ("model", "text")
        assert [one.name for one in await tree.fetch_commands()] == ["model"]
        await service.commands("model", "openai/gpt")
        await service.commands("model")
        await service.until(lambda: len(service.asked("DELETE", "/messages/@original")) == 2)
        assert chosen == [("openai/gpt", True), ("", True)] and service.rest.thinking == {}


async def test_a_command_of_the_wrong_form_is_refused(service: FakeDiscord) -> None:
    client = Echo()
    async with living_with(service, client):
        for wrong in ({"name": "Two Words"}, {"description": ""}, {"description": "x" * 101}):
            body = [{"type": 1, "name": "fine", "description": "A command", **wrong}]
            with pytest.raises(discord.HTTPException) as refused:
                await client.http.bulk_upsert_global_commands(int(FakeDiscord.ME), body)
            assert (refused.value.status, refused.value.code) == (400, 50035)


async def test_a_thread_is_opened_under_a_message_and_written_into(service: FakeDiscord) -> None:
    client = Echo()
    async with living_with(service, client):
        said = await service.says("start")
        await until_true(client, lambda: client.received)
        thread = await client.received[0].create_thread(name="talk")
        assert str(thread.id) == said["id"]
        await thread.send("inside")
        assert service.shown(said["id"]) == ["inside"]


async def test_files_go_both_ways(service: FakeDiscord) -> None:
    client = Echo()
    async with living_with(service, client):
        await service.says("look", files={"a.png": b"picture"})
        await until_true(client, lambda: client.received)
        [file] = client.received[0].attachments
        assert (file.filename, file.content_type, await file.read()) == ("a.png", "image/png", b"picture")
        await client.received[0].channel.send("here", file=discord.File(io.BytesIO(b"mine"), "b.txt"))
        [sent] = service.asked("POST", "/messages")
        assert sent.files == (("b.txt", b"mine"),) and sent.body["content"] == "here"


async def test_an_intent_that_the_portal_has_not_granted_is_refused(service: FakeDiscord) -> None:
    service.gateway.granted = 0
    client = Echo()
    point_at(service.api_base, service.gateway_url)
    try:
        with pytest.raises(discord.PrivilegedIntentsRequired):
            await client.start(service.token)
    finally:
        await client.close()


async def test_without_the_intent_only_what_is_meant_for_the_bot_has_a_text(service: FakeDiscord) -> None:
    client = Echo(ALL_OF_OURS & ~(1 << 15))
    async with living_with(service, client):
        await service.says("among us")
        await service.says(f"{ME} to you")
        await service.says("in private", channel=service.direct_with(FakeDiscord.ALICE)["id"])
        await until_true(client, lambda: len(client.received) == 3)
        assert [message.content for message in client.received] == ["", f"{ME} to you", "in private"]


async def test_a_wrong_token_is_refused(service: FakeDiscord) -> None:
    client = Echo()
    point_at(service.api_base, service.gateway_url)
    try:
        with pytest.raises(discord.LoginFailure):
            await client.start("another")
    finally:
        await client.close()


async def test_an_unfinished_dispatch_ends_the_library(service: FakeDiscord) -> None:
    """The reason for which the plugin supervises the client."""
    client = Echo()
    async with living_with(service, client) as living:
        await service.gateway.dispatch("MESSAGE_CREATE", {"id": "1", "channel_id": FakeDiscord.CHANNEL})
        with pytest.raises(KeyError):
            await asyncio.wait_for(living, 2)
