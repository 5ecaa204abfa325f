"""The fake's objects (users, channels, messages) as JSON with every field that clients rely on."""

import re
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

_EPOCH_MS = 1420070400000
_EVERYONE_MAY = "2248473465835073"
TEXT, DIRECT, THREAD = 0, 1, 11


class Ids:
    """Generator of snowflakes: milliseconds shifted by 22 bits, strictly increasing."""

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> str:
        """Return a new id."""
        self._last = max(self._last + 1, (int(time.time() * 1000) - _EPOCH_MS) << 22)
        return str(self._last)


def stamp() -> str:
    """Return the current time in the service's format."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def user(id: str, name: str, *, bot: bool = False) -> dict[str, Any]:
    """Build a user object."""
    shown = None if bot else name.title()
    return {
        "id": id, "username": name, "discriminator": "4242" if bot else "0", "global_name": shown,
        "avatar": None, "public_flags": 0, **({"bot": True} if bot else {}),
    }  # fmt: skip


def member(roles: Iterable[str] = (), nick: str | None = None) -> dict[str, Any]:
    """Build a member object: roles and nickname in a guild."""
    return {
        "roles": list(roles), "nick": nick, "joined_at": "2026-01-01T00:00:00+00:00", "deaf": False, "mute": False,
        "flags": 0, "avatar": None, "premium_since": None, "pending": False,
    }  # fmt: skip


def channel(id: str, name: str, guild: str, kind: int = TEXT, parent: str | None = None) -> dict[str, Any]:
    """Build a channel or thread of a guild."""
    made: dict[str, Any] = {
        "id": id, "type": kind, "name": name, "guild_id": guild, "parent_id": parent, "last_message_id": None,
        "rate_limit_per_user": 0,
    }  # fmt: skip
    if kind != THREAD:
        return made | {"position": 0, "permission_overwrites": [], "topic": None, "nsfw": False}
    return made | {
        "owner_id": "0", "message_count": 0, "member_count": 1,
        "thread_metadata": {
            "archived": False, "auto_archive_duration": 1440, "archive_timestamp": stamp(), "locked": False,
            "create_timestamp": stamp(),
        },
    }  # fmt: skip


def direct_channel(id: str, recipient: Mapping[str, Any]) -> dict[str, Any]:
    """Build a direct channel."""
    return {"id": id, "type": DIRECT, "last_message_id": None, "flags": 0, "recipients": [recipient]}


def guild(
    id: str, name: str, bot: Mapping[str, Any], channels: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """Build the data of ``GUILD_CREATE``."""
    listed = [{key: value for key, value in one.items() if key != "guild_id"} for one in channels]
    everyone = {
        "id": id, "name": "@everyone", "permissions": _EVERYONE_MAY, "position": 0, "color": 0,
        "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
        "hoist": False, "managed": False, "mentionable": False, "flags": 0,
    }  # fmt: skip
    return {
        "id": id, "name": name, "icon": None, "splash": None, "discovery_splash": None, "description": None,
        "banner": None, "owner_id": "2300000000000000077", "application_id": None, "afk_channel_id": None,
        "afk_timeout": 300, "verification_level": 0, "default_message_notifications": 0,
        "explicit_content_filter": 0, "mfa_level": 0, "nsfw_level": 0, "premium_tier": 0,
        "premium_progress_bar_enabled": False, "preferred_locale": "en-US", "system_channel_id": None,
        "system_channel_flags": 0, "rules_channel_id": None, "public_updates_channel_id": None,
        "safety_alerts_channel_id": None, "vanity_url_code": None, "features": [], "emojis": [], "stickers": [],
        "roles": [everyone], "large": False, "unavailable": False, "member_count": 2,
        "joined_at": "2026-01-01T00:00:00+00:00", "max_members": 500000,
        "members": [{"user": bot, **member()}],
        "channels": [one for one in listed if one["type"] != THREAD],
        "threads": [one | {"guild_id": id} for one in listed if one["type"] == THREAD],
        "voice_states": [], "presences": [], "stage_instances": [], "guild_scheduled_events": [],
        "soundboard_sounds": [],
    }  # fmt: skip


def message(
    id: str,
    place: Mapping[str, Any],
    author: Mapping[str, Any],
    content: str,
    users: Mapping[str, Any],
    **more: Any,
) -> dict[str, Any]:
    """Build a message as the archive returns it; ``as_dispatch`` turns it into a dispatch.

    :param users: all users by id, for the list of mentions.
    """
    named = dict.fromkeys(re.findall(r"<@!?(\d+)>", content))
    return {
        "id": id, "channel_id": place["id"], "type": 0, "content": content, "author": dict(author),
        "timestamp": stamp(), "edited_timestamp": None, "tts": False, "mention_everyone": "@everyone" in content,
        "mentions": [users[one] for one in named if one in users], "mention_roles": [], "attachments": [],
        "embeds": [], "components": [], "pinned": False, "flags": 0, **more,
    }  # fmt: skip


def as_dispatch(message: Mapping[str, Any], place: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message as in a dispatch: with channel type, guild and the author's member object."""
    more: dict[str, Any] = {"channel_type": place["type"]}
    if place.get("guild_id"):
        more |= {"guild_id": place["guild_id"], "member": member()}
    return {**message, **more}


def without_text(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message as seen without the privileged intent."""
    return {**message, "content": "", "attachments": [], "embeds": [], "components": []}
