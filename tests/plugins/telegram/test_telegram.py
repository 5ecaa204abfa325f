"""Telegram, played through: people and the service on one side, a recording inbox on the other."""

import asyncio
import logging
import time
from dataclasses import replace
from pathlib import Path

import pytest
from claw import Address, Attachment, Button, DeliveryError, Outbound
from claw_telegram.fake import FakeRefusal, FakeTelegram, too_fast
from plugins.telegram.bench import QUICK, TOKEN, RecordingInbox, channel_at, listening, running, soon

CHAT, GROUP = FakeTelegram.CHAT, FakeTelegram.GROUP
HERE = Address("telegram", str(CHAT))
THERE = Address("telegram", str(GROUP))


def out(text: str, address: Address = HERE, **more: object) -> Outbound:
    return Outbound("key-1", address, text, **more)  # type: ignore[arg-type]


# listening


async def test_it_introduces_itself_shows_its_menu_and_is_up() -> None:
    async with FakeTelegram() as fake, listening(fake) as (channel, _):
        assert channel.state.state in ("starting", "up")
        await soon(lambda: channel.state.state == "up" and fake.calls("setMyCommands"))
        assert (channel.name, channel.account) == ("telegram", "default")
        assert channel.state.last_frame_at == pytest.approx(time.time(), abs=5)
        names = [one["command"] for one in fake.calls("setMyCommands")[0]["commands"]]
        assert {"new", "status", "stop", "approve", "help"} <= set(names)


async def test_a_token_that_nobody_knows_fails_with_a_line_that_says_where_to_get_one() -> None:
    async with FakeTelegram() as fake, listening(fake, botToken="1:nobody-knows-this") as (channel, _):
        await soon(lambda: channel.state.state == "failed")
        assert channel.state.detail.startswith("channels.telegram.botToken: ")
        assert "BotFather" in channel.state.detail and "nobody-knows" not in channel.state.detail


async def test_an_answer_goes_to_the_same_chat_and_topic_and_quotes() -> None:
    async with FakeTelegram() as fake, listening(fake) as (channel, inbox):
        fake.topics[GROUP] = {42}
        asked = fake.says("@claw_bot hi", chat=GROUP, message_thread_id=42, is_topic_message=True,
                          entities=[{"type": "mention", "offset": 0, "length": 9}])["message"]  # fmt: skip
        await soon(lambda: inbox.received)
        first = inbox.received[0]
        assert (first.text, first.mentions_us, first.chat_type) == ("hi", True, "group")
        receipt = await channel.send(out("hello", first.address, reply_to=first.message_id))
        said = fake.messages[GROUP][int(receipt.message_ids[0])]
        assert (said["message_thread_id"], said["reply_to_message"]["message_id"]) == (
            42,
            asked["message_id"],
        )


async def test_what_is_not_taken_is_not_confirmed_and_comes_again() -> None:
    async with FakeTelegram() as fake, listening(fake, True, False) as (_, inbox):
        fake.says("one")
        fake.says("two")
        fake.says("three")
        await soon(lambda: not fake.pending)
        assert inbox.texts == ["one", "two", "two", "three"]


async def test_nothing_is_confirmed_while_claw_still_writes_it_down() -> None:
    written = asyncio.Event()

    class SlowInbox(RecordingInbox):
        async def submit(self, inbound):  # type: ignore[no-untyped-def]
            await written.wait()
            return await super().submit(inbound)

    async with FakeTelegram() as fake, channel_at(fake.url) as channel, running(channel, SlowInbox()):
        fake.says("one")
        await soon(lambda: len(fake.calls("getUpdates")) == 1)
        await asyncio.sleep(0.05)
        assert len(fake.pending) == 1
        written.set()
        await soon(lambda: not fake.pending)


async def test_a_gateway_in_trouble_gets_the_message_again_and_an_unknown_shape_stops_nothing() -> None:
    class FailingInbox(RecordingInbox):
        async def submit(self, inbound):  # type: ignore[no-untyped-def]
            if not self.received:
                self.received.append(inbound)
                raise OSError("disk full")
            return await super().submit(inbound)

    failing = FailingInbox()
    async with FakeTelegram() as fake, channel_at(fake.url) as channel, running(channel, failing):
        fake.update(message={"message_id": 1})
        fake.says("one")
        await soon(lambda: not fake.pending)
        assert failing.texts == ["one", "one"]


async def test_after_a_drop_it_connects_again_and_receives_what_it_missed() -> None:
    async with FakeTelegram() as fake, listening(fake) as (channel, inbox):
        await soon(lambda: channel.state.state == "up")
        fake.drop("getUpdates", 2)
        fake.says("first")  # ends the poll that is held
        await soon(lambda: channel.state.reconnects == 1)
        fake.says("missed")
        await soon(lambda: inbox.texts == ["first", "missed"])
        assert channel.state.state == "up" and "broke" in channel.state.last_error


