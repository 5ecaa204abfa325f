"""Metadata of a message → the trusted facts and the untrusted blocks."""

import json
import re
from pathlib import Path
from typing import Any

from claw.contracts.messages import Address, Inbound, MessageContext, QuotedMessage, Sender
from claw.security.untrusted_text import trusted_facts
from claw_gateway.metadata import metadata_before

FUNCTIONS = ("claw_gateway.metadata:metadata_before", "claw.security.untrusted_text:trusted_facts")
_BLOCK = r"^([^\n]+ \(untrusted[^\n]*\)):\n```json\n(.*?)\n```$"


def check(case: dict[str, Any], tmp_path: Path) -> None:
    inbound, wanted = _inbound(case["input"]["ctx"]), case["expect"]

    facts = trusted_facts(inbound)
    blocks = {
        title: json.loads(body) for title, body in re.findall(_BLOCK, metadata_before(inbound), re.M | re.S)
    }

    assert facts | _told(wanted["trusted"]) == facts
    assert list(blocks) == wanted.get("untrusted_blocks", list(blocks))
    for title, body in wanted["untrusted"].items():
        assert _told(blocks[title]) == _told(body)


def _told(data: Any) -> Any:
    """Without what says nothing: the table compares after dropping it."""
    return {key: value for key, value in data.items() if value} if isinstance(data, dict) else data


def _inbound(ctx: dict[str, Any]) -> Inbound:
    def text(*names: str) -> str:
        return next((str(ctx[name]) for name in names if ctx.get(name) is not None), "")

    quote = QuotedMessage(text("reply_to_body"), text("reply_to_sender"), text("reply_to_id"))
    return Inbound(
        Address(text("channel"), text("chat_id"), thread=text("thread_id", "topic_id") or None),
        text("text"),
        Sender(text("sender_id"), text("sender_name"), text("sender_username"), text("sender_e164")),
        message_id=text("message_id"),
        sent_at=_seconds(ctx, "timestamp"),
        chat_type=text("chat_type") or "direct",
        mentions_us=bool(ctx.get("was_mentioned")),
        reply_to=text("reply_to_id") or None,
        around=MessageContext(
            chat_name=text("group_channel", "group_subject"),
            space=text("group_space"),
            label=text("conversation_label"),
            thread_name=text("thread_label"),
            thread_starter=text("thread_starter"),
            quoted=quote if quote.text else None,
            forwarded_from=text("forwarded_from"),
            is_forum=bool(ctx.get("is_forum")),
            history=tuple(
                QuotedMessage(one["body"], one.get("sender") or "", sent_at=_seconds(one, "timestamp"))
                for one in ctx.get("history", ())
            ),
        ),
    )


def _seconds(data: dict[str, Any], name: str) -> float | None:
    """Tables say milliseconds."""
    at = data.get(name, data.get(f"{name}_ms"))
    return at / 1000 if isinstance(at, int | float) else None
