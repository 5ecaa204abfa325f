"""``channels.feishu`` in the config file."""

import re
from typing import Literal

from claw import ChannelConfig, ConfigError, Secret
from pydantic import Field

_ADDRESS = re.compile(r"https?://[^\s/?#]+(/[^\s?#]*)?$", re.ASCII)
DOMAINS = {"feishu": "https://open.feishu.cn", "lark": "https://open.larksuite.com"}


class FeishuSettings(ChannelConfig):
    """Settings of one account. Webhook mode also needs an encrypt key and a verification token."""

    app_id: str = Field("", description="App ID of the app in the developer console, cli_…")
    app_secret: Secret | None = Field(None, description="App Secret. Prefer ${FEISHU_APP_SECRET}.")
    domain: str = Field("feishu", description="feishu, lark, or the address of the open platform.")
    mode: Literal["websocket", "webhook"] = Field(
        "websocket", description="websocket: we call the service; webhook: it calls us, at a public address."
    )
    encrypt_key: Secret | None = Field(None, description="Encrypt Key of the event settings; for webhook.")
    verification_token: Secret | None = Field(None, description="Verification Token; for webhook.")
    webhook_path: str = Field(
        "",
        pattern=r"^(/\S*)?$",
        examples=["/webhook/feishu/support"],
        description="Absent = /webhook/feishu/ACCOUNT.",
    )
    max_skew_seconds: float = Field(300, gt=0, description="How old a webhook request may be.")
    render_mode: Literal["auto", "text", "card"] = Field(
        "auto", description="auto: a card for code and tables, else a post; text: as it is; card: always."
    )
    typing_reaction: str = Field(
        "Typing", description="Emoji type put on a message while it is being answered; empty = none."
    )
    resolve_names: bool = Field(True, description="Ask for names of people and chats, and for quoted texts.")

    @property
    def base_url(self) -> str:
        """Address of the open platform, without a trailing slash."""
        return DOMAINS.get(self.domain, self.domain).rstrip("/")


def secret(value: Secret | None, key: str) -> str:
    """Return the text of a required secret.

    :raises ConfigError: it is absent, blank, or its variable is not set.
    """
    fix = "Copy it from the app's page in the developer console, then: claw config set {name} VALUE"
    if value is None:
        raise ConfigError(key, "is missing, so the channel does not start", fix, name=key)
    try:
        text = value.reveal()
    except ConfigError as why:
        raise why.under(key) from None
    if not text.strip():
        raise ConfigError(key, "is empty, so the channel does not start", fix, name=key)
    return text


def check(account: str, settings: FeishuSettings) -> None:
    """Refuse an account that could not work, or would accept events from anybody.

    :raises ConfigError: names the key.
    """
    where = "channels.feishu" if account == "default" else f"channels.feishu.accounts.{account}"
    if not settings.app_id.strip():
        fix = "Copy it from the app's page in the developer console, then: claw config set {name} VALUE"
        key = f"{where}.appId"
        raise ConfigError(key, "is missing, so the channel does not start", fix, name=key)
    secret(settings.app_secret, f"{where}.appSecret")
    if not _ADDRESS.match(settings.base_url):
        fix = "Write feishu, lark, or the whole address of the platform, with https:// before it"
        raise ConfigError(f"{where}.domain", "{domain} is not a valid address", fix, domain=settings.domain)
    if settings.mode == "webhook":  # without both, anybody could post events
        secret(settings.encrypt_key, f"{where}.encryptKey")
        secret(settings.verification_token, f"{where}.verificationToken")


def check_apart(account: str, settings: FeishuSettings, seen: dict[tuple[str, str], str]) -> None:
    """Refuse a second account of one app, since the platform hands each event to only one of its connections,
    and a second one of one path, where only the first would be called.

    :param seen: apps and paths of the earlier accounts, with their config keys; this one is added.
    :raises ConfigError: names both keys.
    """
    where = "channels.feishu" if account == "default" else f"channels.feishu.accounts.{account}"
    app = settings.base_url, settings.app_id.strip()
    if app in seen:
        problem = "is also the app of {other}; each account would receive only part of the messages"
        fix = "Give the account its own app, or remove one of the two"
        raise ConfigError(f"{where}.appId", problem, fix, other=seen[app])
    seen[app] = f"{where}.appId"
    if settings.mode == "webhook":
        path = "path", settings.webhook_path or f"/webhook/feishu/{account}"
        if path in seen:
            problem = "{path} is also the path of {other}; each account needs its own"
            fix = "Write another one, or remove it: the default is made from the account's name"
            raise ConfigError(f"{where}.webhookPath", problem, fix, path=path[1], other=seen[path])
        seen[path] = where