async def test_a_poll_that_hangs_is_given_up_and_recreated() -> None:
    async with FakeTelegram() as fake:
        fake.hang("getUpdates")
        async with listening(fake, pace=replace(QUICK, poll=0, grace=0.1)) as (channel, inbox):
            fake.says("hello")
            await soon(lambda: inbox.texts == ["hello"])
            assert channel.state.reconnects == 1


async def test_a_second_poller_makes_it_wait_and_it_heals_when_that_one_goes() -> None:
    async with FakeTelegram() as fake:
        fake.fail("getUpdates", FakeRefusal(409, "Conflict: terminated by other getUpdates request"), 2)
        async with listening(fake) as (channel, inbox):
            await soon(lambda: channel.state.state == "waiting")
            assert "another process polls" in channel.state.detail
            fake.says("hello")
            await soon(lambda: inbox.texts == ["hello"])
            assert (channel.state.state, channel.state.detail) == ("up", "")


async def test_a_webhook_that_somebody_set_is_taken_away_and_nothing_is_lost() -> None:
    async with FakeTelegram() as fake:
        fake.webhook = {"url": "http://127.0.0.1:1/gone", "secret": ""}
        fake.says("waiting")
        async with listening(fake) as (_, inbox):
            await soon(lambda: inbox.texts == ["waiting"])
        assert fake.calls("deleteWebhook") == [{"drop_pending_updates": False}]


async def test_an_album_is_one_message_also_when_its_parts_come_apart() -> None:
    def part(number: int, **more: object) -> None:
        photo = [{"file_id": f"p{number}", "file_unique_id": f"u{number}", "width": 9, "height": 9}]
        fake.says(chat=CHAT, photo=photo, media_group_id="g1", **more)  # type: ignore[arg-type]

    async with FakeTelegram() as fake, listening(fake, pace=replace(QUICK, album=0.5)) as (channel, inbox):
        await soon(lambda: channel.state.state == "up")
        part(1, caption="look")
        await asyncio.sleep(0.02)
        part(2)
        part(3)
        fake.says("and?")
        await soon(lambda: not fake.pending)
        assert [(one.text, [file.key for file in one.attachments]) for one in inbox.received] == [
            ("look", ["p1", "p2", "p3"]),
            ("and?", []),
        ]


async def test_a_button_is_received_with_its_value_and_answered_once_it_is_taken() -> None:
    async with FakeTelegram() as fake, listening(fake, False, True) as (channel, inbox):
        buttons = (Button("Once", "ap:1:once", "primary"), Button("Deny", "ap:1:deny", "danger"))
        receipt = await channel.send(out("Run `rm x`?", buttons=buttons))
        (row,) = fake.calls("sendMessage")[0]["reply_markup"]["inline_keyboard"]
        assert [key["callback_data"] for key in row] == ["ap:1:once", "ap:1:deny"]
        fake.presses(int(receipt.message_ids[0]), "ap:1:once")
        await soon(lambda: fake.calls("answerCallbackQuery"))
        assert len(inbox.received) == 2, "the first time it was not accepted"
        pressed = inbox.received[-1]
        assert (pressed.kind, pressed.text, pressed.message_id) == (
            "button",
            "ap:1:once",
            receipt.message_ids[0],
        )
        assert pressed.sender.id == "111222333"
        with pytest.raises(DeliveryError, match="64 bytes"):
            await channel.send(out("?", buttons=(Button("Long", "x" * 65),)))


async def test_it_stops_at_once_and_leaves_no_task() -> None:
    async with FakeTelegram() as fake, channel_at(fake.url, replace(QUICK, poll=60)) as channel:
        task = asyncio.create_task(channel.run(RecordingInbox()))
        await soon(lambda: len(fake.calls("getUpdates")) == 2)
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - began < 20
        assert channel.state.detail == "stopped"
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_privacy_mode_is_reported_when_a_group_shall_be_received_without_being_called() -> None:
    groups = {str(GROUP): {"requireMention": False}}
    async with FakeTelegram() as fake, listening(fake, groups=groups) as (channel, _):
        await soon(lambda: channel.state.state == "up")
        assert "/setprivacy" in channel.state.detail


async def test_the_token_is_in_no_log_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with FakeTelegram() as fake, listening(fake) as (channel, _):
        await soon(lambda: channel.state.state == "up")
        fake.drop("getUpdates")
        fake.fail("sendMessage", FakeRefusal(403, "Forbidden: bot was blocked by the user"))
        with pytest.raises(DeliveryError):
            await channel.send(out("x"))
    assert any("HTTP Request" in record.getMessage() for record in caplog.records)
    assert TOKEN not in caplog.text


