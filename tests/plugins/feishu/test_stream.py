"""A reply that grows on a card, and what remains of it when something goes wrong."""

import asyncio
import json
import time
from dataclasses import replace

import pytest
from claw import Address, Button, DeliveryError, Outbound
from claw_channel_sdk import StreamingReply, split_text
from claw_feishu.fake import FakeAnswer, FakeFeishu, refusal
from claw_feishu.longconn import LongConnectionTimings
from claw_feishu.outbound import card_pieces
from plugins.feishu.places import channel, outbound, shown

ANSWER = "已经帮你创建了 `list_files.py`。\n\n运行方式:\n```bash\npython list_files.py\n```"


async def grow(writer: StreamingReply, text: str, feishu: FakeFeishu, step: int = 10) -> None:
    for end in range(step, len(text) + step, step):
        await writer.show(text[:end])
        await asyncio.sleep(0.012)


def die() -> None:
    """Cancel the tasks of the cards, as the end of a process does."""
    for task in asyncio.all_tasks():
        if task.get_name() == "feishu card":
            task.cancel()


async def test_the_card_grows_by_whole_texts_and_ends_closed_with_the_answer() -> None:
    async with FakeFeishu() as feishu, channel(feishu, LongConnectionTimings(card_seconds=0.15)) as us:
        writer = us.stream(outbound())
        for end in (2, 5, 9):
            await writer.show(ANSWER[:end])
            await feishu.until(lambda end=end: shown(feishu) == [ANSWER[:end]])
        receipt = await writer.finish(outbound(text=ANSWER))

        (message,) = feishu.ours
        card = feishu.card_of(message.message_id)
        assert receipt.message_ids == (message.message_id,) == writer.shown
        assert card.history == [ANSWER[:2], ANSWER[:5], ANSWER[:9], ANSWER]
        assert (card.text, card.jumps, card.streaming, card.finished) == (ANSWER, 0, False, 1)
        made = json.loads(feishu.calls("POST /open-apis/cardkit/v1/cards")[0].body["data"])
        assert made["config"]["streaming_mode"] is True


async def test_a_card_is_written_at_most_every_three_tenths_of_a_second() -> None:
    async with FakeFeishu() as feishu, channel(feishu, LongConnectionTimings()) as us:
        writer, began = us.stream(outbound()), time.monotonic()
        for end in range(1, 80):
            await writer.show("x" * end)
            await asyncio.sleep(0.01)
        assert 2 <= len(feishu.calls("/content")) <= 2 + (time.monotonic() - began) / 0.3
        await writer.abandon()


async def test_what_came_last_is_shown_also_when_nothing_follows() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        writer = us.stream(outbound())
        await writer.show("let me")
        await writer.show("let me look")
        await feishu.until(lambda: shown(feishu) == ["let me look"])
        await writer.abandon()


async def test_nothing_is_sent_for_an_answer_that_shows_nothing_yet() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        writer = us.stream(outbound())
        await writer.show("")
        await writer.show("  \n")
        await writer.abandon()
        assert feishu.ours == []
        assert writer.shown == ()


async def test_the_answer_of_a_silent_stream_is_sent_as_usual() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        receipt = await us.stream(outbound()).finish(outbound(text="hi"))
        assert shown(feishu) == ["hi"]
        assert receipt.message_ids == (feishu.ours[0].message_id,)


async def test_an_abandoned_stream_looks_finished() -> None:
    before = asyncio.all_tasks()
    async with FakeFeishu() as feishu, channel(feishu) as us:
        writer = us.stream(outbound())
        await grow(writer, "half an ans", feishu)
        await writer.abandon()
        card = feishu.card_of(feishu.ours[0].message_id)
        assert (card.streaming, card.finished) == (False, 1)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_the_same_stream_answers_the_message_in_its_topic() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        await feishu.says("?", group=True, thread="omt_9", message_id="om_q")
        place = Address("feishu", "oc_g", thread="omt_9")
        writer = us.stream(Outbound("k9", place, "", reply_to="om_q"))
        await writer.show("hm")
        assert [(one.reply_to, one.thread_id) for one in feishu.ours] == [("om_q", "omt_9")]
        await writer.abandon()


async def test_a_long_answer_goes_on_in_the_next_card() -> None:
    text = "\n\n".join(f"paragraph {n}: " + "字" * 300 for n in range(60))
    async with FakeFeishu() as feishu, channel(feishu) as us:
        writer = us.stream(outbound())
        for end in (1000, 9000, 14000):
            await writer.show(text[:end])
            await asyncio.sleep(0.05)
        receipt = await writer.finish(outbound(text=text))
        assert len(receipt.message_ids) == len(card_pieces(text)) == 3
        assert "".join("".join(shown(feishu)).split()) == "".join(text.split())
        assert all(not feishu.card_of(id).streaming for id in receipt.message_ids)
        assert all(len(piece.encode()) <= 25_000 for piece in shown(feishu))


