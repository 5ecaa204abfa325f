"""Abort words: a message that is one stops the turn; a message that holds one does not."""

import pytest
from claw_gateway.abort_words import ABORT_WORDS, is_abort
from hypothesis import given, strategies as st


@given(
    st.sampled_from(sorted(ABORT_WORDS)), st.sampled_from(["", "!", "...", "！", " 。", " ?!"]), st.booleans()
)
def test_an_abort_word_is_one_in_any_case_with_any_punctuation_behind_it(word, end, loud):
    assert is_abort(f"  {word.upper() if loud else word}{end}\n")


@pytest.mark.parametrize(
    "text",
    ["stop the music", "don't stop", "cancel", "!stop", "stop, please", "", "...", "/stop now", "stop" * 99],
)
def test_anything_else_is_a_message(text):
    assert not is_abort(text)


def test_an_accent_may_be_written_either_way():
    assert is_abort("arre\u0302te") and is_abort("arrête")


@given(st.text(max_size=200))
def test_any_text_is_judged(text):
    assert is_abort(text) in (True, False)