# talking


async def test_markdown_arrives_as_formatting() -> None:
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        await channel.send(out("**bold** `a<b` <think>\n\n- one\n- [two](https://e.example/?a=1&b=2)"))
        assert fake.shown() == ["bold a<b <think>\n\n• one\n• two"]
        (said,) = fake.messages[CHAT].values()
        assert [entity["type"] for entity in said["entities"]] == ["bold", "code", "text_link"]


async def test_a_long_answer_is_split_with_its_fences_whole() -> None:
    code = "\n".join(f"line_{number} = {number} < 3" for number in range(300))
    text = f"Intro.\n\n```python\n{code}\n```\n\n" + "Words and more. " * 300
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        for piece in channel.split(text):
            await channel.send(out(piece))
        assert all("```" not in shown for shown in fake.shown())
        whole = "\n".join(fake.shown())
        assert all(f"line_{number} = {number} < 3" in whole for number in range(300))
        assert whole.count("Words and more.") == 300


async def test_a_stream_grows_by_edits_and_ends_as_the_whole_text() -> None:
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        text = "**All** of it. " * 400
        writer = channel.stream(out("", reply_to=None))
        await writer.show("**Al")
        await soon(fake.shown)
        assert fake.shown() == ["**Al"]
        await writer.show(text[:50])
        receipt = await writer.finish(out(text))
        assert "".join("".join(fake.shown()).split()) == "".join(text.replace("*", "").split())
        assert len(fake.shown()) == len(receipt.message_ids) == 2
        assert len(fake.calls("sendMessage")) == 2


async def test_a_stream_that_is_cut_off_leaves_what_was_visible_and_no_task() -> None:
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        writer = channel.stream(out("", THERE))
        await writer.show("Half of")
        await soon(lambda: fake.shown(GROUP))
        await writer.show("Half of it")
        await writer.abandon()
        assert fake.shown(GROUP) == ["Half of"]


async def test_a_429_is_reported_with_its_time_and_other_chats_go_on() -> None:
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        fake.fail("sendMessage", too_fast(14))
        with pytest.raises(DeliveryError) as pressed:
            await channel.send(out("x"))
        assert (pressed.value.retry_after_seconds, pressed.value.permanent) == (14, False)
        await channel.send(out("y", THERE))
        assert (fake.shown(), fake.shown(GROUP)) == ([], ["y"])


async def test_what_will_never_pass_is_permanent_and_asked_once() -> None:
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        fake.fail("sendMessage", FakeRefusal(403, "Forbidden: bot was blocked by the user"))
        with pytest.raises(DeliveryError, match="blocked by the user") as refused:
            await channel.send(out("x"))
        assert refused.value.permanent and not refused.value.outcome_unknown
        assert len(fake.calls("sendMessage")) == 1


@pytest.mark.parametrize("after", [False, True])
async def test_a_line_that_breaks_behind_a_message_leaves_its_outcome_unknown(after: bool) -> None:
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        fake.drop("sendMessage", after=after)
        with pytest.raises(DeliveryError) as broken:
            await channel.send(out("x"))
        assert (broken.value.outcome_unknown, broken.value.permanent) == (True, False)
        assert len(fake.shown()) == after


async def test_a_service_that_cannot_be_reached_has_certainly_taken_nothing() -> None:
    async with channel_at("http://127.0.0.1:9") as channel:
        with pytest.raises(DeliveryError, match="cannot be reached") as refused:
            await channel.send(out("x"))
        assert not refused.value.outcome_unknown and not refused.value.permanent
        assert "Connect call failed" in str(refused.value) and "sendMessage" in str(refused.value)
        assert FakeTelegram().token not in str(refused.value)


async def test_formatting_that_is_refused_goes_out_as_plain_text() -> None:
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        fake.fail("sendMessage", FakeRefusal(400, "Bad Request: can't parse entities: Unsupported start tag"))
        await channel.send(out("**x**"))
        assert fake.shown() == ["**x**"]


async def test_an_answer_to_a_message_that_is_gone_goes_out_without_the_quote() -> None:
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        await channel.send(out("x", reply_to="9999"))
        assert fake.shown() == ["x"]


async def test_a_topic_that_is_gone_is_answered_in_the_group() -> None:
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        await channel.send(out("x", replace(THERE, thread="77")))
        assert fake.shown(GROUP) == ["x"]


async def test_a_group_that_moved_is_followed() -> None:
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        moved = FakeRefusal(
            400, "Bad Request: group chat was upgraded to a supergroup chat", migrate_to_chat_id=GROUP
        )
        fake.fail("sendMessage", moved)
        old = Address("telegram", "-4001")
        await channel.send(out("x", old))
        await channel.send(out("y", old))
        assert fake.shown(GROUP) == ["x", "y"]
        assert [call["chat_id"] for call in fake.calls("sendMessage")] == [-4001, GROUP, GROUP]


