"""Searching an agent's notes: what is found, how fresh it is, and what an index may suffer."""

import os
import sqlite3
import time
from pathlib import Path

import pytest
from claw_memory.memory import SNIPPET_CHARS, snippet
from claw_memory.question import words_of
from claw_memory.tables import is_damage
from plugins.memory.living import Things, memory, note

pytest.importorskip(
    "numpy", reason="vectors are compared by numpy: pip install 'claw-memory-search[embeddings]'"
)


def paths(answer) -> list[str]:
    return [hit.path for hit in answer.hits]


def test_a_note_is_found_by_its_words_the_moment_it_is_written(tmp_path: Path):
    here = memory(tmp_path)
    note(tmp_path, "memory/2026-03-01.md", "- nothing\n- The router answers at 10.0.4.1\n")

    [hit] = here.search("router", None, 6).hits

    assert (hit.path, hit.first, hit.last, hit.fresh) == ("memory/2026-03-01.md", 2, 2, True)
    note(tmp_path, "memory/2026-03-02.md", "- A second router\n")
    assert set(paths(here.search("router", None, 6))) == {"memory/2026-03-01.md", "memory/2026-03-02.md"}


def test_chinese_is_found_by_any_of_its_words_without_an_embedder(tmp_path: Path):
    note(tmp_path, "MEMORY.md", "- 山里小屋的备用钥匙挂在柴房后面。\n- 苏菲喝咖啡只加燕麦奶。\n")

    assert [hit.first for hit in memory(tmp_path).search("小屋的钥匙在哪里？", None, 1).hits] == [1]
    assert [hit.first for hit in memory(tmp_path).search("燕麦", None, 6).hits] == [2]


def test_what_is_edited_or_deleted_is_found_no_longer(tmp_path: Path):
    here = memory(tmp_path)
    place = note(tmp_path, "memory/2026-03-01.md", "Petra gets the report.")
    assert here.search("Petra", None, 6).hits
    place.write_text("Quentin gets the report.", encoding="utf-8")

    assert not here.search("Petra", None, 6).hits
    assert here.search("Quentin", None, 6).hits
    place.unlink()
    assert not here.search("Quentin", None, 6).hits


def test_a_change_that_leaves_time_and_size_alone_is_seen_when_it_came_right_after(tmp_path: Path):
    here = memory(tmp_path)
    place = note(tmp_path, "MEMORY.md", "The code is alpha.")
    moment = time.time_ns() + 60 * 10**9  # however long the first search takes, it is not over
    os.utime(place, ns=(moment, moment))
    here.search("alpha", None, 6)
    place.write_text("The code is gamma.", encoding="utf-8")
    os.utime(place, ns=(moment, moment))

    assert here.search("gamma", None, 6).hits


def test_a_question_in_another_language_finds_the_note_by_its_meaning(tmp_path: Path):
    here, things = memory(tmp_path), Things()
    note(tmp_path, "MEMORY.md", "- The dentist is in Basel.\n- The cake needs an hour.\n- 狗睡在走廊里。\n")
    here.sync()
    assert here.embed(things) == 3

    answer = here.search("哪里看牙？", things, 6)

    assert answer.by_meaning and answer.hits[0].first == 1
    assert here.search("the puppy", things, 6).hits[0].first == 3


def test_a_piece_that_waits_for_its_vector_is_found_by_its_words_and_reported(tmp_path: Path):
    here, things = memory(tmp_path), Things()
    note(tmp_path, "MEMORY.md", "- The dentist is in Basel.\n")
    here.sync()
    here.embed(things)
    note(tmp_path, "memory/2026-03-01.md", "- The notary is Vogt.\n")

    answer = here.search("notary", things, 6)

    assert paths(answer) == ["memory/2026-03-01.md"] and answer.waiting == 1
    here.embed(things)
    assert here.search("notary", things, 6).waiting == 0


def test_an_edit_embeds_only_what_is_new(tmp_path: Path):
    here, things = memory(tmp_path), Things()
    note(tmp_path, "MEMORY.md", "- one dog\n- two cakes\n")
    here.sync()
    here.embed(things)
    things.asked.clear()
    note(tmp_path, "MEMORY.md", "- two cakes\n- one dog\n- three servers\n")
    here.sync()

    here.embed(things)

    assert things.asked == ["three servers"]


