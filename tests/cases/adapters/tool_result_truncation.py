"""A long text, described by head, line × count and tail → what is left of it, by length and hash."""

import hashlib
from pathlib import Path
from typing import Any

from claw.contracts.text import OMISSION_MARK, truncate

FUNCTIONS = ("claw.contracts.text:truncate",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    given, expected = case["input"], case["expect"]
    line, count = given["line"], given["count"]
    body = "".join(line.replace("%d", str(number)) for number in range(count))
    text = given["head"] + body + given["tail"]
    options = {"min_keep": given["min_keep_chars"]} if "min_keep_chars" in given else {}

    out = truncate(text, given["max_chars"], given["suffix"], **options)

    assert len(text) == expected["input_chars"]
    assert len(out) == expected["output_chars"]
    assert (out != text) == expected["truncated"]
    assert (OMISSION_MARK in out) == expected["has_middle_marker"]
    kept = out.removesuffix(given["suffix"]) if expected["ends_with_suffix"] else out
    head, _, tail = kept.partition(OMISSION_MARK)
    assert out.endswith(given["suffix"]) == expected["ends_with_suffix"]
    assert (len(head), len(tail)) == (expected["head_chars"], expected["tail_chars"])
    assert hashlib.sha256(out.encode()).hexdigest() == expected["output_sha256"]
