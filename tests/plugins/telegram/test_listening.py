"""Long polling of Telegram over weeks: requests, pauses, and work that must not be delayed."""

import asyncio
import logging
from dataclasses import replace

import pytest
from claw import DeliveryError
from claw_telegram.api import TelegramError
from claw_telegram.fake import FakeRefusal, FakeTelegram, too_fast
from claw_telegram.inbound import TelegramBot
from claw_telegram.poller import Poller, PollTimings, poll_failure
from plugins.telegram.bench import MENU, QUICK, RecordingInbox, channel_at, listening, running, soon
from plugins.telegram.test_telegram import CHAT, GROUP, HERE, THERE, out


def refused(status: int, said: str = "no", **more: object) -> TelegramError:
    return TelegramError("getUpdates", status, said, more)


class TestPace:
    def test_a_poll_has_fifteen_seconds_more_than_telegram_may_hold_it(self) -> None:
        assert (PollTimings().poll, PollTimings().grace) == (25, 15)

    def test_somebody_else_who_polls_is_given_five_seconds_and_then_more_up_to_a_minute(self) -> None:
        pauses = [poll_failure(refused(409), failures, PollTimings()).seconds for failures in range(1, 9)]
        most = [5, 10, 20, 40, 60, 60, 60, 60]
        assert all(0.8 * limit <= pause <= limit for pause, limit in zip(pauses, most, strict=True))

    def test_after_a_failure_the_pauses_double_up_to_a_minute(self) -> None:
        pauses = [
            poll_failure(DeliveryError("broke"), failures, PollTimings()).seconds
            for failures in (1, 2, 5, 50)
        ]
        assert all(0.8 * limit <= pause <= limit for pause, limit in zip(pauses, (1, 2, 16, 60), strict=True))

    @pytest.mark.parametrize("status", [401, 404])
    def test_a_token_that_is_refused_is_tried_after_a_second_and_then_more_and_more_slowly(
        self, status: int
    ) -> None:
        found = [poll_failure(refused(status), failures, PollTimings()) for failures in (1, 4, 50)]
        assert {one.kind for one in found} == {"token"}
        limits = (1, 8, 300)
        assert all(0.8 * most <= one.seconds <= most for one, most in zip(found, limits, strict=True))

    @pytest.mark.parametrize("status", [401, 403, 404])
    def test_a_page_of_a_proxy_says_nothing_of_the_token(self, status: int) -> None:
        page = TelegramError("getUpdates", status, "Not Found", {}, is_page=True)
        assert poll_failure(page, 1, PollTimings()).kind == "broken" and not page.permanent

    def test_a_pause_that_telegram_asks_for_is_taken_as_it_is(self) -> None:
        found = poll_failure(refused(429, retry_after=7), 9, PollTimings())
        assert (found.kind, found.seconds) == ("pressed", 7)


async def test_a_poll_that_hangs_gets_a_new_client_and_sends_keep_theirs() -> None:
    async with FakeTelegram() as fake:
        fake.hang("getUpdates")
        async with listening(fake, pace=replace(QUICK, poll=0, grace=0.1)) as (channel, inbox):
            fake.says("hello")
            await soon(lambda: inbox.texts == ["hello"])
            await channel.send(out("still here"))
        assert fake.shown() == ["still here"]


async def test_a_connection_that_broke_is_not_used_again() -> None:
    made = []

    class Broken:
        async def call(self, method: str, params: object, *, seconds: float) -> object:
            if len(made) < 3:
                raise DeliveryError("the connection broke")
            raise asyncio.CancelledError

        async def aclose(self) -> None:
            made[-1] = "closed"

    def connect() -> Broken:
        made.append("open")
        return Broken()

    poller = Poller(
        connect,  # type: ignore[arg-type]
        TelegramBot(1, "b"),
        submit=lambda inbound, update: RecordingInbox().submit(inbound),
        on_poll=lambda held: None,
        on_failure=lambda found, why: None,
        pace=PollTimings(first=0.001),
    )
    with pytest.raises(asyncio.CancelledError):
        await poller.run()
    assert made == ["closed"] * 3


async def test_after_a_success_the_pauses_start_over() -> None:
    """Once a poll that is held was left in peace: one that is not comes through also while somebody else polls."""
    broke = DeliveryError("broke")
    answers = [broke, [], broke, [], [], broke, asyncio.CancelledError()]
    pauses: list[float] = []

    class Script:
        async def call(self, method: str, params: object, *, seconds: float) -> object:
            said = answers.pop(0)
            if isinstance(said, BaseException):
                raise said
            return said

        async def aclose(self) -> None: ...

    poller = Poller(
        Script,  # type: ignore[arg-type]
        TelegramBot(1, "b"),
        submit=lambda inbound, update: RecordingInbox().submit(inbound),
        on_poll=lambda held: None,
        on_failure=lambda found, why: pauses.append(found.seconds),
        pace=PollTimings(first=0.01),
    )
    with pytest.raises(asyncio.CancelledError):
        await poller.run()
    first, second, third = pauses
    assert third <= 0.01 < second and first <= 0.01


