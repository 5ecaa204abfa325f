"""The Bot API's HTML parser, as strict as the real one, for the fake. https://core.telegram.org/bots/api#html-style"""

import re
from dataclasses import dataclass
from html import unescape
from typing import Any

_TOKEN = re.compile(r"<(/?)([^<>\s]*)([^<>]*)>|<")
_TAGS = {
    "b": "bold", "strong": "bold", "i": "italic", "em": "italic", "u": "underline", "ins": "underline",
    "s": "strikethrough", "strike": "strikethrough", "del": "strikethrough", "tg-spoiler": "spoiler", "code": "code",
    "pre": "pre", "a": "text_link", "blockquote": "blockquote",
}  # fmt: skip
_STYLES = {"bold", "italic", "underline", "strikethrough", "spoiler"}


class CannotParse(Exception):
    """Error for HTML that Telegram refuses; the message is Telegram's description."""


@dataclass(frozen=True)
class Parsed:
    """The visible text and its entities, with offsets and lengths in UTF-16 units."""

    text: str
    entities: list[dict[str, Any]]


def utf16_units(text: str) -> int:
    """Return the number of UTF-16 code units."""
    return len(text.encode("utf-16-le")) // 2


def parse(html: str) -> Parsed:
    """Read HTML.

    :raises CannotParse: a tag is unknown, not closed, closed in the wrong order, or nested where it is not allowed.
    """
    text, end = "", 0
    open_tags: list[tuple[str, str, int, str]] = []  # name, kind, offset, attributes
    entities: list[dict[str, Any]] = []
    for hit in _TOKEN.finditer(html):
        text += unescape(html[end : hit.start()])
        end = hit.end()
        closes, name, more = hit[1], (hit[2] or "").lower(), hit[3] or ""
        where = len(html[: hit.start()].encode())
        if hit[0] == "<" or name not in _TAGS:
            raise CannotParse(f'Unsupported start tag "{name}" at byte offset {where}')
        if not closes:
            _check_nesting(name, [kind for _, kind, _, _ in open_tags], where)
            open_tags.append((name, _TAGS[name], utf16_units(text), more))
        elif not open_tags or open_tags[-1][0] != name:
            expected = f', expected "</{open_tags[-1][0]}>"' if open_tags else ""
            raise CannotParse(f'Unexpected end tag at byte offset {where}{expected}, found "</{name}>"')
        else:
            _, kind, offset, attributes = open_tags.pop()
            entities += _entity(kind, offset, utf16_units(text) - offset, attributes)
    text += unescape(html[end:])
    if open_tags:
        raise CannotParse(f'Can\'t find end tag corresponding to start tag "{open_tags[-1][0]}"')
    return _trimmed(text, entities)


def _check_nesting(name: str, around: list[str], where: int) -> None:
    kind = _TAGS[name]
    inside = around[-1] if around else ""
    language = inside == "pre" and name == "code"
    if ("code" in around or "pre" in around) and not language:
        raise CannotParse(f'Tag "{name}" may not stand in code, at byte offset {where}')
    if kind in ("code", "pre", "blockquote", "text_link") and not language:
        barred = {"text_link", *_STYLES} if kind in ("code", "pre") else {kind}
        if kind == "blockquote":
            barred |= _STYLES | {"text_link"}
        if barred & set(around):
            raise CannotParse(f'Tag "{name}" may not stand in "{inside}", at byte offset {where}')


def _entity(kind: str, offset: int, length: int, attributes: str) -> list[dict[str, Any]]:
    if not length:
        return []
    found: dict[str, Any] = {"type": kind, "offset": offset, "length": length}
    if kind == "text_link":
        href = re.search(r'href="([^"]*)"', attributes)
        return [found | {"url": unescape(href[1])}] if href and href[1] else []
    return [found]


def _trimmed(text: str, entities: list[dict[str, Any]]) -> Parsed:
    """Strip white space at both ends and shift the entities."""
    cut = utf16_units(text) - utf16_units(text.lstrip())
    text = text.strip()
    kept = []
    for one in entities:
        start = max(one["offset"] - cut, 0)
        stop = min(one["offset"] + one["length"] - cut, utf16_units(text))
        if stop > start:
            kept.append(one | {"offset": start, "length": stop - start})
    return Parsed(text, sorted(kept, key=lambda one: (one["offset"], -one["length"])))
