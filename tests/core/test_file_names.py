"""Any text as a file name that stays in its folder."""

from pathlib import Path

from claw.storage.files import safe_file_name
from claw_sessions.store import session_file
from hypothesis import given, strategies as st

TEXTS = st.text(st.characters() | st.sampled_from("./\\~-_ aA0\x00\udc80"), max_size=120)


@given(text=TEXTS)
def test_a_name_stays_in_its_folder_and_within_the_systems_limits(text: str) -> None:
    name = safe_file_name(text)
    assert Path("/sessions", name).parent == Path("/sessions") and name not in ("", ".", "..")
    assert (
        name.isascii()
        and "/" not in name
        and "\0" not in name
        and len(name) <= 80
        and not name.startswith(("-", "."))
    )


@given(one=TEXTS, other=TEXTS)
def test_two_texts_never_share_a_name_even_where_case_is_folded(one: str, other: str) -> None:
    assert (safe_file_name(one).lower() == safe_file_name(other).lower()) == (one == other)
    assert (
        safe_file_name(safe_file_name(one)) != safe_file_name(other)
        or one == other
        or safe_file_name(one) == other
    )


def test_a_plain_id_is_its_own_name() -> None:
    assert session_file(Path("/s"), "3f2a-main_1") == Path("/s/3f2a-main_1.jsonl")
    assert session_file(Path("/s"), "main.jsonl.lock").parent == Path("/s")
