"""read, write, edit, ls: one file at a time, inside the fence, with an answer that tells how to go on."""

import asyncio
import base64
import tracemalloc

import pytest
from claw.contracts.errors import ToolError
from claw.contracts.transcript import Image
from claw_tools_std.files import changed, paged
from hypothesis import assume, given, strategies as st

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


async def test_a_file_is_read_as_it_is(bench):
    bench.put("skills/x/SKILL.md", "# create-python-script\n\n1. 用 `ls`\n")
    assert await bench.ok("read", file_path="./skills/x/SKILL.md") == "# create-python-script\n\n1. 用 `ls`\n"


async def test_a_long_file_is_read_page_by_page_until_its_end(bench):
    lines = [f"line {number}\n" for number in range(1, 2501)]
    bench.put("long.txt", "".join(lines))

    first = await bench.ok("read", file_path="long.txt")
    assert first.endswith("line 2000\n[500 more lines; go on with offset=2001]")
    assert await bench.ok("read", file_path="long.txt", offset=2001) == "".join(lines[2000:])
    assert (await bench.ok("read", file_path="long.txt", offset=3, limit=2)).startswith(
        "line 3\nline 4\n[2496 more"
    )
    assert "2500 lines" in await bench.refused("read", file_path="long.txt", offset=2501)


async def test_a_page_is_small_enough_that_its_hint_survives_the_models_limit(bench):
    bench.put("wide.txt", "x" * 79 + "\n")
    bench.put("wide.txt", ("x" * 79 + "\n") * 1000)
    bench.status["context_tokens"] = 8192
    text = await bench.ok("read", file_path="wide.txt")
    assert len(text) <= 9828 and "go on with offset=" in text


async def test_one_very_long_line_is_cut_and_says_so(bench):
    bench.put("min.js", "x" * 100_000)
    text = await bench.ok("read", file_path="min.js")
    assert len(text) < 3000
    assert text.endswith("98000 more chars in this line; go on with offset=1, column=2001]")


async def test_a_long_line_is_read_to_its_end_by_columns(bench):
    words = "".join(f"{number:06d}" for number in range(30_000))
    bench.put("one.json", f"[\n{words}\n]\n")
    read, column = "", 1
    while True:
        text = await bench.ok("read", file_path="one.json", offset=2, column=column)
        part, cut, rest = text.partition(" [... ")
        read += part
        if not cut:
            break
        assert "go on with offset=2, column=" in rest
        column = int(rest.rpartition("=")[2].removesuffix("]"))
    assert read == words
    assert "180000 characters" in await bench.refused("read", file_path="one.json", offset=2, column=180_001)


async def test_a_picture_is_shown_as_a_picture(bench):
    bench.put("a.dat", PNG)
    result = await bench.call("read", file_path="a.dat")
    assert result.blocks[1] == Image(base64.b64encode(PNG).decode(), "image/png")


@pytest.mark.parametrize(("name", "data", "wanted"), [
    ("bom.txt", b"\xef\xbb\xbfhi", "hi"),
    ("wide.txt", "hi 你".encode("utf-16"), "hi 你"),
    ("latin.txt", b"caf\xe9", "caf\ufffd"),
    ("empty.txt", b"", ""),
])  # fmt: skip
async def test_text_in_other_clothes_is_read(name, data, wanted, bench):
    bench.put(name, data)
    assert await bench.ok("read", file_path=name) == wanted


async def test_what_cannot_be_read_says_why(bench):
    bench.put("src/main.py", "x")
    bench.put("a.bin", b"\x7fELF\0\0")
    assert "Did you mean src/main.py?" in await bench.refused("read", file_path="src/mian.py")
    assert "binary" in await bench.refused("read", file_path="a.bin")
    assert "folder" in await bench.refused("read", file_path="src")
    assert "passwd" in await bench.refused("read", file_path="/etc/passwd")
    assert "file_path is missing" in await bench.refused("read", path="src/main.py")


async def test_writing_answers_with_the_bytes_and_the_place(bench):
    text = await bench.ok("write", file_path="deep/er/a.txt", content="naïve\n")
    assert text == "Wrote 7 bytes to deep/er/a.txt"
    assert (bench.workspace / "deep/er/a.txt").read_bytes() == "naïve\n".encode()
    await bench.refused("write", file_path="../out.txt", content="x")


async def test_an_edit_replaces_what_occurs_once(bench):
    bench.put("a.py", "a = 1\nb = 2\n")
    assert (
        await bench.ok("edit", file_path="a.py", old_text="b = 2", new_text="b = 3")
        == "Edited a.py: 1 replacement (line 2)"
    )
    assert (bench.workspace / "a.py").read_text() == "a = 1\nb = 3\n"


async def test_several_edits_happen_in_order_all_or_none(bench):
    file = bench.put("a.py", "a = 1\nb = 2\n")
    edits = [{"old_text": "a = 1", "new_text": "c = 1"}, {"old_text": "c = 1\nb", "new_text": "d"}]
    await bench.ok("edit", file_path="a.py", edits=edits)
    assert file.read_text() == "d = 2\n"

    text = await bench.refused(
        "edit",
        file_path="a.py",
        edits=[{"old_text": "d", "new_text": "e"}, {"old_text": "q", "new_text": ""}],
    )
    assert "edit 2: old_text is not in a.py" in text
    assert file.read_text() == "d = 2\n"


