"""Judgement of Bot API requests and updates by types of other hands.

python-telegram-bot gives the parameters of each method and the types of nested objects: what it does not know ends in
``api_kwargs``. Where aiogram is installed, its pydantic models judge as well. Limits of text are from the Bot API.
"""

import inspect
import json
import re
from collections.abc import Mapping
from functools import cache
from html.parser import HTMLParser
from importlib.util import find_spec
from typing import Any

import telegram
from pydantic import ValidationError
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
HAS_AIOGRAM = find_spec("aiogram") is not None


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
    if HAS_AIOGRAM:
        wrong += _wrong_for_aiogram(method, fields)
    return [f"{method}: {one}" for one in wrong]


def wrong_in_update(update: Mapping[str, Any]) -> list[str]:
    """Return what is wrong in an update that the rig makes."""
    wrong = [f"{one} is unknown" for one in unknown_fields(Update.de_json(dict(update), None))]
    if HAS_AIOGRAM:
        from aiogram.types import Update as AiogramUpdate

        try:
            AiogramUpdate.model_validate(dict(update))
        except ValidationError as why:
            wrong.append(str(why))
    return wrong


def _wrong_for_aiogram(method: str, fields: Mapping[str, Any]) -> list[str]:
    import aiogram.methods

    model = getattr(aiogram.methods, method[0].upper() + method[1:], None)
    if model is None:
        return ["aiogram has no such method"]
    values = {name: _decoded(value) for name, value in fields.items()}
    try:
        return [f"aiogram does not know {name}" for name in (model.model_validate(values).model_extra or {})]
    except ValidationError as why:
        return [f"aiogram: {why}"]


def _decoded(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value
