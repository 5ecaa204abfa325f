"""The forms of a message, and what an answer of the service makes of them."""

from dataclasses import replace
from pathlib import Path

import pytest
from claw import Attachment, Button, DeliveryError, Inbound, Sender
from claw_telegram.api import BotApi, TelegramError
from claw_telegram.fake import FakeRefusal, FakeTelegram
from claw_telegram.outgoing_message import compose, keyboard, media_method
from claw_telegram.split import LIMIT
from plugins.telegram.bench import TOKEN, channel_at, soon
from plugins.telegram.test_telegram import CHAT, GROUP, HERE, out


@pytest.mark.parametrize("value", ["", "x" * 65, "文" * 22])
def test_a_value_that_would_not_come_back_is_refused_before_it_is_sent(value: str) -> None:
    with pytest.raises(DeliveryError, match="64 bytes") as refused:
        keyboard([Button("?", value)])
    assert refused.value.permanent
    assert keyboard([Button("?", "x" * 64)]) and keyboard([Button("?", "文" * 21)])


def test_short_labels_are_beside_each_other_and_long_ones_below() -> None:
    short = keyboard([Button(f"b{number}", "v") for number in range(4)])["inline_keyboard"]
    assert [len(row) for row in short] == [3, 1]
    wide = keyboard([Button("b", "v"), Button("a label of many words", "v")])["inline_keyboard"]
    assert [len(row) for row in wide] == [1, 1]


def test_what_is_counted_is_what_is_seen_in_utf16_units() -> None:
    fits, over = "**" + "🦀" * 512 + "**", "**" + "🦀" * 512 + "x**"
    assert compose(out(fits)).caption and compose(out(over)).caption == {}
    assert LIMIT == 4096


@pytest.mark.parametrize(
    ("kind", "mime", "megabytes", "method"),
    [
        ("image", "image/png", 10, "sendPhoto"),
        ("image", "image/png", 11, "sendDocument"),
        ("image", "image/svg+xml", 1, "sendDocument"),
        ("file", "image/gif", 1, "sendAnimation"),
    ],
)
def test_a_picture_is_one_only_where_telegram_takes_it_so(
    kind: str, mime: str, megabytes: int, method: str
) -> None:
    assert media_method(kind, mime, megabytes << 20, voice=False)[0] == method


@pytest.mark.parametrize("other", ["an id of another service", "²", "9" * 30])
async def test_what_is_quoted_need_not_be_there_any_more(other: str) -> None:
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        await channel.send(out("x", reply_to="9999"))
        await channel.send(out("y", reply_to=other))
        first, second = fake.calls("sendMessage")
        assert first["reply_parameters"] == {"message_id": 9999, "allow_sending_without_reply": True}
        assert "reply_parameters" not in second and fake.shown() == ["x", "y"]


async def test_previews_of_links_are_left_out_when_that_is_said() -> None:
    async with FakeTelegram() as fake, channel_at(fake.url, linkPreview=False) as channel:
        (id,) = (await channel.send(out("https://example.org"))).message_ids
        await channel.edit(HERE, id, "https://example.net")
        sent = [*fake.calls("sendMessage"), *fake.calls("editMessageText")]
        assert [call["link_preview_options"] for call in sent] == [{"is_disabled": True}] * 2
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        await channel.send(out("https://example.org"))
        assert "link_preview_options" not in fake.calls("sendMessage")[0]


async def test_what_is_no_markdown_goes_out_letter_for_letter() -> None:
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        await channel.send(out("**/*.md <b>", plain=True))
        assert fake.shown() == ["**/*.md <b>"] and "parse_mode" not in fake.calls("sendMessage")[0]


async def test_buttons_are_below_the_last_of_several_messages() -> None:
    text, buttons = "words " * 1000, (Button("More", "more"),)
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        writer = channel.stream(out(""))
        await writer.show("wo")
        await writer.finish(out(text, buttons=buttons))
        assert keys_shown(fake) == [False, True]
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        fake.fail("sendMessage", FakeRefusal(400, "Bad Request: message is too long"))
        await channel.send(out(text[:4000], buttons=buttons))
        assert keys_shown(fake) == [False, True]


