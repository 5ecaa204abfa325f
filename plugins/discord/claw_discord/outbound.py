"""Request bodies for Discord's REST API, and its refusals as errors. Pure.

Limits from https://discord.com/developers/docs/resources/message#create-message; kept here so that a correction is
one line.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from claw import Button, DeliveryError, Outbound, UsageError

from claw_discord.rendering import escape_markdown

TEXT_CHARS = 2000
FILE_BYTES = 10 << 20
NONCE_CHARS = 25
NONCE_SECONDS = 120.0
"""Time for which a nonce surely makes a repeat harmless: the page says "the past few minutes"."""
_ROW, _ROWS, _LABEL_CHARS, _VALUE_CHARS = 5, 5, 80, 100
_STYLES = {"primary": 1, "danger": 4}
_PLAIN_STYLE = 2
_QUESTION_CHARS, _OPTION_CHARS, _OPTIONS, _POLL_HOURS = 300, 55, 10, 24
_TITLE_CHARS = 100
_ID = re.compile("[0-9]{1,20}")
NO_MENTIONS: dict[str, Any] = {"parse": []}
"""The ``allowed_mentions`` value that mentions no one, whatever the text contains."""

UNKNOWN_CHANNEL, UNKNOWN_MESSAGE, THREAD_IS_THERE = 10003, 10008, 160004

_TEMPORARY = frozenset({408, 425})  # statuses of refusals that may be temporary
_FIXES = {
    10003: "the channel is gone, or the bot was taken out of it",
    10008: "the message is gone",
    50001: "let the bot's role see that channel and write in it",
    50007: "that person takes no messages from the bot: they must share a server with it and allow its messages",
    50013: "give the bot's role the right to do that in this channel",
    40005: "send a smaller file",
}


def is_id(text: str) -> bool:
    """Return true if a text is a Discord id: the digits of a 64-bit number."""
    return _ID.fullmatch(text) is not None


def nonce(key: str) -> str:
    """Return the nonce of a delivery key: the service drops a second message with the same nonce within minutes."""
    return hashlib.sha256(key.encode()).hexdigest()[:NONCE_CHARS]


def message(outbound: Outbound, *, reply_to: str | None = None) -> dict[str, Any]:
    """Build the body of one new message.

    :raises DeliveryError: permanent; it does not fit into one message.
    """
    if len(outbound.text) > TEXT_CHARS:
        problem = "a Discord message holds {most} characters, and this text has {count}"
        raise DeliveryError(problem, permanent=True, most=TEXT_CHARS, count=len(outbound.text))
    if not outbound.text.strip() and not outbound.attachments:
        raise DeliveryError("an empty text cannot be sent to Discord", permanent=True)
    body: dict[str, Any] = {
        "content": _escape_plain(outbound.text) if outbound.plain else outbound.text,
        "nonce": nonce(outbound.key),
        "enforce_nonce": True,
        "allowed_mentions": NO_MENTIONS,
    }
    if reply_to and is_id(reply_to):  # with a malformed id the service would refuse the whole message
        body["message_reference"] = {"message_id": reply_to, "fail_if_not_exists": False}
    if outbound.buttons:
        body["components"] = components(outbound.buttons)
    return body


def _escape_plain(text: str) -> str:
    """Escape a plain text, so that Discord shows each character; unchanged if that would be too long."""
    escaped = escape_markdown(text)
    return escaped if len(escaped) <= TEXT_CHARS else text


def edited(text: str, buttons: Sequence[Button] | None = None) -> dict[str, Any]:
    """Build the body of an edit; None leaves the buttons unchanged."""
    body: dict[str, Any] = {"content": text, "allowed_mentions": NO_MENTIONS}
    return body if buttons is None else body | {"components": components(buttons)}


def components(buttons: Sequence[Button]) -> list[dict[str, Any]]:
    """Build button rows of five.

    :raises DeliveryError: more buttons than a message can hold, or a value that cannot come back whole.
    """
    if len(buttons) > _ROW * _ROWS:
        problem = "a Discord message holds {most} buttons, and this one has {count}"
        raise DeliveryError(problem, permanent=True, most=_ROW * _ROWS, count=len(buttons))
    for button in buttons:
        if not 1 <= len(button.value) <= _VALUE_CHARS:
            problem = "the button {label} holds a value that is not 1 to {most} characters long"
            raise DeliveryError(problem, permanent=True, label=button.label, most=_VALUE_CHARS)
    made = [
        {
            "type": 2,
            "style": _STYLES.get(button.style, _PLAIN_STYLE),
            "label": button.label[:_LABEL_CHARS],
            "custom_id": button.value,
        }
        for button in buttons
    ]
    return [{"type": 1, "components": made[at : at + _ROW]} for at in range(0, len(made), _ROW)]


def poll(question: str, options: Sequence[str]) -> dict[str, Any]:
    """Build the body of a poll of one day.

    :raises UsageError: Discord would refuse this poll.
    """
    if not 1 <= len(options) <= _OPTIONS or not question.strip():
        raise UsageError("a poll on Discord has a question and one to {most} options", most=_OPTIONS)
    answers = [{"poll_media": {"text": option[:_OPTION_CHARS]}} for option in options]
    return {
        "poll": {
            "question": {"text": question[:_QUESTION_CHARS]},
            "answers": answers,
            "duration": _POLL_HOURS,
            "allow_multiselect": False,
        },
        "allowed_mentions": NO_MENTIONS,
    }


def thread(title: str) -> dict[str, Any]:
    """Build the body that opens a thread under a message; it is archived after a day of silence."""
    line = " ".join(title.split())[:_TITLE_CHARS]
    return {"name": line or "claw", "auto_archive_duration": 1440}


def emoji(text: str) -> str:
    """Return an emoji as a route names it: a Unicode emoji, or ``name:id`` (or ``<:name:id>``) of a server."""
    return text.strip().removeprefix("<").removesuffix(">").removeprefix("a:").strip(":")


class DiscordError(DeliveryError):
    """A refusal by Discord, with its error number.

    :ivar code: 0 when the answer had none.
    """

    def __init__(self, problem: str, /, *, code: int = 0, **more: Any) -> None:
        super().__init__(problem, code=code, **more)
        self.code = code


def refusal(
    status: int, code: int, text: str, *, retry_after: float | None = None, is_page: bool = False
) -> DiscordError:
    """Build the error for an HTTP answer other than success.

    :param code: Discord's own number, 0 when the body has none.
    :param retry_after: seconds, of a 429.
    :param is_page: the body is not the API's JSON: a proxy answered in its place, so it says nothing of the message.
    """
    if status == 429:
        pause = 1.0 if retry_after is None else retry_after
        return DiscordError("Discord is rate limiting requests", code=code, retry_after_seconds=pause)
    permanent = 400 <= status < 500 and status not in _TEMPORARY and not is_page
    problem = "Discord refused it ({status}, code {code}): {text}"
    fix = _FIXES.get(code, "check the bot's token" if status == 401 else "")
    return DiscordError(problem, permanent=permanent, fix=fix, status=status, code=code, text=text[:300])


def pause_of(headers: Mapping[str, str]) -> float | None:
    """Return the pause in the response headers, in seconds; the body's value is finer where present."""
    try:
        return float(headers["Retry-After"])
    except (KeyError, ValueError):
        return None
