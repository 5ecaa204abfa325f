"""``session``: which chats share a conversation, when one begins anew, and how long an old one is kept."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from claw.config.values import Duration, Section, Size, part


class Reset(Section):
    """When a conversation starts anew by itself."""

    mode: Literal["off", "daily", "idle"] = Field(
        "off", description="Absent: daily when atHour is there, idle when idleMinutes is, else off."
    )
    at_hour: int = Field(4, ge=0, le=23, description="daily: the hour that begins a new day.")
    idle_minutes: int | None = Field(
        None, ge=1, description="idle: quiet time; next to daily a second limit."
    )


def _kinds_of_chat(value: Any) -> Any:
    return (
        {"direct" if key == "dm" else key: kind for key, kind in value.items()}
        if isinstance(value, dict)
        else value
    )


class Keep(Section):
    """What becomes of conversations that were reset or deleted. Nothing, unless this says otherwise."""

    compress_after: Duration = Field(0.0, ge=0, description="Age at which one is compressed; off: never.")
    remove_after: Duration = Field(0.0, ge=0, description="Age at which one is removed for good; off: never.")
    max_size: Size | None = Field(
        None, description="Of all of them together: beyond it the oldest are removed for good."
    )


class SessionSettings(Section):
    """``session``."""

    dm_scope: Literal["main", "per-peer", "per-channel-peer", "per-account-channel-peer"] = Field(
        "per-channel-peer", description="Which direct chats share a conversation."
    )
    main_key: str = "main"
    identity_links: dict[str, tuple[str, ...]] = Field({}, description="Name → one person's channel:id.")
    reset: Reset = part()
    reset_by_type: Annotated[
        dict[Literal["direct", "group", "thread"], Reset], BeforeValidator(_kinds_of_chat)
    ] = Field({}, description="In place of session.reset, key by key, for one kind of chat.")
    reset_by_channel: dict[str, Reset] = Field({}, description="Likewise for one channel; it goes first.")
    idle_minutes: int | None = Field(None, ge=1, description="Where no reset names idleMinutes.")
    keep: Keep = part()
