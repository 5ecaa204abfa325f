"""The meaning of updates, beyond the wire fixtures (tests/fixtures/telegram)."""

from typing import Any

import pytest
from claw import Inbound, QuotedMessage
from claw_telegram.inbound import TelegramBot, album_of, joined, to_inbound
from claw_telegram.poller import read, together
from hypothesis import given, strategies as st

BOT = TelegramBot(6543210987, "claw_bot", "work", commands=frozenset({"status"}))
PERSON = {"id": 111222333, "is_bot": False, "first_name": "Zhang", "last_name": "San", "username": "zhangsan"}
US = {"id": BOT.id, "is_bot": True, "first_name": "Claw", "username": "claw_bot"}
GROUP = {"id": -1001987654321, "title": "Project", "type": "supergroup"}


def message(text: str = "", **fields: Any) -> dict[str, Any]:
    return {
        "message_id": 5,
        "from": PERSON,
        "chat": GROUP,
        "date": 1781534000,
        **({"text": text} if text else {}),
        **fields,
    }


def inbound_of(text: str = "", **fields: Any) -> Inbound:
    inbound = to_inbound({"update_id": 7, "message": message(text, **fields)}, BOT)
    assert inbound is not None
    return inbound


def entity(text: str, part: str, kind: str, **more: Any) -> dict[str, Any]:
    before = text[: text.index(part)]
    return {
        "type": kind,
        "offset": len(before.encode("utf-16-le")) // 2,
        "length": len(part.encode("utf-16-le")) // 2,
        **more,
    }


def test_who_where_and_when() -> None:
    inbound = inbound_of("hi")
    assert (inbound.address.channel, inbound.address.account, inbound.address.chat) == (
        "telegram",
        "work",
        "-1001987654321",
    )
    assert (inbound.sender.id, inbound.sender.name, inbound.sender.username) == (
        "111222333",
        "Zhang San",
        "zhangsan",
    )
    assert (inbound.event_id, inbound.message_id, inbound.sent_at) == ("7", "5", 1781534000.0)
    assert inbound.around.chat_name == "Project"


@pytest.mark.parametrize(
    ("text", "part", "kind", "more", "read", "ours"),
    [
        ("@CLAW_Bot hi", "@CLAW_Bot", "mention", {}, "hi", True),
        ("hi @claw_bot there", "@claw_bot", "mention", {}, "hi there", True),
        ("hi @claw_bot", "@claw_bot", "mention", {}, "hi", True),
        ("@claw_bots hi", "@claw_bots", "mention", {}, "@claw_bots hi", False),
        ("Claw hi", "Claw", "text_mention", {"user": US}, "hi", True),
        ("Ann hi", "Ann", "text_mention", {"user": PERSON}, "@Ann hi", False),
        ("/status", "/status", "bot_command", {}, "/status", True),
        ("/Status", "/Status", "bot_command", {}, "/Status", True),
        ("/status@Claw_Bot now", "/status@Claw_Bot", "bot_command", {}, "/status now", True),
        ("/weather@claw_bot", "/weather@claw_bot", "bot_command", {}, "/weather", True),
        ("/status@other_bot", "/status@other_bot", "bot_command", {}, "/status@other_bot", False),
        ("/weather", "/weather", "bot_command", {}, "/weather", False),
        ("see /status", "/status", "bot_command", {}, "see /status", False),
        ("🦀 read this", "this", "text_link", {"url": "https://e.x"}, "🦀 read this (https://e.x)", False),
        ("a `b`", "`b`", "code", {}, "a `b`", False),
    ],
)  # fmt: skip
def test_marks_in_a_text(
    text: str, part: str, kind: str, more: dict[str, Any], read: str, ours: bool
) -> None:
    inbound = inbound_of(text, entities=[entity(text, part, kind, **more)])
    assert (inbound.text, inbound.mentions_us) == (read, ours)


def test_a_caption_is_read_like_a_text() -> None:
    photo = [{"file_id": "p", "file_unique_id": "u", "width": 1, "height": 1}]
    marks = [{"type": "mention", "offset": 0, "length": 9}]
    inbound = inbound_of(photo=photo, caption="@claw_bot what is it", caption_entities=marks)
    assert (inbound.text, inbound.mentions_us, inbound.attachments[0].mime) == (
        "what is it",
        True,
        "image/jpeg",
    )


def test_a_quote_reports_what_was_said_and_by_whom() -> None:
    quoted = message("the whole thing") | {"message_id": 3, "date": 1781530000}
    inbound = inbound_of("why?", reply_to_message=quoted, quote={"text": "whole", "position": 4})
    assert inbound.reply_to == "3" and not inbound.mentions_us
    assert inbound.around.quoted == QuotedMessage("whole", "Zhang San", "3", 1781530000.0)


