"""Objects of the Discord API v10 (docs/resources), and the models by which requests are judged."""

import itertools
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

EPOCH_MS = 1420070400000
MOST_CHARS = 2000
_counter = itertools.count()


def snowflake() -> str:
    """Return a new id: milliseconds since Discord's epoch, and a counter."""
    return str((int(time.time() * 1000) - EPOCH_MS) << 22 | next(_counter) & 0x3FFFFF)


def now() -> str:
    """Return a timestamp of the API."""
    return datetime.now(UTC).isoformat()


def user(name: str, *, bot: bool = False) -> dict[str, Any]:
    """Return a new user."""
    return {
        "id": snowflake(), "username": name, "discriminator": "0", "global_name": name, "avatar": None, "bot": bot,
        "public_flags": 0,
    }  # fmt: skip


def member(of: Mapping[str, Any]) -> dict[str, Any]:
    """Return a guild member without its user, as messages have it."""
    return {
        "roles": [], "joined_at": "2024-01-01T00:00:00+00:00", "deaf": False, "mute": False, "flags": 0, "nick": None,
        "avatar": None, "pending": False, "communication_disabled_until": None, "premium_since": None,
    }  # fmt: skip


def text_channel(name: str, guild: str, position: int) -> dict[str, Any]:
    """Return a new text channel of a guild."""
    return {
        "id": snowflake(), "type": 0, "guild_id": guild, "name": name, "position": position, "topic": None, "nsfw": False,
        "permission_overwrites": [], "parent_id": None, "rate_limit_per_user": 0, "last_message_id": None, "flags": 0,
    }  # fmt: skip


def thread(name: str, parent: Mapping[str, Any], owner: Mapping[str, Any]) -> dict[str, Any]:
    """Return a new public thread of a text channel."""
    metadata = {
        "archived": False, "auto_archive_duration": 1440, "archive_timestamp": now(), "locked": False,
        "create_timestamp": now(),
    }  # fmt: skip
    return {
        "id": snowflake(), "type": 11, "guild_id": parent["guild_id"], "parent_id": parent["id"], "name": name,
        "owner_id": owner["id"], "message_count": 0, "member_count": 1, "rate_limit_per_user": 0, "flags": 0,
        "total_message_sent": 0, "last_message_id": None, "thread_metadata": metadata,
    }  # fmt: skip


def direct_channel(person: Mapping[str, Any]) -> dict[str, Any]:
    """Return a new direct channel with a person."""
    return {"id": snowflake(), "type": 1, "recipients": [dict(person)], "last_message_id": None, "flags": 0}


def guild(name: str, owner: Mapping[str, Any], users: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a guild as in ``GUILD_CREATE``, with two text channels."""
    id = snowflake()
    everyone = {
        "id": id, "name": "@everyone", "color": 0, "hoist": False, "position": 0, "permissions": str(0x7FFFFFFFFFFF),
        "managed": False, "mentionable": False, "flags": 0,
        "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
    }  # fmt: skip
    return {
        "id": id, "name": name, "icon": None, "splash": None, "discovery_splash": None, "owner_id": owner["id"],
        "afk_channel_id": None, "afk_timeout": 300, "verification_level": 0, "default_message_notifications": 0,
        "explicit_content_filter": 0, "roles": [everyone], "emojis": [], "features": [], "mfa_level": 0,
        "application_id": None, "system_channel_id": None, "system_channel_flags": 0, "rules_channel_id": None,
        "vanity_url_code": None, "description": None, "banner": None, "premium_tier": 0, "preferred_locale": "en-US",
        "public_updates_channel_id": None, "nsfw_level": 0, "premium_progress_bar_enabled": False, "stickers": [],
        "safety_alerts_channel_id": None, "joined_at": "2024-01-01T00:00:00+00:00", "large": False,
        "unavailable": False, "member_count": len(users), "voice_states": [], "threads": [], "presences": [],
        "stage_instances": [], "guild_scheduled_events": [], "soundboard_sounds": [],
        "members": [{**member(one), "user": one} for one in users],
        "channels": [text_channel(name, id, at) for at, name in enumerate(("general", "bots"))],
    }  # fmt: skip


def message(
    channel: Mapping[str, Any], author: Mapping[str, Any], content: str, **fields: Any
) -> dict[str, Any]:
    """Return a new message."""
    return {
        "id": snowflake(), "channel_id": channel["id"], "author": dict(author), "content": content, "timestamp": now(),
        "edited_timestamp": None, "tts": False, "mention_everyone": False, "mentions": [], "mention_roles": [],
        "attachments": [], "embeds": [], "pinned": False, "type": 0, "flags": 0, "components": [], **fields,
    }  # fmt: skip


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


_Id = Annotated[str, StringConstraints(pattern=r"^\d{15,20}$")] | Annotated[int, Field(gt=10**14)]


class _AllowedMentions(_Strict):
    parse: list[Literal["roles", "users", "everyone"]] | None = None
    roles: list[_Id] = []
    users: list[_Id] = []
    replied_user: bool = False


class _Reference(_Strict):
    type: Literal[0, 1] = 0
    message_id: _Id
    channel_id: _Id | None = None
    guild_id: _Id | None = None
    fail_if_not_exists: bool = True


class EditMessage(_Strict):
    """Body of *Edit Message*."""

    content: str | None = Field(None, max_length=MOST_CHARS)
    embeds: list[dict[str, Any]] | None = None
    flags: int | None = None
    allowed_mentions: _AllowedMentions | None = None
    components: list[dict[str, Any]] | None = None
    attachments: list[dict[str, Any]] | None = None


class CreateMessage(EditMessage):
    """Body of *Create Message*."""

    nonce: Annotated[str, StringConstraints(max_length=25)] | int | None = None
    enforce_nonce: bool = False
    tts: bool = False
    message_reference: _Reference | None = None
    sticker_ids: list[_Id] | None = None
    poll: dict[str, Any] | None = None


def wrong_in_body(model: type[BaseModel], body: Any) -> list[str]:
    """Return what is wrong in the body of a request."""
    try:
        model.model_validate(body)
    except ValidationError as why:
        return [f"{model.__name__}: {error['loc']} {error['msg']}" for error in why.errors()]
    return []
