"""The channel against the fake: what every channel must do, and what only Discord asks for."""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from claw import Attachment, Button, DeliveryError, UsageError
from claw_channel_sdk import split_text
from claw_discord.channel import DiscordChannel
from claw_discord.fake import FakeDiscord, ForcedAnswer
from plugins.discord.living import ME, QUICK, RecordingInbox, channel_of, here, listening, says, until

pytestmark = pytest.mark.xdist_group("discordpy")


class LateInThreads:
    """A path that a thread may use only when it is ``free``."""

    def __init__(self, path: Path) -> None:
        self._path, self.waits, self.free = path, threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> Any:
        if threading.current_thread() is not threading.main_thread():
            self.waits.set()
            self.free.wait(10)
        return getattr(self._path, name)

    __fspath__ = property(lambda self: self._path.__fspath__)


@pytest.fixture
async def channel(
    service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
) -> AsyncIterator[DiscordChannel]:
    made = channel_of(service, tmp_path)
    async with listening(made, harness):
        yield made


class TestConnecting:
    async def test_it_asks_for_no_more_than_it_needs(
        self, service: FakeDiscord, channel: DiscordChannel
    ) -> None:
        assert service.gateway.intents == 37377
        assert channel.state.state == "up" and channel.state.last_frame_at is not None

    async def test_a_wrong_token_is_said_once_and_not_tried_again(
        self, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        made = channel_of(service, tmp_path, token="wrong-token-1234567")
        async with listening(made, harness, up=False) as running:
            await until(lambda: made.state.state == "failed")
            await asyncio.sleep(0.1)
            assert "does not know the bot token" in made.state.detail
            assert len(service.asked("GET", "/users/@me")) == 1
            assert not running.done()
        assert "wrong-token" not in caplog.text

    @pytest.mark.parametrize("code", [4010, 4011, 4012, 4013])
    async def test_what_only_a_person_can_fix_fails_with_a_clear_line(
        self, service: FakeDiscord, harness: RecordingInbox, channel: DiscordChannel, code: int
    ) -> None:
        await service.drop(code)
        await until(lambda: channel.state.state == "failed")
        assert channel.state.detail and service.gateway.count(2) == 1

    async def test_without_the_content_intent_it_goes_on_and_says_so(
        self, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        service.gateway.granted = 0
        made = channel_of(service, tmp_path)
        async with listening(made, harness):
            assert service.gateway.intents == 37377 & ~(1 << 15)
            assert "Message Content Intent" in made.state.detail
            await service.says("among yourselves")
            await service.says(f"{ME} to you")
            await harness.until(2)
        assert harness.texts == ["", "to you"]
        lines = [line for line in caplog.messages if "Message Content Intent" in line]
        assert len(lines) == 1

    async def test_no_identify_is_spent_while_none_is_left(
        self, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
    ) -> None:
        limit = {"total": 1000, "remaining": 0, "reset_after": 300, "max_concurrency": 1}
        service.fail("GET /gateway/bot", ForcedAnswer(body={"url": "", "session_start_limit": limit}))
        made = channel_of(service, tmp_path)
        began = time.monotonic()
        async with listening(made, harness, up=False):
            await until(lambda: made.state.state == "waiting")
            assert service.gateway.count(2) == 0
            await until(lambda: made.state.state == "up")
        assert time.monotonic() - began >= 0.3

    async def test_it_stops_at_once_and_leaves_no_task(
        self, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
    ) -> None:
        before = asyncio.all_tasks()
        async with listening(channel_of(service, tmp_path), harness):
            began = time.monotonic()
        assert time.monotonic() - began < 2
        await until(lambda: not service.gateway.connected)
        left = {task for task in asyncio.all_tasks() - before if "claw_discord/fake" not in repr(task)}
        assert {task for task in left if "aiohttp" not in repr(task)} == set()

    async def test_a_server_that_is_dead_does_not_hold_up_the_stop(
        self, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
    ) -> None:
        async with listening(channel_of(service, tmp_path), harness):
            service.gateway.zombie = True
            began = time.monotonic()
        assert time.monotonic() - began < 2


class TestComingBack:
    @pytest.mark.parametrize("code", [None, 4000, 4009])
    async def test_a_break_is_resumed_and_the_missed_message_arrives(
        self, service: FakeDiscord, harness: RecordingInbox, channel: DiscordChannel, code: int | None
    ) -> None:
        await service.says("before")
        await harness.until(1)
        await service.drop(code)
        await service.says("meanwhile")
        await harness.until(2)
        assert harness.texts == ["before", "meanwhile"]
        assert service.gateway.count(6) >= 1 and channel.state.reconnects >= 1

    async def test_after_a_fresh_identify_what_was_missed_is_asked_for(
        self, service: FakeDiscord, harness: RecordingInbox, channel: DiscordChannel
    ) -> None:
        direct = service.direct_with(FakeDiscord.ALICE)["id"]
        quiet = service.place("never-heard-of")
        await service.says("before")
        await service.says("in private", channel=direct)
        await harness.until(2)
        await until(channel._inbox.idle)
        service.gateway.forget()
        await service.drop()
        for where in (FakeDiscord.CHANNEL, direct, quiet):
            await service.says(f"missed in {where}", channel=where)
        await harness.until(5)
        assert sorted(harness.texts[2:]) == sorted(
            f"missed in {where}" for where in (FakeDiscord.CHANNEL, direct, quiet)
        )
        missed = {one.address.chat: one for one in harness.taken[2:]}
        assert missed[direct].chat_type == "direct" and missed[quiet].chat_type == "group"
        assert missed[quiet].around.chat_name == "never-heard-of"
        assert channel.state.state == "up"

    async def test_a_new_process_asks_for_what_came_while_there_was_none(
        self, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
    ) -> None:
        async with listening(channel_of(service, tmp_path), harness):
            await service.says("before")
            await harness.until(1)
        await service.drop()
        for number in range(120):
            service.make_message(f"missed {number}", FakeDiscord.CHANNEL, FakeDiscord.ALICE)
        later = RecordingInbox()
        async with listening(channel_of(service, tmp_path), later):
            await later.until(120)
        assert later.texts == [f"missed {number}" for number in range(120)]

    async def test_a_process_that_is_killed_has_noted_who_wrote_to_it(
        self, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
    ) -> None:
        direct = service.direct_with(FakeDiscord.ALICE)["id"]
        made = channel_of(service, tmp_path)
        async with listening(made, harness):
            await until(made._notes.exists)
            await service.says("in private", channel=direct)
            await until(lambda: direct in made._notes.read_text())

    async def test_the_first_start_ever_leaves_the_past_alone(
        self, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
    ) -> None:
        service.make_message("long ago", FakeDiscord.CHANNEL, FakeDiscord.ALICE)
        async with listening(channel_of(service, tmp_path), harness):
            await service.says("now")
            await harness.until(1)
        assert harness.texts == ["now"]

    async def test_catching_up_can_be_switched_off(
        self, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
    ) -> None:
        made = channel_of(service, tmp_path, catchUpMinutes=0)
        async with listening(made, harness):
            await service.says("before")
            await harness.until(1)
            service.gateway.forget()
            await service.drop()
            service.make_message("missed", FakeDiscord.CHANNEL, FakeDiscord.ALICE)
            await service.gateway.until(lambda: service.gateway.count(2) == 2)
            await service.says("after")
            await harness.until(2)
        assert harness.texts == ["before", "after"]

    async def test_resumes_that_are_never_granted_end_in_a_fresh_identify(
        self, service: FakeDiscord, harness: RecordingInbox, channel: DiscordChannel
    ) -> None:
        service.gateway.resume_answer = 4000
        await service.drop(4000)
        await service.gateway.until(lambda: service.gateway.count(2) == 2)
        assert 3 <= service.gateway.count(6) <= 5
        service.gateway.resume_answer = None
        await service.says("heard again")
        await harness.until(1)

    async def test_a_connection_that_went_silent_is_left(
        self, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
    ) -> None:
        pace = replace(QUICK, heartbeat=30.0, silence=0.6)
        async with listening(channel_of(service, tmp_path, pace=pace), harness):
            service.gateway.zombie = True
            await service.gateway.until(lambda: not service.gateway.connected)
            service.gateway.zombie = False
            await service.gateway.until(lambda: service.gateway.connected)

    async def test_a_dispatch_that_discord_py_stumbles_over_ends_nothing(
        self, service: FakeDiscord, harness: RecordingInbox, channel: DiscordChannel
    ) -> None:
        await service.gateway.dispatch("MESSAGE_CREATE", {"id": "1", "channel_id": FakeDiscord.CHANNEL})
        await service.gateway.until(lambda: service.gateway.count(2) == 2)
        await service.says("still here")
        await until(lambda: "still here" in harness.texts)
        assert "KeyError" in channel.state.last_error

    async def test_a_service_that_cannot_be_reached_is_reported_at_once_and_its_return_too(
        self,
        service: FakeDiscord,
        harness: RecordingInbox,
        channel: DiscordChannel,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        caplog.set_level("INFO", "claw_discord")
        await service.stop()
        await until(lambda: "Cannot connect" in channel.state.detail)  # not only after 150 s of silence
        assert channel.state.state == "waiting" and "Cannot connect" in channel.state.last_error
        await service.start()
        await until(lambda: channel.state.state == "up", 20)  # discord.py makes a pause of its own
        assert channel.state.detail == "" and caplog.messages[-1] == "discord: receiving messages again"

    async def test_an_outage_of_everything_is_waited_out(
        self, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
    ) -> None:
        pace = replace(QUICK, silence=0.5)
        made = channel_of(service, tmp_path, pace=pace)
        async with listening(made, harness):
            await service.stop()
            await until(lambda: made.state.state == "waiting")
            await asyncio.sleep(0.1)
            with pytest.raises(DeliveryError) as away:
                await made.send(says("hello"))
            assert not away.value.permanent
            await service.start()
            await until(lambda: made.state.state == "up")
            await service.says("back")
            await until(lambda: "back" in harness.texts)


class TestHearing:
    async def test_a_message_says_who_where_and_whether_it_is_for_us(
        self, service: FakeDiscord, harness: RecordingInbox, channel: DiscordChannel
    ) -> None:
        said = await service.says(f"{ME} hello")
        [inbound] = await harness.until(1)
        assert (inbound.text, inbound.mentions_us, inbound.chat_type) == ("hello", True, "group")
        assert (inbound.sender.id, inbound.sender.name) == (FakeDiscord.ALICE, "Alice")
        assert (inbound.message_id, inbound.around.chat_name, inbound.around.space) == (
            said["id"],
            "general",
            "G",
        )
        assert inbound.address == here()

    async def test_another_bot_is_flagged_and_our_own_words_are_not_handed_in(
        self, service: FakeDiscord, harness: RecordingInbox, channel: DiscordChannel
    ) -> None:
        await channel.send(says("mine"))
        await service.says("theirs", author=service.person("robot", bot=True))
        [inbound] = await harness.until(1)
        assert inbound.text == "theirs" and inbound.sender.is_bot

    async def test_a_thread_belongs_to_its_channel_also_when_it_was_never_announced(
        self, service: FakeDiscord, harness: RecordingInbox, channel: DiscordChannel
    ) -> None:
        thread = service.place("talk", kind=11, parent=FakeDiscord.CHANNEL)
        await service.says(f"{ME} go", channel=thread)
        [inbound] = await harness.until(1)
        assert inbound.address == here(thread=thread)
        assert (inbound.around.chat_name, inbound.around.thread_name) == ("general", "talk")

    async def test_a_message_that_was_not_taken_comes_again_and_before_what_follows_it(
        self, service: FakeDiscord, harness: RecordingInbox, channel: DiscordChannel
    ) -> None:
        harness.answers = [False, RuntimeError("disk full"), False]
        elsewhere = service.place("elsewhere")
        await service.says("one")
        await service.says("two")
        await until(lambda: len(harness.answers) < 3)
        await service.says("three")
        await service.says("other", channel=elsewhere)
        await until(lambda: len(harness.texts) == 4)
        assert [text for text in harness.texts if text != "other"] == ["one", "two", "three"]

    async def test_what_was_not_taken_is_still_pending_after_a_restart(
        self, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
    ) -> None:
        harness.answers = [True, False]
        async with listening(channel_of(service, tmp_path, pace=replace(QUICK, again=30.0)), harness):
            for text in ("one", "two", "three"):
                await service.says(text)
            await until(lambda: not harness.answers)
        later = RecordingInbox()
        async with listening(channel_of(service, tmp_path), later):
            await later.until(2)
        assert later.texts == ["two", "three"]

    async def test_a_thread_that_is_late_does_not_replace_the_last_positions_by_older_ones(
        self, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
    ) -> None:
        made = channel_of(service, tmp_path)
        async with listening(made, harness):
            await asyncio.sleep(5 * QUICK.note)
            made._notes = LateInThreads(made._notes)
            await service.says("one")
            await harness.until(1)
            made._seen.pressing = True
            await until(made._notes.waits.is_set)
            await service.says("two")
            await harness.until(2)
            threading.Timer(0.2, made._notes.free.set).start()
        await asyncio.sleep(0.4)
        later = RecordingInbox()
        async with listening(channel_of(service, tmp_path), later):
            await service.says("three")
            await later.until(1)
        assert later.texts == ["three"]

    async def test_an_edit_is_passed_on_and_an_unfolded_link_is_not(
        self, service: FakeDiscord, harness: RecordingInbox, channel: DiscordChannel
    ) -> None:
        said = await service.says("see https://example.com")
        service.messages[said["id"]]["embeds"] = [{"type": "link", "url": "https://example.com"}]
        await service.tell("MESSAGE_UPDATE", service.messages[said["id"]])
        await service.change(said["id"], content="see elsewhere")
        _, edit = await harness.until(2)
        assert (edit.kind, edit.text, edit.message_id) == ("edit", "see elsewhere", said["id"])

    async def test_reactions_are_received_when_they_are_asked_for(
        self, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
    ) -> None:
        made = channel_of(service, tmp_path, reactionNotifications="own")
        async with listening(made, harness):
            [ours] = (await made.send(says("mine"))).message_ids
            theirs = await service.says("theirs")
            await service.reacts(theirs["id"], "👎")
            await service.reacts(ours, "👍")
            await harness.until(2)
        reaction = harness.taken[1]
        assert (reaction.kind, reaction.text, reaction.message_id) == ("reaction", "👍", ours)
        assert reaction.sender.name == "Alice" and reaction.event_id

    async def test_a_pressed_button_is_handed_in_and_then_confirmed(
        self, service: FakeDiscord, harness: RecordingInbox, channel: DiscordChannel
    ) -> None:
        buttons = (Button("Yes", "ap:1:yes", "primary"), Button("No", "ap:1:no", "danger"))
        [id] = (await channel.send(says("Run?", buttons=buttons))).message_ids
        pressed = await service.presses(id, "ap:1:yes")
        [inbound] = await harness.until(1)
        assert (inbound.kind, inbound.text, inbound.message_id) == ("button", "ap:1:yes", id)
        assert inbound.sender.id == FakeDiscord.ALICE and inbound.event_id == pressed
        await service.until(lambda: pressed in service.rest.confirmed)
        kind, seconds = service.rest.confirmed[pressed]
        assert kind == 6 and seconds < 3

    async def test_a_button_that_was_not_taken_is_not_confirmed(
        self, service: FakeDiscord, harness: RecordingInbox, channel: DiscordChannel
    ) -> None:
        [id] = (await channel.send(says("Run?", buttons=(Button("Yes", "y"),)))).message_ids
        harness.answers = [False]
        await service.presses(id, "y")
        await until(lambda: not harness.answers)
        await asyncio.sleep(0.05)
        assert service.rest.confirmed == {}

    async def test_a_file_is_fetched_in_pieces(
        self, service: FakeDiscord, harness: RecordingInbox, channel: DiscordChannel
    ) -> None:
        await service.says("look", files={"a.png": b"x" * 300_000})
        [inbound] = await harness.until(1)
        [file] = inbound.attachments
        assert (file.kind, file.name, file.mime, file.size_bytes) == ("image", "a.png", "image/png", 300_000)
        assert b"".join([piece async for piece in channel.fetch(inbound, file)]) == b"x" * 300_000

    async def test_a_file_beyond_the_limit_is_not_fetched(
        self, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
    ) -> None:
        made = channel_of(service, tmp_path, mediaMaxMb=1)
        async with listening(made, harness):
            await service.says("big", files={"a.bin": b"x" * (2 << 20)})
            [inbound] = await harness.until(1)
            [file] = inbound.attachments
            for attachment in (
                file,
                replace(file, size_bytes=None),
            ):  # also when the message does not say how large it is
                with pytest.raises(DeliveryError, match="larger than 1 MB"):
                    async for _ in made.fetch(inbound, attachment):
                        pass

    async def test_a_file_that_breaks_off_is_not_taken_for_whole(
        self, service: FakeDiscord, harness: RecordingInbox, channel: DiscordChannel
    ) -> None:
        await service.says("look", files={"a.png": b"x" * 300_000})
        [inbound] = await harness.until(1)
        service.fail("GET /attachments/*", ForcedAnswer(cut=True))
        with pytest.raises(DeliveryError, match="did not answer") as broken:
            async for _ in channel.fetch(inbound, inbound.attachments[0]):
                pass
        assert "hm=" not in str(broken.value) and not broken.value.permanent

    async def test_a_file_that_is_gone_is_reported(
        self, service: FakeDiscord, harness: RecordingInbox, channel: DiscordChannel
    ) -> None:
        said = await service.says("look", files={"a.png": b"x"})
        [inbound] = await harness.until(1)
        service.messages[said["id"]]["attachments"] = []
        with pytest.raises(DeliveryError, match=r"no longer has the file a\.png") as gone:
            async for _ in channel.fetch(inbound, inbound.attachments[0]):
                pass
        assert gone.value.permanent

    async def test_a_file_is_fetched_only_from_where_discord_keeps_files(
        self, service: FakeDiscord, harness: RecordingInbox, channel: DiscordChannel
    ) -> None:
        said = await service.says("look", files={"a.png": b"x"})
        service.messages[said["id"]]["attachments"][0]["url"] = "http://127.0.0.2:1/secret"
        [inbound] = await harness.until(1)
        with pytest.raises(DeliveryError, match="no place where Discord keeps files"):
            async for _ in channel.fetch(inbound, inbound.attachments[0]):
                pass


class TestSaying:
    async def test_an_answer_is_where_the_question_was_and_quotes_it(
        self, service: FakeDiscord, harness: RecordingInbox, channel: DiscordChannel
    ) -> None:
        said = await service.says(f"{ME} hi")
        await harness.until(1)
        receipt = await channel.send(says("hello", reply_to=said["id"]))
        [posted] = service.asked("POST", "/messages")
        assert posted.body["message_reference"] == {"message_id": said["id"], "fail_if_not_exists": False}
        assert service.messages[receipt.message_ids[0]]["referenced_message"]["id"] == said["id"]

    async def test_in_a_thread_the_answer_stays_in_the_thread(
        self, service: FakeDiscord, channel: DiscordChannel
    ) -> None:
        thread = service.place("talk", kind=11, parent=FakeDiscord.CHANNEL)
        await channel.send(says("inside", address=here(thread=thread)))
        assert service.shown(thread) == ["inside"] and service.shown() == []

    async def test_the_message_that_a_thread_hangs_under_is_not_quoted_in_it(
        self, service: FakeDiscord, channel: DiscordChannel
    ) -> None:
        said = await service.says("start")
        await service.open_thread(FakeDiscord.CHANNEL, said["id"], "talk")
        await channel.send(says("inside", address=here(thread=said["id"]), reply_to=said["id"]))
        [posted] = service.asked("POST", "/messages")
        assert "message_reference" not in posted.body

    async def test_a_quoted_message_that_is_gone_does_not_stop_the_answer(
        self, service: FakeDiscord, channel: DiscordChannel
    ) -> None:
        await channel.send(says("hello", reply_to="123"))
        assert service.shown() == ["hello"]

    async def test_nobody_is_ever_pinged(self, service: FakeDiscord, channel: DiscordChannel) -> None:
        [id] = (await channel.send(says(f"<@{FakeDiscord.ALICE}> @everyone"))).message_ids
        await channel.edit(here(), id, f"<@{FakeDiscord.ALICE}> again")
        await channel.poll(here(), f"<@{FakeDiscord.ALICE}>?", ("yes", "no"))
        assert service.rest.pinged == []
        said = [one.body for one in service.log if "/messages" in one.path]
        assert [body["allowed_mentions"] for body in said] == [{"parse": []}] * 3

    async def test_the_same_key_shows_one_message(
        self, service: FakeDiscord, channel: DiscordChannel
    ) -> None:
        first, second = [await channel.send(says("once", key="turn-1:0")) for _ in range(2)]
        assert first == second and service.shown() == ["once"]
        assert "idempotent" in channel.capabilities

    async def test_somebody_is_written_to_by_id(self, service: FakeDiscord, channel: DiscordChannel) -> None:
        for number in range(2):
            await channel.send(says("hello", f"key-{number}", here(f"user:{FakeDiscord.ALICE}")))
        assert service.shown(service.direct_with(FakeDiscord.ALICE)["id"]) == ["hello", "hello"]
        assert len(service.asked("POST", "/users/@me/channels")) == 1

    async def test_a_long_answer_is_cut_by_claw_and_refused_whole(
        self, service: FakeDiscord, channel: DiscordChannel
    ) -> None:
        text = "\n".join(f"line {number}" for number in range(600))
        with pytest.raises(DeliveryError, match="2000") as refused:
            await channel.send(says(text))
        assert refused.value.permanent and service.asked("POST", "/messages") == []
        pieces = channel.split(text)
        assert len(pieces) > 1 and pieces == tuple(split_text(text, channel.limits))
        for number, piece in enumerate(pieces):
            await channel.send(says(piece, f"key:{number}"))
        assert "\n".join(service.shown()) == text

    async def test_a_file_goes_out_with_its_text_and_not_beyond_the_limit(
        self, service: FakeDiscord, channel: DiscordChannel, tmp_path: Path
    ) -> None:
        (tmp_path / "a.txt").write_bytes(b"content")
        file = Attachment("file", "a.txt", path=str(tmp_path / "a.txt"))
        await channel.send(says("here", attachments=(file,)))
        [posted] = service.asked("POST", "/messages")
        assert posted.files == (("a.txt", b"content"),) and posted.body["content"] == "here"
        assert posted.body["enforce_nonce"] is True
        (tmp_path / "big").write_bytes(b"x" * (channel.limits.media_out_bytes + 1))
        for path, problem in ((tmp_path / "big", "larger than 10 MB"), (tmp_path / "gone", "not there")):
            with pytest.raises(DeliveryError, match=problem) as refused:
                await channel.send(says("", attachments=(Attachment("file", path=str(path)),)))
            assert refused.value.permanent

    async def test_the_page_of_a_proxy_moves_no_message_of_an_answer(
        self, service: FakeDiscord, channel: DiscordChannel
    ) -> None:
        first, second = [
            (await channel.send(says(text, text))).message_ids[0] for text in ("first", "second")
        ]
        page = ForcedAnswer(404, "<html>404 Not Found</html>", {"Content-Type": "text/html"})
        service.fail("PATCH */messages/*", page)
        with pytest.raises(DeliveryError) as refused:
            await channel.send(says("first.", "turn", replaces=(first,)))
        assert not refused.value.permanent
        for key, id in (("turn", first), ("turn:1", second)):
            assert (await channel.send(says(f"{key}.", key, replaces=(id,)))).message_ids == (id,)
        assert service.shown() == ["turn.", "turn:1."]

    async def test_what_was_visible_becomes_the_answer(
        self, service: FakeDiscord, channel: DiscordChannel
    ) -> None:
        first, second = [
            (await channel.send(says(text, text))).message_ids[0] for text in ("half an", "swer")
        ]
        receipt = await channel.send(says("half an answer", "final", replaces=(first, second)))
        assert receipt.message_ids == (first,) and service.shown() == ["half an answer"]
        await service.remove(first)
        receipt = await channel.send(says("whole", "final-2", replaces=(first,)))
        assert service.shown() == ["whole"] and receipt.message_ids != (first,)

    async def test_it_edits_deletes_reacts_types_and_asks(
        self, service: FakeDiscord, channel: DiscordChannel
    ) -> None:
        [id] = (await channel.send(says("one"))).message_ids
        await channel.edit(here(), id, "two")
        assert service.shown() == ["two"]
        for emoji in ("👍", "<:party:123>"):
            await channel.react(here(), id, emoji)
        assert service.messages[id]["_reactions"] == ["👍", "party:123"]
        await channel.react(here(), id, "👍", remove=True)
        assert service.messages[id]["_reactions"] == ["party:123"]
        await channel.typing(here(), id)
        service.fail("POST */typing", ForcedAnswer(403, {"code": 50001, "message": "Missing Access"}))
        await channel.typing(here(), id)
        assert len(service.asked("POST", "/typing")) == 2, "that it failed is nothing to trouble anybody with"
        for _ in range(2):  # one that is gone already is gone
            await channel.delete(here(), id)
        [asked] = (await channel.poll(here(), "Which?", ("a", "b"))).message_ids
        assert service.messages[asked]["poll"]["question"] == {"text": "Which?"}
        with pytest.raises(UsageError):
            await channel.poll(here(), "Which?", ())

    async def test_a_mention_is_answered_in_a_thread_of_its_own_when_that_is_set(
        self, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
    ) -> None:
        made = channel_of(service, tmp_path, autoThread=True)
        async with listening(made, harness):
            said = await service.says(f"{ME} plan the trip", files={"a.png": b"map"})
            [question] = await harness.until(1)
            assert question.address == here(thread=said["id"])
            await made.typing(question.address, question.message_id)
            await made.react(question.address, question.message_id, "👀")
            assert [piece async for piece in made.fetch(question, question.attachments[0])] == [b"map"]
            for number in range(2):
                await made.send(says(f"answer {number}", f"k{number}", question.address, reply_to=said["id"]))
            assert service.shown(said["id"]) == ["answer 0", "answer 1"]
            assert "plan the trip" in service.channels[said["id"]]["name"]
            await service.says("go on", channel=said["id"])
            await harness.until(2)
        assert harness.taken[1].address == question.address

    async def test_a_thread_that_somebody_opened_meanwhile_is_the_place_of_the_answer(
        self, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
    ) -> None:
        made = channel_of(service, tmp_path, autoThread=True)
        async with listening(made, harness):
            said = await service.says(f"{ME} plan the trip")
            [question] = await harness.until(1)
            await service.open_thread(FakeDiscord.CHANNEL, said["id"], "theirs")
            unknown = ForcedAnswer(404, {"code": 10003, "message": "Unknown Channel"})
            service.fail(f"POST /channels/{said['id']}/messages", unknown)
            await made.send(says("here", address=question.address))
            assert service.shown(said["id"]) == ["here"]


class TestRefusals:
    async def test_a_rate_limit_is_obeyed_and_other_chats_go_on(
        self, service: FakeDiscord, channel: DiscordChannel
    ) -> None:
        slow = service.place("slow")
        limited = {"message": "slow", "retry_after": 0.4, "global": False}
        service.fail(f"POST /channels/{slow}/messages", ForcedAnswer(429, limited, {"Via": "1.1 google"}))
        waiting = asyncio.ensure_future(channel.send(says("late", address=here(slow))))
        await until(lambda: service.asked("POST", f"/channels/{slow}/messages"))
        await channel.send(says("at once", "key-2"))
        assert service.shown() == ["at once"] and service.shown(slow) == []
        await waiting
        first, second = service.asked("POST", f"/channels/{slow}/messages")
        assert second.at - first.at >= 0.4 and service.shown(slow) == ["late"]

    async def test_a_short_limit_that_a_proxy_reports_is_waited_for(
        self, service: FakeDiscord, channel: DiscordChannel
    ) -> None:
        limited = ForcedAnswer(429, {"retry_after": 0.2, "global": False}, {"Retry-After": "0.2"})
        service.fail("POST */messages", limited)
        await channel.send(says("late"))
        first, second = service.asked("POST", "/messages")
        assert second.at - first.at >= 0.2 and service.shown() == ["late"]

    async def test_limits_do_not_keep_the_messages_of_a_stream_from_being_deleted(
        self, service: FakeDiscord, channel: DiscordChannel
    ) -> None:
        ids = [(await channel.send(says(text, text))).message_ids[0] for text in ("a", "b", "c", "d")]
        for id in ids[2:]:
            service.fail(f"DELETE */messages/{id}", ForcedAnswer(429, "banned", {"Retry-After": "60"}))
        for _ in range(2):
            with pytest.raises(DeliveryError):
                await channel.send(says("whole", "final", replaces=tuple(ids)))
        await channel.send(says("whole", "final", replaces=tuple(ids)))
        assert service.shown() == ["whole"]
        assert [len(service.asked("DELETE", f"/messages/{id}")) for id in ids] == [0, 1, 2, 2]

    @pytest.mark.parametrize(
        ("answer", "pause"),
        [
            (ForcedAnswer(429, {"retry_after": 90.0, "global": False}, {"Via": "1.1 google"}), 90.0),
            (
                ForcedAnswer(429, "<html>banned</html>", {"Content-Type": "text/html", "Retry-After": "600"}),
                600.0,
            ),
        ],
    )
    async def test_a_long_pause_is_claws_business(
        self, service: FakeDiscord, channel: DiscordChannel, answer: ForcedAnswer, pause: float
    ) -> None:
        service.fail("POST /channels/*/messages", answer)
        with pytest.raises(DeliveryError) as refused:
            await channel.send(says("hello"))
        assert refused.value.retry_after_seconds == pause and not refused.value.permanent

    async def test_what_will_never_pass_is_permanent_and_tried_once(
        self, service: FakeDiscord, channel: DiscordChannel
    ) -> None:
        closed = service.place("closed")
        service.closed_channels.add(closed)
        service.deaf_users.add(FakeDiscord.ALICE)
        deaf = service.direct_with(FakeDiscord.ALICE)["id"]
        for where, fix in ((closed, "see that channel"), (deaf, "takes no messages"), ("1", "is gone")):
            with pytest.raises(DeliveryError, match=fix) as refused:
                await channel.send(says("hello", address=here(where)))
            assert refused.value.permanent and refused.value.retry_after_seconds is None
            assert len(service.asked("POST", f"/channels/{where}/messages")) == 1

    async def test_a_line_that_breaks_leaves_the_outcome_open_and_the_repeat_is_harmless(
        self, service: FakeDiscord, channel: DiscordChannel
    ) -> None:
        service.fail("POST /channels/*/messages", ForcedAnswer(cut=True, done=True))
        with pytest.raises(DeliveryError) as broken:
            await channel.send(says("once"))
        assert broken.value.outcome_unknown and not broken.value.permanent
        await channel.send(says("once"))
        assert service.shown() == ["once"]

    async def test_a_service_that_does_not_answer_is_not_waited_for(
        self, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
    ) -> None:
        made = channel_of(service, tmp_path, pace=replace(QUICK, call=0.2))
        async with listening(made, harness):
            service.fail("POST /channels/*/messages", ForcedAnswer(hang_seconds=0.5))
            with pytest.raises(DeliveryError) as late:
                await made.send(says("hello"))
        assert late.value.outcome_unknown

    async def test_before_it_is_connected_nothing_can_be_said(
        self, service: FakeDiscord, tmp_path: Path
    ) -> None:
        with pytest.raises(DeliveryError, match="not connected") as early:
            await channel_of(service, tmp_path).send(says("hello"))
        assert not early.value.permanent and not early.value.outcome_unknown


class TestStreaming:
    async def test_an_answer_grows_in_one_message_and_ends_whole(
        self, service: FakeDiscord, channel: DiscordChannel
    ) -> None:
        question = await service.says(f"{ME} tell")
        outbound = says("", reply_to=question["id"])
        writer = channel.stream(outbound)
        await writer.show("Once")
        await until(lambda: service.shown() == ["Once"])
        receipt = await writer.finish(
            replace(outbound, text="Once upon a time", buttons=(Button("More", "m"),))
        )
        assert service.shown() == ["Once upon a time"] and writer.shown == receipt.message_ids
        assert service.messages[receipt.message_ids[0]]["components"][0]["components"][0]["custom_id"] == "m"
        assert service.messages[receipt.message_ids[0]]["referenced_message"]["id"] == question["id"]

    async def test_it_is_edited_at_most_once_in_a_good_second(
        self, service: FakeDiscord, channel: DiscordChannel
    ) -> None:
        began = time.monotonic()
        writer = channel.stream(says(""))
        await writer.show("a")
        await until(lambda: service.shown() == ["a"])
        await writer.show("a b")
        await until(lambda: service.shown() == ["a b"])
        assert time.monotonic() - began >= channel.limits.edit_seconds == 1.2
        await writer.abandon()

    async def test_what_is_too_many_in_the_end_is_taken_back(
        self, service: FakeDiscord, channel: DiscordChannel
    ) -> None:
        writer = channel.stream(says(""))
        await writer.show("word " * 500)
        await until(lambda: len(service.shown()) == 2, 10)
        await writer.finish(says("short"))
        assert service.shown() == ["short"]

    async def test_what_a_process_before_us_had_begun_is_found_by_its_key_and_becomes_the_answer(
        self, service: FakeDiscord, channel: DiscordChannel
    ) -> None:
        [begun] = (await channel.send(says("Half an", "turn-1:0"))).message_ids
        receipt = await channel.send(says("Half an answer, whole", "turn-1:0"))
        assert receipt.message_ids == (begun,) and service.shown() == ["Half an answer, whole"]

    async def test_what_outgrows_one_message_goes_on_in_the_next(
        self, service: FakeDiscord, channel: DiscordChannel
    ) -> None:
        text = "\n".join(f"line {number}" for number in range(400))
        writer = channel.stream(says(""))
        await writer.show(text[:50])
        await until(service.shown)
        receipt = await writer.finish(says(text))
        assert "\n".join(service.shown()) == text
        assert len(receipt.message_ids) == len(service.shown()) > 1

    async def test_an_abandoned_stream_leaves_what_is_visible(
        self, service: FakeDiscord, channel: DiscordChannel
    ) -> None:
        writer = channel.stream(says(""))
        await writer.show("half")
        await until(lambda: service.shown() == ["half"])
        await writer.abandon()
        await writer.show("half a")
        assert service.shown() == ["half"]

    async def test_an_edit_under_a_rate_limit_never_becomes_a_second_message(
        self, service: FakeDiscord, channel: DiscordChannel
    ) -> None:
        writer = channel.stream(says(""))
        await writer.show("a")
        await until(lambda: service.shown() == ["a"])
        limited = ForcedAnswer(429, {"retry_after": 0.1, "global": False}, {"Via": "1.1 google"})
        service.fail("PATCH /channels/*/messages/*", limited, times=2)
        await writer.finish(says("a b"))
        assert service.shown() == ["a b"] and len(service.asked("POST", "/messages")) == 1


async def test_the_token_is_in_no_log(
    service: FakeDiscord, harness: RecordingInbox, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "claw_discord")
    async with listening(channel_of(service, tmp_path), harness):
        await service.drop(4000)
        await service.says("x")
        await harness.until(1)
    assert service.token not in caplog.text
