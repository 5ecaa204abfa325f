"""Messages of people in Feishu, as claw receives them."""

import json
from typing import Any

import pytest
from claw_feishu import frames
from claw_feishu.fake import FakeFeishu, events
from claw_feishu.frames import BadFrame, Frame
from claw_feishu.inbound import FeishuBot, to_inbound
from claw_feishu.richtext import Mentions, card_text, content_of, harmless, post_markdown
from hypothesis import given, settings, strategies as st

BOT = FeishuBot("ou_us", "cli_us")
FEISHU = FakeFeishu(bot_open_id="ou_us", app_id="cli_us")
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=5),
    max_leaves=20,
)


def said(msg_type: str, content: dict[str, Any], **more: Any) -> dict[str, Any]:
    event = events.message("om_1", "oc_1", "ou_1", msg_type, content, at=1.0, **more)
    return FEISHU.event("im.message.receive_v1", event)


def read(msg_type: str, content: dict[str, Any], **more: Any) -> Any:
    inbound = to_inbound(said(msg_type, content, **more), BOT)
    assert inbound is not None
    return inbound


@pytest.mark.parametrize(
    ("text", "mentions", "received"),
    [
        ("@_user_1 hi", ["us"], "hi"),
        ("hi @_user_1", ["us"], "hi"),
        ("well @_user_1 what now", ["us"], "well what now"),
        ("@_user_1@_user_2 hi", ["us", "li"], "@li hi"),
        ("@_all hi", [], "@all hi"),
        ("@_user_10 and @_user_1", [*(f"p{n}" for n in range(1, 10)), "ten"], "@ten and @p1"),
        ("@_user_1", ["@_user_2"], "@@_user_2"),  # a name that looks like a placeholder is not replaced again
        ("@_user_7 who", [], "@_user_7 who"),
        ("mail me@_user.example", ["us"], "mail me@_user.example"),
    ],
)
def test_placeholders_become_names_in_one_pass_and_ours_goes(
    text: str, mentions: list[str], received: str
) -> None:
    people = [(f"ou_{name}", name) for name in mentions]
    inbound = read("text", {"text": text}, group=True, mentions=people)
    assert inbound.text == received
    assert inbound.mentions_us == ("us" in mentions)


@given(st.integers(1, 30))
def test_no_placeholder_is_taken_for_a_longer_one(count: int) -> None:
    keys = [
        {"key": f"@_user_{n}", "id": {"open_id": f"ou_{n}"}, "name": f"<{n}>"} for n in range(1, count + 1)
    ]
    text = " ".join(str(entry["key"]) for entry in keys)
    assert Mentions(keys, "ou_us").named(text) == " ".join(f"@<{n}>" for n in range(1, count + 1))


def test_our_own_words_are_not_received() -> None:
    for sender in ("ou_us", "cli_us"):
        event = events.message("om_1", "oc_1", sender, "text", {"text": "hi"}, at=1.0, sender_type="app")
        assert to_inbound(FEISHU.event("im.message.receive_v1", event), BOT) is None


def test_a_message_shows_when_it_was_written() -> None:
    assert read("text", {"text": "hi"}).sent_at == 1.0


@pytest.mark.parametrize("mention", [True, False])
def test_the_old_envelope_shows_whether_a_group_means_us(mention: bool) -> None:
    said = {
        "type": "message", "chat_type": "group", "msg_type": "text", "open_id": "ou_1", "open_chat_id": "oc_1",
        "open_message_id": "om_1", "text": "<at open_id=\"ou_us\">@claw</at> hi", "text_without_at_bot": " hi",
        "is_mention": mention,
    }  # fmt: skip
    received = to_inbound({"uuid": "u1", "ts": "1788000000.5", "type": "event_callback", "event": said}, BOT)
    assert received is not None
    assert (received.mentions_us, received.chat_type, received.event_id) == (mention, "group", "u1")
    assert received.sent_at == 1788000000.5
    if mention:
        assert received.text == "hi"


def test_another_bot_is_distinguished() -> None:
    assert read("text", {"text": "hi"}, sender_type="app").sender.is_bot
    assert not read("text", {"text": "hi"}).sender.is_bot


def test_our_own_reactions_are_not_received() -> None:
    event = FEISHU.event("im.message.reaction.created_v1", events.reaction("om_1", "ou_1", "OK", at=1.0))
    assert to_inbound(event, BOT) is not None
    event["event"]["operator_type"] = "app"
    assert to_inbound(event, BOT) is None


@pytest.mark.parametrize(
    ("msg_type", "content", "kind", "key"),
    [
        ("image", {"image_key": "img_1"}, "image", "img_1"),
        ("file", {"file_key": "f_1", "file_name": "a.txt"}, "file", "f_1"),
        ("audio", {"file_key": "f_2", "duration": 1}, "audio", "f_2"),
        ("media", {"file_key": "f_3", "image_key": "img", "file_name": "a.mp4"}, "video", "f_3"),
    ],
)
def test_files_are_attachments(msg_type: str, content: dict[str, Any], kind: str, key: str) -> None:
    (attachment,) = read(msg_type, content).attachments
    assert (attachment.kind, attachment.key, attachment.name) == (kind, key, content.get("file_name", ""))


