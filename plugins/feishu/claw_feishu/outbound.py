"""Forms of an outgoing message: text, post or card. Pure.

A post's ``md`` element and a card's ``markdown`` element both render Markdown; only the card supports tables and shows
code well. Sizes (request body of a post or card 30 KB) from the open platform's page of the send call.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from claw import Button, ChannelLimits
from claw_channel_sdk import split_text

from claw_feishu.inbound import BUTTON
from claw_feishu.richtext import harmless

ELEMENT = "answer"
"""Id of the one card element that holds the text."""
CARD_LIMITS = ChannelLimits(text_chars=8000, utf16=True)
"""Limit of one card: a UTF-16 unit is at most three bytes of UTF-8, so a piece stays under 25 KB."""
ONCE_SECONDS = 3500.0
"""Time for which a ``uuid`` makes a repeat harmless: an hour, from the page of the send call, minus clock skew."""
_STYLES = {"primary": "primary", "danger": "danger"}
_RICH = re.compile(r"[*_`~#>\[|]|^\s*(?:[-+]|\d+\.)\s", re.MULTILINE)
_CARD = re.compile(r"^\s*(?:```|~~~)|^\s*\|?.*\|.*\n\s*\|?\s*:?-{3,}:?\s*\|", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Form:
    """One message for the service: ``msg_type`` and ``content``, which is sent as JSON text."""

    msg_type: str
    content: str


def forms(text: str, buttons: Sequence[Button] = (), mode: str = "auto") -> tuple[Form, ...]:
    """Return the possible forms, best first; each later one is a fallback when the service refuses those before.

    :param mode: the setting ``renderMode``.
    """
    safe = harmless(text)
    card = Form("interactive", json.dumps(card_json(safe, buttons), ensure_ascii=False))
    without_buttons = "\n".join([safe, *(f"- {button.label}: {button.value}" for button in buttons)])
    plain = text_form(without_buttons)
    post = post_form(without_buttons)
    if buttons or mode == "card" or (mode == "auto" and _CARD.search(safe)):
        return card, post, plain
    if mode == "auto" and _RICH.search(safe):
        return post, plain
    return (plain,)


def text_form(text: str) -> Form:
    """Return a plain text message."""
    return Form("text", json.dumps({"text": text}, ensure_ascii=False))


def post_form(text: str) -> Form:
    """Return Markdown in a post."""
    return Form(
        "post",
        json.dumps({"zh_cn": {"content": [[{"tag": "md", "text": text}]]}}, ensure_ascii=False),
    )


def file_form(msg_type: str, key: str) -> Form:
    """Return a message with an uploaded file."""
    name = "image_key" if msg_type == "image" else "file_key"
    return Form(msg_type, json.dumps({name: key}))


def card_form(card_id: str) -> Form:
    """Return a message with an existing card, by its id."""
    return Form("interactive", json.dumps({"type": "card", "data": {"card_id": card_id}}))


def card_json(text: str, buttons: Sequence[Button] = (), *, streaming: bool = False) -> dict[str, Any]:
    """Build a card of schema 2.0: one Markdown element, and the buttons below it."""
    elements: list[dict[str, Any]] = [{"tag": "markdown", "element_id": ELEMENT, "content": text}]
    if buttons:
        columns = [{"tag": "column", "width": "auto", "elements": [_button(button)]} for button in buttons]
        elements.append({"tag": "column_set", "flex_mode": "flow", "columns": columns})
    config: dict[str, Any] = {"update_multi": True}
    if streaming:
        config = {"streaming_mode": True, "update_multi": True, "summary": {"content": ""}}
    return {"schema": "2.0", "config": config, "body": {"elements": elements}}


def _button(button: Button) -> dict[str, Any]:
    return {
        "tag": "button",
        "text": {"tag": "plain_text", "content": button.label},
        "type": _STYLES.get(button.style, "default"),
        "behaviors": [{"type": "callback", "value": {BUTTON: button.value}}],
    }


def card_pieces(text: str) -> tuple[str, ...]:
    """Split a text so that each piece fits into one card; at least one piece."""
    return split_text(harmless(text), CARD_LIMITS) or ("",)


def once(key: str, *more: object) -> str:
    """Return the ``uuid`` by which the service drops a repeat within an hour; it allows 50 characters."""
    return "claw-" + hashlib.sha256("\x00".join([key, *map(str, more)]).encode()).hexdigest()[:40]


def receiver(chat: str) -> str:
    """Return the ``receive_id_type`` of an id, by its prefix."""
    if "@" in chat:
        return "email"
    return {"oc_": "chat_id", "ou_": "open_id", "on_": "union_id"}.get(chat[:3], "user_id")
