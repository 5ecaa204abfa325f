"""Judgement of Bot API requests and updates by types of other hands.

python-telegram-bot gives the parameters of each method and the types of nested objects: what it does not know ends in
``api_kwargs``. Limits of text are from the Bot API. aiogram judges the same documents later (``aiogram_judge``).
"""

import inspect
import json
import re
from collections.abc import Mapping
from functools import cache
from html.parser import HTMLParser
from typing import Any

import telegram
from telegram import Bot, TelegramObject, Update

MOST_CHARS = 4096
_NESTED: dict[str, type[TelegramObject]] = {
    "reply_parameters": telegram.ReplyParameters,
    "link_preview_options": telegram.LinkPreviewOptions,
    "reply_markup": telegram.InlineKeyboardMarkup,
    "entities": telegram.MessageEntity,
    "commands": telegram.BotCommand,
}
_OWN = {"self", "read_timeout", "write_timeout", "connect_timeout", "pool_timeout", "api_kwargs"}
_OF_THE_LIBRARY = {
    "allow_sending_without_reply",
    "reply_to_message_id",
    "disable_web_page_preview",
    "current_offset",
}
# core.telegram.org/bots/api#html-style
_TAGS = {
    "b", "strong", "i", "em", "u", "ins", "s", "strike", "del", "span", "tg-spoiler", "a", "tg-emoji", "code", "pre",
    "blockquote",
}  # fmt: skip


class ParseError(ValueError):
    """The entities of a text cannot be parsed."""


class _Html(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _TAGS:
            raise ParseError(f'Unsupported start tag "{tag}"')
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            raise ParseError(f'Unexpected end tag "{tag}"')

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def whole(self) -> str:
        self.close()
        if self._open:
            raise ParseError(f'Can\'t find end tag corresponding to start tag "{self._open[-1]}"')
        return "".join(self.text)


def visible_text(text: str, parse_mode: str | None) -> str:
    """Return the text as a person sees it.

    :raises ParseError: as Telegram refuses it.
    """
    mode = (parse_mode or "").lower()
    if mode == "html":
        parser = _Html()
        parser.feed(text)
        return parser.whole().strip()
    if mode == "markdownv2":
        return re.sub(r"\\(.)", r"\1", text).strip()
    return text.strip()


def snake(name: str) -> str:
    """Return ``send_message`` of ``sendMessage``."""
    return re.sub(r"(?<!^)([A-Z])", lambda match: f"_{match[1].lower()}", name)


@cache
def _parameters(method: str) -> tuple[frozenset[str], frozenset[str]] | None:
    """Return all parameters of a method and those that are required; None = there is no such method."""
    function = getattr(Bot, snake(method), None)
    if function is None:
        return None
    listed = inspect.signature(function).parameters.values()
    names = {one.name for one in listed} - _OWN - _OF_THE_LIBRARY
    required = {one.name for one in listed if one.default is one.empty} & names
    return frozenset(names), frozenset(required)


def unknown_fields(parsed: Any, at: str = "") -> list[str]:
    """Return the fields of a parsed object that its type does not know."""
    if isinstance(parsed, tuple | list):
        return [wrong for one in parsed for wrong in unknown_fields(one, at)]
    if not isinstance(parsed, TelegramObject):
        return []
    found = [f"{at}{name}" for name in parsed.api_kwargs]
    for name in {name for kind in type(parsed).__mro__ for name in getattr(kind, "__slots__", ())}:
        if not name.startswith("_") and name not in ("api_kwargs", "bot"):
            found += unknown_fields(getattr(parsed, name, None), f"{at}{name}.")
    return found


def _nested(name: str, value: Any) -> list[str]:
    kind = _NESTED[name]
    try:
        document = json.loads(value) if isinstance(value, str) else value
        parsed = kind.de_list(document, None) if isinstance(document, list) else kind.de_json(document, None)
    except (TypeError, ValueError, KeyError) as why:
        return [f"{name}: {why}"]
    return [f"{name}.{wrong} is unknown" for wrong in unknown_fields(parsed)]


def wrong_in_request(method: str, fields: Mapping[str, Any]) -> list[str]:
    """Return what is wrong in a request."""
    known = _parameters(method)
    if known is None:
        return [f"{method}: there is no such method"]
    names, required = known
    wrong = [f"{name} is unknown" for name in fields.keys() - names]
    wrong += [f"{name} is missing" for name in required - fields.keys()]
    for name in fields.keys() & _NESTED.keys():
        wrong += _nested(name, fields[name])
    if "parse_mode" in fields and str(fields["parse_mode"]) not in ("HTML", "Markdown", "MarkdownV2"):
        wrong.append(f"parse_mode {fields['parse_mode']}")
    return [f"{method}: {one}" for one in wrong]


def wrong_in_update(update: Mapping[str, Any]) -> list[str]:
    """Return what is wrong in an update that the rig makes."""
    return [f"{one} is unknown" for one in unknown_fields(Update.de_json(dict(update), None))]