def test_kinds_that_have_no_reading_still_say_what_they_are() -> None:
    assert read("share_chat", {"chat_id": "oc_2"}).text == "[share_chat] oc_2"
    assert read("location", {"name": "Pier 39", "latitude": "1", "longitude": "2"}).text == "Pier 39 1 2"
    assert read("hongbao", {}).text == "[hongbao]"
    sticker = read("sticker", {"file_key": "f_4"})
    assert (sticker.text, sticker.attachments) == ("[sticker]", ()), "nobody can fetch it"


def test_a_card_that_somebody_sent_gives_its_words() -> None:
    card = {
        "title": "Build",
        "elements": [[{"tag": "text", "text": "failed"}], [{"tag": "img", "image_key": "x"}]],
    }
    assert read("interactive", card).text == "Build\nfailed"
    assert card_text({"a": [{"content": " "}, {"content": "x"}]}) == "x"


def test_a_post_may_be_wrapped_in_its_language_and_names_people_by_open_id() -> None:
    row = [
        {"tag": "at", "user_id": "ou_us"},
        {"tag": "text", "text": " do it, "},
        {"tag": "at", "user_id": "all"},
    ]
    content = {"zh_cn": {"title": "", "content": [row]}}
    inbound = read("post", content, group=True, mentions=[("ou_us", "claw")])
    assert inbound.text == "do it, @all"


def markdown(*elements: dict[str, Any]) -> str:
    return post_markdown({"content": [list(elements)]}, Mentions())[0]


def test_a_block_of_code_keeps_the_fences_inside_it() -> None:
    block = {"tag": "code_block", "language": "MARKDOWN", "text": "```\ninner\n```\n"}
    text, _ = post_markdown(
        {"content": [[{"tag": "text", "text": "see"}, block, {"tag": "text", "text": "ok"}]]}, Mentions()
    )
    assert text == "see\n````markdown\n```\ninner\n```\n````\nok"


def test_marks_stay_inside_the_blanks() -> None:
    styled = {"tag": "text", "text": " loud ", "style": ["bold", "italic", "unknown"]}
    assert post_markdown(
        {"content": [[{"tag": "text", "text": "be"}, styled, {"tag": "text", "text": "now"}]]}, Mentions()
    )[0] == ("be ***loud*** now")


@given(json_values)
def test_no_event_of_a_third_party_breaks_the_reader(value: Any) -> None:
    to_inbound({"header": {"event_type": "im.message.receive_v1"}, "event": value}, BOT)
    to_inbound(value if isinstance(value, dict) else {"event": value}, BOT)


@given(
    st.sampled_from(["text", "post", "image", "file", "interactive", "location", "x"]),
    st.dictionaries(st.sampled_from(["text", "title", "content", "image_key", "zh_cn", "name"]), json_values),
)
def test_no_content_of_a_third_party_breaks_the_reader(msg_type: str, content: dict[str, Any]) -> None:
    read(msg_type, content)


@pytest.mark.parametrize("raw", ["", "[]", "{", "null", "[" * 100_000, None, 7])
def test_content_that_is_none_is_empty(raw: Any) -> None:
    assert content_of(raw) == {}


@pytest.mark.parametrize("text", ["<at user_id='all'>x</at>", "<AT id=all></at>", "a <at id=ou_1>"])
def test_a_mention_that_nobody_asked_for_is_no_markup(text: str) -> None:
    assert "<at" not in harmless(text).lower()
    assert harmless(text).replace("\u200b", "") == text
    assert harmless("<attach> a<b") == "<attach> a<b"


frames_of = st.builds(
    Frame,
    method=st.integers(0, 1),
    service=st.integers(-(2**31), 2**31 - 1),
    headers=st.lists(st.tuples(st.text(max_size=20), st.text(max_size=20)), max_size=5).map(tuple),
    payload=st.binary(max_size=300),
    seq_id=st.integers(0, 2**64 - 1),
    log_id=st.integers(0, 2**64 - 1),
    payload_encoding=st.text(max_size=5),
    payload_type=st.text(max_size=5),
    log_id_new=st.text(max_size=5),
)


@given(frames_of)
def test_a_frame_is_read_as_it_was_written(frame: Frame) -> None:
    assert frames.decode(frames.encode(frame)) == frame


@settings(max_examples=300)
@given(st.binary(max_size=80) | frames_of.map(frames.encode).flatmap(
    lambda data: st.integers(0, len(data)).map(lambda end: data[:end])
))  # fmt: skip
def test_bytes_are_a_frame_or_refused(data: bytes) -> None:
    try:
        assert isinstance(frames.decode(data), Frame)
    except BadFrame:
        pass


def test_fields_of_a_later_version_are_passed_over() -> None:
    plain = frames.encode(Frame(1, 2, (("a", "b"),)))
    strange = b"\x50\x07" + b"\x5a\x03abc" + b"\x65abcd" + b"\x69abcdefgh"
    assert frames.decode(plain + strange) == Frame(1, 2, (("a", "b"),))


def test_the_same_json_with_other_blanks_is_the_same_event() -> None:
    event = said("text", {"text": "x"})
    assert to_inbound(json.loads(json.dumps(event, indent=4)), BOT) == to_inbound(event, BOT)
