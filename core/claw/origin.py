"""Where the words of a note come from: a mark above them that a person can read, and that only claw itself writes. Pure.

``<!-- from: feishu group oc_1, not the owner; session agent:default:feishu:group:oc_1; 2026-03-01 -->`` holds for the
lines below it, down to the next mark; lines above the first one, or below ``<!-- by hand -->``, are a person's own.
"""

import re
from collections.abc import Collection
from difflib import SequenceMatcher

BY_HAND = ""
_MARK = re.compile(r"\s*<!--\s*(?:from:\s*(?P<from>.*?)|by hand)\s*-->\s*", re.IGNORECASE)
_NOT_PLAIN = re.compile(r"[^\w.:@+%/-]+")
_MOST_COMPARED = 4_000_000  # lines of the one text times lines of the other


def origin(
    channel: str,
    chat_type: str,
    chat: str,
    owner: bool,
    session_key: str,
    day: str,
    after: Collection[str] = (),
) -> str:
    """The words of a mark.

    :param owner: whether an owner's message led to the note.
    :param day: ``2026-03-01``.
    :param after: what the model had read of others before: names of tools, or of parts of the message.
    """
    place = " ".join(filter(None, (_plain(channel), _plain(chat_type), _plain(chat))))
    parts = [
        f"{place}, {'the owner' if owner else 'not the owner'}",
        f"session {_plain(session_key)}",
        _plain(day),
    ]
    if after:
        parts.append("after " + ", ".join(sorted(map(_plain, after))))
    return "; ".join(parts)


def is_foreign(words: str) -> bool:
    """Whether somebody else than an owner may have said it: it is data, and gives nobody any authority."""
    place, *more = words.split("; ")
    return place.endswith(", not the owner") or any(part.startswith("after ") for part in more)


def is_mark(line: str) -> bool:
    """Whether a line is a mark, and no words of a note."""
    return _MARK.fullmatch(line) is not None


def origins(text: str) -> tuple[str, ...]:
    """The origin of each line of a note (``split("\\n")``), the empty text for a person's own."""
    found, now = [], BY_HAND
    for line in text.split("\n"):
        if mark := _MARK.fullmatch(line):
            now = mark["from"] or BY_HAND
        found.append(now)
    return tuple(found)


def quoted_foreign(text: str, of: Collection[str] | None = None) -> str:
    """The text with every line of foreign origin as a quotation, so that nobody takes it for an order.

    :param of: the origin of each line; by default what the marks in the text say.
    """
    lines = text.split("\n")
    each = origins(text) if of is None else of
    return "\n".join(
        f"> {line}" if is_foreign(words) and line.strip() and not is_mark(line) else line
        for line, words in zip(lines, each, strict=True)
    )


def kept(old: str, new: str, words: str) -> str:
    """``new`` with its marks: a line that stood in ``old`` keeps its origin, whatever the writer made of the marks, and
    every other one comes from ``words``."""
    before = _unmarked(old)
    lines = [line for line in new.split("\n") if not is_mark(line)]
    each = [words] * len(lines)
    for was, now, count in _common([line for line, _ in before], lines):
        each[now : now + count] = [of for _, of in before[was : was + count]]
    return "\n".join(_marked(lines, each, BY_HAND))


def added(old: str, text: str, words: str) -> str:
    """What is to be written behind ``old`` so that ``text`` stands there with its mark."""
    start = "" if not old or old.endswith("\n") else "\n"
    lines = [line for line in text.split("\n") if not is_mark(line)]
    return start + "\n".join(_marked(lines, [words] * len(lines), origins(old)[-1]))


def _unmarked(text: str) -> list[tuple[str, str]]:
    return [pair for pair in zip(text.split("\n"), origins(text), strict=True) if not is_mark(pair[0])]


def _common(old: list[str], new: list[str]) -> list[tuple[int, int, int]]:
    """Runs of equal lines: where in the old text, where in the new one, how many."""
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


def _marked(lines: list[str], each: list[str], now: str) -> list[str]:
    """The lines, a mark wherever the origin changes. Blank ones never change it."""
    out = []
    for line, words in zip(lines, each, strict=True):
        if line.strip() and words != now:
            out.append(f"<!-- from: {words} -->" if words else "<!-- by hand -->")
            now = words
        out.append(line)
    return out


def _plain(text: str) -> str:
    """A name that cannot end the mark or pass for another part of it."""
    return _NOT_PLAIN.sub("_", text.replace("--", "_"))[:200]
