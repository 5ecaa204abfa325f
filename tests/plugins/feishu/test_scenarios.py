"""The scenarios that every channel passes, against the platform's fake: both ways in, and the ways out."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from claw import Attachment, Button, DeliveryError, Inbound
from claw_feishu.fake import FakeAnswer, FakeFeishu, refusal
from claw_feishu.tenant import FeishuError
from plugins.feishu.places import QUICK, FakeInbox, channel, listening, outbound, shown

LONG_CONNECTION, WEBHOOK = "websocket", "webhook"
both = pytest.mark.parametrize("mode", [LONG_CONNECTION, WEBHOOK])


@both
async def test_a_message_comes_in_and_the_answer_quotes_it_in_the_same_chat(mode: str) -> None:
    async with FakeFeishu() as feishu, listening(feishu, mode=mode) as (us, inbox):
        said = await feishu.says("hello")
        await feishu.until(lambda: said.acked)
        (received,) = inbox.received
        receipt = await us.send(outbound(received, "hi"))

        assert (received.text, received.chat_type, received.address.chat) == (
            "hello", "direct", said.event["event"]["message"]["chat_id"],
        )  # fmt: skip
        (answer,) = feishu.ours
        assert receipt.message_ids == (answer.message_id,)
        assert (answer.chat_id, answer.reply_to) == (received.address.chat, received.message_id)
        assert shown(feishu) == ["hi"]


@both
async def test_a_message_that_claw_does_not_take_comes_again(mode: str) -> None:
    asked: list[Inbound] = []
    async with (
        FakeFeishu(ack_seconds=0.1) as feishu,
        listening(feishu, FakeInbox(takes=False, works=asked.append), mode=mode) as (_, inbox),
    ):
        said = await feishu.says("hello")
        await feishu.until(lambda: asked)
        assert not said.acked
        inbox.takes = True
        await feishu.advance(20)
        await feishu.until(lambda: said.acked)
        assert said.times >= 2
        assert {received.event_id for received in inbox.received} == {said.event_id}


@both
async def test_an_event_is_acknowledged_when_it_was_taken_and_not_before(mode: str) -> None:
    order: list[str] = []
    async with FakeFeishu() as feishu:
        inbox = FakeInbox(works=lambda inbound: order.append(f"submitted, acked: {feishu.acked}"))
        async with listening(feishu, inbox, mode=mode):
            said = await feishu.says("hello")
            await feishu.until(lambda: said.acked)
    assert order == ["submitted, acked: []"]


@both
async def test_an_event_of_an_unknown_kind_is_acknowledged_or_it_would_come_for_hours(mode: str) -> None:
    async with FakeFeishu() as feishu, listening(feishu, mode=mode) as (_, inbox):
        pushed = await feishu.push(feishu.event("im.message.message_read_v1", {"anything": 1}))
        await feishu.until(lambda: pushed.acked)
        assert inbox.received == []


@both
async def test_messages_of_one_chat_keep_their_order(mode: str) -> None:
    async with FakeFeishu() as feishu, listening(feishu, mode=mode) as (_, inbox):
        for number in range(20):
            await feishu.says(str(number))
        await feishu.until(lambda: len(feishu.acked) == 20)
        assert [received.text for received in inbox.received] == list(map(str, range(20)))


@both
async def test_wrong_credentials_are_said_in_one_clear_line(mode: str) -> None:
    async with FakeFeishu() as feishu, listening(feishu, up=False, mode=mode, appSecret="wrong") as (us, _):
        await feishu.until(lambda: us.state.state == "failed")
        assert "app secret invalid" in us.state.detail
        assert "appSecret in the developer console" in us.state.detail
        assert "wrong" not in us.state.detail
        assert us.state.last_error == us.state.detail


async def test_an_app_without_a_bot_is_reported_with_how_to_get_one() -> None:
    async with FakeFeishu() as feishu:
        feishu.fail("bot/v3/info", FakeAnswer(body={"code": 0, "msg": "ok"}), times=1)
        async with listening(feishu, up=False) as (us, _):
            await feishu.until(lambda: us.state.state == "failed")
            assert "Add the bot feature" in us.state.detail
            await feishu.until(lambda: us.state.state == "up")  # fixed in the console, without a restart


@pytest.mark.parametrize("path", ["bot/v3/info", "tenant_access_token"])
async def test_a_page_of_a_proxy_at_the_start_is_asked_past_soon(path: str) -> None:
    async with FakeFeishu() as feishu:
        feishu.fail(path, FakeAnswer(404, b"<html>404 Not Found</html>", content_type="text/html"), times=1)
        async with listening(feishu, up=False, mode=WEBHOOK, pace=replace(QUICK, rest_seconds=60)) as (us, _):
            await feishu.until(lambda: us.state.state == "up")


async def test_before_we_know_who_we_are_no_event_is_taken() -> None:
    async with FakeFeishu() as feishu:
        feishu.fail("bot/v3/info", refusal(99991672, "scopes is required: [x]"), times=10_000)
        async with listening(feishu, up=False, mode=WEBHOOK) as (us, inbox):
            await feishu.until(lambda: us.state.state == "failed")
            said = await feishu.says("is this for you?", group=True)
            assert not said.acked
            assert await feishu.check_address()  # the console may still check the address
            assert inbox.received == []


async def test_a_group_message_says_whether_it_is_meant_for_us() -> None:
    async with FakeFeishu() as feishu, listening(feishu) as (_, inbox):
        await feishu.says("good afternoon", group=True)
        await feishu.says("sum it up", group=True, mention=True)
        await feishu.until(lambda: len(feishu.acked) == 2)
        visible = {received.text: (received.chat_type, received.mentions_us) for received in inbox.received}
        assert visible == {"good afternoon": ("group", False), "sum it up": ("group", True)}


async def test_an_answer_to_one_of_our_messages_is_meant_for_us_and_carries_what_it_quotes() -> None:
    async with FakeFeishu() as feishu, listening(feishu) as (us, inbox):
        feishu.people["ou_li"] = "李四"
        feishu.chats["oc_team"] = {"name": "项目群", "chat_mode": "topic"}
        ours = await us.send(outbound(None, "the plan"))
        await feishu.says("go on", "ou_li", chat="oc_team", group=True, parent=ours.message_ids[0])
        await feishu.until(lambda: feishu.acked)
        (received,) = inbox.received
        assert received.mentions_us
        assert received.sender.name == "李四"
        assert (received.around.chat_name, received.around.is_forum) == ("项目群", True)
        assert received.around.quoted is not None
        assert received.around.quoted.text == "the plan"


async def test_an_answer_to_somebody_else_is_not_meant_for_us() -> None:
    async with FakeFeishu() as feishu, listening(feishu) as (_, inbox):
        first = await feishu.says("lunch?", "ou_zhang", chat="oc_team", group=True)
        parent = first.event["event"]["message"]["message_id"]
        await feishu.says("yes", "ou_li", chat="oc_team", group=True, parent=parent)
        await feishu.until(lambda: len(inbox.received) == 2)
        received = inbox.received[1]
        assert received.around.quoted is not None and received.around.quoted.text == "lunch?"
        assert not received.mentions_us


async def test_names_that_cannot_be_had_are_not_asked_for_again_and_hold_nothing_up() -> None:
    async with FakeFeishu() as feishu, listening(feishu) as (_, inbox):
        for text in ("one", "two"):
            said = await feishu.says(text)
            await feishu.until(lambda said=said: said.acked)
        assert [received.sender.name for received in inbox.received] == ["", ""]
        assert len(feishu.calls("contact/v3/users")) == 1


async def test_an_answer_stays_in_its_topic() -> None:
    async with FakeFeishu() as feishu, listening(feishu) as (us, inbox):
        await feishu.says("in a topic", group=True, thread="omt_1")
        await feishu.until(lambda: feishu.acked)
        (received,) = inbox.received
        await us.send(outbound(received, "first"))
        await us.send(outbound(received, "second", key="k2", reply_to=None))
        assert received.address.thread == "omt_1"
        assert [(one.thread_id, one.reply_to != "") for one in feishu.ours] == [("omt_1", True)] * 2
        assert all(call.body["reply_in_thread"] for call in feishu.calls("/reply"))


async def test_a_topic_that_we_know_nothing_of_is_looked_up() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        async with listening(feishu) as (_, inbox):
            await feishu.says("long ago", group=True, thread="omt_2")
            await feishu.until(lambda: feishu.acked)
        await us.send(outbound(inbox.received[0], "later", reply_to=None))
        assert feishu.ours[0].thread_id == "omt_2"


async def test_the_same_key_twice_shows_one_message() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        receipts = {await us.send(outbound(None, "once")) for _ in range(2)}
        assert shown(feishu) == ["once"]
        assert len(receipts) == 1


async def test_after_a_lost_connection_the_missed_message_arrives() -> None:
    async with FakeFeishu(ack_seconds=0.2) as feishu, listening(feishu) as (us, inbox):
        feishu.drop()
        await feishu.says("while you were away")
        await feishu.until(lambda: inbox.received)
        await feishu.until(lambda: us.state.state == "up")
        assert us.state.reconnects == 1
        assert us.state.last_error
        assert feishu.connections == 2


async def test_a_connection_that_falls_silent_is_recreated() -> None:
    async with FakeFeishu(ack_seconds=0.1, ping_seconds=0.1) as feishu, listening(feishu) as (us, inbox):
        await feishu.until(lambda: us.state.last_frame_at)
        feishu.mute = True
        await feishu.until(lambda: us.state.state == "waiting" or feishu.connections > 1)
        feishu.mute = False
        await feishu.says("still there?")
        await feishu.until(lambda: inbox.received)
        assert feishu.connections >= 2


async def test_an_event_in_parts_that_come_out_of_order_is_one_event_and_one_acknowledgement() -> None:
    async with FakeFeishu() as feishu, listening(feishu) as (_, inbox):
        feishu.split = 3
        said = await feishu.says("one, two, three " * 50)
        await feishu.until(lambda: said.acked)
        assert said.times == len(inbox.received) == 1


async def test_too_many_connections_is_something_for_a_person() -> None:
    async with FakeFeishu() as feishu:
        feishu.most_connections = 0
        async with listening(feishu, up=False) as (us, _):
            await feishu.until(lambda: us.state.state == "failed")
            assert "too many connections" in us.state.detail
            feishu.most_connections = 50
            await feishu.until(lambda: us.state.state == "up")


@pytest.mark.parametrize(
    "body", [{"code": 1, "msg": "system busy"}, {"code": 1000040343, "msg": "internal error"}]
)
async def test_a_busy_endpoint_is_tried_again(body: dict[str, Any]) -> None:
    async with FakeFeishu() as feishu:
        feishu.fail("ws/endpoint", FakeAnswer(body=body), times=3)
        async with listening(feishu) as (us, _):
            assert us.state.state == "up"
            assert len(feishu.calls("ws/endpoint")) == 4


async def test_an_endpoint_that_fails_is_asked_again() -> None:
    async with FakeFeishu() as feishu:
        feishu.fail("ws/endpoint", FakeAnswer(500, {"msg": "down"}), times=5)
        async with listening(feishu, up=False) as (us, _):
            await feishu.until(lambda: us.state.detail)
            assert us.state.state == "waiting", "nothing for a person"
            await feishu.until(lambda: us.state.state == "up")


async def test_a_stale_token_is_renewed_once_and_the_message_goes_out() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        await us.send(outbound(None, "before"))
        feishu.expire_token()
        await us.send(outbound(None, "after", key="k2"))
        assert shown(feishu) == ["before", "after"]
        assert len(feishu.calls("tenant_access_token")) == 2


async def test_a_token_that_is_never_right_is_not_asked_for_for_ever() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        feishu.fail("im/v1/messages", refusal(99991663, "Invalid access token"), times=100)
        with pytest.raises(FeishuError) as caught:
            await us.send(outbound(None, "hi"))
        assert (caught.value.code, caught.value.permanent) == (99991663, False)
        assert len(feishu.calls("im/v1/messages")) == 2


async def test_many_senders_ask_for_one_token() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        await asyncio.gather(*(us.send(outbound(None, f"{n}", key=f"k{n}")) for n in range(10)))
        assert len(feishu.calls("tenant_access_token")) == 1


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (refusal(99991400, "limit", 429, {"x-ogw-ratelimit-reset": "7"}), 7.0),
        (refusal(99991400, "limit", 400, {"X-Ogw-Ratelimit-Reset": "2"}), 2.0),
        (refusal(230020, "chat rate limit"), 1.0),
        (refusal(99991400, "limit", 429, {"x-ogw-ratelimit-reset": "99999"}), 300.0),
    ],
)
async def test_a_rate_limit_says_how_long_to_wait(answer: FakeAnswer, seconds: float) -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        feishu.fail("POST /open-apis/im/v1/messages", answer)
        with pytest.raises(DeliveryError) as caught:
            await us.send(outbound(None, "hi"))
        assert (caught.value.retry_after_seconds, caught.value.permanent) == (seconds, False)
        await us.send(outbound(None, "hi"))
        assert shown(feishu) == ["hi"]


async def test_a_refusal_for_good_is_permanent_and_asked_once() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        feishu.left.add("oc_chat")
        with pytest.raises(FeishuError) as caught:
            await us.send(outbound(None, "**hi**"))
        assert (caught.value.permanent, caught.value.code) == (True, 230002)
        assert caught.value.log_id == "20260101fake"
        assert "Add the bot to the chat" in str(caught.value)
        assert len(feishu.calls("im/v1/messages")) == 1


async def test_a_missing_scope_is_named() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        feishu.missing_scopes.add("im:message:send_as_bot")
        with pytest.raises(FeishuError) as caught:
            await us.send(outbound(None, "hi"))
        assert caught.value.permanent
        assert caught.value.scopes == ("im:message:send_as_bot",)
        assert "publish a version: im:message:send_as_bot" in str(caught.value)


async def test_a_connection_that_breaks_after_the_request_leaves_the_outcome_open() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        feishu.cut("POST /open-apis/im/v1/messages", 5)
        with pytest.raises(DeliveryError) as caught:
            await us.send(outbound(None, "hi"))
        assert caught.value.outcome_unknown
        await us.send(outbound(None, "hi"))
        assert shown(feishu) == ["hi"]  # the key made the repeat harmless


async def test_a_service_that_is_not_there_is_worth_another_try() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        await feishu.stop()
        with pytest.raises(DeliveryError) as caught:
            await us.send(outbound(None, "hi"))
    assert (caught.value.permanent, caught.value.outcome_unknown) == (False, False)


async def test_an_answer_to_a_message_that_was_recalled_is_said_again() -> None:
    async with FakeFeishu() as feishu, listening(feishu) as (us, inbox):
        await feishu.says("oops")
        await feishu.until(lambda: feishu.acked)
        feishu.messages[inbox.received[0].message_id].deleted = True
        await us.send(outbound(inbox.received[0], "hi"))
        assert [(one.chat_id, one.reply_to) for one in feishu.ours] == [(inbox.received[0].address.chat, "")]


async def test_an_answer_to_a_message_of_a_topic_that_was_recalled_stays_in_the_topic() -> None:
    async with FakeFeishu() as feishu, listening(feishu) as (us, inbox):
        for text in ("a topic", "oops"):
            said = await feishu.says(text, group=True, thread="omt_1")
            await feishu.until(lambda said=said: said.acked)
        first, recalled = inbox.received
        feishu.messages[recalled.message_id].deleted = True
        await us.send(outbound(recalled, "hi"))
        assert [(one.thread_id, one.reply_to) for one in feishu.ours] == [("omt_1", first.message_id)]

        for message in feishu.messages.values():
            message.deleted = True
        await us.send(outbound(recalled, "and more", key="k2"))
        assert [(one.chat_id, one.reply_to) for one in feishu.ours] == [(recalled.address.chat, "")]


async def test_files_go_out_and_come_in(tmp_path: Path) -> None:
    picture, paper = tmp_path / "a.png", tmp_path / "报价.pdf"
    picture.write_bytes(b"\x89PNG" * 10)
    paper.write_bytes(b"%PDF" * 10)
    async with FakeFeishu() as feishu, listening(feishu) as (us, inbox):
        files = (Attachment("image", path=str(picture)), Attachment("file", path=str(paper)))
        receipt = await us.send(outbound(None, "", attachments=files))
        assert [one.msg_type for one in feishu.ours] == ["image", "file"]
        assert len(receipt.message_ids) == 2
        form = feishu.calls("im/v1/files")[0].body
        assert (form["file_type"], form["file_name"]) == ("pdf", "报价.pdf")

        key = feishu.ours[0].content["image_key"]
        await feishu.says(msg_type="image", content={"image_key": key})
        await feishu.until(lambda: inbox.received)
        (received,) = inbox.received
        (attachment,) = received.attachments
        assert b"".join([piece async for piece in us.fetch(received, attachment)]) == picture.read_bytes()
        assert feishu.calls("/resources/")[0].query == {"type": "image"}


async def test_a_voice_note_is_sent_as_one(tmp_path: Path) -> None:
    note = tmp_path / "note.ogg"
    note.write_bytes(b"OggS")
    async with FakeFeishu() as feishu, channel(feishu) as us:
        await us.send(outbound(None, "", attachments=(Attachment("audio", path=str(note)),), voice=True))
        assert feishu.ours[0].msg_type == "audio"


async def test_a_file_that_is_too_large_is_refused_on_both_ways(tmp_path: Path) -> None:
    large = tmp_path / "large.bin"
    with large.open("wb") as file:
        file.truncate((30 << 20) + 1)
    async with FakeFeishu() as feishu, listening(feishu) as (us, inbox):
        with pytest.raises(DeliveryError, match="Feishu takes 1 to") as caught:
            await us.send(outbound(None, "", attachments=(Attachment("file", path=str(large)),)))
        assert caught.value.permanent
        assert feishu.log[-1].path != "/open-apis/im/v1/files"

        await feishu.says(msg_type="file", content={"file_key": "file_1", "file_name": "x"})
        await feishu.until(lambda: inbox.received)
        feishu.fail("/resources/", FakeAnswer(body=b"x", headers={"Content-Length": str(200 << 20)}))
        with pytest.raises(DeliveryError, match="at most"):
            _ = [piece async for piece in us.fetch(inbox.received[0], inbox.received[0].attachments[0])]
        with pytest.raises(DeliveryError, match="File not in msg"):
            _ = [piece async for piece in us.fetch(inbox.received[0], inbox.received[0].attachments[0])]


async def test_a_file_of_json_is_a_file_and_not_an_answer() -> None:
    async with FakeFeishu() as feishu, listening(feishu) as (us, inbox):
        await feishu.says(msg_type="file", content={"file_key": "file_1", "file_name": "x.json"})
        await feishu.until(lambda: inbox.received)
        feishu.fail("/resources/", FakeAnswer(body={"a": 1}))
        pieces = [piece async for piece in us.fetch(inbox.received[0], inbox.received[0].attachments[0])]
        assert json.loads(b"".join(pieces)) == {"a": 1}


@both
async def test_a_pressed_button_comes_in_with_its_value_and_is_answered_at_once(mode: str) -> None:
    async with FakeFeishu() as feishu, listening(feishu, mode=mode) as (us, inbox):
        feishu.chats["oc_chat"] = {"chat_mode": "p2p"}
        buttons = (Button("Allow", "approve:ap_1", "primary"), Button("Deny", "deny:ap_1", "danger"))
        receipt = await us.send(outbound(None, "May I?", buttons=buttons))
        pressed = await feishu.presses(receipt.message_ids[0], "Deny", "ou_boss")
        await feishu.until(lambda: pressed.acked)
        (received,) = inbox.received
        assert (received.kind, received.text, received.sender.id) == ("button", "deny:ap_1", "ou_boss")
        assert (received.message_id, received.address.chat) == (receipt.message_ids[0], "oc_chat")
        assert received.chat_type == "direct"
        assert pressed.answer


async def test_a_reaction_comes_in_with_the_chat_of_its_message() -> None:
    async with FakeFeishu() as feishu, listening(feishu) as (us, inbox):
        receipt = await us.send(outbound(None, "done"))
        await feishu.reacts(receipt.message_ids[0], "THUMBSUP")
        unknown = await feishu.says("hello", chat="oc_other")
        await feishu.until(lambda: len(feishu.acked) == 2)
        (received,) = [one for one in inbox.received if one.kind == "reaction"]
        assert (received.text, received.address.chat) == ("THUMBSUP", "oc_chat")
        assert unknown.acked


async def test_reactions_go_on_and_off_also_after_a_restart() -> None:
    async with FakeFeishu() as feishu:
        async with channel(feishu) as us:
            (id,) = (await us.send(outbound(None, "hi"))).message_ids
            await us.react(outbound().address, id, "👍")
            assert [kind for _, kind, _ in feishu.reactions.values()] == ["THUMBSUP"]
        async with channel(feishu) as after_restart:
            await after_restart.react(outbound().address, id, "👍", remove=True)
            assert feishu.reactions == {}


async def test_a_reaction_stands_for_typing_until_the_turn_is_over() -> None:
    async with FakeFeishu() as feishu, listening(feishu) as (us, inbox):
        await feishu.says("think")
        await feishu.until(lambda: inbox.received)
        place = inbox.received[0].address, inbox.received[0].message_id
        for _ in range(3):
            await us.typing(*place)
        assert [kind for _, kind, _ in feishu.reactions.values()] == ["Typing"]
        await us.settled(*place)
        await us.settled(*place)
        assert feishu.reactions == {}


@pytest.mark.parametrize("lost", ["its response", "two removals", "a removal for a moment"])
async def test_a_typing_reaction_goes_also_when_the_line_breaks(lost: str) -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        (id,) = (await us.send(outbound(None, "hi"))).message_ids
        if lost == "its response":
            feishu.cut("POST /open-apis/im/v1/messages/", 5)
        for _ in range(2):
            await us.typing(outbound().address, id)
        assert [kind for _, kind, _ in feishu.reactions.values()] == ["Typing"]
        if lost == "two removals":
            feishu.fail("DELETE /open-apis/im/v1/messages/", FakeAnswer(502, "bad gateway"), times=2)
        elif lost == "a removal for a moment":
            busy = {"code": 99991400, "msg": "request trigger frequency limit"}
            feishu.fail("DELETE /open-apis/im/v1/messages/", FakeAnswer(429, busy, {"retry-after": "1"}))
        await us.settled(outbound().address, id)
        assert feishu.reactions == {}


async def test_a_typing_reaction_that_a_killed_process_left_is_removed_and_no_other() -> None:
    async with FakeFeishu() as feishu:
        async with channel(feishu) as killed:
            (id,) = (await killed.send(outbound(None, "hi"))).message_ids
            await killed.typing(outbound().address, id)
            await killed.react(outbound().address, id, "👍")
        feishu.reactions["re_theirs"] = (id, "Typing", "ou_1")
        async with channel(feishu) as us:
            await us.typing(outbound().address, id)  # this process answers it again
            await us.remove_left_typing(outbound().address, id)
            await us.remove_left_typing(outbound().address, "om_gone")
            kinds = sorted((kind, who) for _, kind, who in feishu.reactions.values())
            assert kinds == [("THUMBSUP", feishu.app_id), ("Typing", feishu.app_id), ("Typing", "ou_1")]
            await us.settled(outbound().address, id)
            assert sorted(kind for _, kind, _ in feishu.reactions.values()) == ["THUMBSUP", "Typing"]


async def test_an_app_that_may_not_react_is_not_asked_again() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        feishu.missing_scopes.add("im:message.reactions:write_only")
        (id,) = (await us.send(outbound(None, "hi"))).message_ids
        for _ in range(3):
            await us.typing(outbound().address, id)
        await us.settled(outbound().address, id)
        assert len(feishu.calls("/reactions")) == 1


async def test_our_messages_are_edited_and_taken_back() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        (post,) = (await us.send(outbound(None, "**one**"))).message_ids
        (card,) = (await us.send(outbound(None, "```\ncode\n```", key="k2"))).message_ids
        await us.edit(outbound().address, post, "two")
        await us.edit(outbound().address, card, "three")
        assert shown(feishu) == ["two", "three"]
        await us.delete(outbound().address, post)
        assert shown(feishu) == ["three"]


@both
async def test_it_stops_at_once_and_leaves_no_task(mode: str) -> None:
    before = asyncio.all_tasks()
    async with FakeFeishu() as feishu:
        loop = asyncio.get_running_loop()
        async with listening(feishu, mode=mode) as (us, inbox):
            await feishu.says("hello")
            await feishu.until(lambda: inbox.received)
            began = loop.time()
        assert loop.time() - began < 2
        assert await us.receive(feishu.pushed[0].event) is None
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_a_message_that_claw_chokes_on_is_not_acknowledged_and_ends_nothing() -> None:
    def choke(inbound: Inbound) -> None:
        if inbound.text == "bad":
            raise RuntimeError("disk full")

    async with (
        FakeFeishu(ack_seconds=0.1) as feishu,
        listening(feishu, FakeInbox(works=choke)) as (us, inbox),
    ):
        bad = await feishu.says("bad", chat="oc_1")
        good = await feishu.says("good", chat="oc_2")
        await feishu.until(lambda: good.acked)
        assert not bad.acked
        assert {received.text for received in inbox.received} == {"good"}
        assert us.state.last_error == "disk full"
        assert feishu.connections == 1


async def test_no_secret_is_ever_in_an_error_or_a_state(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeFeishu(app_secret="hush-hush-app-secret") as feishu:
        feishu.fail("bot/v3/info", FakeAnswer(500, {"msg": "no"}), times=2)
        feishu.fail("ws/endpoint", FakeAnswer(body={"code": 9, "msg": "no"}), times=2)
        async with listening(feishu) as (us, _):
            visible = json.dumps([us.state.detail, us.state.last_error, repr(us.settings)])
        assert "hush-hush" not in visible + caplog.text