async def test_a_card_that_is_full_is_finished_when_the_next_one_begins() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        writer = us.stream(outbound())
        await writer.show("字" * 7000)
        await writer.show("字" * 9000)
        await feishu.until(lambda: len(feishu.ours) == 2 and len(shown(feishu)[1]) == 1000)
        first, second = (feishu.card_of(one.message_id) for one in feishu.ours)
        assert (first.streaming, second.streaming) == (False, True)
        await writer.abandon()


async def test_a_final_text_that_is_shorter_takes_unused_cards_back() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        writer = us.stream(outbound())
        await writer.show("字" * 9000)
        await writer.finish(outbound(text="short after all"))
        assert shown(feishu) == ["short after all"]


@pytest.mark.parametrize("failing", ["cardkit/v1/cards", "im/v1/messages"])
async def test_where_cards_cannot_be_made_the_whole_answer_comes_as_a_post(failing: str) -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        feishu.fail(failing, refusal(230099, "Failed to create card content"), times=1)
        writer = us.stream(outbound())
        await grow(writer, "some **text**", feishu)
        await writer.finish(outbound(text="some **text**"))
        assert shown(feishu) == ["some **text**"]
        assert feishu.ours[0].msg_type == "post"
        assert len(feishu.calls("POST /open-apis/cardkit/v1/cards")) == 1


async def test_a_card_that_breaks_half_way_gives_way_to_a_post() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        writer = us.stream(outbound())
        await grow(writer, "some te", feishu)
        feishu.fail("/content", refusal(300305, "element broken"), times=100)
        receipt = await writer.finish(outbound(text="some **text**"))
        assert shown(feishu) == ["some **text**"]
        assert receipt.message_ids == (feishu.ours[0].message_id,)
        assert [one.deleted for one in feishu.messages.values()] == [True, False]


@pytest.mark.parametrize("code", [200850, 300309])
async def test_a_card_whose_streaming_the_service_ended_still_takes_the_answer(code: int) -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        writer = us.stream(outbound())
        await writer.show("some")
        feishu.card_of(feishu.ours[0].message_id).streaming = False  # after ten minutes
        feishu.fail("/content", refusal(code, "streaming mode is closed"))
        receipt = await writer.finish(outbound(text="some **text**"))
        assert shown(feishu) == ["some **text**"]
        assert receipt.message_ids == tuple(feishu.messages), "in the same card"
        assert feishu.calls("/settings") == []


async def test_a_limit_while_it_grows_slows_it_down_and_loses_nothing() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        writer = us.stream(outbound())
        await writer.show("a")
        feishu.fail("/content", refusal(99991400, "limit", 429, {"x-ogw-ratelimit-reset": "0.2"}), times=2)
        await grow(writer, "a lot of text that grows and grows", feishu, step=4)
        await writer.finish(outbound(text="the end"))
        assert shown(feishu) == ["the end"]
        assert len(feishu.ours) == 1


async def test_a_final_write_that_fails_for_now_can_be_finished_by_a_later_send() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        writer = us.stream(outbound())
        await writer.show("some")
        feishu.fail("/content", refusal(99991400, "limit", 429, {"x-ogw-ratelimit-reset": "60"}), times=1)
        with pytest.raises(DeliveryError) as caught:
            await writer.finish(outbound(text="some text"))
        assert caught.value.retry_after_seconds == pytest.approx(60, abs=1)
        receipt = await us.send(outbound(text="some text", replaces=writer.shown))
        assert shown(feishu) == ["some text"]
        assert receipt.message_ids == writer.shown


async def test_a_card_that_was_written_hundreds_of_times_can_be_finished_by_a_new_gateway() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        writer = us.stream(outbound())
        await writer.show("some")
        feishu.card_of(feishu.ours[0].message_id).sequence = 2345
        receipt = await us.send(outbound(text="some text", replaces=writer.shown))
        assert shown(feishu) == ["some text"]
        assert receipt.message_ids == writer.shown
        await writer.abandon()


async def test_what_a_dead_gateway_wrote_at_last_comes_too_late_for_a_card_that_a_new_one_finishes() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        writer = us.stream(outbound())
        await writer.show("some")
        await us.send(outbound(text="some text", replaces=writer.shown))
        (id,) = feishu.cards
        late = {"content": "some text and more", "sequence": 2, "uuid": "late"}
        with pytest.raises(DeliveryError, match="300317"):
            await us.tenant.call("PUT", f"/open-apis/cardkit/v1/cards/{id}/elements/answer/content", late)
        assert shown(feishu) == ["some text"]
        await writer.abandon()


