"""Provenance of notes: marks in a note, readable for people, that only claw itself writes. Pure.

``<!-- from: feishu group oc_1, not the owner; session agent:default:feishu:group:oc_1; 2026-03-01 -->`` holds
for the lines below it, down to the next mark; lines above the first one, or below ``<!-- by hand -->``, are a
person's own.
"""

import re
from collections.abc import Collection, Sequence
from difflib import SequenceMatcher

from claw.contracts.messages import Inbound
from claw.contracts.transcript import Assistant, Message

BY_HAND = ""
_MARK = re.compile(r"\s*<!--\s*(?:from:\s*(?P<from>.*?)|by hand)\s*-->\s*", re.IGNORECASE)
_NOT_PLAIN = re.compile(r"[^\w.:@+%/-]+")
_MOST_COMPARED = 4_000_000  # lines of the one text times lines of the other


def turn_provenance(
    inbound: Inbound, owner: bool, session_key: str, day: str, read: Collection[str] = ()
) -> str:
    """Return the text of a mark for a note that is written in the turn of this message.

    :param owner: the message is of an owner.
    :param day: ``2026-03-01``.
    :param read: tools whose results, which may hold the words of other people, the model has read.
    """
    around, address = inbound.around, inbound.address
    parts = {
        "a quoted message": around.quoted,
        "a forwarded message": around.forwarded_from,
        "files": inbound.attachments,
        "the thread": around.thread_starter,
        "other messages": around.history,
    }
    after = {*read, *(name for name, there in parts.items() if there)}
    place = " ".join(filter(None, map(_plain, (address.channel, inbound.chat_type, address.chat))))
    who = "the owner" if owner else "not the owner"
    words = [f"{place}, {who}", f"session {_plain(session_key)}", _plain(day)]
    if after:
        words.append("after " + ", ".join(sorted(map(_plain, after))))
    return "; ".join(words)


def is_untrusted_result(words: str, text: str) -> bool:
    """Return true if the result of a tool may hold the words of other people.

    :param words: as the tool declares it (``Tool.results``): ``foreign``, ``own`` or ``marked``.
    """
    return words == "foreign" or (words == "marked" and any(map(is_foreign, line_provenances(text))))


def called_tools(messages: Sequence[Message]) -> set[str]:
    """Return the names of the tools that these messages call."""
    return {call.name for one in messages if isinstance(one, Assistant) for call in one.tool_calls}


def is_foreign(words: str) -> bool:
    """Return true if a person other than an owner may have said it: it is data without authority."""
    place, *more = words.split("; ")
    return place.endswith(", not the owner") or any(part.startswith("after ") for part in more)


def is_origin_mark(line: str) -> bool:
    """Return true if a line is a mark, and not text of a note."""
    return _MARK.fullmatch(line) is not None


def line_provenances(text: str) -> tuple[str, ...]:
    """Return the provenance of each line of a note (``split("\\n")``), the empty text for a person's own."""
    found, now = [], BY_HAND
    for line in text.split("\n"):
        if mark := _MARK.fullmatch(line):
            now = mark["from"] or BY_HAND
        found.append(now)
    return tuple(found)


def quoted_foreign(text: str, of: Collection[str] | None = None) -> str:
    """Return the text with every foreign line quoted, so that it is not taken for an instruction.

    :param of: the provenance of each line; by default what the marks in the text say.
    """
    lines = text.split("\n")
    each = line_provenances(text) if of is None else of
    return "\n".join(
        f"> {line}" if is_foreign(words) and line.strip() and not is_origin_mark(line) else line
        for line, words in zip(lines, each, strict=True)
    )


def keep_marks(old: str, new: str, words: str) -> str:
    """Return ``new`` with its marks: a line that was in ``old`` keeps its provenance, whatever the writer
    did to the marks, and every other one gets ``words``."""
    before = [
        (line, of)
        for line, of in zip(old.split("\n"), line_provenances(old), strict=True)
        if not is_origin_mark(line)
    ]
    lines = [line for line in new.split("\n") if not is_origin_mark(line)]
    each = [words] * len(lines)
    for was, now, count in _equal_runs([line for line, _ in before], lines):
        each[now : now + count] = [of for _, of in before[was : was + count]]
    return "\n".join(_with_marks(lines, each, BY_HAND))


def append_marked(old: str, text: str, words: str) -> str:
    """Return the text to append to ``old`` so that ``text`` follows with its mark."""
    start = "" if not old or old.endswith("\n") else "\n"
    lines = [line for line in text.split("\n") if not is_origin_mark(line)]
    return start + "\n".join(_with_marks(lines, [words] * len(lines), line_provenances(old)[-1]))


def _equal_runs(old: list[str], new: list[str]) -> list[tuple[int, int, int]]:
    """Return runs of equal lines: their start in the old text, their start in the new one, their length."""
    most = min(len(old), len(new))
    head = next((at for at in range(most) if old[at] != new[at]), most)
    rest = most - head
    tail = next((at for at in range(rest) if old[-1 - at] != new[-1 - at]), rest)
    runs = [(0, 0, head), (len(old) - tail, len(new) - tail, tail)]
    inner, changed = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(inner) * len(changed) <= _MOST_COMPARED:
        blocks = SequenceMatcher(None, inner, changed, autojunk=False).get_matching_blocks()
        runs += [(head + block.a, head + block.b, block.size) for block in blocks]
    return runs


def _with_marks(lines: list[str], each: list[str], now: str) -> list[str]:
    """Return the lines with a mark wherever the provenance changes. Blank lines never change it."""
    out = []
    for line, words in zip(lines, each, strict=True):
        if line.strip() and words != now:
            out.append(f"<!-- from: {words} -->" if words else "<!-- by hand -->")
            now = words
        out.append(line)
    return out


def _plain(text: str) -> str:
    """Return a name that cannot end the mark or be read as another part of it."""
    return _NOT_PLAIN.sub("_", text.replace("--", "_"))[:200]