async def test_an_edit_that_fits_nowhere_or_twice_says_where_to_look(bench):
    bench.put("a.py", "def one():\n    return 1\n\ndef two():\n    return 1\n")
    twice = await bench.refused("edit", file_path="a.py", old_text="    return 1", new_text="    return 2")
    assert "occurs 2 times" in twice and "lines 2, 5" in twice and "replace_all" in twice
    assert "line 4: 'def two():'" in await bench.refused(
        "edit", file_path="a.py", old_text="def tow():", new_text="x"
    )
    assert "line 2" in await bench.refused(
        "edit", file_path="a.py", old_text="return 1\n\n\ndef", new_text="x"
    )
    assert "the same" in await bench.refused("edit", file_path="a.py", old_text="one", new_text="one")
    assert "nothing to change" in await bench.refused("edit", file_path="a.py")
    assert "2 replacements" in await bench.ok(
        "edit", file_path="a.py", old_text="return 1", new_text="return 2", replace_all=True
    )


async def test_an_edit_keeps_line_ends_and_bytes_that_are_no_utf8(bench):
    file = bench.put("a.txt", b"\xef\xbb\xbfone\r\ntwo\r\ncaf\xe9\r\n")
    await bench.ok("edit", file_path="a.txt", old_text="one\ntwo", new_text="1\n2\n3")
    assert file.read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n3\r\ncaf\xe9\r\n"


async def test_a_listing_marks_folders_and_links(bench):
    bench.put("README.md", "x")
    bench.put("scripts/a.sh", "x")
    (bench.workspace / "link").symlink_to("README.md")
    result = await bench.call("ls", path=".")
    assert result.content == "README.md\nlink@\nscripts/\n"
    assert result.details["entries"][0] == {"name": "README.md", "kind": "file", "bytes": 1}
    assert await bench.ok("ls") == result.content
    await bench.refused("ls", path="..")


@given(st.text(min_size=1), st.text(), st.text(), st.text())
def test_an_edit_and_its_reverse_give_the_file_back(old, new, before, after):
    text = before + old + after
    assume(old != new and new and text.count(old) == 1 and "\r" not in text + new)
    made, _, _ = changed(text, old, new, False, "", "f")
    assert made == before + new + after
    assume(made.count(new) == 1 and made.find(new) == len(before))
    assert changed(made, new, old, False, "", "f")[0] == text


@given(st.text(), st.integers(1, 20), st.integers(1, 10), st.integers(1, 200))
def test_pages_put_together_are_the_file(text, first, limit, most):
    shown, at = "", 1
    while True:
        page = paged(text, at, limit, most)
        shown += page.text + ("\n" if page.more else "")
        if not page.more:
            break
        at = page.last + 1
    assert shown == text
    if first > max(text.count("\n") + 1, 1):
        with pytest.raises(ToolError):
            paged(text, first, limit, most)


async def test_edits_that_would_grow_without_end_are_reported(bench) -> None:
    bench.put("a.txt", "a" * 1000)
    doubling = [{"old_text": "a", "new_text": "aa"}] * 40
    assert "an edit makes at most" in await bench.refused(
        "edit", file_path="a.txt", edits=doubling, replace_all=True
    )
    assert (bench.workspace / "a.txt").read_text() == "a" * 1000


async def test_many_places_are_counted_in_one_go(bench) -> None:
    bench.put("a.txt", "a\nb\n" * 60_000)
    result = await bench.call("edit", file_path="a.txt", old_text="b", new_text="c", replace_all=True)
    assert result.details["replacements"] == 60_000
    assert result.details["lines"] == list(range(2, 2001, 2))


@pytest.mark.parametrize("call", ["read", "edit"])
async def test_files_of_line_ends_take_little_more_memory_than_their_size(call: str, bench) -> None:
    size = 4_000_000
    bench.put("a.txt", "\n" * size)
    arguments = (
        {"old_text": "\n", "new_text": "x", "replace_all": True} if call == "edit" else {"offset": size - 10}
    )
    tracemalloc.start()
    try:
        results = await asyncio.gather(*(bench.call(call, file_path="a.txt", **arguments) for _ in range(4)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert any(not result.is_error for result in results)
    assert peak < 12 * size


@pytest.mark.parametrize("tool", ["edit", "apply_patch"])
async def test_a_file_that_does_not_fit_into_memory_is_not_changed(tool: str, bench) -> None:
    with (bench.workspace / "big.log").open("wb") as file:
        file.truncate(1_000_000_000_000)  # bytes, none of them on the disk
    patch = "*** Begin Patch\n*** Update File: big.log\n@@\n-a\n+b\n*** End Patch"
    arguments = {
        "edit": {"file_path": "big.log", "old_text": "a", "new_text": "b"},
        "apply_patch": {"input": patch},
    }
    assert "is larger than" in await bench.refused(tool, **arguments[tool])


async def test_a_name_of_a_megabyte_is_compared_with_none(bench) -> None:
    bench.put("a" * 200, "x")
    assert "too long" in await bench.refused("read", file_path="a" * 1_000_000)
    assert "unknown argument" in await bench.refused("read", **{"file_path": "a", "b" * 1_000_000: 1})
