"""Metadata of a message for its turn: who wrote it, where and when, what it answers, and what was said before it.

All of it is data that people wrote: JSON below the titles that claw alone writes. Titles and keys: OpenClaw's inbound
metadata (spec/runtime.md A).
"""

import re
from collections.abc import Container, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from claw import Inbound, QuotedMessage
from claw.runtime import OPERATOR_ONLY, fenced_json, one_line, quoted_words

BODY_CHARS = 4_000  # of a quoted message, or the first one of a thread
HISTORY_MESSAGE_CHARS, HISTORY_CHARS = 1_000, 12_000  # of one unanswered message, and of all of them
_PLAIN_ID = r"[A-Za-z0-9_.:@=+/$-]{1,256}"
_TITLES = (
    "Conversation info (untrusted metadata)",
    "Sender (untrusted metadata)",
    "Thread starter (untrusted, for context)",
    "Replied message (untrusted, for context)",
    "Forwarded message context (untrusted metadata)",
    "Chat history since last reply (untrusted, for context)",
)
"""Titles of the blocks before the words of a message, in their order (OpenClaw's inbound metadata, spec/runtime.md A)."""


class MetadataFilter:
    """The filter that puts the metadata of a message before its words."""

    def describe(self, message: Inbound, capabilities: Container[str]) -> str:
        """Return the metadata of a message."""
        return metadata_before(message, capabilities)


def metadata_before(inbound: Inbound, capabilities: Container[str] = ()) -> str:
    """Return the text before the person's words in the request of this turn; the history never keeps it.

    :returns: blocks ``TITLE:`` + fenced JSON, then the line ``[message_id: ID]``; ends in a line end. Empty when there
        are no facts, as at the terminal.
    :param capabilities: those of the channel; a channel that is not known has none, so the sender is described.
    """
    if OPERATOR_ONLY in capabilities and inbound.chat_type == "direct":
        return ""
    titled = zip(_TITLES, _blocks(inbound), strict=True)
    blocks = [f"{title}:\n{fenced_json(data)}\n" for title, data in titled if data]
    if re.fullmatch(_PLAIN_ID, inbound.message_id):
        # An id with brackets or blanks is only in the block.
        blocks.append(f"[message_id: {inbound.message_id}]")
    return "\n".join(blocks) + "\n" if blocks else ""


def _blocks(inbound: Inbound) -> tuple[Any, ...]:
    """Return the data below each of :data:`_TITLES`; empty when there is none."""
    around = inbound.around
    quote = around.quoted if around.quoted and around.quoted.text else None
    replied = (
        {"sender": one_line(quote.sender), "body": quoted_words(quote.text, BODY_CHARS)} if quote else {}
    )
    history = _history(around.history)
    return (
        _non_empty(_conversation(inbound, quote, len(history))),
        _sender_facts(inbound),
        _non_empty({"body": quoted_words(around.thread_starter, BODY_CHARS)}),
        _non_empty(replied),
        _non_empty({"from": one_line(around.forwarded_from)}),
        history,
    )


def _conversation(inbound: Inbound, quote: QuotedMessage | None, history: int) -> dict[str, Any]:
    around, sender, group = inbound.around, inbound.sender, inbound.chat_type != "direct"
    title = "group_channel" if inbound.chat_type == "channel" else "group_subject"
    return {
        "chat_id": one_line(inbound.address.chat),
        "message_id": one_line(inbound.message_id),
        "reply_to_id": one_line(inbound.reply_to or ""),
        "sender_id": one_line(sender.id),
        "conversation_label": one_line(around.label) if group else "",
        "sender": next(
            filter(None, map(one_line, (sender.name, sender.e164, sender.id, sender.username))), ""
        ),
        "timestamp": _time(inbound.sent_at),
        title: one_line(around.chat_name) if group else "",
        "group_space": one_line(around.space) if group else "",
        "thread_label": one_line(around.thread_name),
        "topic_id": one_line(inbound.address.thread or ""),
        "is_forum": around.is_forum,
        "is_group_chat": group,
        "was_mentioned": inbound.mentions_us,
        "has_reply_context": quote is not None,
        "has_forwarded_context": bool(around.forwarded_from),
        "has_thread_starter": bool(around.thread_starter),
        "history_count": history,
    }


def _sender_facts(inbound: Inbound) -> dict[str, Any]:
    sender = inbound.sender
    named = {"id": sender.id, "name": sender.name, "username": sender.username, "e164": sender.e164}
    return _non_empty({key: one_line(value) for key, value in named.items()})


def _history(quoted: Sequence[QuotedMessage]) -> list[dict[str, Any]]:
    """Return the newest messages that fit, oldest first."""
    kept: list[dict[str, Any]] = []
    rest = HISTORY_CHARS
    for one in reversed([one for one in quoted if one.text.strip()]):
        body = quoted_words(one.text, HISTORY_MESSAGE_CHARS)
        rest -= len(body)
        if rest < 0:
            break
        kept.append(
            _non_empty({"sender": one_line(one.sender), "timestamp": _time(one.sent_at), "body": body})
        )
    return kept[::-1]


def _non_empty(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in facts.items() if value}


def _time(sent_at: float | None) -> str:
    """Format as ``Mon 2026-06-15 14:31 UTC``; return an empty text when it is not a valid time."""
    try:
        return datetime.fromtimestamp(sent_at, UTC).strftime("%a %Y-%m-%d %H:%M UTC") if sent_at else ""
    except (OverflowError, ValueError, OSError):
        return ""
