"""Conversion of Feishu message content to Markdown, and escaping of its mention tags. Pure.

Shapes from the open platform's "message content" pages.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

_MARKS = {"bold": "**", "italic": "*", "lineThrough": "~~", "codeInline": "`"}
_ALL = "@_all"
T = TypeVar("T")


class Mentions:
    """The people mentioned in a message, by the placeholders in its text.

    :param entries: ``mentions`` of the message: key, id (open_id …), name.
    :param us: the bot's open id; matched by id, never by name.
    """

    def __init__(self, entries: Iterable[Mapping[str, Any]] = (), us: str = "") -> None:
        self._names: dict[str, str] = {}
        self._ours: set[str] = set()
        self._by_id: dict[str, str] = {}
        for entry in entries:
            key, id = str(entry.get("key", "")), entry.get("id")
            open_id = id.get("open_id", "") if isinstance(id, Mapping) else id
            if key:
                self._names[key] = str(entry.get("name", ""))
                self._by_id[str(open_id)] = key
            if key and us and open_id == us:
                self._ours.add(key)

    @property
    def us(self) -> bool:
        """True if the bot is mentioned."""
        return bool(self._ours)

    def named(self, text: str) -> str:
        """Replace placeholders by ``@name`` and remove the bot's own, in one pass, longest first:
        ``@_user_1`` is a prefix of ``@_user_10``."""
        keys = sorted((*self._names, _ALL), key=len, reverse=True)
        pattern = "|".join(f"{re.escape(key)} ?" if key in self._ours else re.escape(key) for key in keys)
        return re.sub(pattern, lambda found: self.name(found[0]), text).strip()

    def name(self, key: str, shown: str = "") -> str:
        """Return the text for one placeholder (or open id); empty for the bot.

        :param shown: fallback for an unknown key.
        """
        key = key.rstrip(" ")
        key = key if key in self._names else self._by_id.get(key, key)
        if key in self._ours:
            return ""
        if key in (_ALL, "all"):
            return "@all"
        return f"@{self._names.get(key) or shown or key.lstrip('@')}"


def post_markdown(content: Mapping[str, Any], mentions: Mentions) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Convert rich text to Markdown; return it with its files as (kind, key).

    The content may be wrapped in a language, as when it is sent.
    """
    if "content" not in content:
        content = next((value for value in content.values() if isinstance(value, Mapping)), {})
    files: list[tuple[str, str]] = []
    lines = [str(content.get("title") or "")]
    for paragraph in _items(content.get("content"), list):
        spans = [_span(element, mentions, files) for element in _items(paragraph, dict)]
        text = ""
        for block, written in spans:
            if block and text and not text.endswith("\n"):
                text = text.rstrip(" ") + "\n"
            text += written + ("\n" if block else "")
        lines.append(text.strip())
    return "\n".join(lines).strip("\n"), tuple(files)


def _items(value: Any, kind: type[T]) -> list[T]:
    """Return the items of a list that have the type; empty when the value is no list."""
    return [item for item in value if isinstance(item, kind)] if isinstance(value, list) else []


def _span(element: Mapping[str, Any], mentions: Mentions, files: list[tuple[str, str]]) -> tuple[bool, str]:
    """Return true for a block element, and its Markdown."""
    tag, text = element.get("tag"), str(element.get("text") or "")
    if tag == "a":
        return False, _styled(f"[{text}]({element.get('href', '')})", element)
    if tag == "at":
        name = str(element.get("user_name") or "")
        return False, mentions.name(str(element.get("user_id") or ""), name)
    if tag == "img":
        key = str(element.get("image_key") or "")
        files.append(("image", key))
        return False, f"![image]({key})"
    if tag == "media":
        files.append(("video", str(element.get("file_key") or "")))
        return False, "[video]"
    if tag == "emotion":
        return False, f":{element.get('emoji_type', '')}:"
    if tag == "hr":
        return True, "---"
    if tag == "code_block":
        language = str(element.get("language") or "").lower()
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
        body = text.rstrip("\n")
        return True, f"{fence}{language}\n{body}\n{fence}"
    return False, _styled(mentions.named(text) if tag == "md" else text, element)


def _styled(text: str, element: Mapping[str, Any]) -> str:
    """Put style marks inside the white space: ``** x**`` is not bold."""
    bare = text.strip()
    if not bare:
        return text
    for style in _items(element.get("style"), str):
        if mark := _MARKS.get(style):
            bare = f"{mark}{bare}{mark}"
    return text[: len(text) - len(text.lstrip())] + bare + text[len(text.rstrip()) :]


def card_text(card: Any) -> str:
    """Return the texts of a card made by another sender, one line for each element with text."""
    words: list[str] = []

    def walk(value: Any) -> None:
        if isinstance(value, Mapping):
            for key, inner in value.items():
                if key in ("content", "text", "title") and isinstance(inner, str):
                    words.append(inner)
                else:
                    walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk(card)
    return "\n".join(word for word in words if word.strip())


def content_of(raw: Any) -> Mapping[str, Any]:
    """Parse the content of a message, which is JSON text; empty when it is invalid."""
    try:
        content = json.loads(raw) if isinstance(raw, str) else raw
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, Mapping) else {}


def harmless(text: str) -> str:
    """Escape ``<at …>`` tags: a model must not ping people by writing one."""
    return re.sub(r"<(?=/?at\b)", "<\u200b", text, flags=re.IGNORECASE)
