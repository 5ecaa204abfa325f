"""Directives in an answer: silence, the message it replies to, files, voice."""

import pytest
from claw.agent.outcome import ALSO_SILENT, silent_tokens
from claw_gateway.directives import ParsedReply, may_become_silent, parse_reply, visible_part
from hypothesis import given, strategies as st

TOKENS = silent_tokens("NO_REPLY")


def read(text: str, message_id: str = "msg-1") -> ParsedReply:
    return parse_reply(text, silent_tokens=TOKENS, message_id=message_id)


# --- silence


@pytest.mark.parametrize(
    "text", ["NO_REPLY", " NO_REPLY\n", "__SILENT__", "🕊️_NO_REPLY", "NO_REPLY\n\nNO_REPLY"]
)
def test_only_a_token_is_silence(text: str):
    assert read(text) == ParsedReply("", silent=True)


@pytest.mark.parametrize(
    "text", ["**NO_REPLY**", "`NO_REPLY`", "NO_REPLY.", "no_reply", "NO_REPLY: here it is", ""]
)
def test_anything_else_is_said(text: str):
    assert read(text) == ParsedReply(text)


def test_a_token_behind_an_answer_goes_and_the_answer_stays():
    assert read("Done.\nNO_REPLY").text == "Done."
    assert read("Done. **NO_REPLY").text == "Done."
    assert read("endNO_REPLY").text == "endNO_REPLY"


def test_the_configured_token_counts_in_place_of_the_default_one():
    tokens = silent_tokens("QUIET!")
    assert parse_reply("QUIET!", silent_tokens=tokens).silent
    assert not parse_reply("NO_REPLY", silent_tokens=tokens).silent
    assert silent_tokens("__SILENT__") == ("__SILENT__", "🕊️_NO_REPLY")


def test_a_silent_answer_may_still_send_a_file():
    assert read("MEDIA:/v.ogg\nNO_REPLY") == ParsedReply("", silent=True, media=("/v.ogg",))


# --- tags


def test_tags_may_be_anywhere_and_an_id_beats_the_present_message_the_last_id_wins():
    assert read("[[ Reply_To_Current ]] hi") == ParsedReply("hi", reply_to="msg-1", to_current=True)
    assert read("a [[reply_to:1]] b [[reply_to_current]] [[reply_to: 2 ]]") == ParsedReply(
        "a b", reply_to="2", to_current=True
    )
    assert read("[[reply_to_current]] hi", message_id="") == ParsedReply("hi", to_current=True)


@pytest.mark.parametrize(
    "text", ["[[wiki]] page", "[[reply_to:]] x", "[[reply_to: ]] x", "[[reply_to_current] x", "a[[0]]"]
)
def test_an_unknown_tag_stays(text: str):
    assert read(text) == ParsedReply(text)


def test_a_voice_note_is_asked_for():
    assert read("[[audio_as_voice]]\nMEDIA:/v.ogg") == ParsedReply("", media=("/v.ogg",), voice=True)


def test_taking_a_tag_out_leaves_code_and_paragraphs_as_they_are():
    text = "[[reply_to_current]] See:\n\n```py\nx  =  1\nif x:\n    pass\n```\n- a\n  - b"
    assert read(text).text == "See:\n\n```py\nx  =  1\nif x:\n    pass\n```\n- a\n  - b"


# --- files


@pytest.mark.parametrize(
    ("line", "media"),
    [
        ("MEDIA:/tmp/a.png", ["/tmp/a.png"]),
        ("  MEDIA: ./a.png", ["./a.png"]),
        ("MEDIA:https://x.y/a.jpg?b=1", ["https://x.y/a.jpg?b=1"]),
        ("MEDIA:file:///tmp/a.png", ["/tmp/a.png"]),
        ("MEDIA:`/tmp/a b.png`", ["/tmp/a b.png"]),
        ('MEDIA:"chart one.png"', ["chart one.png"]),
        ("MEDIA:chart.png", ["chart.png"]),
        ("MEDIA:C:\\x\\a.png", ["C:\\x\\a.png"]),
        ("MEDIA:/a.png /b.png", ["/a.png", "/b.png"]),
        ("MEDIA:/a.png MEDIA:/b.png", ["/a.png", "/b.png"]),
        ("MEDIA:[/a.png, /b.png]", ["/a.png", "/b.png"]),
    ],
)
def test_a_media_line_names_files_and_vanishes(line: str, media: list[str]):
    assert read(f"Here:\n{line}\nbye") == ParsedReply("Here:\nbye", media=tuple(media))


def test_words_beside_an_address_stay_and_a_path_with_blanks_is_one_path():
    assert read("MEDIA:https://x.y/a.jpg for you") == ParsedReply("for you", media=("https://x.y/a.jpg",))
    assert read("MEDIA:/tmp/my cat.png") == ParsedReply("", media=("/tmp/my cat.png",))


