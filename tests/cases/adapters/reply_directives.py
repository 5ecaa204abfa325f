"""A whole answer → its words, and what it asks claw for."""

from pathlib import Path
from typing import Any

from claw.agent.outcome import silent_tokens
from claw_gateway.directives import parse_reply

FUNCTIONS = ("claw_gateway.directives:parse_reply",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    given, wanted = case["input"], case["expect"]

    reply = parse_reply(
        given["text"],
        silent_tokens=silent_tokens("NO_REPLY"),
        message_id=given.get("current_message_id") or "",
    )
    found = {
        "text": reply.text,
        "media": list(reply.media),
        "reply_to_id": reply.reply_to,
        "reply_to_current": reply.to_current,
        "has_reply_tag": reply.to_current or reply.reply_to is not None,
        "audio_as_voice": reply.voice,
        "is_silent": reply.silent,
    }

    assert {key: found[key] for key in wanted} == wanted