def test_the_first_message_of_a_topic_is_no_quote_and_general_has_no_id() -> None:
    forum = GROUP | {"is_forum": True}
    root = {
        "message_id": 42,
        "from": PERSON,
        "chat": forum,
        "date": 1,
        "forum_topic_created": {"name": "Bugs"},
    }
    inbound = inbound_of("hi", chat=forum, message_thread_id=42, is_topic_message=True, reply_to_message=root)
    assert (inbound.address.thread, inbound.reply_to, inbound.around.quoted) == ("42", None, None)
    assert (inbound.around.thread_name, inbound.around.is_forum) == ("Bugs", True)
    assert inbound_of("hi", chat=forum).address.thread is None
    assert inbound_of("hi", message_thread_id=9).address.thread is None, "a chain of replies is no topic"


@pytest.mark.parametrize(
    ("thread", "root"),
    [
        ({"message_thread_id": 42, "is_topic_message": True}, {}),
        ({}, {"forum_topic_created": {"name": "Bugs"}}),
    ],
    ids=["a root whose making is not told", "a topic's making, quoted elsewhere"],
)
def test_what_only_hangs_a_message_into_its_topic_is_no_quote(
    thread: dict[str, Any], root: dict[str, Any]
) -> None:
    quoted = {"message_id": 42, "from": US, "chat": GROUP, "date": 1, **root}
    inbound = inbound_of("hi", reply_to_message=quoted, **thread)
    assert (inbound.reply_to, inbound.around.quoted, inbound.mentions_us) == (None, None, False)


def test_an_anonymous_admin_is_the_group_and_a_post_is_its_channel() -> None:
    stand_in = {"id": 1087968824, "is_bot": True, "first_name": "Group", "username": "GroupAnonymousBot"}
    admin = inbound_of("hi", **{"from": stand_in}, sender_chat=GROUP).sender
    assert (admin.id, admin.name, admin.is_bot) == ("-1001987654321", "Project", False)
    channel = {"id": -100777, "title": "News", "type": "channel"}
    post = {"message_id": 1, "chat": channel, "date": 1, "text": "new", "sender_chat": channel}
    inbound = to_inbound({"update_id": 1, "channel_post": post}, BOT)
    assert inbound and (inbound.chat_type, inbound.sender.id, inbound.kind) == (
        "channel",
        "-100777",
        "message",
    )


def test_other_bots_are_marked_and_our_own_messages_are_ignored() -> None:
    other = {"id": 5, "is_bot": True, "first_name": "Other"}
    assert inbound_of("hi", **{"from": other}).sender.is_bot
    assert to_inbound({"update_id": 1, "message": message("hi", **{"from": US})}, BOT) is None


@pytest.mark.parametrize(
    ("origin", "name"),
    [
        ({"type": "user", "sender_user": PERSON}, "Zhang San"),
        ({"type": "hidden_user", "sender_user_name": "Somebody"}, "Somebody"),
        ({"type": "channel", "chat": {"id": -1, "title": "News", "type": "channel"}}, "News"),
    ],
)
def test_whose_words_are_passed_on(origin: dict[str, Any], name: str) -> None:
    assert inbound_of("hi", forward_origin=origin | {"date": 1}).around.forwarded_from == name


@pytest.mark.parametrize(
    "fields",
    [
        {
            "forward_origin": {
                "type": "user",
                "date": 1,
                "sender_user": {"id": 5, "is_bot": False, "first_name": ""},
            }
        },
        {"forward_origin": {"type": "hidden_user", "date": 1, "sender_user_name": ""}},
        {"via_bot": {"id": 6, "is_bot": True, "first_name": "Cats", "username": "cats_bot"}},
    ],
)
def test_words_of_somebody_without_a_name_and_of_another_bot_are_not_the_senders(
    fields: dict[str, Any],
) -> None:
    assert inbound_of("/approve abc once", **fields).around.forwarded_from
    assert not inbound_of("/approve abc once").around.forwarded_from


