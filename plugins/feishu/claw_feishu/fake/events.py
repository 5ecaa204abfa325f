"""Builders of Feishu's events: message, button, reaction; plain, signed, encrypted. Pure."""

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack

from claw_feishu.crypto import encrypt, signature

TENANT = "736588c9260f175d"


def envelope(
    kind: str, event: Mapping[str, Any], *, event_id: str, app_id: str, token: str, at: float
) -> dict[str, Any]:
    """Wrap an event in the 2.0 envelope."""
    header = {
        "event_id": event_id,
        "token": token,
        "create_time": str(round(at * 1000)),
        "event_type": kind,
        "tenant_key": TENANT,
        "app_id": app_id,
    }
    return {"schema": "2.0", "header": header, "event": dict(event)}


class MessageDetails(TypedDict, total=False):
    """Details of a message: its thread, its place, whom it mentions.

    :param mentions: (open id, name); their placeholders are ``@_user_1``, ``@_user_2`` …
    :param sender_type: user, when absent.
    """

    group: bool
    mentions: Sequence[tuple[str, str]]
    thread: str
    parent: str
    sender_type: str


def message(
    message_id: str,
    chat: str,
    sender: str,
    msg_type: str,
    content: Mapping[str, Any],
    *,
    at: float,
    **details: Unpack[MessageDetails],
) -> dict[str, Any]:
    """Build the event ``im.message.receive_v1``."""
    stamp = str(round(at * 1000))
    said: dict[str, Any] = {
        "message_id": message_id,
        "create_time": stamp,
        "update_time": stamp,
        "chat_id": chat,
        "chat_type": "group" if details.get("group") else "p2p",
        "message_type": msg_type,
        "content": json.dumps(content, ensure_ascii=False),
    }
    if mentions := details.get("mentions"):
        said["mentions"] = [
            {"key": f"@_user_{number}", "id": ids(open_id), "name": name, "tenant_key": TENANT}
            for number, (open_id, name) in enumerate(mentions, 1)
        ]
    if thread := details.get("thread"):
        said["thread_id"] = thread
    if parent := details.get("parent"):
        said |= {"parent_id": parent, "root_id": parent}
    kind = details.get("sender_type", "user")
    who = {"sender_id": ids(sender), "sender_type": kind, "tenant_key": TENANT}
    return {"sender": who, "message": said}


def button(message_id: str, chat: str, sender: str, value: Any) -> dict[str, Any]:
    """Build the event ``card.action.trigger``."""
    return {
        "operator": {"tenant_key": TENANT, **ids(sender)},
        "token": "c-" + secrets.token_hex(8),
        "action": {"value": value, "tag": "button"},
        "host": "im_message",
        "context": {"open_message_id": message_id, "open_chat_id": chat},
    }


def reaction(message_id: str, sender: str, emoji: str, *, at: float) -> dict[str, Any]:
    """Build the event ``im.message.reaction.created_v1``."""
    return {
        "message_id": message_id,
        "reaction_type": {"emoji_type": emoji},
        "operator_type": "user",
        "user_id": ids(sender),
        "action_time": str(round(at * 1000)),
    }


def ids(open_id: str) -> dict[str, str]:
    """Return all three ids of a person."""
    bare = open_id.partition("_")[2]
    return {"union_id": f"on_{bare}", "user_id": bare[:8], "open_id": open_id}


def request(
    event: Mapping[str, Any], key: str, *, at: float, nonce: str = ""
) -> tuple[dict[str, str], bytes]:
    """Return headers and body of a webhook call: encrypted and signed when there is a key."""
    headers = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "Lark/1.0"}
    if not key:
        return headers, json.dumps(event, ensure_ascii=False).encode()
    body = json.dumps({"encrypt": encrypt(key, json.dumps(event, ensure_ascii=False))}).encode()
    stamp, nonce = str(round(at)), nonce or secrets.token_hex(5)
    headers |= {
        "X-Lark-Request-Timestamp": stamp,
        "X-Lark-Request-Nonce": nonce,
        "X-Lark-Signature": signature(stamp, nonce, key, body),
        "X-Request-Id": secrets.token_hex(6),
    }
    return headers, body
