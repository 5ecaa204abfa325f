"""The form of an answer: text, post or card; and the message type of each file."""

import json

import pytest
from claw import Button
from claw_feishu.fake import FakeFeishu
from claw_feishu.media import kind_of
from claw_feishu.outbound import card_pieces, forms, once, receiver
from hypothesis import given, strategies as st
from plugins.feishu.places import channel, outbound, shown

TABLE = "| a | b |\n|---|---|\n| 1 | 2 |"


@pytest.mark.parametrize(
    ("text", "mode", "types"),
    [
        ("plain words", "auto", ["text"]),
        ("**bold** words", "auto", ["post", "text"]),
        ("- a list", "auto", ["post", "text"]),
        ("```\ncode\n```", "auto", ["interactive", "post", "text"]),
        (f"see\n\n{TABLE}", "auto", ["interactive", "post", "text"]),
        ("plain words", "card", ["interactive", "post", "text"]),
        (TABLE, "text", ["text"]),
    ],
)
def test_the_form_follows_the_text(text: str, mode: str, types: list[str]) -> None:
    assert [form.msg_type for form in forms(text, mode=mode)] == types


def test_buttons_are_always_on_a_card_and_carry_their_value() -> None:
    card, post, _ = forms("May I?", (Button("Yes", "y", "primary"), Button("No", "n")), "text")
    (_, row) = json.loads(card.content)["body"]["elements"]
    buttons = [column["elements"][0] for column in row["columns"]]
    assert [(one["text"]["content"], one["type"]) for one in buttons] == [
        ("Yes", "primary"),
        ("No", "default"),
    ]
    assert buttons[0]["behaviors"] == [{"type": "callback", "value": {"claw": "y"}}]
    assert "- Yes: y" in post.content  # where cards are refused, a person can still type the value


async def test_a_card_with_too_many_tables_comes_as_a_post() -> None:
    text = "\n\n".join([TABLE] * 6)
    async with FakeFeishu() as feishu, channel(feishu) as us:
        await us.send(outbound(text=text))
        assert shown(feishu) == [text]
        assert feishu.ours[0].msg_type == "post"


async def test_no_model_can_call_everybody() -> None:
    async with FakeFeishu() as feishu, channel(feishu) as us:
        for number, text in enumerate(
            ("<at user_id='all'></at>", "**<at id=all></at>**", "```\n<at id=all>\n```")
        ):
            await us.send(outbound(text=text, key=f"k{number}"))
        assert all("<at" not in json.dumps(one.content) for one in feishu.messages.values())


@given(st.text(min_size=1, max_size=80), st.lists(st.text(max_size=30), max_size=3))
def test_a_key_becomes_a_uuid_that_fits(key: str, more: list[str]) -> None:
    assert len(once(key, *more)) <= 50
    assert once(key, *more) == once(key, *more)
    assert once(key, *more) != once(key, *more, "another")


@given(st.text(alphabet=st.sampled_from("ab字🦀 \n"), max_size=200).map(lambda text: text * 150))
def test_no_piece_is_too_large_for_a_card_and_no_word_is_lost(text: str) -> None:
    pieces = card_pieces(text)
    assert all(len(piece.encode()) <= 25_000 for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("chat", "kind"),
    [("oc_1", "chat_id"), ("ou_1", "open_id"), ("on_1", "union_id"), ("a@b.cn", "email"), ("g73", "user_id")],
)
async def test_a_person_can_be_addressed_by_any_id(chat: str, kind: str) -> None:
    assert receiver(chat) == kind
    async with FakeFeishu() as feishu, channel(feishu) as us:
        await us.send(outbound(text="hi", chat=chat))
        (call,) = feishu.calls("POST /open-apis/im/v1/messages")
        assert call.query == {"receive_id_type": kind}


@pytest.mark.parametrize(
    ("name", "kind", "size", "voice", "sent_as"),
    [
        ("a.png", "file", 10, False, "image"),
        ("a.PNG", "image", 11 << 20, False, "file"),
        ("shot", "image", 10, False, "image"),
        ("a.ogg", "audio", 10, False, "audio"),
        ("a.opus", "file", 10, True, "audio"),
        ("a.mp3", "audio", 10, True, "file"),
        ("a.mp4", "video", 10, False, "media"),
        ("a.mp4", "file", 10, False, "file"),
        ("a.pdf", "file", 10, False, "file"),
    ],
)
def test_a_file_is_sent_as_what_it_is(name: str, kind: str, size: int, voice: bool, sent_as: str) -> None:
    assert kind_of(name, kind, size, voice) == sent_as


async def test_a_long_answer_is_cut_by_claw_and_each_piece_is_one_message() -> None:
    from claw_channel_sdk import split_text

    text = "\n\n".join(f"{n}: " + "word " * 100 for n in range(30))
    async with FakeFeishu() as feishu, channel(feishu) as us:
        pieces = split_text(text, us.limits)
        for number, piece in enumerate(pieces):
            await us.send(outbound(text=piece, key=f"k.{number}"))
        assert len(feishu.ours) == len(pieces) > 3
        assert "".join("".join(shown(feishu)).split()) == "".join(text.split())