@pytest.mark.parametrize(
    ("field", "file", "kind", "mime"),
    [
        ("audio", {"mime_type": "audio/mpeg", "file_name": "a.mp3"}, "audio", "audio/mpeg"),
        ("video", {"mime_type": "video/mp4"}, "video", "video/mp4"),
        ("video_note", {}, "video", "video/mp4"),
        ("sticker", {"emoji": "😀", "is_animated": True}, "sticker", "application/x-tgsticker"),
        ("sticker", {"emoji": "😀"}, "sticker", "image/webp"),
    ],
)
def test_files_of_every_kind(field: str, file: dict[str, Any], kind: str, mime: str) -> None:
    (found,) = inbound_of(**{field: {"file_id": "f", **file}}).attachments
    assert (found.kind, found.mime, found.key) == (kind, mime, "f")


def test_an_animation_is_one_file_though_it_comes_as_a_document_too() -> None:
    (found,) = inbound_of(animation={"file_id": "a"}, document={"file_id": "a"}).attachments
    assert found.kind == "video"


@pytest.mark.parametrize(
    ("field", "what", "expected"),
    [
        ("location", {"latitude": 1.5, "longitude": 2}, "(1.5, 2)"),
        ("contact", {"first_name": "Ann", "phone_number": "+49"}, "Ann: +49"),
        ("poll", {"question": "Tea?", "options": [{"text": "yes"}]}, "Tea?\n- yes"),
        ("venue", {"title": "Bar", "address": "A 1", "location": {"latitude": 1, "longitude": 2}}, "Bar, A 1 (1, 2)"),
        ("dice", {"emoji": "🎲", "value": 4}, "🎲 4"),
    ],
)  # fmt: skip
def test_what_has_no_text_is_reported_in_words(field: str, what: dict[str, Any], expected: str) -> None:
    assert inbound_of(**{field: what}).text == expected


def test_a_reaction_is_received_when_it_is_put_on() -> None:
    def reaction(old: str, new: str) -> Inbound | None:
        made = {"old_reaction": [{"type": "emoji", "emoji": one} for one in old]}
        made |= {"new_reaction": [{"type": "emoji", "emoji": one} for one in new]}
        change = {"chat": GROUP, "message_id": 5, "user": PERSON, "date": 1, **made}
        return to_inbound({"update_id": 1, "message_reaction": change}, BOT)

    put = reaction("👍", "👍🔥")
    assert put and (put.kind, put.text, put.message_id, put.sender.id) == ("reaction", "🔥", "5", "111222333")
    assert reaction("👍", "") is None


@pytest.mark.parametrize(
    "service", ["new_chat_members", "pinned_message", "forum_topic_edited", "migrate_from_chat_id"]
)
def test_what_the_chat_says_of_itself_is_not_received(service: str) -> None:
    assert to_inbound({"update_id": 1, "message": message(**{service: {"x": 1}})}, BOT) is None
    assert to_inbound({"update_id": 1, "poll": {}}, BOT) is None


def test_the_parts_of_an_album_are_together_in_the_place_of_the_last() -> None:
    def part(id: int, album: str = "", text: str = "") -> dict[str, Any]:
        group = {"media_group_id": album, "photo": [{"file_id": f"p{id}"}]} if album else {}
        return {"update_id": id, "message": message(text, **group) | {"message_id": id}}

    updates = [part(1, "g"), part(2, text="between"), part(3, "g"), part(4, text="after")]
    assert album_of(updates[0]) == (GROUP["id"], "g")
    groups = together(updates)
    assert [[one["update_id"] for one in parts] for parts in groups] == [[2], [1, 3], [4]]
    album = read(groups[1], BOT)
    assert album and (album.event_id, album.message_id) == ("1", "1")
    assert [file.key for file in album.attachments] == ["p1", "p3"]
    assert joined([album]) == album


def test_an_album_has_the_words_of_all_its_parts_and_calls_us_when_one_does() -> None:
    def part(id: int, **more: Any) -> dict[str, Any]:
        return {
            "update_id": id,
            "message": message(photo=[{"file_id": f"p{id}"}], media_group_id="g", **more),
        }

    mark = [{"type": "mention", "offset": 0, "length": 9}]
    parts = [part(1), part(2, caption="@claw_bot look", caption_entities=mark), part(3, caption="and here")]
    album = read(parts, BOT)
    assert album and (album.text, album.mentions_us) == ("look\nand here", True)


KEYS = ["message_id", "chat", "from", "id", "date", "text", "entities", "photo", "type", "offset", "length"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(KEYS),
        inner, max_size=6,
    ),
    max_leaves=20,
)  # fmt: skip


@given(
    st.sampled_from(["message", "callback_query", "message_reaction", "my_chat_member", "channel_post"]), JSON
)
def test_no_shape_whatever_breaks_the_reading(kind: str, what: Any) -> None:
    update = {"update_id": 1, kind: what}
    read([update], BOT)
    together([update])
