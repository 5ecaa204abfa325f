"""Missed and unaccepted messages: the chats that are queried, their order, and concurrent events."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from claw_discord.channel import DiscordChannel
from claw_discord.fake import FakeDiscord, ForcedAnswer
from claw_discord.fake.objects import THREAD
from claw_discord.inbox import pause_after
from claw_discord.read_positions import ReadPositions
from claw_discord.settings import DiscordSettings, may_be_heard_in
from plugins.discord.living import QUICK, RecordingInbox, channel_of, here, listening, says, until

pytestmark = pytest.mark.xdist_group("discordpy")


async def before(service: FakeDiscord, tmp_path: Path, **keys: Any) -> None:
    """A process that received one message, and has ended."""
    harness = RecordingInbox()
    async with listening(channel_of(service, tmp_path, **keys), harness):
        await service.says("before")
        await harness.until(1)


def missed(service: FakeDiscord, text: str, channel: str = FakeDiscord.CHANNEL) -> None:
    service.make_message(text, channel, FakeDiscord.ALICE)


def archives_asked(service: FakeDiscord) -> list[str]:
    return [one.path.split("/")[2] for one in service.asked("GET", "/messages")]


class TestWhichChats:
    @pytest.mark.parametrize(
        ("section", "received"),
        [
            ({}, False),
            ({"groups": {"1": {}}}, True),
            ({"groups": {"2": {}}}, False),
            ({"groups": {"*": {}}}, True),
            ({"groups": {"1": {"enabled": False}, "*": {}}}, False),
            ({"groupPolicy": "open"}, True),
            ({"groupPolicy": "open", "groups": {"1": {"enabled": False}}}, False),
            ({"groupPolicy": "disabled", "groups": {"1": {}}}, False),
        ],
    )
    def test_a_channel_counts_when_claw_might_let_somebody_in_there(
        self, section: dict[str, Any], received: bool
    ) -> None:
        assert may_be_heard_in(DiscordSettings(**section), "1") is received

    async def test_only_listed_channels_and_their_threads_are_asked(
        self, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
    ) -> None:
        thread = service.place("talk", kind=THREAD, parent=FakeDiscord.CHANNEL)
        elsewhere = service.place("elsewhere")
        beside = service.place("beside", kind=THREAD, parent=elsewhere)
        groups = {FakeDiscord.CHANNEL: {}}
        await before(service, tmp_path, groups=groups)
        for place in (FakeDiscord.CHANNEL, thread, elsewhere, beside):
            missed(service, f"in {place}", place)
        async with listening(channel_of(service, tmp_path, groups=groups), harness):
            await harness.until(2)
            await asyncio.sleep(0.05)
        assert sorted(harness.texts) == sorted([f"in {FakeDiscord.CHANNEL}", f"in {thread}"])
        assert set(archives_asked(service)) == {FakeDiscord.CHANNEL, thread}

    async def test_of_very_many_chats_none_is_left_out_and_what_is_said_now_does_not_wait_for_all(
        self, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
    ) -> None:
        await before(service, tmp_path)
        places = [service.place(f"p{number}") for number in range(70)]
        for place in places:
            missed(service, place, place)
        pace = replace(QUICK, again=2.0)
        async with listening(channel_of(service, tmp_path, pace=pace), harness, up=False):
            await until(lambda: len(harness.taken) >= 50)
            await service.says("now")
            await until(lambda: "now" in harness.texts)
            at_that_time = len(harness.taken)
            await harness.until(71)
        assert at_that_time < 71 and set(harness.texts) == {*places, "now"}

    async def test_a_channel_that_may_not_be_read_holds_up_no_other(
        self, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        other = service.place("other")
        await before(service, tmp_path)
        missed(service, "to be read", other)
        missed(service, "hidden")
        service.fail(f"GET /channels/{FakeDiscord.CHANNEL}/messages", ForcedAnswer(403, {"code": 50001}), 99)
        async with listening(channel_of(service, tmp_path), harness):
            await harness.until(1)
            await until(lambda: "missed messages of" in caplog.text)
            await asyncio.sleep(0.2)
        assert harness.texts == ["to be read"] and archives_asked(service).count(FakeDiscord.CHANNEL) == 1

    def test_the_chats_with_the_newest_words_are_asked_first(self) -> None:
        seen = ReadPositions({"alive": 1.0, "chats": {"1": 10, "2": 20, "3": 30}, "direct": ["1", "2", "3"]})
        seen.begin(2.0)
        assert [chat for chat, _ in seen.direct_gaps(2.0, 3600)] == ["3", "2", "1"]


class TestAsking:
    async def test_a_service_that_does_not_answer_is_asked_again_for_all_of_it(
        self, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
    ) -> None:
        other = service.place("other")
        await before(service, tmp_path)
        missed(service, "here")
        missed(service, "there", other)
        service.fail("GET /channels/*/messages", ForcedAnswer(503), 2)
        async with listening(channel_of(service, tmp_path), harness):
            await harness.until(2)
        assert sorted(harness.texts) == ["here", "there"]

    async def test_more_than_one_turn_of_pages_is_asked_for_in_the_end(
        self, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
    ) -> None:
        await before(service, tmp_path)
        for number in range(620):
            missed(service, f"missed {number}")
        async with listening(channel_of(service, tmp_path), harness):
            await until(lambda: harness.texts[-1:] == ["missed 619"])
        assert harness.texts == [f"missed {number}" for number in range(620)]

    async def test_what_comes_while_a_chat_has_pending_replies_waits_behind_it(
        self, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
    ) -> None:
        harness.answers = [False]
        async with listening(channel_of(service, tmp_path, pace=replace(QUICK, again=0.2)), harness):
            await service.says("one")
            await until(lambda: not harness.answers)
            await service.says("two")
            await asyncio.sleep(0.05)
            assert harness.texts == []
            await until(lambda: harness.texts == ["one", "two"])

    def test_it_is_asked_less_and_less_often_while_nothing_comes_of_it(self) -> None:
        pace = replace(QUICK, again=1.0, longest_pause=10.0)
        pauses, pause = [], pace.again
        for left, was in ((3, 0), (3, 3), (3, 3), (4, 3), (3, 4), (3, 3), (0, 3), (1, 0)):
            pause = pause_after(pause, left, was, pace)
            pauses.append(pause)
        assert pauses == [2.0, 4.0, 8.0, 10.0, 1.0, 2.0, 1.0, 2.0]

    async def test_a_flood_beyond_what_the_line_holds_is_asked_for_later(
        self, service: FakeDiscord, tmp_path: Path
    ) -> None:
        channel = channel_of(service, tmp_path)
        said = {"id": "1", "channel_id": "7", "author": {"id": "2"}}
        for number in range(10_003):
            channel._inbox.receive({"t": "MESSAGE_CREATE", "d": {**said, "id": str(number + 1)}})
        assert channel._seen.pending == {"7": 10_000}

    async def test_a_process_that_died_amid_its_work_asks_from_before_it(
        self, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
    ) -> None:
        release = asyncio.Event()

        class SlowInbox(RecordingInbox):
            async def submit(self, inbound: Any) -> bool:
                await release.wait()
                return await super().submit(inbound)

        slow = SlowInbox()
        channel = channel_of(service, tmp_path)
        async with listening(channel, slow):
            await until(lambda: channel._seen.alive)  # the session has begun
            await service.says("not yet on disk")
            await until(lambda: not channel._inbox.idle())
            noted, received = channel._seen.alive, channel.state.last_frame_at
            await until(lambda: channel.state.last_frame_at != received)  # the next heartbeat
            assert channel._encode_notes() and channel._seen.alive == noted
            release.set()
            await until(
                lambda: channel._inbox.idle() and channel._encode_notes() and channel._seen.alive > noted
            )


class TestOddShapes:
    @pytest.mark.parametrize(
        ("event", "odd"),
        [
            ("MESSAGE_CREATE", {"author": {"id": "7"}, "mentions": 5}),
            ("MESSAGE_UPDATE", {"author": {"id": "7"}, "edited_timestamp": "2026", "mentions": 5}),
            ("INTERACTION_CREATE", {"type": 3, "data": {"custom_id": "x", "values": 5}}),
        ],
    )
    async def test_what_cannot_be_read_is_left_out_and_stops_nothing(
        self,
        service: FakeDiscord,
        harness: RecordingInbox,
        tmp_path: Path,
        event: str,
        odd: dict[str, Any],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        channel = channel_of(service, tmp_path)
        async with listening(channel, harness):
            channel._inbox.receive({"t": event, "d": {"id": "5", "channel_id": FakeDiscord.CHANNEL, **odd}})
            await service.says("still here")
            await harness.until(1)
            await until(lambda: f"{event} 5 cannot be read" in caplog.text)
        assert harness.texts == ["still here"]


class TestButtons:
    async def test_a_button_is_confirmed_in_time_while_messages_wait(
        self, service: FakeDiscord, tmp_path: Path
    ) -> None:
        release = asyncio.Event()

        class BusyInbox(RecordingInbox):
            async def submit(self, inbound: Any) -> bool:
                if inbound.kind == "message":
                    await release.wait()
                return await super().submit(inbound)

        async with listening(channel_of(service, tmp_path), BusyInbox()):
            await service.says("a long queue")
            message = service.make_message("Run?", FakeDiscord.CHANNEL, FakeDiscord.ME)
            pressed = await service.presses(message["id"], "y")
            await until(lambda: pressed in service.rest.confirmed)
            release.set()


class TestBeginningAnew:
    async def test_a_server_that_answers_no_heartbeat_is_left_and_the_session_goes_on(
        self, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
    ) -> None:
        async with listening(channel_of(service, tmp_path), harness):
            service.gateway.zombie = True
            await service.gateway.until(lambda: not service.gateway.connected)
            service.gateway.zombie = False
            await service.says("meanwhile")
            await harness.until(1)
        assert (service.gateway.count(2), service.gateway.count(6)) == (1, 1)

    async def test_a_second_identify_waits_as_discord_wants_it(
        self, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
    ) -> None:
        pace = replace(QUICK, identify=0.4)
        loop = asyncio.get_running_loop()
        async with listening(channel_of(service, tmp_path, pace=pace), harness):
            began = loop.time()
            await service.invalidate()
            await service.gateway.until(lambda: service.gateway.count(2) == 2)
            assert loop.time() - began >= 0.4

    async def test_the_pauses_between_failures_grow(
        self, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
    ) -> None:
        service.fail("GET /users/@me", ForcedAnswer(503), 99)
        made = channel_of(service, tmp_path, pace=replace(QUICK, first_pause=0.05, longest_pause=30.0))
        async with listening(made, harness, up=False):
            await asyncio.sleep(1.5)
            assert 2 <= made.state.reconnects <= 6

    async def test_a_pause_that_discord_asks_for_is_taken(
        self, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
    ) -> None:
        banned = ForcedAnswer(429, "<html>banned</html>", {"Content-Type": "text/html", "Retry-After": "1"})
        service.fail("GET /users/@me", banned)
        made = channel_of(service, tmp_path)
        async with listening(made, harness, up=False):
            await until(lambda: made.state.state == "up")
        first, second = service.asked("GET", "/users/@me")
        assert second.at - first.at >= 1

    async def test_a_day_without_identifies_is_no_silence(
        self, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
    ) -> None:
        limit = {"total": 1000, "remaining": 0, "reset_after": 500, "max_concurrency": 1}
        service.fail("GET /gateway/bot", ForcedAnswer(body={"url": "", "session_start_limit": limit}))
        made = channel_of(service, tmp_path, pace=replace(QUICK, silence=0.2))
        async with listening(made, harness, up=False):
            await until(lambda: made.state.state == "up")
        assert len(service.asked("GET", "/users/@me")) == 1 and made.state.reconnects == 0

    async def test_an_intent_that_is_not_wanted_is_not_asked_for(
        self, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
    ) -> None:
        async with listening(channel_of(service, tmp_path, messageContent=False), harness):
            assert service.gateway.intents == 37377 & ~(1 << 15)

    async def test_a_service_that_cannot_be_reached_has_certainly_taken_nothing(
        self, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
    ) -> None:
        from claw import DeliveryError
        from claw_discord.client import point_at

        made: DiscordChannel = channel_of(service, tmp_path)
        async with listening(made, harness):
            point_at("http://127.0.0.1:9/api/v10", service.gateway_url)
            try:
                with pytest.raises(DeliveryError, match="cannot be reached") as away:
                    await made.send(says("hello", address=here()))
            finally:
                point_at(service.api_base, service.gateway_url)
        assert not away.value.outcome_unknown and not away.value.permanent