async def test_two_who_poll_with_one_token_disturb_each_other_less_and_less_and_say_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pace = replace(QUICK, poll=30, conflict=0.1, most=5)
    async with FakeTelegram() as fake:
        async with listening(fake, pace=pace), listening(fake, pace=pace):
            await asyncio.sleep(1.5)
            assert sum("another process polls" in line for line in caplog.messages) == 2, "one of each"
            fake.says("hello")
            await soon(lambda: not fake.pending)
        assert len(fake.calls("getUpdates")) < 20, "twice in each tenth of a second it would be many more"


async def test_the_first_poll_reports_the_state_at_once() -> None:
    async with FakeTelegram() as fake, listening(fake, pace=replace(QUICK, poll=30)) as (channel, _):
        await soon(lambda: channel.state.state == "up")
        assert fake.calls("getUpdates")[0]["timeout"] == 0


async def test_a_stuck_send_holds_up_no_poll() -> None:
    async with FakeTelegram() as fake, listening(fake) as (channel, inbox):
        released = fake.hang("sendMessage")
        sending = asyncio.ensure_future(channel.send(out("slow")))
        await soon(lambda: fake.calls("sendMessage"))
        fake.says("meanwhile")
        await soon(lambda: inbox.texts == ["meanwhile"])
        released.set()
        await sending


@pytest.mark.parametrize("method", ["setMyCommands", "answerCallbackQuery"])
async def test_what_nobody_waits_for_holds_up_no_message(method: str) -> None:
    async with FakeTelegram() as fake:
        released = fake.hang(method)
        async with listening(fake) as (_, inbox):
            fake.presses(fake.message("Run?")["message_id"], "y")
            await soon(lambda: fake.calls(method))
            fake.says("meanwhile")
            await soon(lambda: inbox.texts[-1:] == ["meanwhile"])
            released.set()


async def test_a_button_that_was_not_taken_is_not_answered() -> None:
    async with FakeTelegram() as fake, listening(fake, *[False] * 3) as (_, inbox):
        fake.presses(fake.message("Run?")["message_id"], "y")
        await soon(lambda: len(inbox.received) == 3)
        assert fake.calls("answerCallbackQuery") == []
        await soon(lambda: len(fake.calls("answerCallbackQuery")) == 1)


async def test_reactions_come_as_they_were_asked_for() -> None:
    async with FakeTelegram() as fake, listening(fake) as (channel, inbox):
        await soon(lambda: channel.state.state == "up")
        person = {"id": 111222333, "is_bot": False, "first_name": "Zhang"}
        chat = {"id": CHAT, "type": "private"}
        put = {"old_reaction": [], "new_reaction": [{"type": "emoji", "emoji": "👍"}]}
        fake.update(message_reaction={"chat": chat, "message_id": 5, "user": person, "date": 1, **put})
        await soon(lambda: [one.kind for one in inbox.received] == ["reaction"])


async def test_a_group_that_reports_where_it_went_is_answered_there_and_its_new_number_is_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with FakeTelegram() as fake, listening(fake) as (channel, inbox):
        fake.says(chat=-4001, migrate_to_chat_id=GROUP)
        await soon(lambda: [one.kind for one in inbox.received] == ["migrate"])
        await channel.send(out("here", replace(THERE, chat="-4001")))
        await channel.typing(replace(THERE, chat="-4001"))
        assert fake.shown(GROUP) == ["here"] and fake.shown(-4001) == []
        assert [call["chat_id"] for call in fake.calls("sendChatAction")] == [GROUP]
        fake.says(chat=-4001, migrate_to_chat_id=GROUP)
        await soon(lambda: len(inbox.received) == 2)
    assert [line for line in caplog.messages if "list it under its new id" in line] == [
        f"telegram: the group -4001 became {GROUP}: list it under its new id"
    ]


async def test_the_menu_holds_every_chat_command_and_may_be_left_out() -> None:
    async with FakeTelegram() as fake, listening(fake) as (channel, _):
        await soon(lambda: fake.calls("setMyCommands"))
        shown = fake.calls("setMyCommands")[0]["commands"]
        assert [(one["command"], one["description"]) for one in shown] == [
            (name, meaning) for name, meaning, _ in MENU
        ]
        assert all(1 <= len(one["description"]) <= 256 for one in shown)
    async with FakeTelegram() as fake, listening(fake, commands=False) as (channel, _):
        await soon(lambda: channel.state.state == "up" and len(fake.calls("getUpdates")) > 1)
        assert fake.calls("setMyCommands") == []


async def test_a_token_of_no_shape_is_refused_as_one_that_nobody_knows() -> None:
    async with FakeTelegram() as fake, listening(fake, botToken="no-token") as (channel, _):
        await soon(lambda: channel.state.state == "failed")
        assert "BotFather" in channel.state.detail


