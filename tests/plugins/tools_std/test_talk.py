"""message speaks in the current conversation; session_status tells what the turn knows of itself."""

from dataclasses import replace

from claw import Address
from claw.host.worker import check_and_run

HERE = Address("fake", "chat-1")


async def test_a_message_goes_to_the_conversation_with_its_files(bench):
    bench.put("a.txt", "x")
    result = await bench.call("message", action="send", message="hello", attachments=["a.txt"])
    assert (result.content, result.details["messageIds"]) == ("Sent with 1 attachments.", ["m1"])
    assert bench.talk.acts == [("send", ("hello", ("a.txt",), HERE, None))]


async def test_a_message_can_go_elsewhere_and_quote_what_it_answers(bench):
    await bench.ok("message", action="reply", message="hi", target="chat-2", channel="other", message_id="m9")

    assert bench.talk.acts == [("send", ("hi", (), Address("other", "chat-2"), "m9"))]


async def test_a_reply_quotes_the_message_that_is_answered_unless_another_is_named(bench):
    await bench.ok("message", action="reply", message="hi")

    assert bench.talk.acts == [("send", ("hi", (), HERE, "message-1"))]
    assert "reply needs message_id" in await bench.refused(
        "message", action="reply", message="hi", target="chat-2"
    )


async def test_it_reacts_edits_deletes_and_asks(bench):
    await bench.ok("message", action="react", emoji="👍", message_id="m1")
    await bench.ok("message", action="edit", message_id="m1", message="better")
    await bench.ok("message", action="delete", message_id="m1")
    await bench.ok("message", action="poll", message="when?", options=["now", "later"])

    assert bench.talk.acts == [
        ("react", ("👍", "m1", False, HERE)),
        ("edit", ("m1", "better", HERE)),
        ("delete", ("m1", HERE)),
        ("poll", ("when?", ("now", "later"), HERE)),
    ]


async def test_what_an_action_needs_is_named(bench):
    assert "react needs emoji" in await bench.refused("message", action="react")
    assert "edit needs message_id" in await bench.refused("message", action="edit", message="x")
    assert "at least two options" in await bench.refused("message", action="poll", message="?")
    assert bench.talk.acts == []


async def test_nothing_is_sent_when_a_file_is_outside_or_missing_or_the_text_empty(bench):
    await bench.refused("message", message="hello", attachments=["/etc/passwd"])
    await bench.refused("message", message="hello", attachments=["nowhere"])
    await bench.refused("message", message="hello", attachments=["."])
    assert "empty" in await bench.refused("message", message=" ")
    assert "action must be" in await bench.refused("message", message="x", action="shout")
    assert bench.talk.acts == []


async def test_the_status_reports_time_zone_model_and_context(bench):
    bench.status |= {
        "model": "acme/large",
        "context_tokens": 200_000,
        "used_tokens": 50_000,
        "zone": "Asia/Shanghai",
    }
    text = await bench.ok("session_status")
    assert "zone: Asia/Shanghai" in text and "+0800" in text
    assert "model: acme/large\ncontext: 50,000 of 200,000 tokens (25 %)" in text


async def test_the_status_does_without_what_is_not_known(bench):
    bench.status["zone"] = "Nowhere/Land"
    text = await bench.ok("session_status")
    assert "time: " in text and "model" not in text


async def test_without_a_plugin_for_chats_it_sends_text_to_this_chat_alone(bench):
    sent, tool = [], bench.tools["message"]

    async def send(text, paths):
        sent.append((text, paths))
        return ("t1",)

    context = replace(bench.context, send=send, talk=None)
    result = await check_and_run(tool, {"message": "hello"}, context)
    assert (sent, result.details) == (
        [("hello", ())],
        {"action": "send", "messageIds": ["t1"], "answers": True},
    )
    for refused in (
        {"message": "x", "target": "chat-2"},
        {"action": "edit", "message": "x", "message_id": "m"},
    ):
        result = await check_and_run(tool, refused, context)
        assert result.is_error and "claw-gateway" in result.blocks[0].text
    assert len(sent) == 1