def test_another_embedder_makes_every_vector_again(tmp_path: Path):
    here, old, new = memory(tmp_path), Things(), Things(model="2")
    note(tmp_path, "MEMORY.md", "- one dog\n")
    here.sync()
    here.embed(old)

    assert here.search("puppy", new, 6).waiting == 1
    assert here.embed(new) == 1 and here.search("puppy", new, 6).hits


def test_an_embedder_that_fails_leaves_the_search_to_words(tmp_path: Path):
    note(tmp_path, "MEMORY.md", "- one dog\n")

    answer = memory(tmp_path).search("dog", Things(fails=RuntimeError("no model")), 6)

    assert answer.hits and not answer.by_meaning
    assert answer.why_not == "embedder things failed: RuntimeError: no model"


def test_a_miss_recreates_nothing(tmp_path: Path):
    here, things = memory(tmp_path), Things()
    os.utime(note(tmp_path, "MEMORY.md", "- one dog\n"), (1_700_000_000, 1_700_000_000))
    here.sync()
    here.embed(things)
    things.asked.clear()
    before = here.index.state()

    assert not here.search("zebra", None, 6).hits
    here.search("zebra", things, 6)

    assert here.index.state() == before and things.asked == ["zebra"]


@pytest.mark.parametrize("damage", [b"not a database at all" * 50, b""])
def test_a_damaged_index_is_recreated_and_the_notes_are_untouched(tmp_path: Path, damage: bytes):
    here = memory(tmp_path)
    place = note(tmp_path, "MEMORY.md", "- The dentist is in Basel.\n")
    assert here.search("dentist", None, 6).hits
    here.index.close()
    for tail in ("-wal", "-shm"):
        Path(f"{here.index.path}{tail}").unlink(missing_ok=True)
    here.index.path.write_bytes(damage)

    assert here.search("dentist", None, 6).hits
    assert memory(tmp_path).search("dentist", None, 6).hits
    assert place.read_text(encoding="utf-8") == "- The dentist is in Basel.\n"


def test_bytes_damaged_anywhere_never_break_the_search(tmp_path: Path):
    for number in range(30):
        note(tmp_path, f"memory/2026-01-{number + 1:02d}.md", f"- note {number} on the dentist\n" * 20)
    whole = memory(tmp_path)
    whole.sync()
    whole.index.close()
    healthy = whole.index.path.read_bytes()
    for at in range(0, len(healthy), len(healthy) // 80):
        whole.index.path.write_bytes(healthy[:at] + b"\xff" * 64 + healthy[at + 64 :])

        here = memory(tmp_path)
        here.search("dentist", None, 6)
        note(tmp_path, "memory/2026-02-01.md", f"- a zebra at {at}\n")
        assert any("zebra" in hit.text for hit in here.search("zebra", None, 6).hits), at
        here.index.close()


@pytest.mark.parametrize(
    ("error", "damaged"),
    [
        (MemoryError(), True),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), True),
        (sqlite3.OperationalError("Could not decode to UTF-8 column 'path' with text '0\x13'"), True),
        (sqlite3.OperationalError("unsupported file format"), True),
        (sqlite3.OperationalError("no such table: piece"), True),
        (sqlite3.OperationalError("database is locked"), False),
        (sqlite3.OperationalError("database or disk is full"), False),
    ],
    ids=lambda value: str(value)[:25],
)
def test_what_sqlite_says_of_a_damaged_file_is_distinguished_from_what_passes(
    error: Exception, damaged: bool
):
    assert is_damage(error) == damaged


def test_an_index_of_other_pieces_or_another_form_is_recreated(tmp_path: Path):
    note(tmp_path, "MEMORY.md", "word " * 200)
    assert memory(tmp_path).state().behind == 1
    memory(tmp_path).sync()
    assert memory(tmp_path).state().counts.pieces == 1
    fine = memory(tmp_path, chunkTokens=50)
    fine.sync()

    assert fine.state().counts.pieces > 1
    db = sqlite3.connect(fine.index.path)
    db.execute("DROP TABLE piece")
    db.close()
    assert fine.search("word", None, 6).hits


def test_an_index_that_another_process_threw_away_is_opened_again(tmp_path: Path):
    one, other = memory(tmp_path), memory(tmp_path)
    note(tmp_path, "MEMORY.md", "- a dog\n")
    one.sync()
    other.sync()

    other.index.clear()

    assert one.search("dog", None, 6).hits and other.search("dog", None, 6).hits


