"""What an answer says to claw instead of to people: stay silent, answer that message, send this file, as a voice note.

Order: ``MEDIA:`` lines, then ``[[tags]]``, then the silent token (spec/runtime.md K1 to K3, after OpenClaw 2026.3).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

ALSO_SILENT = ("__SILENT__", "🕊️_NO_REPLY")
"""Tokens that other prompts taught models; they count beside the configured one."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, read.

    :param text: what people see.
    :param silent: nothing is said on purpose; media may still go out.
    :param reply_to: id of the message to answer, None when the answer names none that is known.
    :param to_current: it asked to answer the present message, whether its id is known or not.
    :param media: paths and http(s) addresses, as written; nobody has checked them.
    :param voice: the sound is a voice note.
    """

    text: str
    silent: bool = False
    reply_to: str | None = None
    to_current: bool = False
    media: tuple[str, ...] = ()
    voice: bool = False


def silent_tokens(configured: str) -> tuple[str, ...]:
    """All tokens that count, the configured one first."""
    return tuple(dict.fromkeys((configured, *ALSO_SILENT)))


def parse(text: str, *, silent_tokens: Sequence[str], message_id: str = "") -> Reply:
    """Read a whole answer.

    :param message_id: of the message that is answered; empty when the channel gave none.
    """
    words, media = _without_media(text.rstrip())
    words, tags = _without_tags(words)
    if media or tags:
        words = _tidy(words)
    spoken = _without_token(words, silent_tokens)
    silent = bool(words.strip()) and not spoken
    ids = [id.strip() for id in tags if id and id.strip()]
    current = "" in tags
    return Reply(
        spoken,
        silent,
        reply_to=ids[-1] if ids else message_id or None if current else None,
        to_current=current,
        media=media,
        voice=None in tags,
    )


def may_become_silent(prefix: str, tokens: Sequence[str]) -> bool:
    """Whether the beginning of an answer may still turn out to be nothing but a silent token: then nobody sees it yet."""
    piece = prefix.lstrip()
    if not piece or piece != piece.upper():
        return False
    return any(
        token.startswith(piece) and ("_" in piece or (piece.isalpha() and token[len(piece)] == "_"))
        for token in tokens
    )


def shown(text: str, tokens: Sequence[str]) -> str:
    """What may be shown of an answer that still grows: no directive, and nothing that may become one."""
    if may_become_silent(text, tokens):
        return ""
    lines = text.split("\n")
    last = lines[-1].lstrip()
    if last and (last.startswith("MEDIA:") or "MEDIA:".startswith(last)):
        text = text[: len(text) - len(lines[-1])]
    elif (opened := text.rfind("[[", -_TAG_CHARS)) >= 0 and "]]" not in text[opened:]:
        text = text[:opened]
    elif text.endswith("["):
        text = text[:-1]
    elif last and not text[-1].isspace():
        word = last.split()[-1].rpartition("*")[2]
        if len(word) < len(text) and may_become_silent(word, tokens):
            text = text[: len(text) - len(word)].rstrip("*")
    return parse(text, silent_tokens=tokens).text


# --- silence


def _without_token(text: str, tokens: Sequence[str]) -> str:
    """The text without silent tokens at its very end, behind a blank, a line end or asterisks."""
    rest: str | None = text.rstrip()
    while rest is not None:
        text = rest
        rest = next((left for token in tokens if (left := _before(text, token)) is not None), None)
    return text


def _before(text: str, token: str) -> str | None:
    """What stands before a token that ends the text; None when none does."""
    before = text.removesuffix(token)
    if before == text or (before and not before[-1].isspace() and before[-1] != "*"):
        return None
    return before.rstrip("*").rstrip() if before.endswith("*") else before.rstrip()


# --- tags

_TAG_CHARS = 200  # an id is shorter: further back an open bracket is only a bracket
_TAG = re.compile(
    r"\[\[\s{0,9}(?:(?P<current>reply_to_current)|reply_to\s{0,9}:\s{0,9}(?P<id>[^\]\s][^\]\n]{0,200})|audio_as_voice)"
    r"\s{0,9}\]\][ \t]*",
    re.IGNORECASE,
)


def _without_tags(text: str) -> tuple[str, list[str | None]]:
    """The text, and what the tags say in order: an id, empty for the present message, None for a voice note."""
    said: list[str | None] = []

    def note(found: re.Match[str]) -> str:
        said.append("" if found["current"] else found["id"])
        return " " if text[max(found.start() - 1, 0) : found.start()].strip() else ""

    return _TAG.sub(note, text), said


def _tidy(text: str) -> str:
    """What taking directives out left behind is cleared away: double blanks inside a line, blanks at its end."""
    lines = [
        line if fenced else re.sub(r"(?<=\S)[ \t]{2,}", " ", line.rstrip()) for line, fenced in _lines(text)
    ]
    return "\n".join(lines).strip()


# --- media


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it belongs to a code fence (its own two lines included)."""
    fence = ""
    for line in text.split("\n"):
        mark = re.match(r" {0,3}(`{3,}|~{3,})(.*)", line)
        inside = bool(fence)
        if mark and not fence:
            fence, inside = mark[1], True
        elif mark and mark[1].startswith(fence) and not mark[2].strip():
            fence = ""
        yield line, inside


def _without_media(text: str) -> tuple[str, tuple[str, ...]]:
    kept: list[str] = []
    media: list[str] = []
    for line, fenced in _lines(text):
        found = None if fenced else re.match(r"\s*MEDIA:\s*(\S.*)", line)
        sources, rest = _sources(found[1].strip()) if found else ([], "")
        if not sources:
            kept.append(line)
        elif rest:
            kept.append(rest)
        elif kept and not kept[-1].strip() and media:
            kept.pop()  # one empty line, not two, where a paragraph of media stood
        media += sources
    return "\n".join(kept), tuple(media)


def _sources(payload: str) -> tuple[list[str], str]:
    """The files and addresses that a payload names, and the words beside them."""
    if len(payload) > 1 and payload[0] == payload[-1] and payload[0] in "\"'`":
        whole = _bare(payload[1:-1].strip())
        return ([whole], "") if _is_source(whole) or _EXTENSION.search(whole) else ([], "")
    items = [_bare(item.removeprefix("MEDIA:")) for item in payload.split()]
    good = [item for item in items if _is_source(item)]
    if len(good) < len(items) and _is_local(payload):
        return [_bare(payload)], ""
    if not good and len(items) == 1 and not _SCHEME.match(items[0]) and _EXTENSION.search(items[0]):
        return items, ""
    words = [raw for raw, item in zip(payload.split(), items, strict=True) if not _is_source(item)]
    return good, " ".join(words)


_MOST_CHARS = 4096
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_EXTENSION = re.compile(r"\.\w{1,10}\Z")


def _bare(item: str) -> str:
    return item.lstrip("`\"'[{(").rstrip("`\"'\\})],").removeprefix("file://")


def _is_source(item: str) -> bool:
    address = re.match(r"https?://\S", item, re.IGNORECASE)
    return 0 < len(item) <= _MOST_CHARS and (bool(address) or _is_local(item))


def _is_local(item: str) -> bool:
    if _DRIVE.match(item) or item.startswith(("/", "./", "../", "~", "\\\\", "file://")):
        return True
    return not _SCHEME.match(item) and ("/" in item or "\\" in item)