async def test_buttons_come_with_the_last_edit_of_an_answer_that_grew() -> None:
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        writer = channel.stream(out(""))
        await writer.show("Ru")
        await soon(fake.shown)
        await writer.finish(out("Run?", buttons=(Button("Yes", "y"),)))
        assert (fake.shown(), keys_shown(fake)) == (["Run?"], [True])


def keys_shown(fake: FakeTelegram) -> list[bool]:
    return ["reply_markup" in one for one in fake.messages[CHAT].values()]


async def test_a_file_that_is_refused_for_its_words_goes_with_other_words(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"x")
    file = Attachment("file", "a.txt", path=str(tmp_path / "a.txt"))
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        fake.fail(
            "sendDocument", FakeRefusal(400, "Bad Request: can't parse entities: Unsupported start tag")
        )
        await channel.send(out("**see**", attachments=(file,)))
        assert fake.shown() == ["**see**"]
        moved = FakeRefusal(400, "Bad Request: group chat was upgraded", migrate_to_chat_id=GROUP)
        fake.fail("sendDocument", moved)
        await channel.send(out("there", replace(HERE, chat="-4001"), attachments=(file,)))
        assert fake.shown(GROUP) == ["there"]


async def test_of_several_files_the_first_has_the_words(tmp_path: Path) -> None:
    files = []
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_bytes(b"x")
        files.append(Attachment("file", name, path=str(tmp_path / name)))
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        receipt = await channel.send(out("both", attachments=tuple(files)))
        assert fake.shown() == ["both", ""] and len(receipt.message_ids) == 2


@pytest.mark.parametrize(
    ("status", "permanent", "unknown"),
    [(400, True, False), (403, True, False), (500, False, False), (502, False, True), (504, False, True)],
)
async def test_a_refusal_says_whether_another_try_may_help_and_whether_it_may_have_been_done(
    status: int, permanent: bool, unknown: bool
) -> None:
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        fake.fail("sendMessage", FakeRefusal(status, "not now"))
        with pytest.raises(TelegramError) as refused:
            await channel.send(out("x"))
        assert (refused.value.permanent, refused.value.outcome_unknown) == (permanent, unknown)
        fake.fail("editMessageText", FakeRefusal(502, "Bad Gateway"))
        with pytest.raises(TelegramError) as edit:
            await channel.edit(HERE, "5", "x")
        assert not edit.value.outcome_unknown, "an edit does no harm twice"


async def test_a_refused_token_and_a_page_of_a_proxy_are_no_refusal_of_the_message() -> None:
    """The gateway waits while the token is refused, as during a 429, and tries again after a page."""
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        fake.fail("sendMessage", FakeRefusal(401, "Unauthorized"))
        fake.fail("sendMessage", FakeRefusal(404, "<html>Not Found</html>", is_page=True))
        for pauses in (True, False):
            with pytest.raises(TelegramError) as refused:
                await channel.send(out("x"))
            assert not refused.value.permanent and not refused.value.outcome_unknown
            assert (refused.value.retry_after_seconds is not None) == pauses
        await channel.send(out("x"))
        assert fake.shown() == ["x"]


async def test_a_file_that_breaks_off_is_not_taken_for_whole() -> None:
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        file = Attachment("file", "a.bin", key=fake.keep(b"x" * 300_000))
        fake.drop("file")
        with pytest.raises(DeliveryError, match="broke") as broken:
            async for _ in channel.fetch(Inbound(HERE, "", Sender("1")), file):
                pass
        assert TOKEN not in str(broken.value) and not broken.value.permanent


async def test_a_call_that_is_not_answered_in_time_may_have_been_done() -> None:
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        api: BotApi = channel._api()
        released = fake.hang("sendMessage")
        with pytest.raises(DeliveryError, match=r"did not answer sendMessage within 0\.1 s") as late:
            await api.call("sendMessage", {"chat_id": CHAT, "text": "x"}, seconds=0.1)
        released.set()
        assert late.value.outcome_unknown and not late.value.permanent and TOKEN not in str(late.value)