async def test_another_text_for_a_card_is_no_repeat_whichever_gateway_counts_as_far() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        writer = us.stream(outbound())
        await writer.show("some")
        await writer.abandon()
        for text in ("one text", "another text", "the third"):
            await us.send(outbound(text=text, replaces=writer.shown))
            assert shown(feishu) == [text]


async def test_the_calls_of_a_card_carry_keys_of_their_own() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        for key in ("k1", "k2"):
            writer = us.stream(outbound(key=key))
            await grow(writer, "half an answer and more", feishu)
            await writer.finish(outbound(text="whole", key=key))
        keys = [call.body["uuid"] for call in feishu.calls("cardkit/v1/cards/")]
        assert len(keys) == len(set(keys)) >= 6


async def test_a_limit_makes_the_pause_between_two_writes_longer() -> None:
    async with FakeFeishu() as feishu, channel(feishu, LongConnectionTimings(card_seconds=0.05)) as us:
        writer = us.stream(outbound())
        await writer.show("a")
        feishu.fail("/content", refusal(99991400, "limit", 429, {"x-ogw-ratelimit-reset": "0"}), times=2)
        began = time.monotonic()
        for end in range(1, 60):
            await writer.show("a" * end)
            await asyncio.sleep(0.01)
        most = 4 + (time.monotonic() - began) / 0.2
        assert len(feishu.calls("/content")) <= most, "0.05 s, 0.1 s, then every 0.2 s"
        await writer.abandon()


async def test_a_card_that_cannot_be_taken_back_looks_finished() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        writer = us.stream(outbound())
        await grow(writer, "some te", feishu)
        feishu.fail("/content", refusal(300305, "element broken"), times=100)
        feishu.fail("DELETE", refusal(230026, "No permission to recall this message."))
        await writer.finish(outbound(text="some **text**"))
        card, post = feishu.ours
        assert not feishu.card_of(card.message_id).streaming
        assert feishu.text_of(post.message_id) == "some **text**"


async def test_a_new_gateway_finishes_the_card_that_another_began() -> None:
    async with FakeFeishu() as feishu:
        async with channel(feishu) as died:
            writer = died.stream(outbound())
            await grow(writer, "half an answer", feishu, step=3)
            left = writer.shown
            die()
        async with channel(feishu) as us:
            receipt = await us.send(outbound(text="the whole answer", replaces=left))
        card = feishu.card_of(left[0])
        assert receipt.message_ids == left
        assert (card.text, card.streaming) == ("the whole answer", False)
        assert len(feishu.ours) == 1


async def test_what_cannot_be_finished_is_said_again() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        (old,) = (await us.send(outbound(text="plain"))).message_ids
        receipt = await us.send(outbound(text="whole", key="k2", replaces=(old, "om_gone")))
        assert shown(feishu) == ["whole"]
        assert receipt.message_ids == (feishu.ours[0].message_id,)


async def test_what_cannot_be_finished_and_is_long_is_said_again_in_several_messages() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        await us.send(outbound(text="字" * 17_000, replaces=("om_gone",)))
        assert [len(text) for text in shown(feishu)] == [8000, 8000, 1000]


async def test_a_stream_may_end_with_buttons() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        writer = us.stream(outbound())
        await writer.show("May")
        await writer.finish(outbound(text="May I?", buttons=(Button("Yes", "y"),)))
        pressed = await feishu.presses(feishu.ours[0].message_id, "Yes")
        assert pressed.event["event"]["action"]["value"] == {"claw": "y"}
        assert shown(feishu) == ["May I?"]


async def test_a_service_that_is_down_is_not_asked_with_every_word() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        await us.tenant.token()
        feishu.fail("cardkit", FakeAnswer(502, b"bad gateway", content_type="text/html"), times=1000)
        writer = us.stream(outbound())
        for end in range(1, 50):
            await writer.show("x" * end)
        assert len(feishu.calls("cardkit")) <= 2
        await writer.finish(outbound(text="done"))
        assert shown(feishu) == ["done"]


@pytest.mark.parametrize("ends", ["finished", "abandoned"])
async def test_a_card_that_may_be_there_is_not_forgotten(ends: str) -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        feishu.cut("POST /open-apis/im/v1/messages", 5)  # it arrived, and we did not hear so
        writer = us.stream(outbound())
        await writer.show("some")
        assert writer.shown == ()
        if ends == "finished":
            await writer.finish(outbound(text="some text"))
            assert shown(feishu) == ["some text"]
            assert not feishu.card_of(feishu.ours[0].message_id).streaming
        else:
            await writer.abandon()
            assert feishu.ours == []


async def test_an_empty_card_is_taken_back_also_when_the_line_breaks_again() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        feishu.cut("POST /open-apis/im/v1/messages", 5, times=2)
        writer = us.stream(outbound())
        await writer.show("some")
        await writer.abandon()
        assert len(feishu.calls("POST /open-apis/im/v1/messages")) == 3
        assert feishu.ours == []