def test_a_chat_finds_its_own_notes_and_an_owners_own_chat_all(tmp_path: Path):
    here, things = memory(tmp_path), Things()
    note(tmp_path, "MEMORY.md", "- The dentist is in Basel.\n")
    note(tmp_path, "memory/2026-03-01.md", "- The dentist called.\n")
    note(tmp_path, "memory/chats/one/2026-03-01.md", "- The dentist was here.\n")
    note(tmp_path, "memory/chats/one-more/2026-03-01.md", "- No dentist today.\n")
    here.sync()
    here.embed(things)

    assert len(here.search("dentist", things, 6).hits) == 4
    for embedder in (things, None):
        found = here.search("dentist", embedder, 6, within="memory/chats/one/")
        assert paths(found) == ["memory/chats/one/2026-03-01.md"]


def test_old_days_count_less_when_configured_and_memory_md_never_ages(tmp_path: Path):
    note(tmp_path, "memory/2020-01-01.md", "- the server is called heron\n")
    note(tmp_path, "memory/2026-03-01.md", "- the server is called osprey by some\n")
    note(tmp_path, "MEMORY.md", "- a server rule that is longer than all of the others\n")
    now = 1_772_400_000.0  # 2026-03-01, in the evening

    plain = memory(tmp_path).search("server", None, 6, now=now)
    aged = memory(tmp_path, timeDecay={"enabled": True}).search("server", None, 6, now=now)

    assert paths(plain)[0] == "memory/2020-01-01.md"
    assert paths(aged)[-1] == "memory/2020-01-01.md"


def test_results_that_say_the_same_give_way_when_configured(tmp_path: Path):
    note(
        tmp_path,
        "memory/2026-03-01.md",
        "- the dog barks\n\n- a dog barks\n\n- my dog sleeps in the hall\n",
    )

    usual = memory(tmp_path).search("dog barks", None, 2)
    varied = memory(tmp_path, mmr={"enabled": True, "weight": 0.3}).search("dog barks", None, 2)

    assert [hit.first for hit in usual.hits] == [1, 3]
    assert [hit.first for hit in varied.hits] == [1, 5]


def test_what_was_noted_on_several_days_takes_one_place_among_the_results(tmp_path: Path):
    for day in range(1, 8):
        note(tmp_path, f"memory/2026-03-0{day}.md", f"- the dog barks\n- on day {day} the dog slept\n")

    found = [hit.text for hit in memory(tmp_path).search("when does the dog bark?", None, 6).hits]

    assert found.count("- the dog barks") == 1
    assert len(set(found)) == 6


def test_links_that_lead_out_of_the_memory_are_not_searched(tmp_path: Path):
    secret = tmp_path / "secret.md"
    secret.write_text("the password is swordfish", encoding="utf-8")
    place = note(tmp_path, "memory/a.md", "nothing")
    (place.parent / "b.md").symlink_to(secret)
    (place.parent / "c").symlink_to(tmp_path)

    assert not memory(tmp_path).search("swordfish", None, 6).hits


def test_a_file_that_rests_not_yet_is_left_for_later(tmp_path: Path):
    here = memory(tmp_path)
    place = note(tmp_path, "MEMORY.md", "- a dog\n")

    assert here.sync(rests_ns=60_000_000_000) == 1
    os.utime(place, (time.time() - 90, time.time() - 90))
    assert here.sync(rests_ns=60_000_000_000) == 0


def test_progress_is_reported_and_can_end_it(tmp_path: Path):
    here, notes = memory(tmp_path), []
    for number in range(5):
        note(tmp_path, f"memory/{number}.md", "a dog")
    here.sync(lambda done, all_: notes.append((done, all_)) or True)

    assert notes[0] == (0, 5) and notes[-1] == (5, 5)
    assert here.embed(Things(), lambda done: False) == 0


def test_a_long_piece_is_shown_from_where_the_words_are():
    lines = [f"line {number} says nothing of interest to anybody" for number in range(40)]
    lines[30] = "here is the dentist"

    first, last, text = snippet("\n".join(lines), 11, words_of("dentist"))

    assert "here is the dentist" in text and len(text) <= SNIPPET_CHARS
    assert text.split("\n") == lines[first - 11 : last - 10]