ODD = {
    "401": FakeRefusal(401, "Unauthorized"),
    "404": FakeRefusal(404, "Not Found"),
    "page with 404": FakeRefusal(404, "<html>404 Not Found</html>", is_page=True),
    "page with 200": FakeRefusal(200, "<html>Sign in to this network</html>", is_page=True),
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("method", ["getMe", "getUpdates"])
async def test_an_odd_response_ends_nothing_and_the_next_good_one_heals(method: str, kind: str) -> None:
    async with FakeTelegram() as fake:
        fake.fail(method, ODD[kind], 2)
        async with listening(fake) as (channel, inbox):
            fake.says("hello")
            await soon(lambda: inbox.texts == ["hello"])
            assert (channel.state.state, channel.state.detail) == ("up", "")


async def test_a_token_that_is_refused_once_is_no_matter_for_a_person() -> None:
    async with FakeTelegram() as fake, listening(fake, pace=replace(QUICK, first=0.5)) as (channel, _):
        await soon(lambda: channel.state.state == "up")
        fake.fail("getUpdates", ODD["401"])
        fake.says("ends the poll that is held")
        await soon(lambda: channel.state.state != "up")
        assert channel.state.state == "waiting" and "Unauthorized" in channel.state.detail


async def test_a_token_that_is_taken_away_while_it_listens_is_reported_and_tried_until_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with FakeTelegram() as fake, listening(fake, pace=replace(QUICK, token=0.1)) as (channel, inbox):
        await soon(lambda: channel.state.state == "up")
        token, fake.token = fake.token, "1:another"
        fake.says("ends the poll that is held")
        await soon(lambda: channel.state.state == "failed")
        fake.says("while nobody has the token")
        assert "channels.telegram.botToken" in channel.state.detail and "BotFather" in channel.state.detail
        tried = len(fake.calls("getUpdates"))
        await soon(lambda: len(fake.calls("getUpdates")) > tried + 2)
        fake.token = token
        await soon(lambda: inbox.texts[1:] == ["while nobody has the token"])
        assert (channel.state.state, channel.state.reconnects) == ("up", 1)
    assert [line for line in caplog.messages if "refused getUpdates" in line] == [
        "telegram: Telegram refused getUpdates: Unauthorized (401)"
    ]


async def test_what_keeps_it_from_receiving_is_one_line_of_the_log_and_so_is_that_it_receives_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "claw_telegram")
    async with FakeTelegram() as fake, listening(fake) as (channel, _):
        await soon(lambda: channel.state.state == "up")
        fake.fail("getUpdates", FakeRefusal(409, "Conflict: terminated by other getUpdates request"), 3)
        fake.says("ends the poll")
        await soon(lambda: channel.state.reconnects == 1)
        fake.says("ends a poll that was held")
        await soon(lambda: "receiving messages again" in caplog.text)
    assert [(line.levelname, line.getMessage()) for line in caplog.records] == [
        (
            "WARNING",
            "telegram: another process polls with this bot's token; this one waits until you stop it",
        ),
        ("INFO", "telegram: receiving messages again"),
    ]


async def test_an_edit_in_a_private_chat_comes_each_second_and_in_a_group_each_third() -> None:
    loop = asyncio.get_running_loop()
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        writers = [channel.stream(out("", where)) for where in (HERE, THERE)]
        began = loop.time()
        for writer in writers:
            await writer.show("a")
        await soon(lambda: fake.shown() and fake.shown(GROUP))
        for writer in writers:
            await writer.show("a b")
        await soon(lambda: fake.shown() == ["a b"])
        assert loop.time() - began >= 1
        await asyncio.sleep(0.3)
        assert fake.shown(GROUP) == ["a"] or loop.time() - began >= 3
        for writer in writers:
            await writer.abandon()


async def test_an_edit_that_is_pressed_waits_and_no_second_message_appears() -> None:
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        (id,) = (await channel.send(out("half"))).message_ids
        fake.fail("editMessageText", too_fast(14))
        with pytest.raises(DeliveryError) as pressed:
            await channel.send(out("whole", replaces=(id,)))
        assert pressed.value.retry_after_seconds == 14 and fake.shown() == ["half"]


async def test_a_topic_stays_the_place_of_all_that_is_said_there() -> None:
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        fake.topics[GROUP] = {42}
        there = replace(THERE, thread="42")
        writer = channel.stream(out("", there))
        await writer.finish(out("streamed", there))
        await channel.poll(there, "Tea?", ("yes", "no"))
        await channel.typing(there)
        said = [*fake.calls("sendMessage"), *fake.calls("sendPoll"), *fake.calls("sendChatAction")]
        assert [call["message_thread_id"] for call in said] == [42, 42, 42]


async def test_a_channel_that_stopped_receives_nothing_more() -> None:
    inbox = RecordingInbox()
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        async with running(channel, inbox):
            await soon(lambda: channel.state.state == "up")
        fake.says("too late")
        await asyncio.sleep(0.05)
        assert inbox.received == [] and len(fake.pending) == 1
