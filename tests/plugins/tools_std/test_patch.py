"""apply_patch: the envelope is read, checked as a whole, and only then written."""

import difflib
import time
from contextlib import suppress

import pytest
from claw.contracts.errors import ToolError
from claw_tools_std.patch import Hunk, parsed, patched
from hypothesis import given, strategies as st

PATCH = """*** Begin Patch
*** Add File: docs/new.md
+# New
+
+text
*** Update File: src/a.py
*** Move to: src/b.py
@@ def two():
-    return 2
+    return "two"
*** Update File: notes.txt
@@
 one
-two
+2
 three
*** Delete File: old.txt
*** End Patch"""


async def test_a_patch_adds_updates_moves_and_deletes(bench):
    bench.put("src/a.py", "def one():\n    return 2\n\ndef two():\n    return 2\n")
    bench.put("notes.txt", "zero\r\none\r\ntwo\r\nthree\r\n")
    bench.put("old.txt", "x")

    text = await bench.ok("apply_patch", input=PATCH)

    assert text == "Patched 4 files:\nA docs/new.md\nR src/a.py -> src/b.py\nM notes.txt\nD old.txt"
    assert (bench.workspace / "docs/new.md").read_text() == "# New\n\ntext\n"
    assert (
        bench.workspace / "src/b.py"
    ).read_text() == 'def one():\n    return 2\n\ndef two():\n    return "two"\n'
    assert not (bench.workspace / "src/a.py").exists()
    assert (bench.workspace / "notes.txt").read_bytes() == b"zero\r\none\r\n2\r\nthree\r\n"
    assert not (bench.workspace / "old.txt").exists()


@pytest.mark.parametrize(
    ("last", "why"),
    [
        ("*** Update File: a.txt\n@@\n-missing\n+x", "a.txt: hunk 1 does not fit"),
        ("*** Update File: nowhere.txt\n@@\n-a\n+b", "nowhere.txt"),
        ("*** Delete File: nowhere.txt", "nowhere.txt"),
        ("*** Add File: a.txt\n+x", "exists already"),
        ("*** Add File: ../out.txt\n+x", "out.txt"),
        ("*** Update File: /etc/hostname\n@@\n-a\n+b", "/etc/hostname"),
        ("*** Update File: a.txt\n*** Move to: ../b.txt\n@@\n-one\n+b", "b.txt"),
        ("*** Update File: a.txt\n*** Move to: keep.txt", "exists already"),
        ("*** Update File: a.txt\n", "nothing is changed"),
        ("*** Update File: a.txt\n@@\nwhat", "neither with a blank"),
        ("*** Add File: b.txt\nno plus", "begins with +"),
        ("*** Rename File: a.txt", "begins with +"),
    ],
)
async def test_when_one_part_does_not_fit_nothing_is_written(last, why, bench):
    bench.put("a.txt", "one\n")
    bench.put("keep.txt", "k\n")
    first = "*** Update File: keep.txt\n@@\n-k\n+changed\n*** Add File: fresh.txt\n+x"
    patch = f"*** Begin Patch\n{first}\n{last}\n*** End Patch"

    assert why in await bench.refused("apply_patch", input=patch)

    assert sorted(p.name for p in bench.workspace.iterdir()) == ["a.txt", "keep.txt"]
    assert (bench.workspace / "keep.txt").read_text() == "k\n"


@pytest.mark.parametrize(
    "patch",
    ["", "x", "*** Begin Patch\n", "*** Begin Patch\n*** End Patch", "*** Begin Patch\nx\n*** End Patch"],
)
async def test_what_is_no_envelope_is_refused(patch, bench):
    assert "*** " in await bench.refused("apply_patch", input=patch)


def test_a_hunk_may_have_lost_blanks_and_the_file_keeps_its_own():
    text = "def f():  \n\treturn 1\nend\n"
    assert (
        patched(text, [Hunk("", (" def f():", "-    return 1", "+\treturn 2", " end"))], "f")
        == "def f():  \n\treturn 2\nend\n"
    )


def test_a_hunk_may_say_that_it_ends_the_file():
    text = "x\nend\nx\nend\n"
    step = parsed("*** Begin Patch\n*** Update File: f\n@@\n x\n-end\n+END\n*** End of File\n*** End Patch")[
        0
    ]
    assert patched(text, step.hunks, "f") == "x\nend\nx\nEND\n"


def test_lines_can_be_added_to_an_empty_file_and_at_the_end():
    assert patched("", [Hunk("", ("+a",))], "f") == "a\n"
    assert patched("a\n", [Hunk("", ("+b",))], "f") == "a\nb\n"
    assert patched("a", [Hunk("", ("-a", "+b"))], "f") == "b"


WORDS = st.lists(
    st.text(st.characters(blacklist_categories=["Cs", "Cc", "Zl", "Zp", "Zs"]), min_size=1, max_size=6),
    unique=True,
    max_size=12,
)


@given(WORDS, st.data())
def test_a_patch_made_from_a_difference_turns_the_old_file_into_the_new(old, data):
    fresh = data.draw(WORDS)
    kept = [line for line in old if data.draw(st.booleans())]
    new = list(kept)
    for line in fresh:
        if line not in old:
            new.insert(data.draw(st.integers(0, len(new))), line)
    lines = list(difflib.unified_diff(old, new, lineterm="", n=2))[2:]
    if not lines:
        return
    body = "\n".join("@@" if line.startswith("@@") else line for line in lines)
    patch = f"*** Begin Patch\n*** Update File: f\n{body}\n*** End Patch"

    made = patched("".join(f"{line}\n" for line in old), parsed(patch)[0].hunks, "f")

    assert made == "".join(f"{line}\n" for line in new)


@given(st.text(max_size=300), st.sampled_from(["", "*** Add File: a\n", "*** Update File: a\n@@\n"]))
def test_no_text_whatever_breaks_the_reader(text, before):
    for patch in (text, f"*** Begin Patch\n{before}{text}\n*** End Patch"):
        with suppress(ToolError):
            parsed(patch)


async def test_like_lines_by_the_thousand_are_found_at_once(bench) -> None:
    bench.put("a.txt", "a\n" * 40_000 + "b\n")
    lines = " a\n" * 20_000 + "-b\n+c\n"
    await bench.ok("apply_patch", input=f"*** Begin Patch\n*** Update File: a.txt\n@@\n{lines}*** End Patch")
    assert (bench.workspace / "a.txt").read_text() == "a\n" * 40_000 + "c\n"


async def test_more_hunks_than_can_be_looked_for_are_reported(bench) -> None:
    bench.put("a.txt", "a\n" * 60_000)
    hunks = "@@\n-a\n+b\n" * 1000
    problem = await bench.refused(
        "apply_patch", input=f"*** Begin Patch\n*** Update File: a.txt\n{hunks}*** End Patch"
    )
    assert "too many at once for files of so many lines" in problem


async def test_the_steps_of_a_patch_share_the_limit_of_work(bench) -> None:
    bench.put("a.txt", "a\n" * 1_000_000)
    steps = "*** Update File: a.txt\n@@\n-a\n+b\n" * 300
    began = time.monotonic()
    problem = await bench.refused("apply_patch", input=f"*** Begin Patch\n{steps}*** End Patch")
    assert "too many at once" in problem
    assert time.monotonic() - began < 60
    assert (bench.workspace / "a.txt").read_bytes().startswith(b"a\na\n")