@pytest.mark.parametrize(
    "text",
    [
        "MEDIA:",
        "MEDIA: see below",
        "media:/a.png",
        "MEDIA:ftp://h/x.png",
        "take MEDIA:/a.png",
        "> MEDIA:/a.png",
        "MEDIA:''",
    ],
)
def test_what_names_no_file_is_only_words(text: str):
    assert read(text) == ParsedReply(text)


@pytest.mark.parametrize("fence", ["```", "~~~~", "  ```md"])
def test_inside_a_fence_nothing_is_sent(fence: str):
    close = fence.strip().rstrip("md")
    text = f"{fence}\nMEDIA:/a.png\n{close}\nMEDIA:/b.png"
    assert read(text).media == ("/b.png",)
    assert read(f"{fence}\nMEDIA:/a.png").media == ()


# --- while it grows


@pytest.mark.parametrize("text", ["`NO_REPLY`", "**NO_REPLY**", "NO_REPLY.", "NO_REPLY..."])
def test_no_state_of_a_growing_silent_token_with_marks_around_it_is_shown(text: str):
    states = {
        visible_part(text[:end], TOKENS) for end in range(len(text) + 1) if text[:end].strip("`*") != "N"
    }
    assert states == {""}
    assert visible_part(f"{text} Here it is", TOKENS) == f"{text} Here it is"


@pytest.mark.parametrize("token", ["`NO_REPLY`", "**NO_REPLY**", "NO_REPLY.", "`__SILENT__`"])
def test_beside_a_file_or_a_tag_a_silent_token_with_marks_around_it_is_silence(token: str):
    assert read(f"MEDIA:/x.png\n{token}") == ParsedReply("", silent=True, media=("/x.png",))
    assert read(f"[[reply_to:7]] {token}") == ParsedReply("", silent=True, reply_to="7")
    assert read(f"MEDIA:/x.png\nThe token {token}").text != ""
    for before in ("MEDIA:/x.png\n", "[[reply_to:7]] "):
        whole = before + token
        states = {visible_part(whole[:end], TOKENS) for end in range(len(whole) + 1)}
        assert {state for state in states if state.strip("`*") != "N"} == {""}


@pytest.mark.parametrize("prefix", ["NO", "NO_", "NO_REP", " NO_REPLY", "__SIL", "🕊️_N"])
def test_what_may_become_silence_is_held_back(prefix: str):
    assert may_become_silent(prefix, TOKENS)
    assert visible_part(prefix, TOKENS) == ""


@pytest.mark.parametrize(
    "prefix", ["", " ", "N", "No", "NOT", "no_reply", "NO_REPLY ", "NO_REPLY!", "🕊️", "NOTE_"]
)
def test_what_cannot_become_silence_is_not(prefix: str):
    assert not may_become_silent(prefix, TOKENS)


def test_of_a_growing_answer_no_half_directive_is_seen():
    whole = "[[reply_to_current]] Look here:\nMEDIA:/tmp/a.png\nNice [[audio_as_voice]] cat. NO_REPLY"
    states = [visible_part(whole[:end], TOKENS) for end in range(len(whole) + 1)]

    assert states[-1] == read(whole).text == "Look here:\nNice cat."
    for state in states:
        assert "MEDIA" not in state
        assert "[" not in state
        assert "NO" not in state


@given(st.text(alphabet="NO_REPLYMEDIA:[]audios\n *`/x.", max_size=60))
def test_an_answer_of_any_letters_is_read_and_nothing_is_lost_or_made_up(text: str):
    reply = read(text)

    assert not reply.silent or not reply.text
    assert all(media in text for media in reply.media)
    replies = iter(text)
    assert all(char in replies for char in reply.text if not char.isspace())


@given(
    st.text(max_size=80).filter(
        lambda text: not any(word in text for word in ("[[", "MEDIA", "NO_REPLY", *ALSO_SILENT))
    )
)
def test_ordinary_words_come_through_unchanged(text: str):
    assert read(text) == ParsedReply(text.rstrip())


@given(st.text(alphabet="a[]_ \nMEDIA:/`", max_size=60))
def test_a_complete_answer_is_shown_as_it_will_be_sent_or_a_little_less(text: str):
    assert len(visible_part(text, TOKENS)) <= len(text)


def test_a_long_answer_is_read_quickly():
    for text in (
        "[[reply_to:" * 50_000,
        "MEDIA:/a " * 50_000,
        " " * 500_000 + "x",
        "* " * 200_000,
        "[[" * 200_000,
        "`" * 500_000,
        "NO_REPLY\n" * 5_000,
    ):
        read(text)
        visible_part(text, TOKENS)
