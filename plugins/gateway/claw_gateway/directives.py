"""Reply directives: the parts of an answer for claw and not for people (pure).

Stay silent, quote a message, send a file or voice note. Order: ``MEDIA:`` lines, then ``[[tags]]``, then the silent token
(spec/runtime.md K1 to K3, after OpenClaw 2026.3).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from claw.runtime import REPLY_TAG, is_silent, without_silent_token


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A parsed answer.

    :param text: the text for people.
    :param silent: the answer has no text on purpose; media may still be sent.
    :param reply_to: id of the message to quote; None when the answer names no known one.
    :param to_current: it asked to quote the present message, even when its id is unknown.
    :param media: paths and http(s) addresses as written; not checked.
    :param voice: send the audio as a voice note.
    """

    text: str
    silent: bool = False
    reply_to: str | None = None
    to_current: bool = False
    media: tuple[str, ...] = ()
    voice: bool = False


def parse_reply(text: str, *, silent_tokens: Sequence[str], message_id: str = "") -> ParsedReply:
    """Parse a complete answer.

    :param message_id: of the message that is answered; empty when the channel has none.
    """
    words, media = _without_media(text.rstrip())
    words, tags = _without_tags(words)
    if media or tags:
        words = _clean_blanks(words)
    is_only_token = bool(media or tags) and is_silent(words, silent_tokens)
    visible = "" if is_only_token else without_silent_token(words, silent_tokens)
    silent = bool(words.strip()) and not visible
    ids = [id.strip() for id in tags if id and id.strip()]
    current = "" in tags
    return ParsedReply(
        visible,
        silent,
        reply_to=ids[-1] if ids else message_id or None if current else None,
        to_current=current,
        media=media,
        voice=None in tags,
    )


def may_become_silent(prefix: str, tokens: Sequence[str]) -> bool:
    """Return true if the beginning of an answer may still become only a silent token, so it must not be shown yet."""
    piece = prefix.lstrip()
    if not piece or piece != piece.upper():
        return False
    return any(
        token.startswith(piece) and ("_" in piece or (piece.isalpha() and token[len(piece)] == "_"))
        for token in tokens
    )


def visible_part(text: str, tokens: Sequence[str]) -> str:
    """Return the part of a streaming answer that may be shown: no directive, and no beginning of one."""
    if _may_be_silent(text, tokens) or is_silent(text, tokens):
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
    words = parse_reply(text, silent_tokens=tokens).text
    return "" if _may_be_silent(words, tokens) else words


def _may_be_silent(text: str, tokens: Sequence[str]) -> bool:
    """Return true if a text so far may still become a silent token, perhaps in backticks or bold."""
    start = text.lstrip("`* \t\n")
    return not start or may_become_silent(start, tokens)


# --- tags

_TAG_CHARS = 200  # an id is shorter: an open bracket further back is no tag


def _without_tags(text: str) -> tuple[str, list[str | None]]:
    """Return the text without tags, and their values in order: an id, empty for the present message, None for voice."""
    tag_values: list[str | None] = []

    def note(found: re.Match[str]) -> str:
        tag_values.append("" if found["current"] else found["id"])
        return " " if text[max(found.start() - 1, 0) : found.start()].strip() else ""

    return REPLY_TAG.sub(note, text), tag_values


def _clean_blanks(text: str) -> str:
    """Clean up after removing directives: double blanks inside a line, blanks at its end."""
    lines = [
        line if fenced else re.sub(r"(?<=\S)[ \t]{2,}", " ", line.rstrip()) for line, fenced in _lines(text)
    ]
    return "\n".join(lines).strip()


# --- media


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each line, and true if it belongs to a code fence (its two fence lines included)."""
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
            kept.pop()  # one empty line, not two, in the place of a paragraph of media
        media += sources
    return "\n".join(kept), tuple(media)


def _sources(payload: str) -> tuple[list[str], str]:
    """Return the files and addresses that a payload names, and the remaining words."""
    if len(payload) > 1 and payload[0] == payload[-1] and payload[0] in "\"'`":
        whole = _strip_quotes(payload[1:-1].strip())
        return ([whole], "") if _is_source(whole) or _EXTENSION.search(whole) else ([], "")
    items = [_strip_quotes(item.removeprefix("MEDIA:")) for item in payload.split()]
    good = [item for item in items if _is_source(item)]
    if len(good) < len(items) and _is_local(payload):
        return [_strip_quotes(payload)], ""
    if not good and len(items) == 1 and not _SCHEME.match(items[0]) and _EXTENSION.search(items[0]):
        return items, ""
    words = [raw for raw, item in zip(payload.split(), items, strict=True) if not _is_source(item)]
    return good, " ".join(words)


_MOST_CHARS = 4096
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_EXTENSION = re.compile(r"\.\w{1,10}\Z")


def _strip_quotes(item: str) -> str:
    return item.lstrip("`\"'[{(").rstrip("`\"'\\})],").removeprefix("file://")


def _is_source(item: str) -> bool:
    address = re.match(r"https?://\S", item, re.IGNORECASE)
    return 0 < len(item) <= _MOST_CHARS and (bool(address) or _is_local(item))


def _is_local(item: str) -> bool:
    if _DRIVE.match(item) or item.startswith(("/", "./", "../", "~", "\\\\", "file://")):
        return True
    return not _SCHEME.match(item) and ("/" in item or "\\" in item)
