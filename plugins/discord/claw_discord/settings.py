"""``channels.discord`` in the config file."""

from collections.abc import Iterable, Mapping
from typing import Literal
from urllib.parse import urlsplit

from claw import ChannelConfig, ConfigError, Secret
from pydantic import Field

API_BASE = "https://discord.com/api/v10"
GATEWAY_URL = "wss://gateway.discord.gg/"
TOKEN_VARIABLE = "DISCORD_BOT_TOKEN"

# https://discord.com/developers/docs/events/gateway#gateway-intents
GUILDS, GUILD_MESSAGES, DIRECT_MESSAGES, MESSAGE_CONTENT = 1 << 0, 1 << 9, 1 << 12, 1 << 15
REACTIONS = 1 << 10 | 1 << 13


class DiscordSettings(ChannelConfig):
    """One bot account on Discord."""

    token: Secret | None = Field(
        None, description="The bot's token, from the developer portal; absent = DISCORD_BOT_TOKEN."
    )
    message_content: bool = Field(
        True,
        description="Ask for the text of messages that do not mention the bot; needs the portal's consent.",
    )
    reaction_notifications: Literal["off", "own", "all"] = Field(
        "off", description="Hear reactions: on the bot's own messages, or on all."
    )
    auto_thread: bool = Field(
        False,
        description="Answer a mention in a thread that is opened under it; the thread is a conversation.",
    )
    catch_up_minutes: int = Field(
        60,
        ge=0,
        le=1440,
        description="How old a message may be that came while we were away; 0 = leave them.",
    )
    commands: bool = Field(True, description="List the chat commands for a person who types a slash.")
    media_max_mb: int = Field(25, ge=1, le=500, description="The largest file that is fetched.")
    api_base: str = Field(API_BASE, description="Where the REST API is; all accounts share one.")
    gateway_url: str = Field(GATEWAY_URL, description="Where the gateway is; all accounts share one.")


def intents(settings: DiscordSettings, *, content: bool) -> int:
    """Return the gateway intents to request, as a bit set.

    :param content: include the privileged text of guild messages.
    """
    asked = GUILDS | GUILD_MESSAGES | DIRECT_MESSAGES
    if settings.reaction_notifications != "off":
        asked |= REACTIONS
    return asked | MESSAGE_CONTENT if content else asked


def may_be_heard_in(settings: DiscordSettings, chat: str) -> bool:
    """Return true if the config admits anyone in this server channel: messages it would refuse need not be fetched."""
    group = settings.groups.get(chat, settings.groups.get("*"))
    return settings.group_policy != "disabled" and (
        settings.group_policy == "open" if group is None else group.enabled
    )


def token_key(account: str) -> str:
    """Return the config key of an account's token."""
    return "channels.discord.token" if account == "default" else f"channels.discord.accounts.{account}.token"


def token_of(
    account: str, settings: DiscordSettings, environ: Mapping[str, str], others: Mapping[str, Secret] = {}
) -> Secret:
    """Return the account's token.

    :param others: the tokens of the accounts before it.
    :raises ConfigError: the token is missing, or another account has the same.
    """
    key = token_key(account)
    token = settings.token
    if token is None and account == "default" and environ.get(TOKEN_VARIABLE):
        return Secret({"env": TOKEN_VARIABLE}, environ=environ)
    if token is None or token.empty:
        problem = "the bot token is missing"
        fix = "Copy it from the developer portal, page Bot, then: claw config set {name} TOKEN"
        raise ConfigError(key, problem, fix, name=key)
    try:
        text = token.reveal()
    except ConfigError as why:
        raise why.under(key) from None
    if not text.strip():
        raise ConfigError(key, "the bot token is empty", "Copy it from the developer portal, page Bot")
    for other, taken in others.items():
        if taken.reveal().strip() == text.strip():
            problem = "is also the token of {other}; a bot can serve only one account"
            fix = "Create another bot in the developer portal, or remove one of the two"
            raise ConfigError(key, problem, fix, other=token_key(other))
    return token


def refuse_no_address(settings: DiscordSettings) -> None:
    """Check that both addresses are URLs.

    :raises ConfigError: one is not.
    """
    for value, schemes, key, such in (
        (settings.api_base, ("https", "http"), "apiBase", API_BASE),
        (settings.gateway_url, ("wss", "ws"), "gatewayUrl", GATEWAY_URL),
    ):
        parts = urlsplit(value)
        if parts.scheme not in schemes or not parts.hostname:
            problem, fix = "{value} is not a valid address", "Write it like {such}, or remove it"
            raise ConfigError(f"channels.discord.{key}", problem, fix, value=value, such=such)


def refuse_two_places(accounts: Iterable[DiscordSettings]) -> None:
    """Refuse accounts with different addresses: discord.py keeps both on its classes, so a process has one pair.

    :raises ConfigError: the accounts name different addresses.
    """
    listed = list(accounts)
    for field, key in (("api_base", "apiBase"), ("gateway_url", "gatewayUrl")):
        if len({getattr(one, field) for one in listed}) > 1:
            problem = "the accounts have different addresses, and one process can talk to one Discord only"
            raise ConfigError(f"channels.discord.{key}", problem, "Write it once, beside accounts")