async def test_what_a_stream_left_becomes_the_final_text() -> None:
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        left = [*(await channel.send(out("Ha"))).message_ids, *(await channel.send(out("lf"))).message_ids]
        receipt = await channel.send(out("Whole", replaces=tuple(left)))
        assert (fake.shown(), receipt.message_ids) == (["Whole"], (left[0],))
        await channel.delete(HERE, left[0])
        await channel.delete(HERE, left[0])
        receipt = await channel.send(out("Anew", replaces=(left[0],)))
        assert fake.shown() == ["Anew"]


async def test_it_edits_reacts_asks_and_shows_that_it_types() -> None:
    async with FakeTelegram() as fake, listening(fake) as (channel, inbox):
        (id,) = (await channel.send(out("old"))).message_ids
        await channel.edit(HERE, id, "new")
        await channel.edit(HERE, id, "new")
        await channel.react(HERE, id, "❤️")
        await channel.react(HERE, id, "❤️", remove=True)
        await channel.poll(HERE, "Tea?", ("yes", "no"))
        await channel.typing(HERE)
        assert fake.shown()[0] == "new"
        reactions = [call["reaction"] for call in fake.calls("setMessageReaction")]
        assert reactions == [[{"type": "emoji", "emoji": "❤"}], []]
        fake.topics[GROUP] = {42}
        fake.says("hi", chat=GROUP)
        await soon(lambda: inbox.received)
        await channel.typing(inbox.received[0].address)
        threads = [call.get("message_thread_id") for call in fake.calls("sendChatAction")]
        assert threads == [None, 1], "the General topic has a number for typing alone"
        fake.fail("sendChatAction", too_fast(30))
        await channel.typing(HERE)


# files


@pytest.mark.parametrize(
    ("kind", "name", "voice", "method"),
    [
        ("image", "a.png", False, "sendPhoto"),
        ("image", "a.gif", False, "sendAnimation"),
        ("file", "a.pdf", False, "sendDocument"),
        ("audio", "a.ogg", True, "sendVoice"),
        ("audio", "a.mp3", False, "sendAudio"),
        ("video", "a.mp4", False, "sendVideo"),
    ],
)
async def test_files_go_out_in_the_form_of_their_kind(
    kind: str, name: str, voice: bool, method: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(b"\x00bytes\r\n")
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        file = Attachment(kind, name, path=str(tmp_path / name))
        await channel.send(out("**See**", attachments=(file,), voice=voice))
        (call,) = fake.log
        assert (call.method, fake.shown()) == (method, ["See"])
        assert next(iter(call.files.values()))[::2] == (name, b"\x00bytes\r\n")


async def test_a_picture_that_is_refused_goes_as_a_file_and_a_long_caption_as_a_message(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.png").write_bytes(b"x")
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        fake.fail("sendPhoto", FakeRefusal(400, "Bad Request: PHOTO_INVALID_DIMENSIONS"))
        file = Attachment("image", path=str(tmp_path / "a.png"))
        receipt = await channel.send(out("long " * 300, attachments=(file,)))
        assert [call.method for call in fake.log] == ["sendPhoto", "sendDocument", "sendMessage"]
        assert len(receipt.message_ids) == 2


async def test_a_file_over_the_limit_is_not_sent_at_all(tmp_path: Path) -> None:
    with (tmp_path / "big").open("wb") as big:
        big.truncate((50 << 20) + 1)
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        with pytest.raises(DeliveryError, match="50 MB") as refused:
            await channel.send(out("", attachments=(Attachment("file", path=str(tmp_path / "big")),)))
        assert refused.value.permanent and fake.log == []


async def test_files_come_in_as_bytes_and_one_over_the_limit_does_not() -> None:
    async with FakeTelegram() as fake, listening(fake) as (channel, inbox):
        id = fake.keep(b"x" * 200_000)
        fake.says(document={"file_id": id, "file_unique_id": "u", "file_name": "a.txt", "file_size": 200_000})
        await soon(lambda: inbox.received)
        (attachment,) = inbox.received[0].attachments
        assert (attachment.kind, attachment.name, attachment.size_bytes) == ("file", "a.txt", 200_000)
        got = b"".join([piece async for piece in channel.fetch(inbox.received[0], attachment)])
        assert got == b"x" * 200_000
        with pytest.raises(DeliveryError, match="20 MB"):
            async for _ in channel.fetch(inbox.received[0], replace(attachment, size_bytes=21 << 20)):
                pass
        with pytest.raises(DeliveryError, match="wrong file_id"):
            async for _ in channel.fetch(
                inbox.received[0], replace(attachment, key="nobody", size_bytes=None)
            ):
                pass