async def test_a_next_card_that_may_be_there_goes_when_the_answer_needs_none() -> None:
    long = "\n\n".join("word " * 100 for _ in range(20))
    async with FakeFeishu() as feishu, channel(feishu) as us:
        writer = us.stream(outbound())
        await writer.show("some")
        feishu.cut("POST /open-apis/im/v1/messages", 5)
        await writer.show(long)
        await feishu.until(lambda: len(feishu.ours) == 2)
        await writer.finish(outbound(text="short in the end"))
        assert shown(feishu) == ["short in the end"]


async def test_an_answer_that_no_card_took_is_the_same_messages_when_claw_sends_it_again() -> None:
    text = "\n\n".join(f"{n}: " + "word " * 100 for n in range(20))
    async with FakeFeishu() as feishu, channel(feishu) as us:
        pieces = split_text(text, us.limits)
        await us.stream(outbound()).finish(outbound(text=text, key="turn:0"))
        for at, piece in enumerate(pieces):
            await us.send(outbound(text=piece, key=f"turn:{at}"))
        assert shown(feishu) == list(pieces)
        assert len(pieces) > 2


async def test_a_final_write_may_be_tried_again_and_again() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        writer = us.stream(outbound())
        await writer.show("some")
        feishu.fail("/settings", FakeAnswer(502, b"", content_type="text/html"), times=2)
        for _ in range(2):
            with pytest.raises(DeliveryError):
                await writer.finish(outbound(text="some text"))
        receipt = await writer.finish(outbound(text="some text"))
        assert shown(feishu) == ["some text"]
        assert feishu.card_of(receipt.message_ids[0]).finished == 1


async def test_a_chat_that_asked_for_a_pause_is_not_asked_before_its_end() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        feishu.fail("POST /open-apis/im/v1/messages", refusal(230020, "chat rate limit"))
        writer = us.stream(outbound())
        await writer.show("a")
        began = asyncio.get_running_loop().time()
        await writer.show("a b")
        await writer.finish(outbound(text="a b c"))
        assert asyncio.get_running_loop().time() - began > 0.9
        assert shown(feishu) == ["a b c"]
        assert len(feishu.calls("POST /open-apis/im/v1/messages")) == 2


async def test_a_chat_that_we_are_not_in_is_asked_once_by_a_stream() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        feishu.left.add("oc_chat")
        writer = us.stream(outbound())
        for text in ("a", "a b"):
            await writer.show(text)
        with pytest.raises(DeliveryError, match="Add the bot to the chat"):
            await writer.finish(outbound(text="a b c"))
        assert len(feishu.calls("POST /open-apis/im/v1/messages")) == 1


async def test_cards_that_were_posted_and_not_recorded_are_found_again_behind_a_known_one() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        writer = us.stream(outbound())
        await writer.show("word " * 2000)
        first, second = writer.shown
        die()

        for known in ((), (first,)):
            found = us.stream(outbound())
            await found.again(2, known)
            assert found.shown == (first, second)
            await found.abandon()
        assert [message.message_id for message in feishu.ours] == [first, second]


async def test_a_search_for_a_card_that_was_never_posted_leaves_none() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        receipt = await us.stream(outbound()).finish(outbound(text="hi"))  # no card was shown
        found = us.stream(outbound())
        feishu.fail("id_convert", refusal(99991400, "request trigger frequency limit", 429), times=1)
        with pytest.raises(DeliveryError):
            await found.again(1)
        with pytest.raises(LookupError):
            await found.again(1)
        assert found.shown == ()
        assert [message.message_id for message in feishu.ours] == list(receipt.message_ids)


async def test_a_search_that_died_leaves_nothing_that_a_later_one_takes_for_a_card_of_the_stream() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        await us.send(outbound(text="the answer"))  # by a process that died before it could record it
        feishu.fail("DELETE ", FakeAnswer(502, b"no"))
        with pytest.raises(DeliveryError):
            await us.stream(outbound()).again(1)
        found = us.stream(outbound())
        with pytest.raises(LookupError, match="no further card"):
            await found.again(1)
        assert found.shown == ()
        await us.send(outbound(text="the answer"))
        assert shown(feishu) == ["the answer"]


async def test_parts_that_were_sent_as_messages_are_not_taken_for_cards_behind_those_that_are() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        first = us.stream(outbound())
        await first.show("first part")
        await feishu.until(lambda: shown(feishu) == ["first part"])
        part = replace(outbound(text="second part"), key=f"{outbound().key}:1")
        await us.send(part)
        found = us.stream(outbound())
        with pytest.raises(LookupError, match="no further card"):
            await found.again(3)
        assert found.shown == first.shown
        await us.send(part)
        assert shown(feishu) == ["first part", "second part"]
