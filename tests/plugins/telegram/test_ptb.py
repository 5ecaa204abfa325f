"""The fake speaks the Bot API: python-telegram-bot, which knows nothing of us, works with it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from claw_telegram.fake import FakeRefusal, FakeTelegram, too_fast

telegram = pytest.importorskip("telegram")
from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup, ReplyParameters, Update  # noqa: E402
from telegram.error import BadRequest, Conflict, InvalidToken, NetworkError, RetryAfter  # noqa: E402
from telegram.ext import Application, CallbackQueryHandler, MessageHandler, filters  # noqa: E402

pytestmark = pytest.mark.xdist_group("ptb")
CHAT = FakeTelegram.CHAT


@asynccontextmanager
async def a_bot(fake: FakeTelegram, token: str = "") -> AsyncIterator[Bot]:
    async with Bot(token or fake.token, f"{fake.url}/bot", f"{fake.url}/file/bot") as bot:
        yield bot


@asynccontextmanager
async def polling(
    fake: FakeTelegram, *handlers: Any
) -> AsyncIterator[Application[Any, Any, Any, Any, Any, Any]]:
    builder = Application.builder().token(fake.token)
    app = builder.base_url(f"{fake.url}/bot").base_file_url(f"{fake.url}/file/bot").build()
    app.add_handlers(handlers)
    async with app:
        await app.updater.start_polling(timeout=1, poll_interval=0)
        await app.start()
        try:
            yield app
        finally:
            await app.updater.stop()
            await app.stop()


async def soon(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_bot_knows_itself_and_a_wrong_token_is_refused() -> None:
    async with FakeTelegram() as fake:
        async with a_bot(fake) as bot:
            assert (bot.username, bot.id) == ("claw_bot", fake.bot["id"])
        with pytest.raises(InvalidToken):
            async with a_bot(fake, "1:wrong"):
                pass


async def test_html_is_read_with_its_entities_and_bad_html_refused() -> None:
    async with FakeTelegram() as fake, a_bot(fake) as bot:
        sent = await bot.send_message(
            CHAT, '🦀 <b>bold <i>both</i></b> <pre><code class="language-py">a &lt; b</code></pre>', "HTML"
        )
        assert sent.text == "🦀 bold both a < b"
        assert [sent.parse_entity(entity) for entity in sent.entities] == [
            "bold both",
            "both",
            "a < b",
            "a < b",
        ]
        for bad in ("<b>x", "<b><i>x</b></i>", "<think>x", "a < b", "<code><b>x</b></code>"):
            with pytest.raises(BadRequest, match="parse entities"):
                await bot.send_message(CHAT, bad, "HTML")


async def test_texts_are_counted_in_utf16_units_after_reading() -> None:
    async with FakeTelegram() as fake, a_bot(fake) as bot:
        await bot.send_message(CHAT, f"<b>{'🦀' * 2048}</b>", "HTML")
        with pytest.raises(BadRequest, match="too long"):
            await bot.send_message(CHAT, "🦀" * 2048 + "x")


async def test_edits_deletes_quotes_topics_buttons_and_files() -> None:
    async with FakeTelegram() as fake, a_bot(fake) as bot:
        fake.topics[FakeTelegram.GROUP] = {42}
        asked = fake.says("hi")["message"]["message_id"]
        keys = InlineKeyboardMarkup([[InlineKeyboardButton("Yes", callback_data="y")]])
        sent = await bot.send_message(CHAT, "ok", reply_parameters=ReplyParameters(asked), reply_markup=keys)
        assert sent.reply_to_message and sent.reply_to_message.message_id == asked
        with pytest.raises(BadRequest, match="not found"):
            await bot.send_message(CHAT, "ok", reply_parameters=ReplyParameters(9999))
        await sent.edit_text("better")
        with pytest.raises(BadRequest, match="not modified"):
            await sent.edit_text("better")
        assert fake.shown() == ["better"]
        assert await sent.delete()
        assert (await bot.send_message(FakeTelegram.GROUP, "x", message_thread_id=42)).is_topic_message
        with pytest.raises(BadRequest, match="thread not found"):
            await bot.send_message(FakeTelegram.GROUP, "x", message_thread_id=1)
        document = await bot.send_document(
            CHAT, b"some bytes\r\n", filename="a.txt", caption="<b>c</b>", parse_mode="HTML"
        )
        assert document.caption == "c" and document.document
        assert bytes(await (await document.document.get_file()).download_as_bytearray()) == b"some bytes\r\n"


async def test_failures_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTB_TIMEDELTA", "1")  # the library's own switch; without it, it warns
    async with FakeTelegram() as fake, a_bot(fake) as bot:
        fake.fail("sendMessage", too_fast(3))
        with pytest.raises(RetryAfter) as pressed:
            await bot.send_message(CHAT, "x")
        assert pressed.value.retry_after == timedelta(seconds=3)
        fake.fail("sendMessage", FakeRefusal(403, "Forbidden: bot was blocked by the user"))
        with pytest.raises(telegram.error.Forbidden):
            await bot.send_message(CHAT, "x")
        fake.drop("sendMessage")
        with pytest.raises(NetworkError):
            await bot.send_message(CHAT, "x")
        assert fake.shown() == []


async def test_an_application_polls_and_what_it_confirmed_is_gone() -> None:
    received: list[str] = []

    async def hear(update: Update, _: Any) -> None:
        assert update.effective_message and update.effective_message.text
        received.append(update.effective_message.text)
        await update.effective_message.reply_text(f"echo {received[-1]}")

    async def press(update: Update, _: Any) -> None:
        assert update.callback_query
        received.append(str(update.callback_query.data))
        await update.callback_query.answer()

    async with FakeTelegram() as fake:
        fake.says("one")
        async with polling(fake, MessageHandler(filters.TEXT, hear), CallbackQueryHandler(press)):
            fake.says("two")
            await soon(lambda: len(fake.shown()) == 2)
            fake.presses(max(fake.messages[CHAT]), "ap:1")
            await soon(lambda: received == ["one", "two", "ap:1"])
            await soon(lambda: not fake.pending)
        assert fake.shown() == ["echo one", "echo two"]
        assert len(fake.calls("answerCallbackQuery")) == 1


async def test_the_older_of_two_pollers_and_every_one_beside_a_webhook_gets_a_409() -> None:
    async with FakeTelegram() as fake, a_bot(fake) as bot, a_bot(fake) as other:
        first = asyncio.ensure_future(bot.get_updates(timeout=5))
        await soon(lambda: fake.calls("getUpdates"))
        second = asyncio.ensure_future(other.get_updates(timeout=5))
        with pytest.raises(Conflict):
            await first
        fake.says("news")
        assert len(await second) == 1
        await bot.set_webhook(f"{fake.url}/nowhere")
        with pytest.raises(Conflict, match="webhook is active"):
            await bot.get_updates(timeout=0)
        await bot.delete_webhook(drop_pending_updates=False)
        assert len(await bot.get_updates(timeout=0)) == 1


async def test_a_draft_is_shown_in_a_private_chat_and_is_no_message() -> None:
    async with FakeTelegram() as fake, a_bot(fake) as bot:
        assert await bot.send_message_draft(CHAT, 7, "<b>Half</b> of", parse_mode="HTML")
        assert await bot.send_message_draft(CHAT, 7)
        assert fake.drafts == {CHAT: [(7, "Half of"), (7, "")]} and fake.shown() == []
        for chat, number in ((FakeTelegram.GROUP, 7), (CHAT, 0)):
            with pytest.raises(BadRequest):
                await bot.send_message_draft(chat, number, "x")


async def test_reactions_come_only_to_a_bot_that_asks_for_them_by_name() -> None:
    def reacts() -> None:
        person, chat = {"id": 1, "is_bot": False, "first_name": "A"}, {"id": CHAT, "type": "private"}
        change = {"old_reaction": [], "new_reaction": [{"type": "emoji", "emoji": "👍"}]}
        fake.update(message_reaction={"chat": chat, "message_id": 5, "user": person, "date": 1, **change})

    async with FakeTelegram() as fake, a_bot(fake) as bot:
        reacts()
        assert await bot.get_updates(timeout=0, allowed_updates=["message", "message_reaction"]) == ()
        reacts()
        [update] = await bot.get_updates(timeout=0)
        assert update.message_reaction and update.message_reaction.new_reaction[0].emoji == "👍"
        assert await bot.get_updates(update.update_id + 1, timeout=0, allowed_updates=["poll"]) == ()
        fake.says("not asked for")
        assert await bot.get_updates(timeout=0) == ()
